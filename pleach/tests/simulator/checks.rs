//! Assertions on the tree and on conservation.

use crate::common::{Gate, Job, TestActor};
use pleach::prelude::*;
use pleach::sim::{Baseline, Faults, Sim, assert_conserved, assert_counts, assert_tree, explore};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns the text of a failed assertion.
fn fails(assertion: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(assertion)).unwrap_err();
    *payload.downcast::<String>().unwrap()
}

#[test]
fn d5_tree_assertion_names_the_members_that_differ() {
    let sim = Sim::new(1);
    let system = sim.system("shop");
    let workers = system.supervisor("workers", OneForOne::new()).unwrap();
    for name in ["a", "b"] {
        workers.spawn(name, TestActor::props(&crate::common::Log::new())).unwrap();
    }
    TestActor::spawn(&system, "till");
    sim.settle();
    assert_tree(&system, "/user", &["till", "workers/b", "workers", "workers/a"]);
    assert_tree(&system, "/user/workers", &["a", "b"]);
    assert_tree(&system, "/", &["system", "user", "user/till", "user/workers", "user/workers/a", "user/workers/b"]);
    let text = fails(|| assert_tree(&system, "/user/workers", &["a", "c"]));
    assert_eq!(text, "the members below /user/workers differ:\n  missing: c\n  unexpected: b (actor, Idle)");
    let text = fails(|| assert_tree(&system, "/user/none", &[]));
    assert!(text.starts_with("cannot check the tree: no member found at /user/none"), "{text}");
}

#[test]
fn d5_baseline_names_members_that_were_left_behind() {
    let sim = Sim::new(1);
    let system = sim.system("shop");
    let till = TestActor::spawn(&system, "till");
    let before = Baseline::of(&system);
    let other = TestActor::spawn(&system, "other");
    other.stop();
    till.any().restart().unwrap();
    sim.settle();
    before.assert_unchanged(&system);
    TestActor::spawn(&system, "leaked");
    till.stop();
    sim.settle();
    let text = fails(|| before.assert_unchanged(&system));
    assert_eq!(
        text,
        "the members of the system \"shop\" changed:\n  left behind: /user/leaked (actor, Idle)\n  gone: /user/till"
    );
}

#[test]
fn d5_counts_assertion_names_each_count_that_differs() {
    let sim = Sim::new(1);
    let system = sim.system("shop");
    let till = TestActor::spawn(&system, "till");
    till.tell(Job::Note(1)).unwrap();
    till.tell(Job::Fail("no")).unwrap();
    sim.settle();
    assert_counts(&system, Counts { accepted: 2, handled: 1, failed: 1, dead_lettered: 0 });
    let text = fails(|| assert_counts(&system, Counts { accepted: 2, handled: 2, ..Counts::default() }));
    assert_eq!(text, "the counts of the system \"shop\" differ:\n  handled: 1, expected 2\n  failed: 1, expected 0");
}

#[test]
fn d5_messages_are_conserved_at_each_step() {
    explore(0..50, |sim| {
        sim.inject(Faults::all(0.1));
        let system = sim.system("shop");
        let actors = ["a", "b", "c"].map(|name| TestActor::spawn(&system, name));
        let gate = Gate::new();
        for n in 0..30 {
            for actor in &actors {
                let job = match n % 7 {
                    3 => Job::Pass(gate.clone(), n),
                    5 => Job::act(|cx| drop(cx.stash(Job::Note(1)))),
                    _ => Job::Note(n),
                };
                drop(actor.tell(job));
            }
            assert_conserved(&system);
            if n % 4 == 0 {
                sim.settle();
                assert_conserved(&system);
            }
            gate.open();
        }
        actors[0].stop();
        actors[1].any().cancel("enough");
        sim.settle();
        assert_conserved(&system);
    });
}
