//! O6: every event names its run, and failures are read from the store without the graph's type.
use crate::common::Log;
use crate::{one, pass};
use pleach::durable::RunRemote;
use pleach::graph::{FanOut, Hooks, Policy, Retry, RunEvent};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::store::{
    FailureKind, Held, Kind, Lease, MemoryStore, Release, RunFailure, RunStatus, Store, TAKEOVERS_MAX, Wanted,
};

/// A graph whose run reports every kind of event of a run that needs no failing store.
fn eventful() -> CompiledGraph<u32> {
    let inner = Graph::new("inner").add_node("deep", pass).add_edge("deep", END).set_entry("deep").compile().unwrap();
    let flaky = |cx: NodeContext, n: u32| async move {
        cx.emit("progress");
        if cx.attempt() == 1 { Err("not yet".to_string()) } else { Ok(n) }
    };
    let failing = |_: u32| async { Err::<u32, _>("always".to_string()) };
    Graph::new("eventful")
        .add_node("first", pass)
        .add_node("flaky", flaky)
        .policy("flaky", Policy::new().retry(Retry::times(2)))
        .add_node("failing", failing)
        .add_subgraph("sub", inner, |n: &u32| *n, |_, n| n)
        .add_node("last", pass)
        .add_parallel_edge(
            "first",
            ["flaky", "failing", "sub"],
            "last",
            FanOut::collect(|before, branches| Ok::<_, String>(before + branches.len() as u32)),
        )
        .add_edge("flaky", "last")
        .add_edge("failing", "last")
        .add_edge("sub", "last")
        .add_edge("last", END)
        .set_entry("first")
        .compile()
        .unwrap()
}

/// Hooks that log the name of each event's variant and the run that it names.
fn hooks(seen: &Log<(String, Option<String>)>) -> Hooks<u32> {
    let seen = seen.clone();
    Hooks::new(move |event: &RunEvent<&u32>| {
        let text = format!("{event:?}");
        let name = text.split([' ', '{']).next().unwrap_or_default().to_string();
        seen.push((name, event.run().map(String::from)));
    })
}

#[test]
fn o6_every_event_names_its_run() {
    let sim = Sim::new(1);
    let (store, seen) = (MemoryStore::on(sim.runtime()), Log::new());
    let run = || eventful().run(1).runtime(sim.runtime()).hooks(hooks(&seen));
    sim.run(run().id("r").checkpoint(&store).into_future()).unwrap();
    let events = seen.take();
    for kind in [
        "NodeStarted",
        "NodeFinished",
        "NodeRetried",
        "Forked",
        "Joined",
        "BranchFailed",
        "Emitted",
        "InnerStarted",
        "InnerFinished",
        "Checkpointed",
    ] {
        assert!(events.iter().any(|(name, _)| name == kind), "{kind} is missing in {events:?}");
    }
    assert!(events.iter().all(|(_, run)| run.as_deref() == Some("r")), "{events:?}");
    // A stored run without a given id has a random one.
    sim.run(run().checkpoint(&store).into_future()).unwrap();
    assert!(seen.take().iter().all(|(_, run)| run.as_ref().is_some_and(|run| run.starts_with("run-"))));
    sim.run(run().id("in memory").into_future()).unwrap();
    assert!(seen.take().iter().all(|(_, run)| run.as_deref() == Some("in memory")));
    sim.run(run().into_future()).unwrap();
    let events = seen.take();
    assert!(events.len() > 8 && events.iter().all(|(_, run)| run.is_none()), "{events:?}");
}

/// A node that fails `failures` times, with a wait of a minute between its attempts.
fn failing(failures: u32) -> CompiledGraph<u32> {
    let node = move |cx: NodeContext, n: u32| async move {
        if cx.attempt() <= failures { Err(format!("declined {}", cx.attempt())) } else { Ok(n) }
    };
    let minute = Duration::from_secs(60);
    one(node, Policy::new().retry(Retry::times(3).backoff(minute, minute)))
}

fn known(failure: &RunFailure) -> (FailureKind, &str, u32, &str, bool) {
    (failure.kind, &failure.node, failure.attempt, &failure.reason, failure.is_final)
}

#[test]
fn o6_failure_is_read_without_the_graph() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    sim.run(async {
        let error = failing(9).run(1).id("r").runtime(sim.runtime()).checkpoint(&store).await.unwrap_err();
        assert!(error.to_string().contains("declined 3"), "{error}");
        let info = store.head("r").await.unwrap();
        let failure = info.failure.unwrap();
        assert_eq!(known(&failure), (FailureKind::Node, "node", 3, "declined 3", true));
        assert_eq!(failure.sequence, info.head);
        assert!(failure.at.since(info.created) >= Duration::from_secs(90), "after two waits: {failure:?}");
        assert_eq!(failure.to_string(), "at node \"node\", attempt 3: declined 3");
        assert_eq!(RunRemote::new(&store, "r").view().await.unwrap().failure, Some(failure));
        let history = failing(9).history("r", &store).page(1, 100).await.unwrap().checkpoints;
        let failures: Vec<_> = history.iter().filter_map(|one| Some((one.kind, known(one.failure.as_ref()?)))).collect();
        assert_eq!(
            failures,
            [
                (Kind::Attempt, (FailureKind::Node, "node", 1, "declined 1", false)),
                (Kind::Attempt, (FailureKind::Node, "node", 2, "declined 2", false)),
                (Kind::End, (FailureKind::Node, "node", 3, "declined 3", true)),
            ]
        );
    });
}

#[test]
fn o6_retried_attempt_is_visible_until_the_run_finishes() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let scope = sim.scope();
    let run = failing(1).run(1).id("r").runtime(sim.runtime()).checkpoint(&store).in_scope(&scope).into_future();
    sim.advance(Duration::from_secs(1));
    sim.run(async {
        let view = RunRemote::new(&store, "r").view().await.unwrap();
        let failure = view.tokens[0].failure.clone().unwrap();
        assert_eq!(known(&failure), (FailureKind::Node, "node", 1, "declined 1", false));
        assert!(failure.retry_at.unwrap().since(failure.at) >= Duration::from_secs(40), "{failure:?}");
        assert_eq!(view.failure, Some(failure.clone()));
        assert_eq!(store.head("r").await.unwrap().failure, Some(failure));
        run.await.unwrap();
        assert_eq!(store.head("r").await.unwrap().failure, None, "the run finished");
    });
}

#[test]
fn o6_cancels_panics_and_deadlines_have_different_kinds() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let waits = one(|cx: NodeContext, n: u32| async move { Ok::<_, String>(n + cx.signal::<u32>("go").await) }, Policy::new());
    let panics = one(|_: u32| async { if true { panic!("on request") } else { Ok::<u32, String>(0) } }, Policy::new());
    sim.run(async {
        let failure = async |run: &str| store.head(run).await.unwrap().failure.unwrap();
        panics.run(1).id("panics").runtime(sim.runtime()).checkpoint(&store).await.unwrap_err();
        let panic = failure("panics").await;
        assert_eq!((panic.kind, panic.node.as_str(), panic.is_final), (FailureKind::Panic, "node", true));
        assert!(panic.reason.contains("on request") && panic.reason.contains("observed_failures.rs"), "{panic}");
        waits.run(1).id("cancelled").runtime(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
        RunRemote::new(&store, "cancelled").cancel("no longer needed").await.unwrap();
        waits.resume("cancelled").checkpoint(&store).runtime(sim.runtime()).await.unwrap_err();
        let cancel = failure("cancelled").await;
        assert_eq!((cancel.kind, cancel.is_final), (FailureKind::Cancelled, true));
        assert!(cancel.reason.contains("no longer needed"), "{cancel}");
        waits.run(1).id("late").timeout(Duration::ZERO).runtime(sim.runtime()).checkpoint(&store).await.unwrap_err();
        assert_eq!(failure("late").await.kind, FailureKind::Deadline);
        // A run that continues has no failure until the next one.
        waits.resume("cancelled").rewind_to(1).checkpoint(&store).runtime(sim.runtime()).await.unwrap_err();
        assert_eq!(store.head("cancelled").await.unwrap().failure, None);
    });
}

#[test]
fn o6_view_of_a_stuck_run_says_why() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    sim.run(async {
        failing(0).run(1).id("r").runtime(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
        for round in 0..TAKEOVERS_MAX {
            let lease = Lease { owner: format!("driver {round}"), length: Duration::from_secs(1) };
            let claim = store.claim(Wanted::One { run: "r".into(), force: false }, lease).await.unwrap().remove(0);
            let how = Release::Failed { reason: "the state does not decode".into(), delay: Duration::ZERO };
            store.release(vec![Held::of(&claim.run)], how).await.unwrap();
        }
        let view = RunRemote::new(&store, "r").view().await.unwrap();
        assert_eq!((view.status, view.trouble.as_deref()), (RunStatus::Stuck, Some("the state does not decode")));
        assert_eq!(view.failure, None);
    });
}
