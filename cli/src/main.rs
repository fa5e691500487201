//! The `pleach` command.
//!
//! | module | owns |
//! |---|---|
//! | `args` | the arguments, as clap parses them |
//! | `failure` | exit codes, and what to do after a failure |
//! | `output` | text, JSON, tables, times |
//! | `store` | opening the store that an argument names |
//! | `socket` | the connection to a running process |
//! | `screen` | the terminal layer of the live views: loop, drawing, colours, widgets |
//! | `runs` | the words of `pleach runs` |
//! | `live` | the words that look at a running process |
//! | `top` | `pleach top`: the live view of a running process |
//! | `doctor` | `pleach doctor` |
//! | `console` | `pleach console` |
//! | `check`, `drawing` | `pleach check` and `pleach graph render` |
//! | `demo` | `pleach demo` |

mod args;
mod check;
#[cfg(feature = "console")]
mod console;
mod demo;
mod doctor;
mod drawing;
mod failure;
mod live;
mod output;
mod runs;
mod screen;
mod socket;
mod store;
mod top;

use args::{Cli, Format, GraphWord, Word};
use clap::{CommandFactory as _, Parser as _};
use failure::{Failure, Status};
use live::args::TreeOutput;
use output::json::JsonOptions;
use output::{Output, escape, remark, write_all};
use pleach::inspect::InspectAction;
use std::process::ExitCode;

fn main() -> ExitCode {
    let done = match Cli::try_parse() {
        Ok(cli) => run(cli),
        Err(error) if error.use_stderr() => {
            remark(error.render().to_string().trim_end());
            Err(Failure::new(Status::Usage, ""))
        }
        // The help or the version was asked for.
        Err(error) => write_all(&error.render().to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.text.is_empty() {
                remark(&format!("error: {}", escape::ManyLines(&failure.text)));
            }
            if let Some(advice) = &failure.advice {
                remark(&format!("help: {}", escape::ManyLines(advice)));
            }
            failure.exit_code()
        }
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    let Format { json, fields, jq, utc, color } = cli.format;
    let wants_json =
        json || matches!(&cli.word, Word::Tree(args) if args.output == TreeOutput::Json) || !fields.is_empty() || jq.is_some();
    let output = Output::new(wants_json.then_some(JsonOptions { fields, jq }), utc, color);
    match cli.word {
        Word::Demo(args) => on_threads(demo::run(args, &output)),
        Word::Runs(word) => on_one_thread(runs::run(*word, &output)),
        Word::Check(args) => on_one_thread(check::run(args, &output)),
        Word::Tree(args) => on_one_thread(live::tree::run(args, &output)),
        Word::Top(args) => on_one_thread(top::run(args, &output)),
        Word::Health(args) => on_one_thread(live::health::run(args, &output)),
        Word::Events(args) => on_one_thread(live::events::run(args, &output)),
        Word::Why(args) => on_one_thread(live::why::run(args, &output)),
        Word::Stop(args) => on_one_thread(live::act::run(InspectAction::Stop, args, &output)),
        Word::Restart(args) => on_one_thread(live::act::run(InspectAction::Restart, args, &output)),
        Word::Suspend(args) => on_one_thread(live::act::run(InspectAction::Suspend, args, &output)),
        Word::Resume(args) => on_one_thread(live::act::run(InspectAction::Resume, args, &output)),
        Word::LogLevel(args) => on_one_thread(live::act::set_log_level(args, &output)),
        Word::Doctor(args) => on_one_thread(doctor::run(args, &output)),
        #[cfg(feature = "console")]
        Word::Console(args) => on_threads(console::run(args, &output)),
        Word::Graph(GraphWord::Render(args)) => on_one_thread(drawing::render(args)),
        Word::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "pleach", &mut script);
            write_all(&String::from_utf8_lossy(&script))
        }
        Word::Man => write_all(&manual()?),
    }
}

/// Returns the manual page, with all words.
fn manual() -> Result<String, Failure> {
    let mut page = Vec::new();
    let mut command = Cli::command();
    command.build();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    add_words(&command, &mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

/// Appends the options of each word below `command`.
fn add_words(command: &clap::Command, page: &mut Vec<u8>) -> Result<(), Failure> {
    for word in command.get_subcommands().filter(|word| word.get_name() != "help" && !word.is_hide_set()) {
        let name = word.get_bin_name().unwrap_or(word.get_name());
        page.extend_from_slice(format!(".SH \"{}\"\n", name.to_uppercase()).as_bytes());
        let manual = clap_mangen::Man::new(word.clone());
        manual.render_synopsis_section(page)?;
        manual.render_description_section(page)?;
        if word.get_arguments().next().is_some() {
            manual.render_options_section(page)?;
        }
        add_words(word, page)?;
    }
    Ok(())
}

fn on_threads(word: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    run_on(&mut tokio::runtime::Builder::new_multi_thread(), word)
}

fn on_one_thread(word: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    run_on(&mut tokio::runtime::Builder::new_current_thread(), word)
}

fn run_on(builder: &mut tokio::runtime::Builder, word: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = builder.enable_all().build();
    let failed = |error| Failure::new(Status::Failed, format_args!("cannot start a Tokio runtime: {error}"));
    runtime.map_err(failed)?.block_on(word)
}
