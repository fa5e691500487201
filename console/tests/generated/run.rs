//! Continues run order-7 of graph shop at record 2: at node charge.

use crate::{State, graph};
use pleach::prelude::*;
use pleach::sim::explore;

/// The state of the run at record 2.
const STATE: &str = r#"{
  "amount": 18446744073709551615,
  "card": "visa"
}"#;

#[test]
fn run_order_7_continues_at_record_2() {
    explore(0..100, |sim| {
        let state: State = serde_json::from_str(STATE).expect("the state type of the graph");
        let store = MemoryStore::on(sim.runtime());
        let run = graph().run(state).start_at("charge").id("order-7");
        let ended = sim.run(run.checkpoint(&store).runtime(sim.runtime()).into_future());
        assert!(ended.is_ok(), "seed {}: {:?}", sim.seed(), ended.err());
    });
}
