//! `cargo xtask WORD`: what this project checks, explores and measures. Plain std, so that a machine needs nothing but Rust.
//!
//! The modules in reading order: `suite` (the steps of `cargo xtask test`), `step` (how one is run and told of), `dependencies` and
//! `promises` (the two checks that are not a command), `demo` (which is killed), `postgres` (a server for tests).

mod demo;
mod dependencies;
mod postgres;
mod promises;
mod step;
mod suite;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use step::{cargo, run_in_sight};

const HELP: &str = "\
cargo xtask test [STEP..]    everything a change must pass, or only the steps whose names begin so
cargo xtask promises         each promise of SEMANTICS.md with the tests that prove it
cargo xtask loom             the loom models, deeper; LOOM_MAX_PREEMPTIONS=n sets how deep
cargo xtask sim --seeds N    the tests in release, exploring N seeds where they explore (10000 unless told)
cargo xtask bench [OPTION..] the benchmarks; bench/README.md lists the options
cargo xtask postgres COMMAND.. a command with a PostgreSQL of its own, e.g. one test: `cargo test --all-features -p ..`
cargo xtask help             this text";

/// The variable by which tests that explore seeds learn how many to try.
const SEEDS_VARIABLE: &str = "PLEACH_SEEDS";
const SEEDS_DEFAULT: u64 = 10_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["test", only @ ..] => suite::run(&root(), only),
        ["promises"] => promises::list(&root()).map(|list| print!("{list}")),
        ["loom"] => run_in_sight(suite::loom(&root()).args(["--", "--nocapture"])),
        ["sim"] => sim(SEEDS_DEFAULT),
        ["sim", "--seeds", seeds] => match seeds.parse() {
            Ok(seeds) if seeds > 0 => sim(seeds),
            _ => return misused(&format!("--seeds {seeds:?} is no number above 0")),
        },
        ["bench", options @ ..] => run_in_sight(cargo(&["run", "--release", "--package", "pleach-bench", "--"]).args(options)),
        ["postgres", command @ ..] => postgres::with_server(command),
        ["help"] => {
            println!("{HELP}");
            Ok(())
        }
        _ => return misused(&format!("unknown words: {:?}", words.join(" "))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn sim(seeds: u64) -> Result<(), String> {
    run_in_sight(cargo(&["test", "--release", "--package", "pleach", "--tests"]).env(SEEDS_VARIABLE, seeds.to_string()))
}

fn misused(why: &str) -> ExitCode {
    eprintln!("{why}\n\n{HELP}");
    ExitCode::from(2)
}

/// The root of the workspace, wherever the command was typed.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}
