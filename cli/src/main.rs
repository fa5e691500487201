//! `pleach WORD`: the command that comes with the library.

mod crew;
mod demo;
mod essays;
mod runs;
mod table;

use std::env;
use std::process::ExitCode;

const HELP: &str = "\
pleach demo       a supervised crew under load, and what became of every message; then runs that can be killed at any moment and go on
pleach --version  the version
pleach help       this text";

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
            eprintln!("pleach does not know {:?}\n\n{HELP}", words.join(" "));
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
    match runtime.block_on(both()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The crew, and then the runs.
async fn both() -> Result<(), String> {
    println!("{}", demo::run().await?);
    let report = runs::run().await.map_err(|error| format!("the runs went wrong: {error}"))?;
    print!("{report}");
    report.fault().map_or(Ok(()), |fault| Err(format!("it does not add up: {fault}")))
}
