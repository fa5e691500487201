//! O5: the documented metrics of runs, workers and stores, with bounded labels.

use crate::metrics::{Recorded, recorded};
use pleach::durable::RunRemote;
use pleach::graph::{Policy, Retry};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::store::{INBOX_MAX, Lease, Store, Wanted};
use pleach::telemetry::{GRAPH_LABELS_MAX, MeasuredStore, NODE_LABELS_MAX, RunMetrics};
use pleach::worker::{RunningWorker, Worker};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// `try` fails at its first attempt and takes two seconds; `ask` waits for a number.
fn graph() -> CompiledGraph<u32> {
    let attempts = Arc::new(AtomicU32::new(0));
    let attempt = move |cx: NodeContext, n: u32| {
        let first = attempts.fetch_add(1, Relaxed) == 0;
        async move {
            cx.sleep("slow", Duration::from_secs(2)).await;
            if first { Err("not yet") } else { Ok(n) }
        }
    };
    Graph::new("order")
        .add_node("try", attempt)
        .policy("try", Policy::new().retry(Retry::times(3)))
        .add_node("ask", |cx: NodeContext, n: u32| async move {
            let more: u32 = cx.interrupt("more", &n).await;
            if more == 0 { Err("zero") } else { Ok(n + more) }
        })
        .add_edge("try", "ask")
        .add_edge("ask", END)
        .set_entry("try")
        .compile()
        .unwrap()
}

fn start(sim: &Sim, metrics: &RunMetrics, store: &MeasuredStore) -> RunningWorker {
    let hooks = metrics.hooks("order");
    let worker = Worker::new(store).graph_with(&graph(), move |run| run.hooks(hooks.clone()));
    worker.on_event(metrics.worker()).runtime(sim.runtime()).start().unwrap()
}

fn check(recorded: &Recorded, expected: &[(&str, f64)]) {
    for (series, value) in expected {
        assert_eq!(recorded.get(series), *value, "{series} of {:?}", recorded.series("pleach"));
    }
}

#[test]
fn o5_runs_nodes_and_commits_are_counted_and_timed() {
    recorded(|recorded| {
        let sim = Sim::new(1);
        let metrics = RunMetrics::new("s", sim.runtime());
        let store = metrics.store(MemoryStore::on(sim.runtime()));
        let worker = start(&sim, &metrics, &store);
        sim.run(async {
            for (id, answer) in [("a", serde_json::json!(2)), ("b", serde_json::json!(0))] {
                graph().run(40).id(id).runtime(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
                let remote = RunRemote::new(&store, id);
                let soon = Duration::from_secs(60);
                remote.resume_with("more", "banana").runtime(sim.runtime()).confirmed(soon).await.unwrap_err();
                remote.resume_with("more", &answer).runtime(sim.runtime()).confirmed(soon).await.unwrap();
            }
            sim.sleep(Duration::from_secs(10)).await;
            assert!(RunRemote::new(&store, "a").signal("late", &1).await.is_err());
            drop(worker);
        });
        check(
            recorded,
            &[
                ("pleach.runs.started{system=s,graph=order}", 2.0),
                ("pleach.runs.ended{system=s,graph=order,outcome=finished}", 1.0),
                ("pleach.runs.ended{system=s,graph=order,outcome=failed}", 1.0),
                ("pleach.node.attempts{system=s,graph=order,node=try,outcome=failed}", 1.0),
                ("pleach.node.attempts{system=s,graph=order,node=try,outcome=finished}", 2.0),
                ("pleach.node.attempts{system=s,graph=order,node=ask,outcome=failed}", 1.0),
                ("pleach.node.attempts{system=s,graph=order,node=ask,outcome=abandoned}", 2.0),
                ("pleach.node.duration{system=s,graph=order,node=try,outcome=finished}", 2.0),
                ("pleach.inbox.refused{system=s,by=run}", 2.0),
                ("pleach.inbox.refused{system=s,by=ended_run}", 1.0),
                ("pleach.worker.drives{system=s,end=finished}", 1.0),
                ("pleach.worker.drives{system=s,end=failed}", 1.0),
            ],
        );
        assert!(recorded.get("pleach.store.duration{system=s,op=commit,outcome=ok}") >= 6.0);
        assert!(recorded.get("pleach.runs.claimed{system=s,graph=order,takeover=false}") >= 2.0);
    });
}

#[test]
fn o5_takeovers_full_inboxes_and_unserved_runs_are_counted() {
    recorded(|recorded| {
        let sim = Sim::new(2);
        let metrics = RunMetrics::new("s", sim.runtime());
        let store = metrics.store(MemoryStore::on(sim.runtime()));
        sim.run(async {
            let stored = graph().run(1).id("x").runtime(sim.runtime()).checkpoint(&store);
            let remote = stored.enqueue().await.unwrap();
            let lease = |owner: &str| Lease { owner: owner.into(), length: Duration::from_secs(1) };
            let one = || Wanted::One { run: "x".into(), force: false };
            store.claim(one(), lease("ann")).await.unwrap();
            assert!(store.claim(one(), lease("bob")).await.is_err(), "it is held");
            sim.sleep(Duration::from_secs(2)).await;
            store.claim(one(), lease("bob")).await.unwrap();
            for n in 0..INBOX_MAX {
                remote.signal("go", &n).await.unwrap();
            }
            remote.signal("go", &0).await.unwrap_err();
            // No worker serves this graph.
            let unknown = Graph::<u32>::new("unknown").add_node("n", |n: u32| async move { Ok::<_, String>(n) });
            let unknown = unknown.add_edge("n", END).set_entry("n").compile().unwrap();
            unknown.run(1).id("u").runtime(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
            let worker = start(&sim, &metrics, &store);
            sim.sleep(Duration::from_secs(600)).await;
            check(recorded, &[("pleach.runs.overdue{system=s,graph=unknown}", 1.0)]);
            store.delete("u").await.unwrap();
            sim.sleep(Duration::from_secs(600)).await;
            drop(worker);
        });
        check(
            recorded,
            &[
                // By "bob", and by the worker after him.
                ("pleach.runs.claimed{system=s,graph=order,takeover=true}", 2.0),
                ("pleach.store.duration{system=s,op=claim,outcome=rejected}", 1.0),
                ("pleach.inbox.refused{system=s,by=full_inbox}", 1.0),
                ("pleach.runs.overdue{system=s,graph=unknown}", 0.0),
                ("pleach.runs.damaged{system=s}", 0.0),
            ],
        );
    });
}

#[test]
fn o5_labels_of_graphs_and_nodes_are_bounded() {
    recorded(|recorded| {
        let sim = Sim::new(3);
        let metrics = RunMetrics::new("s", sim.runtime());
        sim.run(async {
            for number in 0..GRAPH_LABELS_MAX + 50 {
                let name = format!("graph-{number}");
                let mut graph = Graph::<u32>::new(&name);
                for node in 0..10 {
                    let next = if node == 9 { END.to_string() } else { format!("n{}", node + 1) };
                    graph = graph.add_node(format!("n{node}"), |n: u32| async move { Ok::<_, String>(n) });
                    graph = graph.add_edge(format!("n{node}"), next);
                }
                graph.set_entry("n0").compile().unwrap().run(0).hooks(metrics.hooks(&name)).await.unwrap();
            }
        });
        let series = recorded.series("pleach.node.attempts{");
        let values = |label: &str| -> std::collections::BTreeSet<String> {
            let value = |one: &String| one.split(label).nth(1).unwrap().split(',').next().unwrap().to_string();
            series.iter().map(value).collect()
        };
        assert_eq!(values("graph=").len(), GRAPH_LABELS_MAX);
        assert!(values("graph=").contains("other") && values("node=").contains("other"));
        assert!(series.len() <= NODE_LABELS_MAX + GRAPH_LABELS_MAX, "{} series", series.len());
        let total: f64 = series.iter().map(|one| recorded.get(one)).sum();
        assert_eq!(total, ((GRAPH_LABELS_MAX + 50) * 10) as f64, "nothing is lost");
    });
}
