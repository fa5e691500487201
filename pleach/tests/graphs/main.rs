//! In-memory graphs: compiling, running, fan-outs, limits and failures.

#[path = "../common/mod.rs"]
mod common;

mod branch_start;
mod cancel;
mod compile;
mod corner_cases;
mod error_state;
mod fan_out;
mod fan_out_failures;
mod faults;
mod grace;
mod grace_branches;
mod grace_stored;
mod hooks;
mod limits;
mod model;
mod node_output;
mod policy;
mod run;
mod subgraph;
mod tree;
mod undo;

use common::nodes::{add_one, pass, sum};
