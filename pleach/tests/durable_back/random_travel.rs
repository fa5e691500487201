//! C3, C5: a run that is crashed at any commit, resumed, rewound, replayed and forked always
//! reaches the same result, and no committed visit starts again under its key.
use crate::common::flaky_store::{FlakyStore, WriteFailure};
use crate::common::stored::{Names, NodeControl, NodeFuture, StoredRunFixture, merge};
use pleach::prelude::*;
use pleach::sim::SEEDS_VARIABLE;
use pleach::store::{Parts, Rows, Store};

/// Adds its name and key to the state. Node `flaky` succeeds in its third attempt.
fn keyed(name: &'static str) -> impl Fn(NodeContext, Names) -> NodeFuture<Names> {
    move |cx, mut names| {
        Box::pin(async move {
            cx.extension::<NodeControl>().unwrap().clone().enter(&cx).await?;
            if name == "flaky" && cx.attempt() < 3 {
                return Err("not yet".into());
            }
            let effect = cx.effect("noted", |key| async move { Ok::<_, String>(key) });
            if name == "effect" {
                effect.await?;
            }
            names.push(format!("{name} {}", cx.idempotency_key()));
            Ok(names)
        })
    }
}

/// A loop, nested fan-outs, a subgraph with a fan-out at the start of a branch, a map, and a node
/// that needs three attempts.
fn graph() -> CompiledGraph<Names> {
    let inner = Graph::new("inner")
        .add_node("in", keyed("in"))
        .add_node("left", keyed("left"))
        .add_node("right", keyed("right"))
        .add_node("out", keyed("out"))
        .add_parallel_edge("in", ["left", "right"], "out", merge)
        .add_edge("left", "out")
        .add_edge("right", "out")
        .add_edge("out", END)
        .set_entry("in")
        .compile()
        .unwrap();
    let items = |names: &Names| vec![names.clone(), names.clone(), names.clone()];
    let mut graph = Graph::new("travels")
        .add_conditional_edge("turn", ["turn", "fork"], |names: &Names| if names.len() < 3 { "turn" } else { "fork" })
        .add_subgraph("sub", inner, Names::clone, |_, inner| inner)
        .add_parallel_edge("fork", ["effect", "deep", "sub"], "join", merge)
        .add_parallel_edge("deep", ["d1", "d2"], "d3", merge)
        .map("join", items, "item", "flaky", FanOut::merge(merge).limit(2))
        .policy("flaky", Policy::new().retry(Retry::times(3)))
        .set_entry("turn");
    for name in ["turn", "fork", "effect", "deep", "d1", "d2", "d3", "join", "item", "item2", "flaky"] {
        graph = graph.add_node(name, keyed(name));
    }
    let edges = [
        ("effect", "join"),
        ("d1", "d3"),
        ("d2", "d3"),
        ("d3", "join"),
        ("sub", "join"),
        ("item", "item2"),
        ("item2", "flaky"),
    ];
    edges.into_iter().fold(graph, |graph, (from, to)| graph.add_edge(from, to)).add_edge("flaky", END).compile().unwrap()
}

fn without_keys(names: &Names) -> Vec<&str> {
    names.iter().map(|name| name.split(' ').next().unwrap()).collect()
}

/// The bodies of all committed records except effects.
fn committed(fixture: &StoredRunFixture, run: &str) -> String {
    fixture.sim.run(async {
        let Ok(info) = fixture.store.head(run).await else { return String::new() };
        let rows = fixture.store.read(run, Rows::Range(1..=info.head), Parts::Whole).await.unwrap();
        let bodies = rows.into_iter().map(|row| row.open(run).unwrap());
        let is_step = |kind| !matches!(kind, pleach::store::Kind::Effect);
        bodies.filter(|record| is_step(record.header.kind)).map(|record| String::from_utf8(record.body).unwrap()).collect()
    })
}

fn travel(graph: &CompiledGraph<Names>, seed: u64) -> (Names, [usize; 5]) {
    let fixture = StoredRunFixture::new(seed);
    let store = FlakyStore::new(fixture.store.clone());
    let (chance, mut run, mut did) = (|below: u64| fixture.sim.runtime().random() % below, "r0".to_string(), [0; 5]);
    let mut steps = 0;
    loop {
        // The last step is not interrupted.
        let is_last = steps == 6;
        let write = if is_last { u64::MAX } else { store.writes() + 1 + chance(25) };
        store.fail_at(write, if chance(2) == 0 { WriteFailure::Lost } else { WriteFailure::Unanswered });
        let head = fixture.sim.run(async { fixture.store.head(&run).await }).ok().map(|info| info.head);
        let (durable, before) = (committed(&fixture, &run), run.clone());
        let (what, options) = match (head, chance(5)) {
            (None, _) => (0, graph.run(vec![]).id(run.as_str()).checkpoint(&store)),
            (Some(_), 0 | 1) => (1, graph.resume(run.as_str()).checkpoint(&store)),
            (Some(head), 2) => (2, graph.resume(run.as_str()).rewind_to(1 + chance(head)).checkpoint(&store)),
            (Some(head), 3) => {
                let (to, new) = (1 + chance(head), format!("r{}", steps + 1));
                let forked = graph.resume(run.as_str()).rewind_to(to).fork_as(new.as_str()).checkpoint(&store);
                run = new;
                (3, forked)
            }
            (Some(_), _) => (4, graph.resume(run.as_str()).replay_last().checkpoint(&store)),
        };
        did[what] += 1;
        steps += 1;
        let outcome = fixture.end(fixture.here(options.keep_records(10_000)));
        for (node, key) in fixture.nodes.starts.take() {
            assert!(!durable.contains(&key), "{node} was committed and ran again; seed {seed}, step {steps}");
        }
        match outcome {
            Ok(names) if is_last => return (names, did),
            Ok(_) => continue,
            Err(error) => {
                // The commit failed, or there was nothing to replay or fork.
                let is_expected = matches!(error.fault(), RunFault::Checkpoint(_) | RunFault::Resume(_));
                assert!(is_expected, "{error}; seed {seed}, step {steps}");
            }
        }
        steps -= usize::from(is_last);
        if fixture.sim.run(async { fixture.store.head(&run).await }).is_err() {
            run = before;
        }
    }
}

#[test]
fn c5_random_crashes_rewinds_replays_and_forks_give_the_same_result() {
    let graph = graph();
    let fixture = StoredRunFixture::new(0);
    let expected = fixture.end(fixture.run(&graph, vec![])).unwrap();
    assert_eq!(expected.len(), 21, "{:?}", without_keys(&expected));
    let seeds = std::env::var(SEEDS_VARIABLE).ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(150);
    let mut did = [0; 5];
    for seed in 0..seeds {
        let (names, these) = travel(&graph, seed);
        assert_eq!(without_keys(&names), without_keys(&expected), "seed {seed}");
        did.iter_mut().zip(these).for_each(|(sum, one)| *sum += one);
    }
    assert!(did.iter().all(|count| *count as u64 >= seeds / 4), "started, resumed, rewound, forked, replayed: {did:?}");
}
