//! The crash test of durable runs: driver processes are killed at every kill point and at random,
//! and the result is checked against a ledger outside of them.
//!
//! `cargo xtask crash` starts it. One program has two roles:
//! - With `drive` it is a process to be killed: `driver`, `run_reporter`, `graph`, `ledger_client`,
//!   `reporting_store`, `mutant`.
//! - Otherwise it kills (`store_under_test`, `ledger`, `assignments`, `processes`), reads
//!   (`reading`) and checks (`check`). The tests are `exhaustive`, `random` (with `queue`) and
//!   `mutants`; `server` and `proxy` are PostgreSQL and the connection to it.

mod assignments;
mod check;
mod driver;
mod exhaustive;
mod graph;
mod ledger;
mod ledger_client;
mod mutant;
mod mutants;
mod processes;
mod proxy;
mod queue;
mod random;
mod reading;
mod report;
mod reporting_store;
mod run_reporter;
mod server;
mod store_address;
mod store_under_test;

use ledger_client::lock;
use pleach::runtime::Random;
use processes::Processes;
use random::RunSource;
use server::Server;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};
use store_address::StoreAddress;
use store_under_test::StoreUnderTest;
use tokio::runtime::Handle;

const HELP: &str = "--kills N   kills that hit an open step, shared by the stores; default 200
--store S   sqlite, postgres or both; default both
--seed N    seed of the plan of kills; random by default
--only T    run one test: mutants, exhaustive or random
--short     a shorter test for CI";

/// The number of runs driven at a time by the exhaustive test.
const AT_ONCE: usize = 6;

/// The command line options.
struct Options {
    kills: u64,
    sqlite: bool,
    postgres: bool,
    seed: u64,
    /// Runs only this test.
    only: Option<String>,
    /// On PostgreSQL, tests every n-th pass of a kill point instead of every one.
    is_short: bool,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [word, spec] = words.as_slice()
        && word == "drive"
    {
        return match driver::main(spec) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    match Options::parse(&words) {
        Err(why) => {
            eprintln!("{why}\n\n{HELP}");
            ExitCode::from(2)
        }
        Ok(options) => match test(&options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("{why}\nthe seed was {}", options.seed);
                ExitCode::FAILURE
            }
        },
    }
}

impl Options {
    fn parse(words: &[String]) -> Result<Self, String> {
        let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let seed = Random::seeded(clock.map_or(1, |now| now.as_nanos() as u64)).next_u64() % 1_000_000;
        let mut options = Self { kills: 200, sqlite: true, postgres: true, seed, only: None, is_short: false };
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let mut number = || words.next().and_then(|text| text.parse().ok()).ok_or(format!("{word} takes a number"));
            match word {
                "--kills" => options.kills = number()?,
                "--seed" => options.seed = number()?,
                "--only" => match words.next() {
                    Some(word @ ("mutants" | "exhaustive" | "random")) => options.only = Some(word.to_string()),
                    other => return Err(format!("--only takes mutants, exhaustive or random, not {other:?}")),
                },
                "--short" => options.is_short = true,
                "--store" => match words.next() {
                    Some("sqlite") => options.postgres = false,
                    Some("postgres") => options.sqlite = false,
                    Some("both") => {}
                    other => return Err(format!("--store takes sqlite, postgres or both, not {other:?}")),
                },
                other => return Err(format!("unknown option: {other:?}")),
            }
        }
        Ok(options)
    }

    fn has(&self, test: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only == test)
    }

    /// The time limit of the whole test.
    fn time_max(&self) -> Duration {
        Duration::from_secs(600 + self.kills)
    }
}

/// Runs everything, with a watchdog.
fn test(options: &Options) -> Result<(), String> {
    println!("seed {}", options.seed);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let processes = Processes::default();
    let (watched, time_max) = (processes.clone(), options.time_max());
    thread::spawn(move || {
        thread::sleep(time_max);
        eprintln!("the crash test did not end within {time_max:?}; its progress is above");
        watched.end();
        std::process::exit(1);
    });
    let stores = u64::from(options.sqlite) + u64::from(options.postgres);
    let kills = options.kills.div_ceil(stores);
    if options.sqlite {
        let folder = std::env::temp_dir().join(format!("pleach-crash-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
        let address = StoreAddress::Sqlite(folder.join("runs.db"));
        let result = test_one(options, kills, address.clone(), address, None, &processes, runtime.handle());
        if result.is_ok() {
            drop(std::fs::remove_dir_all(&folder));
        }
        result.map_err(|why| format!("{why}\nthe runs are in {}", folder.display()))?;
    }
    if options.postgres {
        let mut server = Server::start(&processes, runtime.handle(), options.seed)?;
        let (address, direct) = (server.through_proxy(), server.direct());
        test_one(options, kills, address, direct, Some(&mut server), &processes, runtime.handle())?;
    }
    Ok(())
}

/// Runs all tests on one store.
fn test_one(
    options: &Options,
    kills: u64,
    address: StoreAddress,
    direct: StoreAddress,
    mut server: Option<&mut Server>,
    processes: &Processes,
    handle: &Handle,
) -> Result<(), String> {
    let name = address.name();
    let seed = options.seed;
    let step = |what: &str, begun: Instant| println!("{name}: {what}, {:.1} s", begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    let mut tested = StoreUnderTest::open(address, &direct, processes, handle, seed)?;
    tested.run_references()?;
    step("undisturbed runs", begun);

    if options.has("mutants") {
        let begun = Instant::now();
        mutants::run(&tested)?.iter().for_each(|result| println!("{name}: {result}"));
        step("all faults were found", begun);
    }
    if options.has("exhaustive") {
        let begun = Instant::now();
        let stride = if options.is_short && server.is_some() { 4 } else { 1 };
        let exhaustive::Deaths { first, second } = exhaustive::run(&[&tested; AT_ONCE], stride, seed)?;
        step(&format!("died at every kill point, {stride} passes apart: {first} deaths, {second} second ones"), begun);
    }
    if options.has("random") {
        for (source, what) in [(RunSource::Ledger, "drivers"), (RunSource::Store, "workers")] {
            let begun = Instant::now();
            let killed = random::run(&tested, source, server.as_deref_mut(), kills.div_ceil(2), options.time_max() / 3, seed)?;
            let lost = server.as_ref().map_or(0, |server| server.answers_lost());
            let classes = tested.ledger.with(|book| format!("{:?}", book.deaths));
            step(&format!("{what}: {killed:?}, {lost} answers lost; deaths by class: {classes}"), begun);
        }
    }
    let checker = lock(&tested.checker);
    println!("{name}: {} readings; {} late starts of drivers that were stopped or forced out", checker.readings, checker.late);
    match checker.violations.as_slice() {
        [] => Ok(()),
        found => {
            let shown: Vec<String> = found.iter().take(20).map(ToString::to_string).collect();
            Err(format!("{name}: {} violations:\n{}", found.len(), shown.join("\n")))
        }
    }
}
