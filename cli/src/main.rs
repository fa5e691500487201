//! The `pleach` command.

mod demo;
mod essays;
mod report;
mod runs;
mod workers;

use std::env;
use std::process::ExitCode;

const HELP: &str = "\
pleach demo       runs supervised workers under load and accounts for every message;
                  then runs durable workflows: kill the demo at any time and start it again
pleach --version  prints the version
pleach help       prints this text";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["demo"] => run_demo(),
        ["--version" | "-V"] => {
            println!("pleach {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("unknown command {:?}\n\n{HELP}", words.join(" "));
            ExitCode::from(2)
        }
    }
}

fn run_demo() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_time().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("cannot start a Tokio runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run_parts()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs both parts: the workers, then the durable runs.
async fn run_parts() -> Result<(), String> {
    println!("{}", demo::run().await?);
    let report = runs::run().await.map_err(|error| format!("the durable runs failed: {error}"))?;
    print!("{report}");
    report.fault().map_or(Ok(()), |fault| Err(format!("the durable runs are not correct: {fault}")))
}
