//! Counts instructions per operation with callgrind.
//!
//! The program starts itself under valgrind with the hidden sub-command `callgrind PEER OP N`. The
//! child runs N operations on a current-thread runtime: once few, once many. The difference of the
//! two totals is the cost of the operations; the cost of the start cancels out.

use std::env;
use std::io;
use std::process::Command;

use crate::graphs::{self, owned};
use crate::ground::Place;
use crate::groups::{Shape, Work};
use crate::peers::{PEERS, Peer};

/// A counted operation.
pub struct Operation {
    pub workload: &'static str,
    /// The `OP` of the sub-command.
    name: &'static str,
    /// Returns `None` if the peer cannot run it.
    run: fn(&Peer, u64) -> Option<()>,
}

pub const OPERATIONS: &[Operation] = &[
    Operation {
        workload: "actor.instr_tell",
        name: "tell",
        run: |peer, ops| {
            peer.tell_batches?(ops, BATCH);
            Some(())
        },
    },
    Operation {
        workload: "actor.instr_ask",
        name: "ask",
        run: |peer, ops| {
            peer.ask?(Place::Current, ops);
            Some(())
        },
    },
    Operation {
        workload: "actor.instr_spawn",
        name: "spawn",
        run: |peer, ops| {
            peer.spawn?(Place::Current, ops);
            Some(())
        },
    },
    Operation {
        workload: "group.instr_task",
        name: "task",
        run: |peer, ops| peer.group?(Place::Current, Shape::tiny(GROUP), ops).map(drop),
    },
    Operation {
        workload: "group.instr_pends_once",
        name: "pends_once",
        run: |peer, ops| peer.group?(Place::Current, Shape::tiny(GROUP).work(Work::PendsOnce), ops).map(drop),
    },
    Operation {
        workload: "group.instr_in_place",
        name: "in_place",
        run: |peer, ops| {
            peer.group_in_place?(Place::Current, Shape::tiny(GROUP), ops);
            Some(())
        },
    },
    Operation {
        workload: "graph.instr_linear10",
        name: "linear10",
        run: |peer, ops| peer.graph?(Place::Current, graphs::Shape::Line(10), ops / 10).map(drop),
    },
    Operation {
        workload: "graph.instr_linear10_context",
        name: "linear10_context",
        run: |peer, ops| peer.graph?(Place::Current, graphs::Shape::LineWithContext(10), ops / 10).map(drop),
    },
    Operation {
        workload: "graph.instr_fanout8",
        name: "fanout8",
        run: |peer, ops| peer.graph?(Place::Current, graphs::Shape::FanOut8, ops / 10).map(drop),
    },
    Operation {
        workload: "graph.instr_owned_linear10",
        name: "owned_linear10",
        run: |peer, ops| owned(peer, owned::Shape::Line(10), ops / 10),
    },
    Operation {
        workload: "graph.instr_owned_linear100",
        name: "owned_linear100",
        run: |peer, ops| owned(peer, owned::Shape::Line(100), ops / 100),
    },
    Operation {
        workload: "graph.instr_owned_loop1k",
        name: "owned_loop1k",
        run: |peer, ops| owned(peer, owned::Shape::Loop(1_000), ops / 1_000),
    },
    Operation {
        workload: "graph.instr_owned_fanout8",
        name: "owned_fanout8",
        run: |peer, ops| owned(peer, owned::Shape::FanOut8, ops / 10),
    },
];

/// Messages sent between two waits for the receiver.
const BATCH: u64 = 100;

/// Tasks of a group. [`FEW`] and [`MANY`] are multiples of it.
const GROUP: u64 = 125;

const FEW: u64 = 2_000;
const MANY: u64 = 12_000;

fn owned(peer: &Peer, shape: owned::Shape, runs: u64) -> Option<()> {
    peer.owned_graph?(Place::Current, shape, runs);
    Some(())
}

pub fn is_installed() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// In the parent: measures the instructions per operation.
pub fn instructions_per_op(peer: &Peer, operation: &Operation) -> Result<f64, String> {
    let few = collected(peer, operation, FEW)?;
    let many = collected(peer, operation, MANY)?;
    Ok((many as f64 - few as f64) / (MANY - FEW) as f64)
}

/// In the child: runs the operations that the arguments after `callgrind` name.
pub fn run_child(arguments: &[String]) -> Result<(), String> {
    let [peer, operation, ops] = arguments else {
        return Err("callgrind takes PEER OP N".into());
    };
    let peer = PEERS.iter().find(|known| known.name == peer);
    let operation = OPERATIONS.iter().find(|known| known.name == operation);
    let (Some(peer), Some(operation), Ok(ops)) = (peer, operation, ops.parse()) else {
        return Err(format!("unknown peer, operation or count: {}", arguments.join(" ")));
    };
    (operation.run)(peer, ops).ok_or_else(|| format!("peer {} cannot run {}", peer.name, operation.name))
}

/// Counts the instructions of a whole child.
fn collected(peer: &Peer, operation: &Operation, ops: u64) -> Result<u64, String> {
    let failed = |error: io::Error| format!("cannot run valgrind: {error}");
    let profile = env::temp_dir().join(format!("pleach-bench-{}.callgrind", std::process::id()));
    let output = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(env::current_exe().map_err(failed)?)
        .args(["callgrind", peer.name, operation.name, &ops.to_string()])
        .output()
        .map_err(failed)?;
    // Only the total on standard error is used, so a missing profile does not matter.
    let _ = std::fs::remove_file(profile);
    let log = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{} {} failed under valgrind:\n{log}", peer.name, operation.name));
    }
    total(&log).ok_or_else(|| format!("no \"Collected\" line in valgrind's log:\n{log}"))
}

/// The number in the line `==123== Collected : 456`.
fn total(log: &str) -> Option<u64> {
    let (_, rest) = log.split_once("Collected :")?;
    rest.split_whitespace().next()?.parse().ok()
}
