//! The inbox: anyone posts, the driver's commit takes, and nobody sleeps through mail.

use super::fixture::{LONG, claim, claim_ready, create, held, holding, ids, next, queued};
use crate::store::error::StoreError;
use crate::store::limits::{INBOX_MAX, READ_ROWS_MAX};
use crate::store::row::NewMessage;
use crate::store::run_info::RunStatus;
use crate::store::{Commit, NewRun, Prune, Store, Wake};

fn post(name: &str, payload: &[u8]) -> NewMessage {
    NewMessage::seal("r", name, None, payload.to_vec())
}

/// A run that waits for an answer is not ready; with the answer it is.
pub async fn c8_a_post_makes_a_waiting_run_due(store: &dyn Store) {
    let claimed = create(store, held("r")).await;
    let waits =
        Commit { status: Some(RunStatus::Waiting), wake: Some(Wake::OnPost), release: true, seen: 0, ..next(&claimed, b"") };
    store.commit(waits).await.unwrap();
    assert!(claim_ready(store, "bob", LONG, 1).await.is_empty());
    store.post("r", post("answer", b"yes")).await.unwrap();
    assert_eq!(ids(&claim_ready(store, "bob", LONG, 1).await), ["r"]);
    // A time that is earlier than the post stays.
    create(store, NewRun { wake: Wake::At(claimed.now), ..queued("early") }).await;
    store.post("early", NewMessage::seal("early", "answer", None, vec![])).await.unwrap();
    assert_eq!(store.head("early").await.unwrap().wake_at, Some(claimed.now));
}

/// A post between a driver's last look and its going to sleep makes the run due all the same; one that the driver has seen does not.
pub async fn c8_nobody_sleeps_through_mail(store: &dyn Store) {
    let mut claimed = create(store, held("r")).await;
    store.post("r", post("signal", b"1")).await.unwrap();
    let sleep = |claimed: &_, seen| Commit {
        status: Some(RunStatus::Waiting),
        wake: Some(Wake::OnPost),
        release: true,
        seen,
        ..next(claimed, b"")
    };
    assert_eq!(store.commit(sleep(&claimed, 0)).await.unwrap().posted, 1);
    claimed = super::fixture::only(claim_ready(store, "bob", LONG, 1).await);
    assert_eq!(claimed.run.posted, 1);
    store.commit(sleep(&claimed, 1)).await.unwrap();
    assert_eq!(store.head("r").await.unwrap().wake_at, None);
    assert!(claim_ready(store, "bob", LONG, 1).await.is_empty());
    // An ended run is never due, whatever it did not see.
    store.post("r", post("signal", b"2")).await.unwrap();
    claimed = claim(store, "r", "bob", LONG).await.unwrap();
    store.commit(Commit { status: Some(RunStatus::Finished), ..sleep(&claimed, 0) }).await.unwrap();
    assert_eq!(store.head("r").await.unwrap().wake_at, None);
}

/// Numbers count from 1; a commit takes what it names, for good.
pub async fn c9_a_message_is_numbered_and_taken_once(store: &dyn Store) {
    let mut claimed = create(store, held("r")).await;
    for number in 1..=4 {
        assert_eq!(store.post("r", post("signal", &[number as u8])).await.unwrap(), number);
    }
    let mail = store.inbox("r", 1).await.unwrap();
    assert_eq!(mail.iter().map(|mail| mail.number).collect::<Vec<_>>(), [2, 3, 4]);
    assert!(mail[0].at >= claimed.now && mail[0].post.name == "signal");
    assert_eq!(mail[0].post.clone().open("r").unwrap(), [2]);
    // 9 is not there, and 2 is named twice.
    let committed = store.commit(Commit { takes: vec![2, 4, 2, 9], ..next(&claimed, b"") }).await.unwrap();
    assert_eq!(committed.posted, 4);
    claimed.run.head += 1;
    store.commit(Commit { takes: vec![2], ..next(&claimed, b"") }).await.unwrap();
    let left: Vec<u64> = store.inbox("r", 0).await.unwrap().iter().map(|mail| mail.number).collect();
    assert_eq!(left, [1, 3]);
    assert!(store.inbox("r", u64::MAX).await.unwrap().is_empty());
}

/// Who is not told that a post was accepted posts again; the first counts, also after it was taken.
pub async fn c9_the_same_dedup_text_is_one_message(store: &dyn Store) {
    let mut claimed = create(store, held("r")).await;
    let answer = |payload: &[u8]| NewMessage::seal("r", "answer", Some("answer-1".into()), payload.to_vec());
    for payload in [b"first", b"again"] {
        assert_eq!(store.post("r", answer(payload)).await.unwrap(), 1);
    }
    let mail = store.inbox("r", 0).await.unwrap().remove(0);
    assert_eq!(mail.post.dedup.as_deref(), Some("answer-1"));
    assert_eq!(mail.post.open("r").unwrap(), b"first");
    store.commit(Commit { takes: vec![1], ..next(&claimed, b"") }).await.unwrap();
    assert_eq!(store.post("r", answer(b"late")).await.unwrap(), 1);
    assert!(store.inbox("r", 0).await.unwrap().is_empty());
    assert_eq!(store.post("r", post("answer", b"other")).await.unwrap(), 2);
    // Also after the row that took it was pruned.
    for _ in 0..3 {
        claimed.run.head += 1;
        store.commit(next(&claimed, b"")).await.unwrap();
    }
    store.prune(Prune::Rows { held: holding("r", 1), before: 4, keep: vec![] }).await.unwrap();
    assert_eq!(store.post("r", answer(b"new")).await.unwrap(), 1);
    assert_eq!(store.inbox("r", 0).await.unwrap().len(), 1, "the other one");
    create(store, held("other")).await;
    assert_eq!(store.post("other", NewMessage::seal("other", "answer", Some("answer-1".into()), vec![])).await.unwrap(), 1);
}

/// A message that nobody will read is refused.
pub async fn c9_an_ended_run_takes_no_messages(store: &dyn Store) {
    for status in RunStatus::ALL.into_iter().filter(|status| status.has_ended()) {
        let id = status.as_str();
        let claimed = create(store, held(id)).await;
        store.commit(Commit { status: Some(status), release: true, ..next(&claimed, b"") }).await.unwrap();
        let refused = store.post(id, NewMessage::seal(id, "late", None, vec![])).await;
        assert!(matches!(&refused, Err(StoreError::Ended { run, status: now }) if run == id && *now == status), "{refused:?}");
    }
}

/// The inbox is bounded, and has room again when something was taken.
pub async fn c9_a_full_inbox_refuses(store: &dyn Store) {
    let claimed = create(store, held("r")).await;
    for batch in 0..INBOX_MAX / 100 {
        let posts = (0..100).map(|_| store.post("r", post("signal", &[batch as u8]))).collect();
        assert!(super::fixture::together(posts).await.iter().all(Result::is_ok));
    }
    let refused = store.post("r", post("signal", b"")).await;
    assert!(matches!(&refused, Err(StoreError::InboxFull { limit: INBOX_MAX, .. })), "{refused:?}");
    // Signals are in the way of signals alone.
    let full = INBOX_MAX as u64;
    assert_eq!(store.post("r", post("answer/a", b"")).await.unwrap(), full + 1);
    for (name, number) in [("pause", 2), ("pause", 2), ("cancel", 3)] {
        assert_eq!(store.post("r", post(&format!("command/{name}"), b"")).await.unwrap(), full + number);
    }
    let page = store.inbox("r", 0).await.unwrap();
    assert!(!page.is_empty() && page.len() <= READ_ROWS_MAX);
    store.commit(Commit { takes: vec![5], ..next(&claimed, b"") }).await.unwrap();
    assert_eq!(store.post("r", post("signal", b"")).await.unwrap(), full + 4);
}

/// Of the commands that nobody took, one says whether the run is paused, and one that it ends. One that says the same again is none.
pub async fn c9_a_command_counts_until_another_does(store: &dyn Store) {
    let mut claimed = create(store, held("r")).await;
    let command = async |name: &str| store.post("r", post(&format!("command/{name}"), b"null")).await;
    let untaken = async || store.inbox("r", 0).await.unwrap().iter().map(|mail| mail.number).collect::<Vec<_>>();
    assert_eq!((command("pause").await.unwrap(), command("pause").await.unwrap()), (1, 1));
    assert_eq!((command("resume").await.unwrap(), untaken().await), (2, vec![2]));
    assert_eq!(
        (command("cancel").await.unwrap(), command("pause").await.unwrap(), command("cancel").await.unwrap()),
        (3, 4, 3)
    );
    assert_eq!(untaken().await, [3, 4]);
    // Whoever has read the others may take them all the same; what was taken counts no more.
    store.commit(Commit { takes: vec![1, 2, 4], ..next(&claimed, b"") }).await.unwrap();
    claimed.run.head += 1;
    assert_eq!((command("pause").await.unwrap(), untaken().await), (5, vec![3, 5]));
    // A post with such a name of its own is a signal.
    assert_eq!((command("other").await.unwrap(), command("other").await.unwrap()), (6, 7));
    store.commit(Commit { status: Some(RunStatus::Finished), release: true, ..next(&claimed, b"") }).await.unwrap();
    let late = command("pause").await;
    assert!(matches!(late, Err(StoreError::Ended { .. })), "{late:?}");
}
