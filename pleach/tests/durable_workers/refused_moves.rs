//! O9: reports of refused messages while runs move: to another worker, after a crash, by a rewind
//! or a delete, and through stores on disk.
use crate::common::failing_connection::FailingConnection;
use crate::refused::{Process, asking, enqueue, good, many_questions, pass, problems, process, texts};
use futures::future::{Either, select};
use pleach::graph::FanOut;
use pleach::inspect::Health;
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::store::{MemoryStore, Store};
use pleach::system::System;

/// Longer than a worker takes to look at the runs of its reports.
const LOOKED: Duration = Duration::from_secs(120);

#[test]
fn o9_worker_that_starts_reports_runs_that_wait_since_before() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let first = process(&sim, &store, &asking());
    sim.run(async {
        for run in ["wrong", "fine"] {
            enqueue(&sim, &store, &asking(), run).await;
        }
        pass(&sim).await;
        RunRemote::new(&store, "wrong").resume_with("approve", "banana").await.unwrap();
        pass(&sim).await;
        let before = problems(&first.system);
        assert_eq!(before.len(), 1);
        // A deploy: the process ends, and the run has no driver.
        let Process { system, worker, .. } = first;
        worker.close(Duration::from_secs(1)).await;
        assert_eq!(texts(&system), [""; 0], "the old process withdraws");
        let second = process(&sim, &store, &asking());
        pass(&sim).await;
        assert_eq!(problems(&second.system), before);
        RunRemote::new(&store, "wrong").resume_with("approve", &good()).await.unwrap();
        pass(&sim).await;
        assert_eq!(second.system.health(), Health::Healthy);
        drop(second.worker);
    });
}

/// One branch asks. The other one keeps the run with its driver.
fn busy() -> CompiledGraph<u32> {
    let ask = |cx: NodeContext, _: u32| async move { Ok::<_, String>(cx.interrupt::<u32>("count", "how many?").await) };
    let works = |cx: NodeContext, n: u32| async move {
        for turn in 0..40 {
            cx.sleep(format!("turn {turn}"), Duration::from_secs(2)).await;
        }
        Ok::<_, String>(n)
    };
    Graph::new("busy")
        .add_node("open", |n: u32| async move { n })
        .add_node("ask", ask)
        .add_node("works", works)
        .add_node("last", |n: u32| async move { n })
        .add_parallel_edge("open", ["ask", "works"], "last", FanOut::merge(|_, all: Vec<u32>| all.into_iter().sum()))
        .add_edge("ask", "last")
        .add_edge("works", "last")
        .add_edge("last", END)
        .set_entry("open")
        .compile()
        .unwrap()
}

#[test]
fn o9_worker_that_takes_over_reports_what_the_dead_one_refused() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let connection = FailingConnection::new(store.clone());
    let first = process(&sim, &connection, &busy());
    sim.run(async {
        let remote = enqueue(&sim, &store, &busy(), "x").await;
        pass(&sim).await;
        remote.resume_with("count", "none").await.unwrap();
        pass(&sim).await;
        let before = problems(&first.system);
        assert!(before.len() == 1 && before[0].0.contains("expected u32"), "{before:?}");
        assert!(store.head("x").await.unwrap().owner.is_some(), "the run is driven");
        let second = process(&sim, &store, &busy());
        pass(&sim).await;
        assert_eq!(texts(&second.system), [""; 0], "another process drives it");
        connection.kill();
        sim.sleep(Duration::from_secs(20)).await;
        assert_eq!(second.worker.held(), ["x"], "taken over");
        assert_eq!(problems(&second.system), before, "read from the store");
        assert_eq!(texts(&first.system), [""; 0], "the old driver withdraws");
        remote.resume_with("count", &2).await.unwrap();
        pass(&sim).await;
        assert_eq!(texts(&second.system), [""; 0]);
        assert_eq!(busy().outcome_of("x", &store).runtime(sim.runtime()).await.unwrap(), 42);
        drop((first.worker, second.worker));
    });
}

#[test]
fn o9_worker_withdraws_a_run_that_another_one_drove() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let first = process(&sim, &store, &asking());
    sim.run(async {
        let remote = enqueue(&sim, &store, &asking(), "x").await;
        pass(&sim).await;
        remote.resume_with("approve", "banana").await.unwrap();
        pass(&sim).await;
        assert_eq!(texts(&first.system).len(), 1);
        // Another process answers it, and takes the run for that.
        let resumed = asking().resume("x").resume_with("approve", &good()).checkpoint(&store).runtime(sim.runtime());
        assert_eq!(resumed.await.unwrap(), 41);
        sim.sleep(LOOKED).await;
        assert_eq!(first.system.health(), Health::Healthy);
        drop(first.worker);
    });
}

#[test]
fn o9_worker_reports_what_another_one_refused_between_its_claims() {
    let (sim, graph) = (Sim::new(1), many_questions());
    let store = MemoryStore::on(sim.runtime());
    let connection = FailingConnection::new(store.clone());
    let first = process(&sim, &connection, &graph);
    sim.run(async {
        let remote = enqueue(&sim, &store, &graph, "x").await;
        pass(&sim).await;
        remote.resume_with("key-0", "no").await.unwrap();
        pass(&sim).await;
        assert_eq!(texts(&first.system).len(), 1);
        // Another process drives the run, and refuses a message of another wait.
        connection.cut();
        remote.resume_with("key-1", "no").await.unwrap();
        graph.resume("x").checkpoint(&store).runtime(sim.runtime()).await.unwrap_err();
        connection.mend();
        // The first one drives it again before it has looked.
        remote.resume_with("key-2", &1).await.unwrap();
        sim.sleep(Duration::from_secs(5)).await;
        let seen = texts(&first.system);
        assert!(seen.len() == 2 && seen[0].contains("key-0") && seen[1].contains("key-1"), "{seen:?}");
        sim.sleep(LOOKED).await;
        assert_eq!(texts(&first.system), seen);
        drop(first.worker);
    });
}

/// Whether the health of a system names runs that no worker serves.
fn reports_unserved(system: &System) -> bool {
    system.health().to_string().contains("due runs of graph")
}

#[test]
fn o8_watch_reports_unserved_runs_while_a_kept_run_cannot_be_read() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let connection = FailingConnection::new(store.clone());
    let first = process(&sim, &connection, &asking());
    sim.run(async {
        for run in ["a", "b"] {
            enqueue(&sim, &store, &asking(), run).await.resume_with("approve", "banana").await.unwrap();
        }
        pass(&sim).await;
        assert_eq!(texts(&first.system).len(), 2);
        connection.fail_heads_of("a");
        enqueue(&sim, &store, &busy(), "orphan").await;
        let resumed = asking().resume("b").resume_with("approve", &good()).checkpoint(&store).runtime(sim.runtime());
        assert_eq!(resumed.await.unwrap(), 41);
        sim.sleep(LOOKED * 3).await;
        let seen = texts(&first.system);
        assert!(seen.len() == 1 && seen[0].contains("run \"a\""), "the run that ended is withdrawn: {seen:?}");
        assert!(reports_unserved(&first.system), "{}", first.system.health());
        drop(first.worker);
    });
}

#[test]
fn o9_unreadable_run_does_not_hide_the_others_from_a_new_worker() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let first = process(&sim, &store, &asking());
    sim.run(async {
        for run in ["wrong", "unreadable"] {
            enqueue(&sim, &store, &asking(), run).await.resume_with("approve", "banana").await.unwrap();
        }
        pass(&sim).await;
        first.worker.close(Duration::from_secs(1)).await;
        let connection = FailingConnection::new(store.clone());
        connection.fail_reads_of("unreadable");
        let second = process(&sim, &connection, &asking());
        enqueue(&sim, &store, &busy(), "orphan").await;
        pass(&sim).await;
        let seen = texts(&second.system);
        assert!(seen.len() == 1 && seen[0].contains("run \"wrong\""), "{seen:?}");
        sim.sleep(LOOKED * 3).await;
        assert!(reports_unserved(&second.system), "{}", second.system.health());
        drop(second.worker);
    });
}

#[test]
fn o9_rewind_and_delete_withdraw_the_report() {
    for is_deleted in [false, true] {
        let sim = Sim::new(1);
        let store = MemoryStore::on(sim.runtime());
        let first = process(&sim, &store, &asking());
        sim.run(async {
            let remote = enqueue(&sim, &store, &asking(), "x").await;
            pass(&sim).await;
            remote.resume_with("approve", "banana").await.unwrap();
            pass(&sim).await;
            assert_eq!(texts(&first.system).len(), 1);
            if is_deleted {
                store.delete("x").await.unwrap();
            } else {
                let rewound = asking().resume("x").rewind_to(1).checkpoint(&store).runtime(sim.runtime());
                assert!(matches!(rewound.await.unwrap_err().fault(), RunFault::Paused { .. }), "it asks anew");
                let second = process(&sim, &store, &asking());
                pass(&sim).await;
                assert_eq!(texts(&second.system), [""; 0], "nothing was refused since");
                drop(second.worker);
                let view = remote.view().await.unwrap();
                assert!(view.waits().all(|wait| wait.refused.is_none()) && view.refused.len() == 1, "{view:?}");
            }
            sim.sleep(LOOKED).await;
            assert_eq!(first.system.health(), Health::Healthy, "deleted: {is_deleted}");
            if !is_deleted {
                remote.resume_with("approve", &good()).await.unwrap();
                pass(&sim).await;
                assert_eq!(first.system.health(), Health::Healthy, "the old refusal does not come back");
            }
            drop(first.worker);
        });
    }
}

async fn work(cx: &NodeContext) {
    for turn in 0..100 {
        cx.sleep(format!("turn {turn}"), Duration::from_secs(2)).await;
    }
}

/// Asks, gives up after 400 s, and works on: in the same node, or in the next one. In the second
/// case the node does not even ask again when it continues.
fn gives_up(in_next: bool) -> CompiledGraph<u32> {
    let ask = move |cx: NodeContext, n: u32| async move {
        let late = Box::pin(cx.sleep("late", Duration::from_secs(400)));
        let answer = cx.interrupt::<u32>("count", "how many?");
        if in_next {
            drop(select(late, answer).await);
        } else {
            drop(select(answer, late).await);
            work(&cx).await;
        }
        Ok::<_, String>(n)
    };
    let works = |cx: NodeContext, n: u32| async move {
        work(&cx).await;
        Ok::<_, String>(n)
    };
    let graph = Graph::new("gives-up").add_node("ask", ask).add_node("works", works);
    graph.add_edge("ask", "works").add_edge("works", END).set_entry("ask").compile().unwrap()
}

#[test]
fn o9_wait_that_its_node_gives_up_withdraws_the_report() {
    for in_next in [false, true] {
        let (sim, graph) = (Sim::new(1), gives_up(in_next));
        let store = MemoryStore::on(sim.runtime());
        let first = process(&sim, &store, &graph);
        sim.run(async {
            let remote = enqueue(&sim, &store, &graph, "x").await;
            pass(&sim).await;
            remote.resume_with("count", "none").await.unwrap();
            sim.sleep(LOOKED).await;
            assert_eq!(texts(&first.system).len(), 1, "it still waits");
            sim.sleep(Duration::from_secs(300)).await;
            assert!(store.head("x").await.unwrap().owner.is_some(), "it works on");
            assert_eq!(texts(&first.system), [""; 0], "in the next node: {in_next}");
            drop(first.worker);
        });
    }
}

/// Asks again after each tick.
fn ticking() -> CompiledGraph<u32> {
    let ask = |cx: NodeContext, n: u32| async move {
        for turn in 0..100 {
            let answer = cx.interrupt::<u32>("count", "how many?");
            let tick = Box::pin(cx.sleep(format!("tick {turn}"), Duration::from_secs(2)));
            if let Either::Left((more, _)) = select(answer, tick).await {
                return Ok(n + more);
            }
        }
        Err("no answer".to_string())
    };
    Graph::new("ticking").add_node("ask", ask).add_edge("ask", END).set_entry("ask").compile().unwrap()
}

#[test]
fn o9_wait_that_its_node_repeats_keeps_the_report() {
    let (sim, graph) = (Sim::new(1), ticking());
    let store = MemoryStore::on(sim.runtime());
    let first = process(&sim, &store, &graph);
    sim.run(async {
        let remote = enqueue(&sim, &store, &graph, "x").await;
        pass(&sim).await;
        remote.resume_with("count", "none").await.unwrap();
        for _ in 0..10 {
            pass(&sim).await;
            assert_eq!(texts(&first.system).len(), 1, "it still waits");
        }
        remote.resume_with("count", &2).await.unwrap();
        assert_eq!(graph.outcome_of("x", &store).runtime(sim.runtime()).await.unwrap(), 42);
        assert_eq!(texts(&first.system), [""; 0]);
        drop(first.worker);
    });
}

/// The same on a store with real time: refused, shown after a restart, answered.
#[cfg(all(feature = "tokio", any(feature = "sqlite", feature = "postgres")))]
async fn check_on_disk(store: impl Store + Clone) {
    use crate::refused::Approval;
    use pleach::worker::Worker;
    let graph = || {
        let ask = |cx: NodeContext, n: u32| async move {
            let Approval { ok } = cx.interrupt("approve", "publish?").await;
            Ok::<_, String>(if ok { n + 1 } else { n })
        };
        Graph::new("o9-on-disk").add_node("ask", ask).add_edge("ask", END).set_entry("ask").compile().unwrap()
    };
    let soon = Duration::from_secs(20);
    let mut seen = Vec::new();
    drop(store.delete("o9-on-disk").await);
    for turn in 0..2 {
        let system = ActorSystem::new("shop").unwrap();
        let scope = system.scope("workers").unwrap();
        let worker = Worker::new(&store).graph(&graph()).start_in(&scope).unwrap();
        let remote = RunRemote::new(&store, "o9-on-disk");
        if turn == 0 {
            graph().run(40).id("o9-on-disk").checkpoint(&store).enqueue().await.unwrap();
            remote.resume_with("approve", "banana").confirmed(soon).await.unwrap_err();
        }
        let begun = std::time::Instant::now();
        while problems(&system).is_empty() {
            assert!(begun.elapsed() < soon, "not reported in turn {turn}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        seen.push(problems(&system));
        if turn == 1 {
            remote.resume_with("approve", &good()).confirmed(soon).await.unwrap();
            assert_eq!(graph().outcome_of("o9-on-disk", &store).await.unwrap(), 41);
            while !system.health().is_healthy() {
                assert!(begun.elapsed() < soon, "not withdrawn: {}", system.health());
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        worker.close(soon).await;
    }
    assert_eq!(seen[0], seen[1], "the cause is stored as a value");
    store.delete("o9-on-disk").await.unwrap();
}

#[cfg(all(feature = "tokio", feature = "sqlite"))]
#[tokio::test]
async fn o9_refusal_is_reported_again_after_a_restart_with_sqlite() {
    let folder = std::env::temp_dir().join(format!("pleach-refused-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    check_on_disk(SqliteStore::open(folder.join("store.db")).await.unwrap()).await;
    std::fs::remove_dir_all(&folder).unwrap();
}

#[cfg(all(feature = "tokio", feature = "postgres"))]
#[tokio::test]
async fn o9_refusal_is_reported_again_after_a_restart_with_postgres() {
    // Without a server this test does nothing; `cargo xtask test` starts one.
    let Ok(url) = std::env::var("PLEACH_POSTGRES_URL") else { return };
    check_on_disk(PostgresStore::connect(&url).await.unwrap()).await;
}
