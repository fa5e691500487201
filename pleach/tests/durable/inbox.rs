//! C8, C9: a full inbox does not block commands and answers, and messages that a node cannot read
//! leave the inbox.
use crate::common::Log;
use pleach::durable::{RunControlError, RunRemote};
use pleach::graph::{Hooks, RunEvent};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::store::{INBOX_MAX, MemoryStore, NewMessage, RunStatus, Store, StoreError};

/// A node that asks for approval.
fn asking() -> CompiledGraph<u32> {
    let ask = |cx: NodeContext, n: u32| async move {
        let more: u32 = cx.interrupt("approve", &n).await;
        Ok::<_, String>(n + more)
    };
    Graph::new("asking").add_node("ask", ask).add_edge("ask", END).set_entry("ask").compile().unwrap()
}

async fn queued(sim: &Sim, store: &MemoryStore) -> RunRemote {
    asking().run(4).id("r").runtime(sim.runtime()).checkpoint(store).enqueue().await.unwrap()
}

/// Resumes the run and logs the messages that it rejected.
async fn resumed(sim: &Sim, store: &MemoryStore, rejected: &Log<String>) -> Result<u32, RunError<u32>> {
    let rejected = rejected.clone();
    let hooks = Hooks::new(move |event: &RunEvent<&u32>| {
        if let RunEvent::MessageRejected { name, reason, .. } = event {
            rejected.push(format!("{name}: {reason}"));
        }
    });
    asking().resume("r").checkpoint(store).runtime(sim.runtime()).hooks(hooks).await
}

async fn names(store: &MemoryStore) -> Vec<String> {
    store.inbox("r", 0).await.unwrap().into_iter().map(|message| message.message.name).collect()
}

#[test]
fn c9_run_with_a_full_inbox_can_be_paused_answered_and_cancelled() {
    let sim = Sim::new(1);
    let (store, rejected) = (MemoryStore::on(sim.runtime()), Log::new());
    sim.run(async {
        let remote = queued(&sim, &store).await;
        for _ in 0..INBOX_MAX {
            remote.signal("unread", &1).await.unwrap();
        }
        let full = remote.signal("unread", &1).await;
        assert!(matches!(full, Err(RunControlError::Store(StoreError::InboxFull { limit: INBOX_MAX, .. }))), "{full:?}");
        for _ in 0..3 * INBOX_MAX {
            remote.pause().await.unwrap();
            remote.resume().await.unwrap();
        }
        remote.pause().await.unwrap();
        assert!(remote.view().await.unwrap().is_paused);
        assert!(matches!(resumed(&sim, &store, &rejected).await.unwrap_err().fault(), RunFault::Paused { keys, .. } if keys.is_empty()));
        remote.resume().await.unwrap();
        let waits = resumed(&sim, &store, &rejected).await.unwrap_err();
        assert!(matches!(waits.fault(), RunFault::Paused { keys, .. } if *keys == ["approve"]), "{waits}");
        assert_eq!(names(&store).await.len(), INBOX_MAX, "the commands were taken");
        remote.resume_with("approve", &7).await.unwrap();
        assert_eq!(resumed(&sim, &store, &rejected).await.unwrap(), 11);

        let other = asking().run(4).id("other").runtime(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
        for _ in 0..INBOX_MAX {
            other.signal("unread", &1).await.unwrap();
        }
        other.cancel("enough").await.unwrap();
        other.cancel("once more").await.unwrap();
        let error = asking().resume("other").checkpoint(&store).runtime(sim.runtime()).await.unwrap_err();
        assert!(matches!(error.fault(), RunFault::Cancelled { .. }) && error.to_string().contains("enough"), "{error}");
        assert_eq!(store.head("other").await.unwrap().status, RunStatus::Cancelled);
    });
}

#[test]
fn c8_undecodable_answer_is_reported_once_and_leaves_the_inbox() {
    explore(0..20, |sim| {
        let (store, rejected) = (MemoryStore::on(sim.runtime()), Log::new());
        sim.run(async {
            let remote = queued(sim, &store).await;
            for round in 1..=3 {
                for _ in 0..INBOX_MAX / 2 {
                    remote.resume_with("approve", &"no number").await.unwrap();
                }
                let waits = resumed(sim, &store, &rejected).await.unwrap_err();
                assert!(matches!(waits.fault(), RunFault::Paused { keys, .. } if *keys == ["approve"]), "{waits}");
                assert_eq!((rejected.len(), names(&store).await.len()), (round * INBOX_MAX / 2, 0));
            }
            assert!(rejected.take()[0].starts_with("answer/approve: invalid type"));
            assert_eq!(store.head("r").await.unwrap().wake_at, None, "it waits for the next answer");
            remote.resume_with("approve", &7).await.unwrap();
            assert_eq!(resumed(sim, &store, &rejected).await.unwrap(), 11);
        });
    });
}

#[test]
fn c9_unread_signals_of_an_in_memory_run_leave_room_for_an_answer() {
    let sim = Sim::new(1);
    let scope = sim.scope();
    let run = asking().run(4).in_scope(&scope).into_future();
    let control = run.control().unwrap().clone();
    sim.run(async {
        for _ in 0..INBOX_MAX {
            control.signal("unread", &1).await.unwrap();
        }
        assert!(matches!(control.signal("unread", &1).await, Err(RunControlError::Full { .. })));
        control.resume_with("approve", &7).await.unwrap();
    });
    assert_eq!(sim.run(run).unwrap(), 11);
}

/// Puts a message with a wrong checksum into the inbox.
async fn post_damaged(store: &MemoryStore, name: &str) {
    let mut post = NewMessage::seal("r", name, None, b"7".to_vec());
    post.sum ^= 1;
    store.send_message("r", post).await.unwrap();
}

#[test]
fn c9_damaged_message_is_reported_once_and_does_not_fail_a_resume() {
    explore(0..10, |sim| {
        for name in ["answer/approve", "signal/unread", "command/cancel", "command/pause", "command/resume", "\u{1}?"] {
            let (store, rejected) = (MemoryStore::on(sim.runtime()), Log::new());
            sim.run(async {
                let remote = queued(sim, &store).await;
                post_damaged(&store, name).await;
                assert!(!remote.view().await.unwrap().is_paused, "{name}");
                let waits = resumed(sim, &store, &rejected).await.unwrap_err();
                assert!(matches!(waits.fault(), RunFault::Paused { keys, .. } if *keys == ["approve"]), "{name}: {waits}");
                let reports = rejected.take();
                assert!(
                    reports.len() == 1 && reports[0].starts_with(&format!("{name}: ")) && reports[0].contains("checksum"),
                    "{reports:?}"
                );
                assert!(names(&store).await.is_empty(), "{name} is taken with the commit of the wait");
                // A driver that finds it while it holds the run.
                remote.resume_with("approve", &7).await.unwrap();
                post_damaged(&store, name).await;
                assert_eq!(resumed(sim, &store, &rejected).await.unwrap(), 11, "{name}");
            });
        }
    });
}

#[test]
fn c9_sleeping_run_takes_a_damaged_message_with_a_separate_commit() {
    let sleeping = |cx: NodeContext, n: u32| async move {
        cx.sleep("night", Duration::from_secs(600)).await;
        Ok::<_, String>(n)
    };
    let graph = Graph::new("sleeping").add_node("sleep", sleeping).add_edge("sleep", END).set_entry("sleep").compile().unwrap();
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let run = graph.run(1).id("r").checkpoint(&store).runtime(sim.runtime()).into_future();
    let post = async {
        sim.sleep(Duration::from_secs(5)).await;
        post_damaged(&store, "signal/go").await;
        sim.sleep(Duration::from_secs(5)).await;
        assert!(names(&store).await.is_empty());
        let head = store.head("r").await.unwrap();
        sim.sleep(Duration::from_secs(60)).await;
        assert_eq!(store.head("r").await.unwrap().head, head.head, "one commit was enough");
    };
    let (outcome, ()) = sim.run(async { futures::join!(run, post) });
    assert_eq!(outcome.unwrap(), 1);
}
