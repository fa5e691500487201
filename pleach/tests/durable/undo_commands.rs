//! C9: commands to a run that is being undone change nothing: they are taken, and the compensation
//! continues.
use crate::common::flaky_store::{FlakyStore, WriteFailure};
use crate::common::poll_once;
use crate::common::stored::{Names, NodeControl, NodeFuture, StoredRunFixture, merge, named};
use pleach::durable::RunRemote;
use pleach::graph::{Compensation, RunEvent};
use pleach::prelude::*;
use pleach::store::{Kind, MemoryStore, NewMessage, RunStatus, Store};
use std::task::Poll;

fn booking(name: &'static str) -> impl Fn(NodeContext, Names) -> NodeFuture<Names> {
    move |cx, names| {
        cx.record_undo(name.to_string());
        named(name)(cx, names)
    }
}

/// An effect, a sleep and another effect: several commits, with time to read the inbox.
async fn undo(cx: NodeContext, name: String) -> Result<(), String> {
    for step in ["cancel", "confirm"] {
        let (outside, text) = (cx.extension::<NodeControl>().unwrap().outside.clone(), format!("{name} {step}"));
        let call = cx.effect(step, move |_| async move {
            outside.push(text);
            Ok::<_, String>(())
        });
        call.await?;
        cx.sleep(format!("after {step}"), Duration::from_secs(5)).await;
    }
    Ok(())
}

/// Two bookings, one of them in a branch, followed by a node that fails.
fn trip() -> CompiledGraph<Names> {
    Graph::new("trip")
        .add_node("first", booking("first"))
        .compensate("first", undo)
        .add_node("hotel", booking("hotel"))
        .compensate("hotel", undo)
        .add_node("beside", named("beside"))
        .add_node("pay", named("pay"))
        .add_parallel_edge("first", ["hotel", "beside"], "pay", merge)
        .add_edge("hotel", "pay")
        .add_edge("beside", "pay")
        .add_edge("pay", END)
        .set_entry("first")
        .compile()
        .unwrap()
}

const UNDONE: [&str; 2] = ["hotel", "first"];
const CALLS: [&str; 4] = ["hotel cancel", "hotel confirm", "first cancel", "first confirm"];

#[derive(Clone, Copy, Debug)]
enum Commands {
    Cancel,
    Pause,
    PauseAndResume,
    PauseAndCancel,
}

/// Posts the commands without waiting. Returns whether the store accepted them.
fn post(store: &MemoryStore, commands: Commands) -> bool {
    let remote = RunRemote::new(store, "r");
    let mut all = Box::pin(async move {
        match commands {
            Commands::Cancel => remote.cancel("no longer wanted").await,
            Commands::Pause => remote.pause().await,
            Commands::PauseAndResume => match remote.pause().await {
                Ok(()) => remote.resume().await,
                rejected => rejected,
            },
            Commands::PauseAndCancel => match remote.pause().await {
                Ok(()) => remote.cancel("").await,
                rejected => rejected,
            },
        }
    });
    matches!(poll_once(&mut all), Poll::Ready(Ok(())))
}

/// Posts the commands when this record has become durable.
fn posting(store: &MemoryStore, at: u64, commands: Commands) -> Hooks<Names> {
    let store = store.clone();
    Hooks::new(move |event: &RunEvent<&Names>| {
        if let RunEvent::Checkpointed { sequence, .. } = event
            && *sequence == at
        {
            post(&store, commands);
        }
    })
}

fn inbox_len(fixture: &StoredRunFixture) -> usize {
    fixture.sim.run(async { fixture.store.inbox("r", 0).await }).unwrap().len()
}

/// The end record and the last record of a run that is undone without commands.
fn undisturbed() -> (u64, u64) {
    let fixture = StoredRunFixture::new(1);
    fixture.nodes.fail(&["pay"]);
    fixture.end(fixture.run(&trip(), vec![])).unwrap_err();
    assert_eq!(fixture.nodes.outside.take(), CALLS);
    (fixture.record("r", Kind::End, "pay"), fixture.info("r").head)
}

fn assert_undone(fixture: &StoredRunFixture, error: &RunError<Names>, what: &str) {
    let undone = UNDONE.map(String::from).to_vec();
    assert_eq!(error.compensation(), Some(&Compensation::Compensated { undone }), "{what}: {error}");
    let info = fixture.info("r");
    assert_eq!((info.status, info.owner), (RunStatus::Compensated, None), "{what}");
    let mut calls = fixture.nodes.outside.take();
    calls.dedup();
    assert_eq!(calls, CALLS, "{what}");
}

#[test]
fn c9_commands_during_an_undo_are_taken_and_change_nothing() {
    let (end, head) = undisturbed();
    for commands in [Commands::Cancel, Commands::Pause, Commands::PauseAndResume, Commands::PauseAndCancel] {
        for at in end..head {
            let fixture = StoredRunFixture::new(at);
            fixture.nodes.fail(&["pay"]);
            let error = fixture.end(fixture.run(&trip(), vec![]).hooks(posting(&fixture.store, at, commands))).unwrap_err();
            assert_undone(&fixture, &error, &format!("{commands:?} at {at}"));
            // The last sleep of an undo is followed by its completion record.
            assert_eq!(inbox_len(&fixture), 0, "{commands:?} at {at}");
        }
    }
}

#[test]
fn c9_commands_during_an_undo_change_nothing_across_a_crash() {
    let (end, head) = undisturbed();
    let mut resumed = 0;
    for commands in [Commands::Cancel, Commands::Pause, Commands::PauseAndCancel] {
        for (at, later, fate) in (end..head).flat_map(|at| {
            (1..4).flat_map(move |later| [(at, later, WriteFailure::Lost), (at, later, WriteFailure::Unanswered)])
        }) {
            let fixture = StoredRunFixture::new(at);
            fixture.nodes.fail(&["pay"]);
            let store = FlakyStore::new(fixture.store.clone());
            // Each record of an undo has its own commit; those before the end may share one.
            let hooks = posting(&fixture.store, at, commands);
            let crash_at = at + later;
            let crash = {
                let store = store.clone();
                Hooks::new(move |event: &RunEvent<&Names>| {
                    if let RunEvent::Checkpointed { sequence, .. } = event
                        && *sequence + 1 == crash_at
                    {
                        store.fail_at(store.writes() + 1, fate);
                    }
                })
            };
            let run = trip().run(vec![]).id("r").checkpoint(&store).hooks(hooks).hooks(crash);
            let mut error = fixture.end(fixture.here(run)).unwrap_err();
            let what = format!("{commands:?} at {at}, crash {later} later, {fate:?}");
            while fixture.info("r").status != RunStatus::Compensated {
                assert!(matches!(error.fault(), RunFault::Checkpoint(_)), "{what}: {error}");
                resumed += 1;
                error = fixture.end(fixture.resume(&trip(), |run| run)).unwrap_err();
            }
            if error.compensation().is_some() {
                assert_undone(&fixture, &error, &what);
            }
        }
    }
    assert!(resumed > 100, "{resumed}");
}

#[test]
fn c9_commands_posted_between_two_drivers_of_an_undo_are_taken() {
    let (end, head) = undisturbed();
    for (at, commands) in
        (end..head).flat_map(|at| [(at, Commands::Cancel), (at, Commands::Pause), (at, Commands::PauseAndResume)])
    {
        let fixture = StoredRunFixture::new(at);
        fixture.nodes.fail(&["pay"]);
        let store = FlakyStore::new(fixture.store.clone());
        let crash = {
            let store = store.clone();
            Hooks::new(move |event: &RunEvent<&Names>| {
                if let RunEvent::Checkpointed { sequence, .. } = event
                    && *sequence == at
                {
                    store.fail_at(store.writes() + 1, WriteFailure::Lost);
                }
            })
        };
        fixture.end(fixture.here(trip().run(vec![]).id("r").checkpoint(&store).hooks(crash))).unwrap_err();
        assert!(post(&fixture.store, commands));
        let error = fixture.end(fixture.resume(&trip(), |run| run)).unwrap_err();
        assert_undone(&fixture, &error, &format!("{commands:?} at {at}"));
        assert_eq!(inbox_len(&fixture), 0, "{commands:?} at {at}");
    }
}

#[test]
fn c9_cancel_during_the_last_commit_does_not_cancel_a_later_rewind() {
    let fixture = StoredRunFixture::new(1);
    fixture.nodes.fail(&["pay"]);
    let (_, head) = undisturbed();
    // The last record but one is durable, and the last one is being written.
    let slow = FlakyStore::new(fixture.store.clone());
    slow.commit_slowly(fixture.sim.runtime(), Duration::from_millis(10));
    let run = trip().run(vec![]).id("r").checkpoint(&slow);
    let (store, clock) = (fixture.store.clone(), fixture.sim.runtime());
    let post = async move {
        while store.head("r").await.map_or(0, |info| info.head) < head - 1 {
            clock.sleep_until(clock.now() + Duration::from_millis(1)).await;
        }
        // The last commit begins after the last sleep and takes ten milliseconds.
        clock.sleep_until(clock.now() + Duration::from_millis(4_994)).await;
        store.send_message("r", NewMessage::seal("r", "command/cancel", None, b"\"\"".to_vec())).await.is_ok()
    };
    let (outcome, is_posted) = fixture.sim.run(async { futures::join!(fixture.here(run).into_future(), post) });
    assert_eq!(fixture.info("r").status, RunStatus::Compensated, "{:?}", outcome.err().map(|error| error.to_string()));
    assert!(is_posted && inbox_len(&fixture) == 1, "the cancel was posted during the last commit");
    fixture.nodes.fail(&[]);
    fixture.nodes.outside.take();
    assert_eq!(fixture.end(fixture.resume(&trip(), |run| run.rewind_to(2))).unwrap(), ["first", "hotel", "beside", "pay"]);
    assert_eq!(inbox_len(&fixture), 0);
}
