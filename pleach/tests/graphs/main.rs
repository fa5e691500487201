//! Graphs that are not stored: compiling, running, fan-outs, limits and endings.

#[path = "../common/mod.rs"]
mod common;

mod care;
mod compile;
mod edges;
mod error_state;
mod fan_out;
mod faults;
mod grace;
mod limits;
mod model;
mod run;
mod starts;
mod tree;
