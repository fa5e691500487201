//! F7: cancel grace of nodes in stored runs.
use crate::common::Log;
use crate::grace::{cancelled, graceful, tidy, two};
use pleach::durable::RunRemote;
use pleach::graph::GraceEnd;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::store::{MemoryStore, RunStatus, Store};

#[test]
fn f7_stored_run_commits_the_step_of_its_grace_and_resumes_after_it() {
    explore(0..30, |sim| {
        let (log, store) = (Log::new(), MemoryStore::on(sim.runtime()));
        let graph = two(sim, &log, 4, true);
        let token = sim.token();
        sim.run(async {
            let cancel = async {
                sim.sleep(Duration::from_secs(1)).await;
                token.cancel("enough");
            };
            let run = graph.run(1).id("r").checkpoint(&store).token(&token).into_future();
            let error = futures::join!(run, cancel).0.unwrap_err();
            assert_eq!(cancelled(&error), ("tidy".into(), true, Some(GraceEnd::Finished)));
            assert_eq!(error.into_state(), Some(11));
            let info = store.head("r").await.unwrap();
            assert_eq!((info.status, info.owner), (RunStatus::Running, None), "released, can be resumed");
            assert_eq!(graph.resume("r").checkpoint(&store).runtime(sim.runtime()).await.unwrap(), 12);
        });
        assert_eq!(log.take(), ["began", "saw enough", "tidied up", "dropped", "next"]);
    });
}

#[test]
fn f7_stored_run_in_a_scope_commits_the_step_of_its_grace() {
    explore(0..30, |sim| {
        let (log, store) = (Log::new(), MemoryStore::on(sim.runtime()));
        let inner = Graph::new("one").add_node("tidy", tidy(sim, &log, 4)).policy("tidy", graceful());
        let inner = inner.add_edge("tidy", END).set_entry("tidy").compile().unwrap();
        let graph = Graph::new("outer").add_subgraph("inner", inner, |n: &u32| *n, |_, inner| inner);
        let graph = graph.policy("inner", Policy::new().cancel_grace(Duration::from_secs(9)));
        let graph = graph.add_edge("inner", END).set_entry("inner").compile().unwrap();
        let scope = sim.scope();
        sim.run(async {
            let run = graph.run(1).id("r").checkpoint(&store).in_scope(&scope).into_future();
            sim.sleep(Duration::from_secs(1)).await;
            scope.cancel("all of it");
            let error = run.await.unwrap_err();
            assert_eq!(cancelled(&error), ("inner/tidy".into(), true, Some(GraceEnd::Finished)));
            let info = store.head("r").await.unwrap();
            assert_eq!(
                (info.status, info.owner),
                (RunStatus::Running, None),
                "nothing follows the node, not even the completion"
            );
            assert_eq!(log.take(), ["began", "saw all of it", "tidied up", "dropped"]);
            assert_eq!(graph.resume("r").checkpoint(&store).runtime(sim.runtime()).await.unwrap(), 11);
            assert!(log.take().is_empty(), "the node does not run again");
        });
    });
}

#[test]
fn f7_cancelled_stored_run_keeps_the_step_of_its_grace() {
    explore(0..30, |sim| {
        let (log, store) = (Log::new(), MemoryStore::on(sim.runtime()));
        let graph = two(sim, &log, 4, true);
        let remote = RunRemote::new(&store, "r");
        sim.run(async {
            let cancel = async {
                sim.sleep(Duration::from_secs(1)).await;
                remote.cancel("out of money").await.unwrap();
            };
            let run = graph.run(1).id("r").checkpoint(&store).runtime(sim.runtime()).into_future();
            let error = futures::join!(run, cancel).0.unwrap_err();
            assert_eq!(cancelled(&error), ("tidy".into(), true, Some(GraceEnd::Finished)));
            let info = store.head("r").await.unwrap();
            assert_eq!((info.status, info.owner), (RunStatus::Cancelled, None));
            let page = graph.history("r", &store).page(1, 100).await.unwrap();
            assert!(page.checkpoints.iter().any(|checkpoint| checkpoint.node == "tidy"), "its step is recorded");
        });
        assert_eq!(log.take(), ["began", "saw out of money", "tidied up", "dropped"]);
    });
}

#[test]
fn f7_deadline_of_a_stored_run_reports_the_grace_end() {
    let (sim, log) = (Sim::new(1), Log::new());
    let store = MemoryStore::on(sim.runtime());
    let graph = two(&sim, &log, 4, true);
    sim.run(async {
        let run = graph.run(1).id("r").checkpoint(&store).runtime(sim.runtime()).timeout(Duration::from_secs(1));
        let error = run.await.unwrap_err();
        assert_eq!(cancelled(&error), ("tidy".into(), true, Some(GraceEnd::Finished)));
        assert_eq!(store.head("r").await.unwrap().status, RunStatus::Cancelled);
    });
}
