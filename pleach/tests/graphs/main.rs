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

/// A node that returns its state unchanged.
#[cfg(feature = "graph")]
async fn pass(n: u32) -> Result<u32, String> {
    Ok(n)
}

/// A node that adds one.
#[cfg(feature = "graph")]
async fn add_one(n: u32) -> Result<u32, String> {
    Ok(n + 1)
}

/// A merge that adds up the states of the branches.
#[cfg(feature = "graph")]
fn sum(_before: u32, branches: Vec<u32>) -> u32 {
    branches.into_iter().sum()
}
