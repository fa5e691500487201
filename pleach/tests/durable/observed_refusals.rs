//! O9: a message that a run refuses is reported to a sender that waits, and listed in the view.
use crate::common::logged::logged;
use crate::common::slow_store::SlowStore;
use pleach::durable::{RunControlError, RunRemote};
use pleach::graph::Policy;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::store::{MemoryStore, REFUSED_MAX, RunStatus, Store};
use pleach::worker::Worker;
use serde::Deserialize;

#[derive(Deserialize)]
struct Approval {
    ok: bool,
}

/// Asks for an approval, then waits for a number.
fn asking() -> CompiledGraph<u32> {
    let ask = |cx: NodeContext, n: u32| async move {
        let Approval { ok } = cx.interrupt("approve", "publish?").await;
        let more: u32 = cx.signal("more").await;
        Ok::<_, String>(if ok { n + more } else { n })
    };
    crate::one(ask, Policy::new())
}

const SOON: Duration = Duration::from_secs(20);

async fn queued(sim: &Sim, store: &MemoryStore) -> RunRemote {
    asking().run(40).id("x").runtime(sim.runtime()).checkpoint(store).enqueue().await.unwrap()
}

#[test]
fn o9_wrong_answer_is_reported_to_its_sender_and_nothing_is_lost() {
    explore(0..20, |sim| {
        let store = MemoryStore::on(sim.runtime());
        let worker = Worker::new(&store).graph(&asking()).runtime(sim.runtime()).start().unwrap();
        sim.run(async {
            let remote = queued(sim, &store).await;
            let wrong = remote.resume_with("approve", "banana").runtime(sim.runtime()).confirmed(SOON).await.unwrap_err();
            let text = wrong.to_string();
            assert!(
                text.starts_with("run \"x\" rejected the answer to \"approve\": ") && text.ends_with("; the run keeps waiting"),
                "{text}"
            );
            assert!(text.contains("banana") && text.contains("struct Approval"), "{text}");
            let RunControlError::Refused { reason, .. } = wrong else { panic!("{text}") };
            let refused = remote.view().await.unwrap().refused;
            assert_eq!(refused.len(), 1);
            assert_eq!((refused[0].name.as_str(), &refused[0].reason), ("answer/approve", &reason));
            // A right answer follows, and a wrong signal before the right one.
            let answer = serde_json::json!({ "ok": true });
            remote.resume_with("approve", &answer).runtime(sim.runtime()).confirmed(SOON).await.unwrap();
            let wrong = remote.signal("more", &"many").runtime(sim.runtime()).confirmed(SOON).await.unwrap_err();
            assert!(wrong.to_string().contains("the signal \"more\""), "{wrong}");
            remote.signal("more", &2).runtime(sim.runtime()).confirmed(SOON).await.unwrap();
            assert_eq!(asking().outcome_of("x", &store).runtime(sim.runtime()).await.unwrap(), 42);
            let view = remote.view().await.unwrap();
            assert_eq!(view.refused.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["answer/approve", "signal/more"]);
            drop(worker);
        });
    });
}

#[test]
fn o9_unknown_question_and_ended_run_are_reported() {
    let sim = Sim::new(3);
    let store = MemoryStore::on(sim.runtime());
    let worker = Worker::new(&store).graph(&asking()).runtime(sim.runtime()).start().unwrap();
    sim.run(async {
        let remote = queued(&sim, &store).await;
        let unknown = remote.resume_with("aprove", &1).runtime(sim.runtime()).confirmed(SOON).await.unwrap_err();
        assert!(matches!(&unknown, RunControlError::Unconfirmed { waits, .. } if *waits == ["approve"]), "{unknown}");
        assert!(unknown.to_string().contains("it stays in the inbox; the run waits for: approve"), "{unknown}");
        // The cancel is confirmed by the end of the run, and the early answer was never taken.
        remote.cancel("enough").runtime(sim.runtime()).confirmed(SOON).await.unwrap();
        let view = remote.view().await.unwrap();
        assert_eq!(view.status, RunStatus::Cancelled);
        assert_eq!(view.refused.len(), 1);
        assert_eq!(
            (view.refused[0].name.as_str(), view.refused[0].reason.as_str()),
            ("answer/aprove", "the run ended before it took the message")
        );
        let ended = remote.signal("more", &1).runtime(sim.runtime()).confirmed(SOON).await.unwrap_err();
        assert!(matches!(ended, RunControlError::Ended { status: RunStatus::Cancelled, .. }), "{ended}");
        drop(worker);
    });
}

#[test]
fn o9_message_of_a_run_without_a_driver_is_unconfirmed_and_kept() {
    let sim = Sim::new(3);
    let store = MemoryStore::on(sim.runtime());
    sim.run(async {
        let remote = queued(&sim, &store).await;
        let begun = sim.now();
        let waits = remote.signal("more", &2).runtime(sim.runtime()).confirmed(SOON).await.unwrap_err();
        assert!(waits.to_string().contains("check that a worker drives the run"), "{waits}");
        assert!(sim.now().since(begun) < SOON + Duration::from_secs(1), "the wait is bounded");
        assert_eq!(store.inbox("x", 0).await.unwrap().len(), 1, "the message stays");
        remote.pause().runtime(sim.runtime()).confirmed(SOON).await.unwrap();
        let no_clock = remote.signal("more", &2).confirmed(SOON).await.unwrap_err();
        assert!(matches!(no_clock, RunControlError::NoRuntime), "{no_clock}");
        assert_eq!(store.inbox("x", 0).await.unwrap().len(), 2, "nothing was sent");
    });
}

#[test]
fn o9_pause_and_resume_are_confirmed() {
    let sim = Sim::new(5);
    let store = MemoryStore::on(sim.runtime());
    let worker = Worker::new(&store).graph(&asking()).runtime(sim.runtime()).start().unwrap();
    sim.run(async {
        let remote = queued(&sim, &store).await;
        sim.sleep(Duration::from_secs(1)).await;
        remote.pause().runtime(sim.runtime()).confirmed(SOON).await.unwrap();
        assert!(remote.view().await.unwrap().is_paused && store.head("x").await.unwrap().owner.is_none());
        remote.resume().runtime(sim.runtime()).confirmed(SOON).await.unwrap();
        assert!(!remote.view().await.unwrap().is_paused);
        drop(worker);
    });
}

#[test]
fn o9_command_that_comes_too_late_is_refused() {
    // The undo waits, so that the cancel arrives while the run is undone.
    let undo = |cx: NodeContext, _: u32| async move {
        cx.sleep("undoing", Duration::from_secs(30)).await;
        Ok::<_, String>(())
    };
    let graph = Graph::new("undone")
        .add_node("done", |cx: NodeContext, n: u32| async move {
            cx.record_undo(n);
            Ok::<_, String>(n)
        })
        .compensate("done", undo)
        .add_node("fails", |_: u32| async { Err::<u32, _>("on request".to_string()) })
        .add_edge("done", "fails")
        .add_edge("fails", END)
        .set_entry("done")
        .compile()
        .unwrap();
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let worker = Worker::new(&store).graph(&graph).runtime(sim.runtime()).start().unwrap();
    sim.run(async {
        let remote = graph.run(1).id("r").runtime(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
        sim.sleep(Duration::from_secs(5)).await;
        let late = remote.cancel("too late").runtime(sim.runtime()).confirmed(Duration::from_secs(60)).await.unwrap_err();
        assert!(late.to_string().contains("the command \"cancel\": the run is already ending"), "{late}");
        let view = remote.view().await.unwrap();
        assert_eq!((view.status, view.refused.len()), (RunStatus::Compensated, 1));
        assert!(view.failure.unwrap().reason.contains("on request"));
        drop(worker);
    });
}

#[test]
fn o9_refusals_of_an_in_memory_run_are_in_its_view() {
    let sim = Sim::new(1);
    let scope = sim.scope();
    let run = asking().run(40).id("x").tag("customer", "42").in_scope(&scope).into_future();
    sim.run(async {
        let control = run.control().unwrap().clone();
        for _ in 0..REFUSED_MAX + 3 {
            control.resume_with("approve", &"banana").await.unwrap();
            sim.sleep(Duration::from_millis(1)).await;
        }
        let view = control.view().await.unwrap();
        assert_eq!((view.refused.len(), view.tags.to_string().as_str()), (REFUSED_MAX, "customer=42"));
        assert!(view.refused[0].reason.contains("banana"), "{:?}", view.refused[0]);
        control.resume_with("approve", &serde_json::json!({ "ok": false })).await.unwrap();
        control.signal("more", &2).await.unwrap();
        assert_eq!(run.await.unwrap(), 40);
    });
}

#[test]
fn o9_refusal_is_logged_with_its_run_and_without_its_content() {
    let log = logged();
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    sim.run(async {
        let run = asking().run(40).id("logged run").runtime(sim.runtime()).checkpoint(&store);
        run.enqueue().await.unwrap().resume_with("approve", "banana").await.unwrap();
        asking().resume("logged run").checkpoint(&store).runtime(sim.runtime()).await.unwrap_err();
    });
    let lines: Vec<String> = log.seen().into_iter().filter(|line| line.contains("logged run")).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("WARN") && lines[0].contains("answer/approve") && !lines[0].contains("banana"), "{lines:?}");
}

/// The run takes its last message and ends between two reads of the waiting sender.
#[test]
fn o9_message_that_ends_the_run_is_confirmed() {
    explore(0..20, |sim| {
        let store = MemoryStore::on(sim.runtime());
        let worker = Worker::new(&store).graph(&asking()).runtime(sim.runtime()).start().unwrap();
        sim.run(async {
            let direct = queued(sim, &store).await;
            let slow = SlowStore::new(store.clone(), sim.runtime(), Duration::from_millis(500));
            let early = RunRemote::new(&slow, "x").signal("more", &2).runtime(sim.runtime()).confirmed(SOON);
            let answer = async {
                sim.sleep(Duration::from_secs(3)).await;
                direct.resume_with("approve", &serde_json::json!({ "ok": true })).await.unwrap();
            };
            let (early, ()) = futures::future::join(early, answer).await;
            early.unwrap();
            drop(worker);
        });
    });
}
