//! C4, C8, C9, C12: effects, interrupts and sleeps of stored runs.
use crate::common::flaky_store::{FlakyStore, WriteFailure};
use crate::common::side_effects::{SideEffects, side_effects};
use crate::{pass, sum};
use pleach::durable::EffectError;
use pleach::graph::{FanOut, Policy, Retry};
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::sim::Sim;
use pleach::store::{MemoryStore, NewMessage, RunStatus, Store};
use std::sync::Arc;

fn one_node<Shape>(node: impl pleach::graph::IntoNode<u32, Shape>) -> CompiledGraph<u32> {
    Graph::new("one").add_node("node", node).add_edge("node", END).set_entry("node").compile().unwrap()
}

fn fails_with(error: &RunError<u32>, expected: &EffectError) -> bool {
    let RunFault::Node(node) = error.fault() else { return false };
    std::error::Error::source(node).and_then(|source| source.downcast_ref::<EffectError>()) == Some(expected)
}

#[test]
fn c4_recorded_effect_is_not_repeated_by_a_retry() {
    for stored in [false, true] {
        let node = |cx: NodeContext, n: u32| async move {
            let (world, attempt) = (side_effects(&cx), cx.attempt());
            let outside = world.clone();
            let got = cx
                .effect("charge", move |key| async move {
                    outside.happen(format!("charge {key}"));
                    Ok::<_, String>(41u32)
                })
                .await?;
            world.happen("attempt");
            if attempt < 3 { Err("not yet".to_string()) } else { Ok(n + got) }
        };
        let graph = Graph::new("one")
            .add_node("node", node)
            .policy("node", Policy::new().retry(Retry::times(5)))
            .add_edge("node", END)
            .set_entry("node")
            .compile()
            .unwrap();
        let sim = Sim::new(1);
        let (store, outside) = (MemoryStore::on(sim.runtime()), SideEffects::default());
        let run = graph.run(1).id("r").extension(outside.clone()).runtime(sim.runtime());
        let run = if stored { run.checkpoint(&store) } else { run };
        assert_eq!(sim.run(run.into_future()).unwrap(), 42);
        assert_eq!((outside.count("charge"), outside.count("attempt")), (1, 3), "stored: {stored}");
    }
}

#[test]
fn c4_crash_repeats_only_unrecorded_effects_with_the_same_key() {
    let node = |cx: NodeContext, n: u32| async move {
        let mut sum = n;
        for name in ["one", "two", "three"] {
            let outside = side_effects(&cx);
            sum += cx
                .effect(name, move |key| async move {
                    outside.happen(format!("{name} {key}"));
                    Ok::<_, String>(10u32)
                })
                .await?;
        }
        Ok::<_, String>(sum)
    };
    let graph = one_node(node);
    for at in 2..=6 {
        for fate in [WriteFailure::Lost, WriteFailure::Unanswered] {
            let sim = Sim::new(at);
            let store = FlakyStore::new(MemoryStore::on(sim.runtime()));
            let outside = SideEffects::default();
            store.fail_at(at, fate);
            let run = graph.run(0).id("r").checkpoint(&store).extension(outside.clone()).runtime(sim.runtime());
            let mut outcome = sim.run(run.into_future());
            if at < 6 {
                assert!(matches!(outcome.unwrap_err().fault(), RunFault::Checkpoint(_)));
                let resumed = graph.resume("r").checkpoint(&store).extension(outside.clone()).runtime(sim.runtime());
                outcome = sim.run(resumed.into_future());
            }
            assert_eq!(outcome.unwrap(), 30);
            // The effect whose record was lost ran twice, with the same key.
            let twice = usize::from(fate == WriteFailure::Lost && at < 5);
            assert_eq!(outside.all().len(), 3 + twice, "{at} {fate:?}");
            let mut keys = outside.all();
            keys.dedup();
            assert_eq!(keys.len(), 3, "{at} {fate:?}");
        }
    }
}

#[test]
fn c4_interrupted_once_effect_is_unknown_after_a_crash() {
    let node = |cx: NodeContext, n: u32| async move {
        let outside = side_effects(&cx);
        let work = move |key: String| async move {
            outside.happen(key);
            Ok::<_, String>(1u32)
        };
        Ok::<_, String>(n + cx.effect("charge", work).once().await?)
    };
    let graph = one_node(node);
    // Write 2 is the begin record, write 3 the result.
    for (at, fate, expected) in [
        (2, WriteFailure::Lost, 1),
        (2, WriteFailure::Unanswered, 0),
        (3, WriteFailure::Lost, 1),
        (3, WriteFailure::Unanswered, 1),
    ] {
        let sim = Sim::new(at);
        let store = FlakyStore::new(MemoryStore::on(sim.runtime()));
        let outside = SideEffects::default();
        store.fail_at(at, fate);
        let run = graph.run(0).id("r").checkpoint(&store).extension(outside.clone()).runtime(sim.runtime());
        assert!(matches!(sim.run(run.into_future()).unwrap_err().fault(), RunFault::Checkpoint(_)));
        let resumed = graph.resume("r").checkpoint(&store).extension(outside.clone()).runtime(sim.runtime());
        let outcome = sim.run(resumed.into_future());
        assert_eq!(outside.all().len(), expected, "{at} {fate:?}");
        match (at, fate) {
            (2, WriteFailure::Lost) | (3, WriteFailure::Unanswered) => assert_eq!(outcome.unwrap(), 1),
            _ => {
                let error = outcome.unwrap_err();
                let RunFault::Node(node) = error.fault() else { panic!("{error}") };
                assert!(node.to_string().contains("may or may not have happened"), "{node}");
                let info = sim.run(async { store.head("r").await }).unwrap();
                assert_eq!(info.status, RunStatus::Failed);
            }
        }
    }
}

#[test]
fn c4_repeated_key_in_one_attempt_is_an_error_and_only_ok_is_recorded() {
    let twice = |cx: NodeContext, n: u32| async move {
        let once = || cx.effect("charge", |_| async { Ok::<_, String>(1u32) });
        let (one, two) = (once().await?, once().await?);
        Ok::<_, String>(n + one + two)
    };
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    for stored in [false, true] {
        let run = one_node(twice).run(0).id("r").runtime(sim.runtime());
        let run = if stored { run.checkpoint(&store) } else { run };
        let error = sim.run(run.into_future()).unwrap_err();
        assert!(fails_with(&error, &EffectError::UsedTwice { key: "charge".into() }), "{error}");
    }
    let again = |cx: NodeContext, n: u32| async move {
        let attempt = cx.attempt();
        let work = move |_| async move { if attempt < 3 { Err("down".to_string()) } else { Ok(n + attempt) } };
        cx.effect("charge", work).await
    };
    let graph = Graph::new("again")
        .add_node("node", again)
        .policy("node", Policy::new().retry(Retry::times(3)))
        .add_edge("node", END)
        .set_entry("node")
        .compile()
        .unwrap();
    let run = graph.run(0).id("again").checkpoint(&store).runtime(sim.runtime());
    assert_eq!(sim.run(run.into_future()).unwrap(), 3);
}

fn asks() -> CompiledGraph<u32> {
    let node = |cx: NodeContext, n: u32| async move {
        let outside = side_effects(&cx);
        let price = cx
            .effect("quote", move |_| async move {
                outside.happen("quote");
                Ok::<_, String>(7u32)
            })
            .await?;
        let approved: bool = cx.interrupt("approve", &price).await;
        Ok::<_, String>(if approved { n + price } else { n })
    };
    one_node(node)
}

#[test]
fn c8_interrupt_pauses_durably_and_another_process_continues() {
    let sim = Sim::new(1);
    let (store, outside) = (MemoryStore::on(sim.runtime()), SideEffects::default());
    let graph = asks();
    let run = graph.run(1).id("r").checkpoint(&store).extension(outside.clone()).runtime(sim.runtime());
    let error = sim.run(run.into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Paused { run, keys, .. } if run == "r" && *keys == ["approve"]), "{error}");
    let info = sim.run(async { store.head("r").await }).unwrap();
    assert_eq!((info.status, info.wake_at, info.lease_until), (RunStatus::Waiting, None, None));

    // Without an answer it pauses again and does not change the store.
    let resumed = graph.resume("r").checkpoint(&store).extension(outside.clone()).runtime(sim.runtime());
    assert!(matches!(sim.run(resumed.into_future()).unwrap_err().fault(), RunFault::Paused { .. }));
    // An answer that does not decode or has an unknown key is rejected and consumes nothing.
    let bad = graph.resume("r").resume_with("approve", "maybe").checkpoint(&store).extension(outside.clone());
    let error = sim.run(bad.runtime(sim.runtime()).into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::AnswerRejected { key, .. } if key == "approve"), "{error}");
    let bad = graph.resume("r").resume_with("aprove", &true).checkpoint(&store).extension(outside.clone());
    let error = sim.run(bad.runtime(sim.runtime()).into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::AnswerRejected { reason, .. } if reason.contains("approve")), "{error}");

    let answered = graph.resume("r").resume_with("approve", &true).checkpoint(&store).extension(outside.clone());
    assert_eq!(sim.run(answered.runtime(sim.runtime()).into_future()).unwrap(), 8);
    assert_eq!(outside.count("quote"), 1, "effects before the interrupt are not repeated");
    assert_eq!(sim.run(async { store.head("r").await }).unwrap().status, RunStatus::Finished);
}

#[test]
fn c8_run_pauses_when_every_branch_waits_and_lists_all_keys() {
    let ask = |key: &'static str| {
        move |cx: NodeContext, n: u32| async move { Ok::<_, String>(n + cx.interrupt::<u32>(key, "how many?").await) }
    };
    let works = |cx: NodeContext, n: u32| async move {
        let clock = cx.extension::<Arc<dyn Runtime>>().unwrap().clone();
        clock.sleep_until(clock.now() + Duration::from_secs(60)).await;
        side_effects(&cx).happen("worked");
        Ok::<_, String>(n + 100)
    };
    let graph = Graph::new("asks")
        .add_node("start", pass)
        .add_node("a", ask("a"))
        .add_node("b", ask("b"))
        .add_node("c", works)
        .add_node("join", pass)
        .add_parallel_edge("start", ["a", "b", "c"], "join", FanOut::merge(sum))
        .add_edge("a", "join")
        .add_edge("b", "join")
        .add_edge("c", "join")
        .add_edge("join", END)
        .set_entry("start")
        .compile()
        .unwrap();
    let sim = Sim::new(1);
    let (store, outside) = (MemoryStore::on(sim.runtime()), SideEffects::default());
    let with = |run: pleach::graph::RunOptions<'static, u32>| {
        run.extension(outside.clone()).extension(sim.runtime()).runtime(sim.runtime())
    };
    let error = sim.run(with(graph.run(0).id("r").checkpoint(&store)).into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Paused { keys, .. } if *keys == ["a", "b"]), "{error}");
    assert_eq!(outside.count("worked"), 1, "the branch that can continue finishes first");
    let one = with(graph.resume("r").resume_with("b", &20u32).checkpoint(&store));
    let error = sim.run(one.into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Paused { keys, .. } if *keys == ["a"]), "{error}");
    let other = with(graph.resume("r").resume_with("a", &3u32).checkpoint(&store));
    assert_eq!(sim.run(other.into_future()).unwrap(), 123);
    assert_eq!(outside.count("worked"), 1, "a finished branch does not run again");
}

#[test]
fn c9_crashed_run_with_an_awaited_message_is_due_at_once() {
    let node = |cx: NodeContext, n: u32| async move {
        let one: u32 = cx.signal("go").await;
        let two: u32 = cx.interrupt("more", "how many?").await;
        Ok::<_, String>(n + one + two)
    };
    let graph = one_node(node);
    let mut crashes = 0;
    for at in 2..=8 {
        for fate in [WriteFailure::Lost, WriteFailure::Unanswered] {
            let sim = Sim::new(at);
            let store = FlakyStore::new(MemoryStore::on(sim.runtime()));
            let run = graph.run(1).id("r").checkpoint(&store).runtime(sim.runtime());
            assert!(matches!(sim.run(run.into_future()).unwrap_err().fault(), RunFault::Paused { .. }));
            for (name, payload) in [("signal/go", b"20"), ("answer/more", b"21")] {
                let post = NewMessage::seal("r", name, None, payload.to_vec());
                sim.run(async { store.send_message("r", post).await }).unwrap();
            }
            store.fail_at(store.writes() + at - 1, fate);
            // Like a worker: only resume a run that is due.
            let outcome = loop {
                let info = sim.run(async { store.head("r").await }).unwrap();
                assert!(info.wake_at.is_some() || info.status.has_ended(), "{at} {fate:?}: it misses its inbox: {info:?}");
                match sim.run(graph.resume("r").checkpoint(&store).runtime(sim.runtime()).into_future()) {
                    Err(error) if matches!(error.fault(), RunFault::Checkpoint(_)) => crashes += 1,
                    outcome => break outcome,
                }
            };
            assert_eq!(outcome.unwrap(), 42, "{at} {fate:?}");
        }
    }
    assert!(crashes >= 6, "{crashes}");
}

#[test]
fn c12_sleep_survives_a_restart_and_keeps_its_first_deadline() {
    let node = |cx: NodeContext, n: u32| async move {
        side_effects(&cx).happen("began");
        cx.sleep("rest", Duration::from_secs(100)).await;
        Ok::<_, String>(n + 1)
    };
    let graph = one_node(node);
    let sim = Sim::new(1);
    let (store, outside) = (MemoryStore::on(sim.runtime()), SideEffects::default());
    let token = sim.token();
    let run = graph.run(1).id("r").checkpoint(&store).extension(outside.clone()).token(&token).runtime(sim.runtime());
    let began = sim.now();
    let clock = sim.runtime();
    sim.runtime().spawn(Box::pin(async move {
        clock.sleep_until(clock.now() + Duration::from_secs(40)).await;
        token.cancel(Cause::Because("enough".into()));
    }));
    let error = sim.run(run.into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Cancelled { was_executing: true, .. }), "{error}");
    let info = sim.run(async { store.head("r").await }).unwrap();
    assert_eq!((info.status, info.lease_until), (RunStatus::Waiting, None), "it is released at once");
    let resumed = graph.resume("r").checkpoint(&store).extension(outside.clone()).runtime(sim.runtime());
    assert_eq!(sim.run(resumed.into_future()).unwrap(), 2);
    let took = sim.now().since(began).as_secs_f64();
    assert!((100.0..101.0).contains(&took), "{took}");
    assert_eq!(outside.count("began"), 2);
}
