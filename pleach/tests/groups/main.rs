//! Tests of task groups: results in completion order, limits, failures and exits.

#[path = "../common/mod.rs"]
mod common;

mod calls;
mod failures;
mod grace;
mod handover;
mod in_place;
mod invariants;
mod limits;
mod model;
mod on_tokio;
mod operations;
mod overflow;
mod own_tasks;
mod tree;
mod wait_and_cancel;
