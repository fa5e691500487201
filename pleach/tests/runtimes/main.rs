//! Runtimes: dispatchers, Tokio, the simulator, and what a system reports of itself.

#[path = "../common/mod.rs"]
mod common;

mod dispatcher;
mod dispatcher_drivers;
mod errors;
mod events;
mod every_runtime;
mod lints;
mod runtime_gone;
mod sim;
