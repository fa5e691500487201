//! C5: the last node is replayed after a migration that renamed nodes in a chain or in a cycle.
//! Each name is translated once.
use crate::common::stored::{Names, StoredRunFixture, merge, named};
use pleach::durable::Migrations;
use pleach::graph::FanOut;
use pleach::prelude::*;

/// Two branches of two nodes each. `second` names the second nodes.
fn branches(second: [&'static str; 2]) -> CompiledGraph<Names> {
    Graph::new("branches")
        .add_node("start", named("start"))
        .add_node("a", named("a"))
        .add_node("b", named("b"))
        .add_parallel_edge("start", ["a", "b"], END, FanOut::merge(merge))
        .add_node(second[0], named(second[0]))
        .add_node(second[1], named(second[1]))
        .add_edge("a", second[0])
        .add_edge("b", second[1])
        .add_edge(second[0], END)
        .add_edge(second[1], END)
        .set_entry("start")
        .compile()
        .unwrap()
}

#[test]
fn c5_replay_after_chained_or_swapped_renames_translates_each_name_once() {
    for (old, new) in [(["x", "y"], ["y", "x"]), (["x", "y"], ["y", "z"]), (["x", "y"], ["z", "x"])] {
        let migrations = Migrations::new().rename_node(old[0], new[0]).rename_node(old[1], new[1]);
        for seed in 0..20 {
            let fixture = StoredRunFixture::new(seed);
            fixture.nodes.hang(&old);
            fixture.leave(fixture.run(&branches(old), vec![]));
            // The run is migrated and stops before any other work.
            fixture.nodes.hang(&new);
            fixture.leave(fixture.resume(&branches(new), |run| run).migrations(&migrations));
            fixture.nodes.hang(&[]);
            let replayed = fixture.resume(&branches(new), |run| run.replay_last()).migrations(&migrations);
            assert_eq!(fixture.end(replayed).unwrap(), ["start", "a", new[0], "b", new[1]], "{old:?} to {new:?}, seed {seed}");
        }
    }
}
