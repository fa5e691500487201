//! `cargo xtask WORD`: what this project checks, explores and measures. Plain std: it builds with nothing but Rust, and what tests need besides, it installs.
//!
//! The modules in reading order: `suite` (the steps of `cargo xtask test`), `dependencies` and `promises` (the two checks that are not a
//! command), `demo` (which is killed). The library beside it has `step` (how a step is run and told of) and `postgres` (a server for tests).

mod api;
mod demo;
mod deny;
mod dependencies;
mod layers;
mod msrv;
mod packages;
mod promises;
mod suite;
mod tokens;
mod words;

use std::env;
use std::process::ExitCode;

use xtask::step::{cargo, run_in_sight};
use xtask::{postgres, root};

const HELP: &str = "\
cargo xtask test [STEP..]    everything a change must pass, or only the steps whose names begin so
cargo xtask promises         each promise of SEMANTICS.md with the tests that prove it
cargo xtask api              writes the public API of each library to its public-api.txt
cargo xtask fuzz [SECONDS]   random and damaged input for every parser (Default: 60 s)
cargo xtask layers           imports of core and graph that break the order of their rooms
cargo xtask loom             the loom models, deeper; LOOM_MAX_PREEMPTIONS=n sets how deep
cargo xtask sim --seeds N    the tests in release, exploring N seeds where they explore (10000 unless told)
cargo xtask bench [OPTION..] the benchmarks; bench/README.md lists the options
cargo xtask crash [OPTION..] processes that drive durable runs are killed, and what is left is checked: --kills N (200 unless told),
                             --store sqlite|postgres|both, --seed N
cargo xtask postgres COMMAND.. a command with a PostgreSQL of its own, e.g. one test: `cargo test --all-features -p ..`
cargo xtask words [PATH..]   words, names, long lines and short docs that the glossary rejects; --all lists each place
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
        ["api"] => api::write(&root()),
        ["fuzz"] => suite::fuzz_for("60"),
        ["fuzz", seconds] => suite::fuzz_for(seconds),
        ["layers"] => layers::check(&root()),
        ["loom"] => run_in_sight(suite::loom(&root()).args(["--", "--nocapture"])),
        ["sim"] => sim(SEEDS_DEFAULT),
        ["sim", "--seeds", seeds] => match seeds.parse() {
            Ok(seeds) if seeds > 0 => sim(seeds),
            _ => return misused(&format!("--seeds {seeds:?} is no number above 0")),
        },
        ["bench", options @ ..] => run_in_sight(cargo(&["run", "--release", "--package", "pleach-bench", "--"]).args(options)),
        ["crash", options @ ..] => run_in_sight(suite::crash().args(options)),
        ["postgres", command @ ..] => postgres::with_server(command),
        ["words", arguments @ ..] => words::report(&root(), arguments).map(|text| print!("{text}")),
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
