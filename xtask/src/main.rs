//! `cargo xtask COMMAND`: everything that this project checks, explores and measures.
//!
//! It uses only std, so that it builds in seconds, and installs the tools that the tests need.
//!
//! Modules in reading order:
//! - `suite`: the steps of `cargo xtask test`,
//! - checks of the text: `promises`, `words`, `layers` (with `tokens`),
//! - checks of what users get: `dependencies`, `deny`, `packages`, `msrv`, `api`,
//! - the console's page: `vendor`, `assets`, and its tests in `console`,
//! - `counts`: the instructions of operations, and `figures`: the table of benchmarks,
//! - `embedded` and `size`: programs for microcontrollers,
//! - `demo`: kills the demo and checks that it recovers.
//!
//! The library has `step`, a check and its commands, `run`, which runs steps and reports them,
//! `tools`, programs that tests need, and `postgres`, a server for tests.

mod api;
mod assets;
mod bundle;
mod console;
mod counts;
mod demo;
mod deny;
mod dependencies;
mod embedded;
mod figures;
mod layers;
mod msrv;
mod packages;
mod promises;
mod size;
mod suite;
mod tokens;
mod vendor;
mod words;

use std::env;
use std::process::ExitCode;

use xtask::step::{cargo, run_in_sight};
use xtask::{postgres, root};

const HELP: &str = "\
cargo xtask test [STEP..]      run all checks, or only the steps whose names begin with STEP
cargo xtask api                write the public API of each library to its public-api.txt
cargo xtask assets             compress the files of the console's page and list them
cargo xtask bench [OPTION..]   run the benchmarks; bench/README.md lists the options
cargo xtask console-figures    measure the console in a browser: 100,000 actors, a million records;
                               --short measures less, --clicks leaves out the cost
cargo xtask console-shots      take pictures of every view of the console
cargo xtask console-soak [SECONDS]
                               ten tabs and ten streams for some time (default 600 s): the memory of
                               the program may not grow
cargo xtask counts             write the instructions per operation to bench/counts/counts.txt
cargo xtask crash [OPTION..]   kill processes that drive durable runs, then check all runs:
                               --kills N (default 200), --store sqlite|postgres|both, --seed N,
                               --only mutants|exhaustive|random, --short
cargo xtask embedded           build for four microcontrollers and run checks on emulated boards
cargo xtask figures            measure every row of the table in bench/README.md, and write it with
                               its picture; `build` only builds, `draw` only writes
cargo xtask fuzz [SECONDS]     feed random and damaged input to every parser (default 60 s)
cargo xtask layers             list imports of core and graph that break the order of rooms
cargo xtask loom               run the loom models, deeper; LOOM_MAX_PREEMPTIONS=N sets how deep
cargo xtask picture            draw the demo again: docs/images/demo.svg
cargo xtask postgres COMMAND.. run a command with a temporary PostgreSQL server, such as
                               `cargo test --all-features -p ..`
cargo xtask promises           list each promise of SEMANTICS.md with the tests that prove it
cargo xtask sim --seeds N      run the tests in release with N seeds each (default 10000)
cargo xtask size               measure the flash and memory of small programs for Cortex-M
cargo xtask vendor             fetch the modules of other projects that the console's page uses
cargo xtask words [PATH..]     count words, names, long lines and short docs to rewrite;
                               --all lists every place
cargo xtask help               show this text";

/// The variable that sets how many seeds the tests explore.
const SEEDS_VARIABLE: &str = "PLEACH_SEEDS";
const SEEDS_DEFAULT: u64 = 10_000;
const FUZZ_SECONDS_DEFAULT: &str = "60";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["test", only @ ..] => suite::run(&root(), only),
        ["promises"] => promises::list(&root()).map(|list| print!("{list}")),
        ["api"] => api::write(&root()),
        ["assets"] => assets::write(&root()),
        ["vendor"] => vendor::fetch(&root()).and_then(|()| assets::write(&root())),
        ["embedded"] => embedded::run(&root()),
        ["figures"] => figures::measure(&root()),
        ["figures", "build"] => figures::peers(&root()).map(drop),
        ["figures", "draw"] => figures::draw(&root()),
        ["fuzz"] => suite::fuzz_for(FUZZ_SECONDS_DEFAULT),
        ["fuzz", seconds] => suite::fuzz_for(seconds),
        ["layers"] => layers::check(&root()),
        ["loom"] => run_in_sight(suite::loom(&root()).args(["--", "--nocapture"])),
        ["sim"] => sim(SEEDS_DEFAULT),
        ["sim", "--seeds", seeds] => match seeds.parse() {
            Ok(seeds) if seeds > 0 => sim(seeds),
            _ => return misused(&format!("--seeds needs a number above 0, got {seeds:?}")),
        },
        ["bench", options @ ..] => run_in_sight(cargo(&["run", "--release", "--package", "pleach-bench", "--"]).args(options)),
        ["counts"] => counts::write(&root()),
        ["crash", options @ ..] => run_in_sight(suite::crash().args(options)),
        ["console-figures", options @ ..] => console::measure(&root(), "figures.mjs", options),
        ["console-shots"] => console::take_shots(&root()),
        ["console-soak"] => console::measure(&root(), "soak.mjs", &[console::SOAK_SECONDS]),
        ["console-soak", seconds] => console::measure(&root(), "soak.mjs", &[seconds]),
        ["picture"] => demo::draw(),
        ["postgres", command @ ..] => postgres::with_server(command),
        ["size"] => size::report(&root()).map(|text| print!("{text}")),
        ["words", arguments @ ..] => words::report(&root(), arguments).map(|text| print!("{text}")),
        ["help"] => {
            println!("{HELP}");
            Ok(())
        }
        _ => return misused(&format!("unknown command: {:?}", words.join(" "))),
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
