//! Tests as the console writes them (view `test`), compiled and run against a small program. Tests
//! of the console compare what it writes with these files.

mod member;
mod run;

use pleach::BoxError;
use pleach::prelude::*;
use serde::{Deserialize, Serialize};

/// The actor of the program, after its fault was repaired.
fn props() -> Props<impl Actor<Msg = u32>> {
    Props::from_fn(|| (), |(), _: u32| Ok::<(), BoxError>(()))
}

/// The message with which it failed.
fn message() -> u32 {
    0
}

/// The state of the graph below.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct State {
    amount: u64,
    card: String,
}

/// The graph of the program, after its fault was repaired.
fn graph() -> CompiledGraph<State> {
    let pass = |state: State| async move { Ok::<_, NodeError>(state) };
    Graph::new("shop")
        .add_node("reserve", pass)
        .add_node("charge", pass)
        .add_edge("reserve", "charge")
        .add_edge("charge", END)
        .set_entry("reserve")
        .compile()
        .expect("a valid graph")
}
