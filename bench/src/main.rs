//! `pleach-bench`: runs the same workloads on pleach and its peers. `bench/README.md` explains the
//! options and the results.
//!
//! Read in this order:
//! - `peers`: which peer can run which workload; `groups`, `graphs`, `growth`, `durable`, `stores`,
//!   `postgres` and `workers` have the workloads that are not about actors;
//! - `ground`: runtimes, senders and counters that all peers share;
//! - `timed`, `counted`, `callgrind`: the three ways to measure;
//! - `observed`: what an observer and ended runs cost, a command of its own;
//! - `report`: the tables and the JSON lines.

mod callgrind;
mod counted;
mod counting;
mod durable;
mod graphs;
mod ground;
mod groups;
mod growth;
mod observed;
mod peers;
mod postgres;
mod report;
mod stores;
mod timed;
mod workers;

use std::env;
use std::fs;
use std::process::ExitCode;

use peers::{PEERS, Peer};
use report::Figure;

/// The peers whose instructions are counted without `--all-instr`: callgrind is slow.
const INSTRUCTION_PEERS: &[&str] = &["tokio", "pleach"];

/// The options of the command line.
struct Options {
    only: String,
    /// The exact names of the workloads to run; all if empty.
    workloads: Vec<String>,
    json: Option<String>,
    passes: usize,
    peer: Option<String>,
    all_instr: bool,
}

impl Options {
    fn includes(&self, workload: &str) -> bool {
        workload.starts_with(&self.only) && (self.workloads.is_empty() || self.workloads.iter().any(|name| name == workload))
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let result = match arguments.split_first() {
        Some((first, rest)) if first == "callgrind" => callgrind::run_child(rest),
        Some((first, rest)) if first == "observed" => observed::run(rest),
        _ => parse(arguments.into_iter()).and_then(|options| run(&options)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options =
        Options { only: String::new(), workloads: Vec::new(), json: None, passes: 2, peer: None, all_instr: false };
    while let Some(name) = arguments.next() {
        if name == "--all-instr" {
            options.all_instr = true;
            continue;
        }
        let mut value = || arguments.next().ok_or_else(|| format!("{name} needs a value"));
        match name.as_str() {
            "--only" => options.only = value()?,
            "--workload" => options.workloads.push(value()?),
            "--json" => options.json = Some(value()?),
            "--passes" => {
                let passes = value()?.parse().ok().filter(|passes| *passes > 0);
                options.passes = passes.ok_or("--passes needs a number above 0")?;
            }
            "--peer" => options.peer = Some(value()?),
            _ => {
                return Err(format!("unknown argument {name}; bench/README.md lists the options"));
            }
        }
    }
    Ok(options)
}

fn run(options: &Options) -> Result<(), String> {
    let peers = chosen_peers(options.peer.as_deref())?;
    let mut figures = timed_figures(options, &peers);
    for workload in counted::WORKLOADS.iter().filter(|workload| options.includes(workload.name)) {
        eprintln!("{}", workload.name);
        figures.extend(counted::figures(workload, &peers));
    }
    figures.extend(instruction_figures(options, &peers)?);
    if figures.is_empty() {
        return Err("no workload has such a name".into());
    }
    figures.sort_by_key(|figure| figure.workload.split('.').next());
    println!("{}", report::tables(&figures));
    let lines = report::json_lines(&figures);
    match &options.json {
        Some(file) => fs::write(file, lines).map_err(|error| format!("cannot write {file}: {error}")),
        None => {
            print!("{lines}");
            Ok(())
        }
    }
}

/// Returns all peers, or the floor and the named peer.
fn chosen_peers(name: Option<&str>) -> Result<Vec<&'static Peer>, String> {
    let Some(name) = name else {
        return Ok(PEERS.iter().collect());
    };
    if !PEERS.iter().any(|peer| peer.name == name) {
        let known: Vec<&str> = PEERS.iter().map(|peer| peer.name).collect();
        return Err(format!("no peer is called {name}; the peers are {}", known.join(", ")));
    }
    let (floor, others) = PEERS.split_first().expect("the floor is a peer");
    Ok([floor].into_iter().chain(others.iter().filter(|peer| peer.name == name)).collect())
}

/// Runs whole passes one after the other, so that two passes of a workload are far apart in time.
fn timed_figures(options: &Options, peers: &[&Peer]) -> Vec<Figure> {
    let workloads = || timed::WORKLOADS.iter().filter(|workload| options.includes(workload.name));
    let mut bench = timed::Bench::new(peers);
    for pass in 1..=options.passes {
        for workload in workloads() {
            eprintln!("{}, pass {pass} of {}", workload.name, options.passes);
            bench.pass(workload);
        }
    }
    workloads().flat_map(|workload| bench.figures(workload)).collect()
}

fn instruction_figures(options: &Options, peers: &[&Peer]) -> Result<Vec<Figure>, String> {
    let mut figures = Vec::new();
    for operation in callgrind::OPERATIONS.iter().filter(|operation| options.includes(operation.workload)) {
        if !callgrind::is_installed() {
            eprintln!("{} is skipped: valgrind is not installed", operation.workload);
            continue;
        }
        eprintln!("{}", operation.workload);
        let mut floor = None;
        for peer in peers {
            if !options.all_instr && !INSTRUCTION_PEERS.contains(&peer.name) {
                continue;
            }
            let value = callgrind::instructions_per_op(peer, operation)?;
            let floor = *floor.get_or_insert(value);
            figures.push(Figure {
                workload: operation.workload,
                peer: peer.name,
                value,
                ratio: Some(value / floor),
                is_unsteady: false,
            });
        }
    }
    Ok(figures)
}
