//! The arguments of the words that look at a running process.

use crate::args::Confirm;
use crate::live::member::parse_kind;
use crate::output::times::parse_duration;
use crate::socket::{SocketPath, parse_path};
use crate::store::Target;
use clap::{Args, ValueEnum};
use pleach::actor::ActorPath;
use pleach::inspect::{Cursor, MemberKind};
use std::path::Path;
use std::time::Duration;

/// The process of a command, and how long it may take to answer.
#[derive(Debug, Args)]
pub struct SocketArgs {
    /// The inspection socket of the process: a path, unix:PATH, or env:NAME for a variable with one
    /// of these
    #[arg(value_parser = SocketPath::parse)]
    pub socket: SocketPath,
    /// How long to wait for each answer of the process; then exit code 6
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "5s")]
    pub timeout: Duration,
}

#[derive(Debug, Args)]
pub struct HealthArgs {
    #[command(flatten)]
    pub process: SocketArgs,
    /// Only ask whether work can be routed to the process: a degraded process is ready, unless it
    /// reports a problem that blocks it
    #[arg(long)]
    pub ready: bool,
}

#[derive(Debug, Args)]
pub struct WhyArgs {
    /// The inspection socket of a process, or the store of a run
    #[arg(value_parser = Place::parse)]
    pub target: Place,
    /// In a process: the path of a member, such as /user/till. In a store: the id of a run
    #[arg(value_name = "PATH|RUN", allow_hyphen_values = true)]
    pub name: String,
    /// How long to wait for each answer of the process; then exit code 6
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "5s")]
    pub timeout: Duration,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// A store, or the inspection socket of a process
    #[arg(value_parser = Place::parse, value_name = "STORE|SOCKET")]
    pub target: Place,
    /// Examine all runs and records of a store, and the whole file; without it, a sample
    #[arg(long)]
    pub full: bool,
    /// How long to wait for each answer of a process; then exit code 6
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "5s")]
    pub timeout: Duration,
}

/// What `why` and `doctor` look at.
#[derive(Clone, Debug)]
pub enum Place {
    /// The socket of a running process.
    Socket(SocketPath),
    /// A store with durable runs.
    Store(Target),
}

impl Place {
    /// `unix:PATH` and the path of a socket are a process; everything else is a store.
    pub fn parse(text: &str) -> Result<Self, String> {
        let value = match text.strip_prefix("env:") {
            Some(name) => std::env::var(name).map_err(|_| format!("the environment variable {name:?} is not set"))?,
            None => text.to_string(),
        };
        if value.starts_with("unix:") || SocketPath::is_socket(Path::new(&value)) {
            return SocketPath::parse(text).map(Self::Socket);
        }
        Target::parse(text).map(Self::Store)
    }
}

#[derive(Debug, Args)]
pub struct TreeArgs {
    #[command(flatten)]
    pub process: SocketArgs,
    /// The path of the member to start at
    #[arg(value_parser = parse_path, default_value = "/", allow_hyphen_values = true)]
    pub path: ActorPath,
    /// The most members to list
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub limit: u32,
    /// How many levels below the start are listed; 0 lists only the start
    #[arg(long, value_name = "LEVELS")]
    pub depth: Option<u32>,
    /// Continue after this cursor, the `next` of an earlier list
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true)]
    pub after: Option<Cursor>,
    /// Only members of these kinds, such as actor or pool
    #[arg(long, value_name = "KIND,..", value_delimiter = ',', value_parser = parse_kind)]
    pub kinds: Vec<MemberKind>,
    /// Only members that need a look: failing, suspended, restarting, stopping, slow or full; with
    /// the problems of the process
    #[arg(long, conflicts_with = "kinds")]
    pub not_well: bool,
    /// With --not-well: look once instead of twice within a second. Then a handler counts as slow
    /// only if something has looked at it before
    #[arg(long, requires = "not_well")]
    pub once: bool,
    /// Text, JSON, or a drawing
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    pub output: TreeOutput,
}

impl TreeArgs {
    /// Returns the options that the command for the next page repeats.
    pub fn repeated(&self) -> String {
        let mut text = self.depth.map_or_else(String::new, |depth| format!(" --depth {depth}"));
        if self.limit != 200 {
            text.push_str(&format!(" --limit {}", self.limit));
        }
        if !self.kinds.is_empty() {
            let kinds: Vec<&str> = self.kinds.iter().map(|kind| kind.as_str()).collect();
            text.push_str(&format!(" --kinds {}", kinds.join(",")));
        }
        if self.not_well {
            text.push_str(" --not-well");
        }
        if self.once {
            text.push_str(" --once");
        }
        text
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TreeOutput {
    #[default]
    Text,
    Json,
    Mermaid,
    Dot,
}

#[derive(Debug, Args)]
pub struct EventsArgs {
    /// The inspection socket of the process: a path, unix:PATH, or env:NAME for a variable with one
    /// of these
    #[arg(value_parser = SocketPath::parse)]
    pub socket: SocketPath,
    /// Follow the events. Required: a process keeps no events that nothing follows
    #[arg(long, short = 'f', required = true)]
    pub follow: bool,
    /// Only events of these kinds; default: all except lints, which make every handler slower
    #[arg(long, value_name = "KIND,..", value_delimiter = ',', value_enum)]
    pub kinds: Vec<EventKind>,
    /// Only events about this member and the members below it
    #[arg(long, value_name = "PATH", value_parser = parse_path, allow_hyphen_values = true)]
    pub path: Option<ActorPath>,
    /// Leave out the problems that exist already when the command starts
    #[arg(long)]
    pub since_now: bool,
    /// Stop after this time, with exit code 6
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// How long to try again after the connection was lost
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "30s")]
    pub retry_for: Duration,
}

/// The kinds of events that can be followed, as the protocol names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum EventKind {
    /// Every failure, handled or not
    Failures,
    /// Failures that no supervisor handled
    Unhandled,
    /// Messages that were accepted and not handled
    DeadLetters,
    /// Starts, restarts, suspensions and ends
    Lifecycle,
    /// What supervisors decide about failures
    Decisions,
    /// Supervisors that exceeded their restart limit
    GaveUp,
    /// Handlers that do not return, and their ends
    StuckHandlers,
    /// Mailboxes that fill up, and that have room again
    Mailboxes,
    /// Asks and sends that close a cycle of waits
    WaitCycles,
    /// Problems of the process, when they begin and when they are over
    Health,
    /// Long handlers, filling mailboxes and cycles; makes every handler slower
    Lints,
}

/// A process, a member, and how a change is confirmed.
#[derive(Debug, Args)]
pub struct ActArgs {
    #[command(flatten)]
    pub process: SocketArgs,
    /// The path of the member
    #[arg(value_parser = parse_path, allow_hyphen_values = true)]
    pub path: ActorPath,
    #[command(flatten)]
    pub confirm: Confirm,
}

#[derive(Debug, Args)]
pub struct LogLevelArgs {
    #[command(flatten)]
    pub process: SocketArgs,
    /// The level, in the words of the program, such as info or pleach=debug
    #[arg(allow_hyphen_values = true)]
    pub level: String,
}
