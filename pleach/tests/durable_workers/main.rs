//! Durable runs: workers, leases, clocks, and several drivers of one store.

#[path = "../common/mod.rs"]
mod common;

mod clock;
mod closing;
mod combined;
mod combined_crashes;
mod deadline;
mod deadly_run;
mod deploy;
#[cfg(all(feature = "tokio", feature = "sqlite"))]
mod incidents;
mod lease;
mod lease_blocked;
mod outage;
mod outcome;
mod random_workers;
mod refused;
mod refused_moves;
mod sharing;
mod silent_store;
mod stalled;
mod starting;
mod too_new;
mod trace;
mod undrivable_runs;
mod unreadable_run;
mod unserved;
mod worker_runs;
