//! The arguments of the command.

#[cfg(feature = "console")]
use crate::console::ConsoleArgs;
use crate::live::args::{ActArgs, DoctorArgs, EventsArgs, HealthArgs, LogLevelArgs, TreeArgs, WhyArgs};
use crate::output::ColourWhen;
use crate::output::times::{parse_duration, parse_since};
use crate::store::Target;
use crate::top::args::TopArgs;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use pleach::store::{RunStatus, Timestamp};
use std::path::PathBuf;
use std::time::Duration;

/// Lists, inspects and steers durable runs, checks deploys, draws graphs, and shows what pleach
/// does.
#[derive(Debug, Parser)]
#[command(name = "pleach", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 wrong arguments, 3 not found, 4 refused, 5 cannot reach, \
                        6 timed out, 7 problems found, 8 cannot write the output, 141 output closed by its reader.")]
pub struct Cli {
    #[command(flatten)]
    pub format: Format,
    #[command(subcommand)]
    pub word: Word,
}

/// How results are written.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct Format {
    /// Write JSON (version 1) instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// Write only these fields of each item, as JSON
    #[arg(long, global = true, value_delimiter = ',', value_name = "FIELD,..")]
    pub fields: Vec<String>,
    /// Apply a filter in the jq language to the JSON
    #[arg(long, global = true, value_name = "FILTER")]
    pub jq: Option<String>,
    /// Show times in UTC instead of the local zone
    #[arg(long, global = true)]
    pub utc: bool,
    /// When to use colours; `NO_COLOR` turns them off too
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    pub color: ColourWhen,
}

#[derive(Debug, Subcommand)]
pub enum Word {
    /// Show supervised actors and durable runs, live; kill what you like
    Demo(DemoArgs),
    /// List, inspect and steer the durable runs of a store
    #[command(subcommand)]
    Runs(Box<RunsWord>),
    /// Say which stored runs the graphs of a new program would not serve
    Check(CheckArgs),
    /// List the members of a running process as a tree
    Tree(TreeArgs),
    /// Show live what is busy, slow or failing in a running process
    Top(TopArgs),
    /// Say whether a running process does its work; exit code 0 healthy, 7 degraded, 5 down
    Health(HealthArgs),
    /// Print the events of a running process as they happen
    Events(EventsArgs),
    /// Say why a member of a process, or a stored run, does not continue: the deepest cause first
    Why(WhyArgs),
    /// Stop a member of a running process
    Stop(ActArgs),
    /// Restart an actor or a supervisor of a running process
    Restart(ActArgs),
    /// Suspend an actor of a running process: it handles no message until it is resumed
    Suspend(ActArgs),
    /// Resume a suspended actor of a running process
    Resume(ActArgs),
    /// Set the log level of a running process
    LogLevel(LogLevelArgs),
    /// Examine a store or a process, and say what to do; exit code 0 well, 7 problems
    Doctor(DoctorArgs),
    /// Serve a web console for stores and running processes on this machine, and print its URL
    #[cfg(feature = "console")]
    Console(ConsoleArgs),
    /// Draw a graph that a program exported
    #[command(subcommand)]
    Graph(GraphWord),
    /// Print a completion script for a shell
    Completions {
        /// The shell that will read the script
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
}

#[derive(Debug, Subcommand)]
pub enum RunsWord {
    /// List runs, the newest first
    List(ListArgs),
    /// Show one run: its position, what it waits for, its last failure
    Show(ShowArgs),
    /// List the records of a run
    History(HistoryArgs),
    /// Show how the state changed between two records, as a JSON patch
    Diff(DiffArgs),
    /// Follow the records of a run until it ends
    Tail(TailArgs),
    /// Answer a question of a run
    Answer(MessageArgs),
    /// Send a signal to a run
    Signal(MessageArgs),
    /// Pause a run: no further node starts
    Pause(CommandArgs),
    /// Let a paused run continue
    Resume(CommandArgs),
    /// Cancel a run permanently
    Cancel(CancelArgs),
    /// Continue a run from an earlier record
    Rewind(RewindArgs),
    /// Create a new run from a record of another run
    Fork(ForkArgs),
    /// Continue a failed run at the node that failed
    Retry(ChangeArgs),
    /// Remove a run with its log
    Delete(ChangeArgs),
    /// Remove ended runs that have not changed for some time
    Prune(PruneArgs),
    /// Let workers claim a stuck run again
    Unstick(ChangeArgs),
}

/// The store of a command.
#[derive(Debug, Args)]
pub struct StoreArg {
    /// The store: a SQLite file, sqlite:FILE, postgres://USER@HOST/DATABASE, or env:NAME for a
    /// variable with one of these
    #[arg(value_parser = Target::parse)]
    pub store: Target,
}

/// A store and a run.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub store: StoreArg,
    /// The id of the run, or a beginning that only one run has
    #[arg(allow_hyphen_values = true)]
    pub run: String,
}

#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    pub store: StoreArg,
    /// Only runs with this status
    #[arg(long, value_parser = status_parser())]
    pub status: Option<RunStatus>,
    /// Only runs that failed: short for --status failed
    #[arg(long, conflicts_with = "status")]
    pub failed: bool,
    /// Only runs of this graph
    #[arg(long)]
    pub graph: Option<String>,
    /// Only runs with this tag; several must all match
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = parse_tag)]
    pub tags: Vec<(String, String)>,
    /// Only runs whose ids begin with this text
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub id_prefix: Option<String>,
    /// Only runs created since this time, such as 2h or 2026-11-17T09:30:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    pub since: Option<Timestamp>,
    /// Only runs created before this time
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    pub before: Option<Timestamp>,
    /// The most runs to list
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: u32,
    /// Continue after this cursor, the `next` of an earlier list
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true)]
    pub after: Option<String>,
    /// Count the runs instead of listing them
    #[arg(long, value_enum, value_name = "WHAT")]
    pub group_by: Option<GroupBy>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GroupBy {
    /// The reason of the failure
    Error,
    /// The graph
    Graph,
    /// The status
    Status,
}

#[derive(Debug, Args)]
pub struct ShowArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Show states and questions whole; without it, long ones are cut
    #[arg(long)]
    pub full: bool,
    /// Show the state at this record instead of the current ones
    #[arg(long, value_name = "RECORD")]
    pub record: Option<u64>,
}

#[derive(Debug, Args)]
pub struct HistoryArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// The first record to list
    #[arg(long, value_name = "RECORD", default_value_t = 1)]
    pub from: u64,
    /// The most records to list
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub limit: u32,
}

#[derive(Debug, Args)]
pub struct DiffArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// The earlier record
    pub from: u64,
    /// The later record
    pub to: u64,
}

#[derive(Debug, Args)]
pub struct TailArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// The first record to show; default: the last one
    #[arg(long, value_name = "RECORD")]
    pub from: Option<u64>,
    /// Stop after this time, with exit code 6
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// How long to try again if the store does not answer
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "30s")]
    pub retry_for: Duration,
}

#[derive(Debug, Args)]
pub struct MessageArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// The key of the question, or the name of the signal
    #[arg(allow_hyphen_values = true)]
    pub name: String,
    /// The value as JSON, such as true or '{"ok":true}'; - reads standard input
    #[arg(allow_hyphen_values = true, value_name = "JSON")]
    pub value: String,
    #[command(flatten)]
    pub options: SendOptions,
}

/// A store, a run, and how a command is sent to it.
#[derive(Debug, Args)]
pub struct CommandArgs {
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub options: SendOptions,
}

#[derive(Clone, Copy, Debug, Args)]
pub struct SendOptions {
    /// Wait until the run took or refused it, at most this long
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub wait: Option<Duration>,
    /// Only say what would happen
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct CancelArgs {
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Why; the run keeps it as its cause
    #[arg(long, default_value = "cancelled by the command")]
    pub reason: String,
    /// Wait until the run has ended, at most this long
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub wait: Option<Duration>,
}

/// A store, a run, and how a change is confirmed.
#[derive(Debug, Args)]
pub struct ChangeArgs {
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub confirm: Confirm,
}

#[derive(Clone, Copy, Debug, Args)]
pub struct Confirm {
    /// Do it without asking
    #[arg(long, short = 'y')]
    pub yes: bool,
    /// Only say what would happen
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct RewindArgs {
    #[command(flatten)]
    pub change: ChangeArgs,
    /// The record after which the run continues
    pub record: u64,
}

#[derive(Debug, Args)]
pub struct ForkArgs {
    #[command(flatten)]
    pub change: ChangeArgs,
    /// The record after which the new run continues
    pub record: u64,
    /// The id of the new run
    #[arg(allow_hyphen_values = true)]
    pub new: String,
    /// Replace the state by this JSON; - reads standard input
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    pub state: Option<String>,
}

#[derive(Debug, Args)]
pub struct PruneArgs {
    #[command(flatten)]
    pub store: StoreArg,
    /// Remove runs that ended at least this long ago
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub older_than: Duration,
    #[command(flatten)]
    pub confirm: Confirm,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    pub store: StoreArg,
    /// The graphs of the new program, as it exported them; - reads standard input
    #[arg(long, value_name = "FILE")]
    pub graphs: PathBuf,
    /// The graphs of the old program, to find runs whose course changes
    #[arg(long, value_name = "FILE")]
    pub previous: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum GraphWord {
    /// Draw an exported graph
    Render(RenderArgs),
}

#[derive(Debug, Args)]
pub struct RenderArgs {
    /// The exported graph; - reads standard input
    pub file: PathBuf,
    /// The kind of drawing
    #[arg(long, value_enum, default_value_t)]
    pub output: DrawingKind,
    /// Mark the nodes that this run visited
    #[arg(long, num_args = 2, allow_hyphen_values = true, value_names = ["STORE", "RUN"])]
    pub run: Option<Vec<String>>,
    /// The name of the graph, if the file has several
    #[arg(long)]
    pub graph: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DrawingKind {
    #[default]
    Svg,
    Mermaid,
    Dot,
}

/// Returns the parser of a status. On the command line a status has dashes instead of spaces.
fn status_parser() -> impl TypedValueParser<Value = RunStatus> {
    let name = |status: RunStatus| status.as_str().replace(' ', "-");
    PossibleValuesParser::new(RunStatus::ALL.map(name))
        .try_map(|name| RunStatus::parse(&name.replace('-', " ")).ok_or("no run has this status"))
}

/// The show.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// End after this time; default: 20s without a terminal, else when you quit
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// The seed of the show: who fails when
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Write lines instead of a screen, also on a terminal
    #[arg(long)]
    pub plain: bool,
    /// Serve a web console of the demo too, and show its URL
    #[cfg(feature = "console")]
    #[arg(long)]
    pub console: bool,
    /// Be the worker process of the show that made this folder
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub worker: Option<PathBuf>,
}

fn parse_tag(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE, such as customer=42")?;
    Ok((key.to_string(), value.to_string()))
}
