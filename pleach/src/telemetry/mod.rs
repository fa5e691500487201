//! What a system reports to operators: log lines without any set-up, and metrics and spans on
//! request.
//!
//! | module | owns |
//! |---|---|
//! | `log` | the listener of a system, its levels, and the text of each line |
//! | `dead_letters` | the summary of dead letters: at most one line per reason in 10 s |
//! | `instruments` | a span, and the time, of each message (feature `spans` or `metrics`) |
//! | `metrics` | counters and gauges of a system (feature `metrics`) |
//! | `run_metrics` | counters of nodes and workers (features `metrics` and `graph`) |
//! | `measured_store` | a store that counts and times its calls (the same features) |
//! | `mailboxes` | which mailboxes are filling up: one line when it begins, one when it is over |
//!
//! `docs/telemetry.md` lists the targets and their fields.
//!
//! Invariants:
//! 1. A line is written outside of every lock: a subscriber is user code.
//! 2. Tables are bounded: 6 reasons, 256 mailboxes, 3 samples per line.
//! 3. The logger holds no tree. Its timer holds it weakly, and no timer is set while nothing is
//!    waiting to be written.

pub(crate) mod dead_letters;
#[cfg(any(feature = "metrics", feature = "spans"))]
mod instruments;
mod log;
mod mailboxes;
#[cfg(all(feature = "metrics", feature = "graph"))]
mod measured_store;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(all(feature = "metrics", feature = "graph"))]
mod run_metrics;

#[cfg(any(feature = "metrics", feature = "spans"))]
pub use instruments::Instruments;
#[cfg(feature = "metrics")]
pub use metrics::{ACTOR_LABELS_MAX, SystemMetrics};
#[cfg(all(feature = "metrics", feature = "graph"))]
pub use {
    measured_store::MeasuredStore,
    run_metrics::{GRAPH_LABELS_MAX, NODE_LABELS_MAX, RunMetrics},
};

pub use pleach_core::{HandledMessage, HandlerOutcome, HandlerSpan, Instrument, SendContext};
#[cfg(all(feature = "spans", feature = "graph"))]
pub use pleach_graph::TRACEPARENT_TAG;

pub(crate) use log::SystemLog;
