//! What processes that drive runs say to the ledger, and what they are told. A line of JSON each way; whoever reports waits for the answer.

use crate::graph::{State, Variant};
use crate::mutant::Mutant;
use crate::place::Place;
use serde::{Deserialize, Serialize};

/// The places where a process can be made to die, each at its n-th pass. They surround every call of the store and all code of the graph.
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

/// What a driver is made for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    /// The port of the ledger.
    pub ledger: u16,
    /// Where the runs are.
    pub place: Place,
    /// Which runs it asks for.
    pub lot: String,
    /// Which of them it would rather have.
    pub wish: Option<Variant>,
    pub lease_millis: u64,
    /// It claims what is ready, and does not ask for runs.
    pub is_worker: bool,
    /// How many runs it drives at a time.
    pub slots: usize,
    /// Where it dies: at the n-th pass of this class.
    pub dies_at: Option<(String, u64)>,
    /// Where it stops until it is let go.
    pub holds_at: Option<(String, u64)>,
    /// What is wrong with its store.
    pub mutant: Option<Mutant>,
}

/// Something that happened in a driver.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Report {
    /// The first words of a process.
    Hello { pid: u32 },
    /// It is free: what is to be done?
    Next { lot: String, wish: Option<Variant> },
    /// It holds a run.
    Claimed { run: String, epoch: u64 },
    /// It begins something that may not begin again once it is durable: a visit, an attempt, an effect, an undo.
    Began {
        run: String,
        thing: String,
        epoch: u64,
        /// What must be durable by now.
        rests_on: Vec<String>,
        /// It may happen once at most.
        once: bool,
        /// This process was not scheduled for so long that its lease may have ended unseen.
        stalled: bool,
    },
    /// What it said last may have been written down long after it was so.
    Waited,
    /// It was told that a record is durable.
    Acknowledged { run: String, epoch: u64, sequence: u64, sum: u64 },
    /// It stopped driving a run.
    Ended { run: String, how: Ending },
    /// It dies now, at this place.
    Dies { class: String },
    /// It stays at this place until it is answered.
    Holds { pid: u32 },
}

/// How it came that a driver stopped driving a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Ending {
    Finished(Box<State>),
    Compensated,
    /// It waits for an answer.
    Paused,
    /// A worker has let go of it; the store knows why.
    LetGo,
    /// It was fenced, or the store failed, or another holds the run: others go on.
    Stopped(String),
    /// What should not happen.
    Failed(String),
}

/// What a driver is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// Go on.
    Noted,
    Begin {
        run: String,
        variant: Variant,
    },
    GoOn {
        run: String,
        variant: Variant,
        take_over: bool,
        answer: bool,
    },
    /// There is nothing to do now.
    Idle,
    /// There will be nothing to do.
    Quit,
}

/// Names of things, as drivers report them and as records show them to be durable.
pub mod thing {
    pub fn node(key: &str) -> String {
        format!("visit {key}")
    }

    pub fn effect(key: &str) -> String {
        format!("effect {key}")
    }

    /// That an effect which may happen once has begun.
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
