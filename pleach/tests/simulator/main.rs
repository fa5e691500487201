//! Tests of the simulator as a tool for tests: faults, shrinking, probes, assertions, stalls.

#[path = "../common/mod.rs"]
mod common;

mod attribute;
mod checks;
mod handlers;
mod io;
mod planted;
mod planted_stores;
mod probes;
mod replay;
mod stalls;
mod stores;
