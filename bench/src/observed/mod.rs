//! What an observer costs, and what ended runs cost: `pleach-bench observed [WHAT] [RUNS]`.
//!
//! These are ratios of one program with and without something, not of two programs, so they are no
//! workloads of the peers.
//!
//! - `snapshots`: the messages per second of 100,000 busy actors, while a plain thread reads a page
//!   of a snapshot every 10 ms, against those without it.
//! - `sqlite` and `postgres`: the time and the counted work of a list, a list by tag, a claim and a
//!   start in a store with RUNS ended runs (default: a million), against those in an empty store.

mod ended;
mod fill;
mod snapshots;
mod work;

use crate::ground::Place;

pub fn run(arguments: &[String]) -> Result<(), String> {
    let (what, runs) = match arguments {
        [] => (None, None),
        [one] if one.parse::<u64>().is_ok() => (None, Some(one)),
        [one] => (Some(one.as_str()), None),
        [what, runs] => (Some(what.as_str()), Some(runs)),
        _ => return Err("observed takes what to measure and a number of ended runs".into()),
    };
    let runs = runs.map_or(Ok(1_000_000), |runs| runs.parse().map_err(|_| format!("{runs} is not a number of runs")))?;
    if !what.is_none_or(|what| ["snapshots", "sqlite", "postgres"].contains(&what)) {
        return Err("observed measures snapshots, sqlite or postgres".into());
    }
    let is_wanted = |name: &str| what.is_none_or(|what| what == name);
    if is_wanted("snapshots") {
        snapshots::run();
    }
    if is_wanted("sqlite") {
        Place::Workers.run(ended::in_sqlite(runs));
    }
    match std::env::var("PLEACH_POSTGRES_URL") {
        Ok(server) if is_wanted("postgres") => ended::in_postgres(&server, runs),
        Err(_) if what == Some("postgres") => return Err("set PLEACH_POSTGRES_URL, or use `cargo xtask postgres`".into()),
        _ => {}
    }
    Ok(())
}

fn median<T: PartialOrd + Copy>(mut samples: Vec<T>) -> T {
    samples.sort_by(|one, other| one.partial_cmp(other).expect("no sample is NaN"));
    samples[samples.len() / 2]
}
