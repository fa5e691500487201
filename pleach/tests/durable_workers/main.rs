//! Durable runs: workers, leases, clocks, and several drivers of one store.

#[path = "../common/mod.rs"]
mod common;

mod clock;
mod closing;
mod crowd;
mod deadline;
mod deadly_run;
mod deploy;
mod lease;
mod net;
mod outage;
mod outcome;
mod sharing;
mod silent_store;
mod stalled;
mod starting;
mod too_new;
mod trace;
mod trouble;
mod unreadable_run;
mod worker_runs;
