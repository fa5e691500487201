//! The inbox: any client sends messages, commits of the driver take them, and no message is missed.

use super::fixture::{LONG, claim, claim_ready, create, held, holding, ids, next, queued};
use crate::store::error::StoreError;
use crate::store::limits::{INBOX_MAX, READ_ROWS_MAX};
use crate::store::row::NewMessage;
use crate::store::run_info::RunStatus;
use crate::store::{Commit, NewRun, Prune, Refusal, RefusalCause, Store, Wake};

fn message(name: &str, payload: &[u8]) -> NewMessage {
    NewMessage::seal("r", name, None, payload.to_vec())
}

/// A run that waits for a message is not ready until it gets one.
pub async fn c8_message_makes_a_waiting_run_due(store: &dyn Store) {
    let claimed = create(store, held("r")).await;
    let waits =
        Commit { status: Some(RunStatus::Waiting), wake: Some(Wake::OnMessage), release: true, seen: 0, ..next(&claimed, b"") };
    store.commit(waits).await.unwrap();
    assert!(claim_ready(store, "bob", LONG, 1).await.is_empty());
    store.send_message("r", message("answer", b"yes")).await.unwrap();
    assert_eq!(ids(&claim_ready(store, "bob", LONG, 1).await), ["r"]);
    // An earlier wake time stays.
    create(store, NewRun { wake: Wake::At(claimed.now), ..queued("early") }).await;
    store.send_message("early", NewMessage::seal("early", "answer", None, vec![])).await.unwrap();
    assert_eq!(store.head("early").await.unwrap().wake_at, Some(claimed.now));
}

/// A message that arrives between the driver's last read and its commit makes the run due. A
/// message that the driver has seen does not.
pub async fn c8_no_message_is_missed(store: &dyn Store) {
    let mut claimed = create(store, held("r")).await;
    store.send_message("r", message("signal", b"1")).await.unwrap();
    let sleep = |claimed: &_, seen| Commit {
        status: Some(RunStatus::Waiting),
        wake: Some(Wake::OnMessage),
        release: true,
        seen,
        ..next(claimed, b"")
    };
    assert_eq!(store.commit(sleep(&claimed, 0)).await.unwrap().last_message, 1);
    claimed = super::fixture::only(claim_ready(store, "bob", LONG, 1).await);
    assert_eq!(claimed.run.last_message, 1);
    store.commit(sleep(&claimed, 1)).await.unwrap();
    assert_eq!(store.head("r").await.unwrap().wake_at, None);
    assert!(claim_ready(store, "bob", LONG, 1).await.is_empty());
    // An ended run is never due, even with unseen messages.
    store.send_message("r", message("signal", b"2")).await.unwrap();
    claimed = claim(store, "r", "bob", LONG).await.unwrap();
    store.commit(Commit { status: Some(RunStatus::Finished), ..sleep(&claimed, 0) }).await.unwrap();
    assert_eq!(store.head("r").await.unwrap().wake_at, None);
}

/// Numbers count from 1, and a commit takes the messages that it names, permanently.
pub async fn c9_message_is_numbered_and_taken_once(store: &dyn Store) {
    let mut claimed = create(store, held("r")).await;
    for number in 1..=4 {
        assert_eq!(store.send_message("r", message("signal", &[number as u8])).await.unwrap(), number);
    }
    let messages = store.inbox("r", 1).await.unwrap();
    assert_eq!(messages.iter().map(|message| message.number).collect::<Vec<_>>(), [2, 3, 4]);
    assert!(messages[0].at >= claimed.now && messages[0].message.name == "signal");
    assert_eq!(messages[0].message.clone().open("r").unwrap(), [2]);
    // Message 9 does not exist, and 2 is named twice.
    let committed = store.commit(Commit { takes: vec![2, 4, 2, 9], ..next(&claimed, b"") }).await.unwrap();
    assert_eq!(committed.last_message, 4);
    claimed.run.head += 1;
    store.commit(Commit { takes: vec![2], ..next(&claimed, b"") }).await.unwrap();
    let left: Vec<u64> = store.inbox("r", 0).await.unwrap().iter().map(|message| message.number).collect();
    assert_eq!(left, [1, 3]);
    assert!(store.inbox("r", u64::MAX).await.unwrap().is_empty());
}

/// A client that gets no confirmation sends again. The first message counts, even after it was
/// taken.
pub async fn c9_same_dedup_text_is_one_message(store: &dyn Store) {
    let mut claimed = create(store, held("r")).await;
    let answer = |payload: &[u8]| NewMessage::seal("r", "answer", Some("answer-1".into()), payload.to_vec());
    for payload in [b"first", b"again"] {
        assert_eq!(store.send_message("r", answer(payload)).await.unwrap(), 1);
    }
    let first = store.inbox("r", 0).await.unwrap().remove(0);
    assert_eq!(first.message.dedup.as_deref(), Some("answer-1"));
    assert_eq!(first.message.open("r").unwrap(), b"first");
    store.commit(Commit { takes: vec![1], ..next(&claimed, b"") }).await.unwrap();
    assert_eq!(store.send_message("r", answer(b"late")).await.unwrap(), 1);
    assert!(store.inbox("r", 0).await.unwrap().is_empty());
    assert_eq!(store.send_message("r", message("answer", b"other")).await.unwrap(), 2);
    // Also after the row that took it was pruned.
    for _ in 0..3 {
        claimed.run.head += 1;
        store.commit(next(&claimed, b"")).await.unwrap();
    }
    store.prune(Prune::Rows { held: holding("r", 1), before: 4, keep: vec![] }).await.unwrap();
    assert_eq!(store.send_message("r", answer(b"new")).await.unwrap(), 1);
    assert_eq!(store.inbox("r", 0).await.unwrap().len(), 1, "only the other message");
    create(store, held("other")).await;
    assert_eq!(
        store.send_message("other", NewMessage::seal("other", "answer", Some("answer-1".into()), vec![])).await.unwrap(),
        1
    );
}

/// A message that no driver will read is rejected.
pub async fn c9_ended_run_accepts_no_messages(store: &dyn Store) {
    for status in RunStatus::ALL.into_iter().filter(|status| status.has_ended()) {
        let id = status.as_str();
        let claimed = create(store, held(id)).await;
        store.commit(Commit { status: Some(status), release: true, ..next(&claimed, b"") }).await.unwrap();
        let rejected = store.send_message(id, NewMessage::seal(id, "late", None, vec![])).await;
        assert!(
            matches!(&rejected, Err(StoreError::Ended { run, status: now }) if run == id && *now == status),
            "{rejected:?}"
        );
    }
}

/// The inbox has a limit, and has room again after a message was taken.
pub async fn c9_full_inbox_rejects_messages(store: &dyn Store) {
    let claimed = create(store, held("r")).await;
    for batch in 0..INBOX_MAX / 100 {
        let sending = (0..100).map(|_| store.send_message("r", message("signal", &[batch as u8]))).collect();
        assert!(super::fixture::together(sending).await.iter().all(Result::is_ok));
    }
    let rejected = store.send_message("r", message("signal", b"")).await;
    assert!(matches!(&rejected, Err(StoreError::InboxFull { limit: INBOX_MAX, .. })), "{rejected:?}");
    // Signals use up only the room for signals.
    let full = INBOX_MAX as u64;
    assert_eq!(store.send_message("r", message("answer/a", b"")).await.unwrap(), full + 1);
    for (name, number) in [("pause", 2), ("pause", 2), ("cancel", 3)] {
        assert_eq!(store.send_message("r", message(&format!("command/{name}"), b"")).await.unwrap(), full + number);
    }
    let page = store.inbox("r", 0).await.unwrap();
    assert!(!page.is_empty() && page.len() <= READ_ROWS_MAX);
    store.commit(Commit { takes: vec![5], ..next(&claimed, b"") }).await.unwrap();
    assert_eq!(store.send_message("r", message("signal", b"")).await.unwrap(), full + 4);
}

/// At most one pause or resume and one cancel wait to be taken. An equal command is not added
/// again.
pub async fn c9_command_replaces_earlier_commands(store: &dyn Store) {
    let mut claimed = create(store, held("r")).await;
    let command = async |name: &str| store.send_message("r", message(&format!("command/{name}"), b"null")).await;
    let untaken = async || store.inbox("r", 0).await.unwrap().iter().map(|message| message.number).collect::<Vec<_>>();
    assert_eq!((command("pause").await.unwrap(), command("pause").await.unwrap()), (1, 1));
    assert_eq!((command("resume").await.unwrap(), untaken().await), (2, vec![2]));
    assert_eq!(
        (command("cancel").await.unwrap(), command("pause").await.unwrap(), command("cancel").await.unwrap()),
        (3, 4, 3)
    );
    assert_eq!(untaken().await, [3, 4]);
    // A driver that has read replaced commands may still take them. A taken command no longer
    // counts.
    store.commit(Commit { takes: vec![1, 2, 4], ..next(&claimed, b"") }).await.unwrap();
    claimed.run.head += 1;
    assert_eq!((command("pause").await.unwrap(), untaken().await), (5, vec![3, 5]));
    // Any other name after `command/` is a signal.
    assert_eq!((command("other").await.unwrap(), command("other").await.unwrap()), (6, 7));
    store.commit(Commit { status: Some(RunStatus::Finished), release: true, ..next(&claimed, b"") }).await.unwrap();
    let late = command("pause").await;
    assert!(matches!(late, Err(StoreError::Ended { .. })), "{late:?}");
}

/// A message waits from the moment it is stored until a commit takes it or a command replaces it.
pub async fn o9_untaken_message_is_known_by_its_number(store: &dyn Store) {
    let claim = create(store, held("r")).await;
    create(store, held("other")).await;
    let post =
        async |run: &str, name: &str| store.send_message(run, NewMessage::seal(run, name, None, b"1".to_vec())).await.unwrap();
    let (first, second, third) = (post("r", "signal/go").await, post("r", "answer/a").await, post("r", "signal/go").await);
    let untaken = async || {
        let mut found = Vec::new();
        for number in 0..9 {
            if store.is_untaken("r", number).await.unwrap() {
                found.push(number);
            }
        }
        found
    };
    assert_eq!(untaken().await, [first, second, third]);
    assert!(!store.is_untaken("other", first).await.unwrap(), "numbers belong to their run");
    assert!(!store.is_untaken("r", u64::MAX).await.unwrap());
    let refuses = vec![Refusal { number: first, reason: "no".into(), cause: RefusalCause::Damaged, wait: None }];
    store.commit(Commit { takes: vec![second], refuses, ..next(&claim, b"") }).await.unwrap();
    assert_eq!(untaken().await, [third]);
    let (pause, resume) = (post("r", "command/pause").await, post("r", "command/resume").await);
    assert!(!store.is_untaken("r", pause).await.unwrap(), "a later command has replaced it");
    assert_eq!(untaken().await, [third, resume]);
    assert!(matches!(store.is_untaken("none", 1).await, Err(StoreError::RunNotFound { .. })));
}
