//! Durable runs: resume, effects, waits, values, commands and undos.

#[path = "../common/mod.rs"]
mod common;

mod answer_taken;
mod commit_races;
mod control;
mod control_undo;
mod crash;
mod deep_state;
mod driver_lease;
mod dropped_late;
mod effect_begun;
mod effects;
mod faults;
mod finish_in_flight;
mod grace_ends;
mod inbox;
mod late_records;
mod observed_failures;
mod observed_refusals;
mod observed_tags;
mod options;
mod pause_resume;
mod regressions;
mod rejected;
mod released;
mod resumed;
mod select;
mod sleep;
mod spawned;
mod spawned_ends;
mod undo;
mod undo_cancelled;
mod undo_commands;
mod undo_payload;
mod undo_recorded;
mod undo_resume;
mod undo_unknown;
mod undo_unreadable;
mod values;

use common::nodes::{add_one, pass, sum};
use pleach::prelude::*;

/// A graph of one node with this policy.
fn one<Shape>(node: impl pleach::graph::IntoNode<u32, Shape>, policy: Policy<u32>) -> CompiledGraph<u32> {
    Graph::new("one").add_node("node", node).policy("node", policy).add_edge("node", END).set_entry("node").compile().unwrap()
}
