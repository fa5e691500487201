//! Tests of O3, O4 and O5: log lines, spans and metrics of a real system.

#[path = "../common/mod.rs"]
mod common;

mod capture;
mod log_levels;
mod logs;
mod logs_episodes;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(all(feature = "metrics", feature = "graph"))]
mod run_metrics;
#[cfg(all(feature = "spans", feature = "graph"))]
mod run_spans;
mod sim_trace;
#[cfg(feature = "spans")]
mod spans;
mod stuck;
