//! Tags, lists by tag and id, failures and refused messages.

use super::fixture::{LONG, create, held, holding, next, queued, row, take_over};
use crate::store::error::StoreError;
use crate::store::row::NewMessage;
use crate::store::run_failure::{FailureKind, RunFailure};
use crate::store::run_info::{Filter, RunCursor, RunInfo, RunStatus};
use crate::store::tags::Tags;
use crate::store::time::Timestamp;
use crate::store::{Commit, NewRun, Prune, REASON_BYTES_MAX, REFUSED_MAX, Refusal, RefusalCause, Store};
use std::time::Duration;

fn tags(pairs: &[(&str, &str)]) -> Tags {
    let mut tags = Tags::default();
    for (key, value) in pairs {
        tags.set(*key, *value).unwrap();
    }
    tags
}

fn tagged(id: &str, pairs: &[(&str, &str)]) -> NewRun {
    NewRun { tags: tags(pairs), ..held(id) }
}

/// Reads all pages of this size. Every page but the last has a cursor.
async fn pages(store: &dyn Store, filters: &[Filter], count: usize) -> Vec<RunInfo> {
    let (mut runs, mut after) = (Vec::new(), None::<RunCursor>);
    loop {
        let page = store.list(filters.to_vec(), after, count).await.unwrap();
        assert!(page.runs.len() <= count && page.damaged.is_empty());
        runs.extend(page.runs);
        match page.next {
            // A cursor survives its text form.
            Some(next) => after = Some(next.to_string().parse().unwrap()),
            None => return runs,
        }
    }
}

async fn ids(store: &dyn Store, filters: &[Filter]) -> Vec<String> {
    pages(store, filters, 100).await.into_iter().map(|run| run.id).collect()
}

/// Tags are set at creation, replaced by a commit, and found by every tag.
pub async fn o7_runs_are_listed_by_tag(store: &dyn Store) {
    let first = create(store, tagged("a", &[("customer", "42"), ("stage", "new")])).await;
    assert_eq!(first.run.tags, tags(&[("customer", "42"), ("stage", "new")]));
    create(store, tagged("b", &[("customer", "42")])).await;
    create(store, tagged("c", &[("customer", "4%")])).await;
    create(store, queued("d")).await;
    let of = |key: &str, value: &str| Filter::tag(key, value);
    assert_eq!(ids(store, &[of("customer", "42")]).await, ["b", "a"]);
    assert_eq!(ids(store, &[of("customer", "42"), of("stage", "new")]).await, ["a"]);
    assert_eq!(ids(store, &[of("customer", "4%")]).await, ["c"], "a text is no pattern");
    for (key, value) in [("customer", "4"), ("stage", ""), ("", "42"), ("cust", "42"), ("a\0", "b")] {
        assert!(ids(store, &[of(key, value)]).await.is_empty(), "{key:?} {value:?}");
    }
    // A commit replaces all tags, or keeps them.
    store.commit(Commit { tags: Some(tags(&[("stage", "paid"), ("customer", "42")])), ..next(&first, b"") }).await.unwrap();
    assert_eq!(ids(store, &[of("stage", "new")]).await, [""; 0]);
    assert_eq!(ids(store, &[of("stage", "paid"), of("customer", "42")]).await, ["a"]);
    store.commit(Commit::new(holding("a", 1), vec![row("a", 3, 1, b"")])).await.unwrap();
    assert_eq!(store.head("a").await.unwrap().tags, tags(&[("customer", "42"), ("stage", "paid")]));
    store
        .commit(Commit { tags: Some(Tags::default()), ..Commit::new(holding("a", 1), vec![row("a", 4, 1, b"")]) })
        .await
        .unwrap();
    assert!(store.head("a").await.unwrap().tags.is_empty());
    assert_eq!(ids(store, &[of("customer", "42")]).await, ["b"]);
}

/// Only the holder of the run changes its tags, and a repeated commit changes nothing.
pub async fn o7_tags_are_fenced_with_their_commit(store: &dyn Store) {
    let first = create(store, tagged("r", &[("stage", "1")])).await;
    let second = take_over(store, "r", "bob", LONG).await;
    assert_eq!(second.run.tags, tags(&[("stage", "1")]), "a claim returns the tags");
    let of_stale = Commit { tags: Some(tags(&[("stage", "stale")])), ..next(&first, b"") };
    assert!(matches!(store.commit(of_stale).await, Err(StoreError::Fenced { .. })));
    assert_eq!(ids(store, &[Filter::tag("stage", "stale")]).await, [""; 0]);
    for _ in 0..2 {
        let commit = Commit { tags: Some(tags(&[("stage", "2")])), ..next(&second, b"") };
        store.commit(commit).await.unwrap();
        assert_eq!(ids(store, &[Filter::tag("stage", "2")]).await, ["r"]);
    }
    assert!(ids(store, &[Filter::tag("stage", "1")]).await.is_empty());
    // The end of a run keeps its tags, and a later claim returns them.
    let claimed = take_over(store, "r", "eve", LONG).await;
    store.commit(Commit { status: Some(RunStatus::Finished), release: true, ..next(&claimed, b"") }).await.unwrap();
    assert_eq!(ids(store, &[Filter::tag("stage", "2"), Filter::Status(RunStatus::Finished)]).await, ["r"]);
}

/// The tags are removed with their run.
pub async fn o7_tags_are_removed_with_their_run(store: &dyn Store) {
    let ended = create(store, tagged("ended", &[("k", "v")])).await;
    store.commit(Commit { status: Some(RunStatus::Failed), release: true, ..next(&ended, b"") }).await.unwrap();
    create(store, NewRun { lease: None, ..tagged("queued", &[("k", "v")]) }).await;
    assert_eq!(store.prune(Prune::Ended { unchanged_for: Duration::ZERO, count: 9 }).await.unwrap(), 1);
    assert_eq!(ids(store, &[Filter::tag("k", "v")]).await, ["queued"]);
    store.delete("queued").await.unwrap();
    assert!(ids(store, &[Filter::tag("k", "v")]).await.is_empty());
    create(store, queued("queued")).await;
    assert!(store.head("queued").await.unwrap().tags.is_empty(), "a new run with the id has other tags");
}

/// Ids are compared by bytes, and a prefix is not a pattern.
pub async fn o7_runs_are_listed_by_id_prefix(store: &dyn Store) {
    let names = ["order-1", "order-10", "order-2", "order", "orders", "o%der", "Order-1", "ördér", "\u{10ffff}\u{10ffff}"];
    for name in names {
        create(store, NewRun { graph: if name == "order-2" { "other".into() } else { "essay".into() }, ..queued(name) }).await;
    }
    let prefix = |text: &str| Filter::IdPrefix(text.into());
    assert_eq!(ids(store, &[prefix("order-")]).await, ["order-2", "order-10", "order-1"]);
    assert_eq!(ids(store, &[prefix("order-1")]).await, ["order-10", "order-1"]);
    assert_eq!(ids(store, &[prefix("o%")]).await, ["o%der"]);
    assert_eq!(ids(store, &[prefix("ö")]).await, ["ördér"]);
    assert_eq!(ids(store, &[prefix("\u{10ffff}")]).await, ["\u{10ffff}\u{10ffff}"]);
    assert_eq!(ids(store, &[prefix("")]).await.len(), names.len());
    assert_eq!(ids(store, &[prefix("order"), Filter::Graph("other".into())]).await, ["order-2"]);
    for none in ["x", "order-11", "a\0b", &"o".repeat(600)] {
        assert!(ids(store, &[prefix(none)]).await.is_empty(), "{none:?}");
    }
}

/// Random runs, filters and pages are compared with a plain model: every run once, the newest
/// first.
pub async fn o7_lists_match_a_model(store: &dyn Store) {
    let mut random = 0x9e37_79b9_u64;
    let mut pick = |below: u64| {
        // A generator of Lehmer.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let statuses = [RunStatus::Running, RunStatus::Finished, RunStatus::Failed];
    let mut model: Vec<RunInfo> = Vec::new();
    for number in 0..60 {
        let id = format!("{}-{number}", ["a", "ab", "b"][pick(3) as usize]);
        let graph = ["essay", "other"][pick(2) as usize].to_string();
        let mut pairs = Tags::default();
        for key in ["x", "y"] {
            if pick(2) == 0 {
                pairs.set(key, pick(3).to_string()).unwrap();
            }
        }
        let claim = create(store, NewRun { graph, tags: pairs, ..held(&id) }).await;
        let status = statuses[pick(3) as usize];
        let ended = status != RunStatus::Running;
        let changed_tags = (pick(4) == 0).then(|| tags(&[("x", "9")]));
        store.commit(Commit { status: Some(status), release: ended, tags: changed_tags, ..next(&claim, b"") }).await.unwrap();
        // A run that is created and deleted leaves a gap in the order.
        if pick(5) == 0 {
            create(store, queued(&format!("deleted {number}"))).await;
            store.delete(&format!("deleted {number}")).await.unwrap();
        }
        model.push(store.head(&id).await.unwrap());
    }
    model.sort_by_key(|run| run.created);
    model.reverse();
    // Runs of the same millisecond are listed in the order of their creation.
    let all = pages(store, &[], 100).await;
    assert_eq!(all.iter().map(|run| run.created).collect::<Vec<_>>(), model.iter().map(|run| run.created).collect::<Vec<_>>());
    let mut sorted = (all.clone(), model);
    sorted.0.sort_by(|one, other| one.id.cmp(&other.id));
    sorted.1.sort_by(|one, other| one.id.cmp(&other.id));
    assert_eq!(sorted.0, sorted.1);
    for _ in 0..150 {
        let mut filters = Vec::new();
        let time = |pick: &mut dyn FnMut(u64) -> u64, all: &[RunInfo]| all[pick(all.len() as u64) as usize].created;
        for kind in 0..8 {
            if pick(4) > 0 {
                continue;
            }
            filters.push(match kind {
                0 => Filter::Status(statuses[pick(3) as usize]),
                1 => Filter::Graph(["essay", "other"][pick(2) as usize].into()),
                2 => Filter::tag("x", ["0", "1", "2", "9"][pick(4) as usize]),
                3 => Filter::tag("y", pick(3).to_string()),
                4 => Filter::IdPrefix(["a", "ab", "b-", "c"][pick(4) as usize].into()),
                5 => Filter::CreatedSince(time(&mut pick, &all)),
                6 => Filter::CreatedBefore(time(&mut pick, &all)),
                _ => Filter::ChangedSince(time(&mut pick, &all)),
            });
        }
        let expected: Vec<&str> =
            all.iter().filter(|run| filters.iter().all(|one| matches(one, run))).map(|run| run.id.as_str()).collect();
        let count = 1 + pick(12) as usize;
        let found = pages(store, &filters, count).await;
        assert_eq!(found.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), expected, "{filters:?} by {count}");
    }
}

fn matches(filter: &Filter, run: &RunInfo) -> bool {
    match filter {
        Filter::Status(status) => run.status == *status,
        Filter::Graph(graph) => run.graph == *graph,
        Filter::Tag { key, value } => run.tags.iter().any(|tag| tag == (key, value)),
        Filter::IdPrefix(prefix) => run.id.as_bytes().starts_with(prefix.as_bytes()),
        Filter::CreatedSince(time) => run.created >= *time,
        Filter::CreatedBefore(time) => run.created < *time,
        Filter::ChangedSince(time) => run.changed >= *time,
        Filter::ChangedBefore(time) => run.changed < *time,
    }
}

/// The last failure is in the run's own row until the run finishes or continues after its end.
pub async fn o6_failure_is_stored_with_the_run(store: &dyn Store) {
    let mut claim = create(store, held("r")).await;
    assert_eq!(claim.run.failure, None);
    let failure = |reason: &str, attempt| {
        let new = RunFailure::new(FailureKind::Node, "charge".into(), attempt, reason.into());
        RunFailure { at: Timestamp::from_millis(7), sequence: 3, ..new }
    };
    let mut commit = async |change: Commit| {
        store.commit(Commit { rows: next(&claim, b"").rows, ..change }).await.unwrap();
        claim.run.head += 1;
        store.head("r").await.unwrap().failure
    };
    let plain = || Commit::new(holding("r", 1), Vec::new());
    let first = failure("declined", 1);
    assert_eq!(commit(Commit { failure: Some(first.clone()), ..plain() }).await, Some(first.clone()));
    assert_eq!(commit(plain()).await, Some(first), "it stays until the next");
    let long = commit(Commit { failure: Some(failure(&"é\0".repeat(REASON_BYTES_MAX), 2)), ..plain() }).await.unwrap();
    assert!((REASON_BYTES_MAX - 3..=REASON_BYTES_MAX).contains(&long.reason.len()), "{}", long.reason.len());
    let end = failure("declined again", 3);
    let status = |status| Commit { status: Some(status), ..plain() };
    assert_eq!(commit(Commit { failure: Some(end.clone()), ..status(RunStatus::Failed) }).await, Some(end.clone()));
    assert_eq!(store.list(vec![], None, 9).await.unwrap().runs[0].failure, Some(end));
    assert_eq!(commit(status(RunStatus::Running)).await, None, "the run continues");
    commit(Commit { failure: Some(failure("late", 1)), ..plain() }).await;
    assert_eq!(commit(status(RunStatus::Finished)).await, None, "the run finished");
}

/// A refused message is taken, and stays listed with the reason.
pub async fn o9_refused_messages_are_listed(store: &dyn Store) {
    let claim = create(store, held("r")).await;
    let post = async |name: &str, dedup: Option<&str>| {
        let message = NewMessage::seal("r", name, dedup.map(Into::into), b"\"banana\"".to_vec());
        store.send_message("r", message).await.unwrap()
    };
    let (answer, signal) = (post("answer/approve", None).await, post("signal/go", Some("once")).await);
    let cause = RefusalCause::WrongType { expected: "Answer<\"ü\">".into(), line: 2, column: 7 };
    let refusal = Refusal { number: answer, reason: "a number is needed".into(), cause: cause.clone(), wait: Some(1) };
    let unknown = Refusal { number: 99, reason: String::new(), wait: None, ..refusal.clone() };
    let refuses = vec![refusal, unknown];
    for _ in 0..2 {
        store.commit(Commit { refuses: refuses.clone(), ..next(&claim, b"") }).await.unwrap();
        let refused = store.refused("r").await.unwrap();
        assert_eq!(refused.len(), 1);
        assert_eq!(
            (refused[0].number, refused[0].name.as_str(), refused[0].reason.as_str()),
            (answer, "answer/approve", "a number is needed")
        );
        assert!(refused[0].at >= claim.run.created);
        assert_eq!((&refused[0].cause, refused[0].wait), (&cause, Some(1)), "the cause is kept as a value");
    }
    let left: Vec<u64> = store.inbox("r", 0).await.unwrap().iter().map(|message| message.number).collect();
    assert_eq!(left, [signal], "a refused message is taken");
    let commit = Commit::new(holding("r", 1), vec![row("r", 3, 1, b"")]);
    store.commit(Commit { takes: vec![signal], refuses, ..commit }).await.unwrap();
    assert_eq!(store.refused("r").await.unwrap().len(), 1, "a taken message is not refused");
    // Pruning keeps refused messages.
    store.prune(Prune::Rows { held: holding("r", 1), before: 3, keep: vec![] }).await.unwrap();
    assert_eq!(store.refused("r").await.unwrap().len(), 1);
    assert!(matches!(store.refused("none").await, Err(StoreError::RunNotFound { .. })));
}

/// The last refused messages are kept; older ones count as taken.
pub async fn o9_refused_messages_are_bounded(store: &dyn Store) {
    create(store, held("r")).await;
    for round in 0..3_u64 {
        let mut refuses = Vec::new();
        for number in 0..30 {
            let message = NewMessage::seal("r", "signal/go", Some(format!("{round} {number}")), vec![]);
            let number = store.send_message("r", message).await.unwrap();
            let reason = "x".repeat(REASON_BYTES_MAX + 1);
            refuses.push(Refusal { number, reason, cause: RefusalCause::TooLate, wait: None });
        }
        let commit = Commit::new(holding("r", 1), vec![row("r", 2 + round, 1, b"")]);
        store.commit(Commit { refuses, ..commit }).await.unwrap();
    }
    let refused = store.refused("r").await.unwrap();
    let numbers: Vec<u64> = refused.iter().map(|refused| refused.number).collect();
    assert_eq!(numbers, (91 - REFUSED_MAX as u64..91).collect::<Vec<_>>());
    assert!(refused.iter().all(|refused| refused.reason.len() == REASON_BYTES_MAX));
    assert!(store.inbox("r", 0).await.unwrap().is_empty());
    let again = NewMessage::seal("r", "signal/go", Some("0 0".into()), vec![]);
    assert_eq!(store.send_message("r", again).await.unwrap(), 1, "a duplicate is known even after it was forgotten");
}
