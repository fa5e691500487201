//! Feeds random and damaged input to every parser of pleach.
//!
//! A target takes a source of randomness and fails by a panic. A case is fixed by three things: the
//! target, the seed and its number. A failure names them, and the command that repeats it.
//!
//! Modules in reading order: `random` (numbers and mutations), `texts` (paths and names), `rows`
//! (stored rows and inbox messages), `runs` (whole stored runs, damaged and resumed), `tools`
//! (requests of the inspection socket, exported graphs, cursors).

mod random;
mod rows;
mod runs;
mod texts;
mod tools;

use random::Random;
use std::env;
use std::panic;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const HELP: &str = "\
pleach-fuzz [OPTION..] [TARGET..]
  --cases N     cases per target (Default: 2000)
  --seconds N   runs all targets in turn for this time instead
  --seed N      the seed (Default: 1)
  --case N      runs only this case";

/// How many cases a target gets before the next one has its turn.
const TURN: u64 = 200;

/// A target: its name, and a case of it.
type Target = (&'static str, fn(&mut Random));

const TARGETS: [Target; 9] = [
    ("path", texts::path),
    ("name", texts::name),
    ("row", rows::row),
    ("message", rows::message),
    ("run", runs::damaged_run),
    ("inbox", runs::damaged_inbox),
    ("export", tools::exported_graph),
    ("word", tools::word),
    ("request", tools::request),
];

/// What the command line asks for.
struct Options {
    cases: u64,
    seconds: Option<u64>,
    seed: u64,
    case: Option<u64>,
    targets: Vec<Target>,
}

fn main() -> ExitCode {
    let options = match options(env::args().skip(1)) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("{why}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    panic::set_hook(Box::new(|info| {
        let place = info.location().map_or_else(String::new, ToString::to_string);
        let text = info.payload().downcast_ref::<String>().map(String::as_str);
        let text = text.or(info.payload().downcast_ref::<&str>().copied()).unwrap_or("no text");
        *panicked() = Some(format!("panicked at {place}: {text}"));
    }));
    match fuzz(&options) {
        Ok(cases) => {
            println!("{cases} cases passed, seed {}", options.seed);
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the cases in turns, and returns how many passed.
fn fuzz(options: &Options) -> Result<u64, String> {
    if let Some(case) = options.case {
        options.targets.iter().try_for_each(|target| try_case(*target, options.seed, case))?;
        return Ok(options.targets.len() as u64);
    }
    let begun = Instant::now();
    let is_over = |case: u64| match options.seconds {
        Some(seconds) => begun.elapsed() >= Duration::from_secs(seconds),
        None => case >= options.cases,
    };
    let (mut case, mut passed) = (0, 0);
    while !is_over(case) {
        for target in &options.targets {
            for case in case..case + TURN {
                try_case(*target, options.seed, case)?;
                passed += 1;
            }
        }
        case += TURN;
    }
    Ok(passed)
}

/// Runs a case. A panic that pleach catches, as it does in nodes, is a failure too.
fn try_case((name, target): Target, seed: u64, case: u64) -> Result<(), String> {
    let mut random = Random::new(seed, name, case);
    let _ = panic::catch_unwind(panic::AssertUnwindSafe(|| target(&mut random)));
    let Some(text) = panicked().take() else { return Ok(()) };
    Err(format!("{name}: {text}\nto repeat it: cargo run -p pleach-fuzz -- {name} --seed {seed} --case {case}"))
}

/// Where the last panic was, and what it said.
fn panicked() -> MutexGuard<'static, Option<String>> {
    static PANICKED: Mutex<Option<String>> = Mutex::new(None);
    PANICKED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { cases: 2_000, seconds: None, seed: 1, case: None, targets: Vec::new() };
    while let Some(word) = words.next() {
        let mut number = || -> Result<u64, String> {
            let value = words.next().unwrap_or_default();
            value.parse().map_err(|_| format!("{word} needs a number, got {value:?}"))
        };
        match word.as_str() {
            "--cases" => options.cases = number()?,
            "--seconds" => options.seconds = Some(number()?),
            "--seed" => options.seed = number()?,
            "--case" => options.case = Some(number()?),
            name => {
                let target = TARGETS.into_iter().find(|(known, _)| *known == name);
                options.targets.push(target.ok_or_else(|| format!("no target is called {name:?}"))?);
            }
        }
    }
    if options.targets.is_empty() {
        options.targets = TARGETS.into();
    }
    Ok(options)
}
