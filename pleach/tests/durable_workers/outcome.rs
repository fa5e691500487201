//! F5: `outcome_of` reports the failure of a run exactly as its driver does.
use crate::common::flaky_store::FlakyStore;
use crate::common::stored::StoredRunFixture;
use pleach::graph::{During, FanOut, RunOptions};
use pleach::prelude::*;

async fn next(n: u32) -> Result<u32, String> {
    Ok(n + 1)
}

/// Two nodes with this router between them.
fn routed(route: fn(&u32) -> &'static str) -> CompiledGraph<u32> {
    Graph::new("routed")
        .add_node("a", next)
        .add_node("b", next)
        .add_conditional_edge("a", ["b", "a", END], route)
        .add_edge("b", END)
        .set_entry("a")
        .compile()
        .unwrap()
}

fn forked(fan_out: FanOut<u32>, items: fn(&u32) -> Vec<u32>) -> CompiledGraph<u32> {
    Graph::new("forked")
        .add_node("a", next)
        .map("a", items, "b", END, fan_out)
        .add_node("b", next)
        .add_edge("b", END)
        .set_entry("a")
        .compile()
        .unwrap()
}

/// The fault as the driver sees it and as `outcome_of` returns it. Their texts are equal.
fn faults(graph: &CompiledGraph<u32>, how: fn(RunOptions<'static, u32>) -> RunOptions<'static, u32>) -> [RunFault; 2] {
    let fixture = StoredRunFixture::new(1);
    let driven = fixture.end(how(fixture.run(graph, 1))).unwrap_err();
    let waited =
        fixture.sim.run(graph.outcome_of("r", &fixture.store).runtime(fixture.sim.runtime()).into_future()).unwrap_err();
    assert_eq!(driven.fault().to_string(), waited.fault().to_string());
    [driven.into_fault(), waited.into_fault()]
}

#[test]
fn f5_outcome_of_a_run_at_its_limit_names_the_limit() {
    for fault in faults(&routed(|_| "a"), |run| run.max_visits(3)) {
        assert!(matches!(&fault, RunFault::MaxVisits { limit: 3, next } if next == "a"), "{fault:?}");
    }
    for fault in faults(&routed(|_| "a"), |run| run.max_iterations(3)) {
        assert!(matches!(&fault, RunFault::MaxIterations { limit: 3, next } if next == "a"), "{fault:?}");
    }
}

#[test]
fn f5_outcome_of_a_router_failure_lists_the_declared_targets() {
    for fault in faults(&routed(|_| "nowhere"), |run| run) {
        let RunFault::Router(error) = &fault else { panic!("{fault:?}") };
        assert_eq!((error.answer.as_str(), &*error.declared), ("nowhere", &["b".to_string(), "a".into(), END.into()][..]));
    }
}

#[test]
fn f5_outcome_of_a_panic_names_the_panicking_code() {
    let merged = FanOut::merge(|_: u32, _: Vec<u32>| -> u32 { panic!("of a merge") });
    let plain = FanOut::merge(|n: u32, _: Vec<u32>| n);
    let graphs = [
        (routed(|_| panic!("of a router")), During::Router),
        (forked(merged, |n| vec![*n]), During::Merge),
        (forked(plain, |_| panic!("of a split")), During::Split),
    ];
    for (graph, during) in graphs {
        for fault in faults(&graph, |run| run) {
            let RunFault::Panic(error) = &fault else { panic!("{fault:?}") };
            assert_eq!((error.during, error.node.as_str()), (during, "a"));
            assert!(error.payload.starts_with("of a ") && error.location.is_some(), "{error:?}");
        }
    }
}

#[test]
fn f5_checkpoint_error_names_its_run_and_gives_advice() {
    let graph = routed(|_| "b");
    let error_text = |at: u64, how: fn(RunOptions<'static, u32>) -> RunOptions<'static, u32>| {
        let fixture = StoredRunFixture::new(1);
        let store = FlakyStore::new(fixture.store.clone());
        store.down_from(at);
        let error = fixture.end(how(fixture.here(graph.run(1).id("r").checkpoint(&store)))).unwrap_err();
        let RunFault::Checkpoint(why) = error.fault() else { panic!("{error}") };
        assert_eq!(why.run, "r");
        why.to_string()
    };
    for (text, advice) in [
        (error_text(1, |run| run), "attach"),
        (error_text(2, |run| run), "resume"),
        (error_text(u64::MAX, |run| run.max_state_bytes(3)), "max_state_bytes"),
    ] {
        assert!(text.contains("run \"r\"") && text.contains(advice), "{text}");
    }
    let fixture = StoredRunFixture::new(1);
    let unknown = fixture.end(fixture.resume(&graph, |run| run)).unwrap_err().to_string();
    assert!(unknown.contains("run \"r\"") && unknown.contains("`list`"), "{unknown}");
    let nan = Graph::new("nan").add_node("n", |_: f64| async { Ok::<_, String>(f64::NAN) }).add_edge("n", END).set_entry("n");
    let error = fixture.end(fixture.run(&nan.compile().unwrap(), 1.0)).unwrap_err().to_string();
    assert!(
        error.contains("run \"r\"") && error.contains("node \"n\"") && error.contains("deserialize to an equal value"),
        "{error}"
    );
}
