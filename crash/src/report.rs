//! The protocol between drivers and the ledger: one line of JSON in each direction. A driver waits
//! for the reply to each report.

use crate::graph::{State, Variant};
use crate::mutant::Mutant;
use crate::store_address::StoreAddress;
use serde::{Deserialize, Serialize};

/// The classes of kill points: a process can be made to die at the n-th pass of each. They surround
/// every store call and all code of the graph.
pub const CLASSES: [&str; 28] = [
    "create before",
    "create after",
    "claim before",
    "claim after",
    "head before",
    "head after",
    "read before",
    "read after",
    "commit before",
    "commit after",
    "acknowledged",
    "renew before",
    "renew after",
    "inbox before",
    "inbox after",
    "post before",
    "post after",
    "prune before",
    "prune after",
    "node start",
    "node end",
    "effect before",
    "effect after",
    "once before",
    "once after",
    "undo start",
    "undo end",
    "ended",
];

/// A point where a process dies or pauses: a class and the number of the pass.
pub type KillPoint = (String, u64);

/// The settings of a driver process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    /// The port of the ledger.
    pub ledger_port: u16,
    /// Where the runs are stored.
    pub address: StoreAddress,
    /// The set whose runs it drives.
    pub set: String,
    /// The variant that it prefers.
    pub preferred: Option<Variant>,
    pub lease_millis: u64,
    /// Whether it claims ready runs as a worker instead of asking for runs.
    pub is_worker: bool,
    /// How many runs it drives at a time.
    pub slots: usize,
    /// Where it dies.
    pub dies_at: Option<KillPoint>,
    /// Where it pauses until the ledger lets it continue.
    pub pauses_at: Option<KillPoint>,
    /// The fault of its store.
    pub mutant: Option<Mutant>,
}

/// Something that happened in a driver.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Report {
    /// The first report of a process.
    Hello { pid: u32 },
    /// It is free and asks for a run.
    Next { set: String, preferred: Option<Variant> },
    /// It has claimed a run.
    Claimed { run: String, epoch: u64 },
    /// It begins something that must not begin again once it is durable: a visit, an attempt, an
    /// effect, an undo.
    Began {
        run: String,
        fact: String,
        epoch: u64,
        /// What must be durable by now.
        rests_on: Vec<String>,
        /// Whether it may happen at most once.
        once: bool,
        /// Whether this process stalled for so long that its lease may have expired.
        stalled: bool,
    },
    /// The last report may have been recorded too late.
    Waited,
    /// A record was acknowledged as durable.
    Acknowledged { run: String, epoch: u64, sequence: u64, sum: u64 },
    /// It stopped driving a run.
    Ended { run: String, how: Ending },
    /// It dies now, at a point of this class.
    Dies { class: String },
    /// It pauses until the reply arrives.
    PausedAt { pid: u32 },
}

/// Why a driver stopped driving a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Ending {
    Finished(Box<State>),
    Compensated,
    /// The run waits for an answer.
    Paused,
    /// A worker released it; the store knows why.
    ReleasedByWorker,
    /// It was fenced, the store failed, or another driver holds the run. Others continue.
    Stopped(String),
    /// Something that must not happen.
    Failed(String),
}

/// The reply to a report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// The report was recorded.
    Noted,
    Begin {
        run: String,
        variant: Variant,
    },
    Resume {
        run: String,
        variant: Variant,
        take_over: bool,
        answer: bool,
    },
    /// No work at the moment.
    Idle,
    /// No more work.
    Quit,
}

/// Names of facts, as drivers report them and as records prove them.
pub mod fact {
    pub fn node(key: &str) -> String {
        format!("visit {key}")
    }

    pub fn effect(key: &str) -> String {
        format!("effect {key}")
    }

    /// The begin record of a `once` effect.
    pub fn started(node: &str, name: &str) -> String {
        format!("started {node}/{name}")
    }

    pub fn attempt(node: &str, attempt: u32) -> String {
        format!("attempt {node}#{attempt}")
    }

    pub fn undo(node: &str) -> String {
        format!("undo {node}")
    }
}
