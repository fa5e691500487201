//! Lists, prunes and deletes runs.

use super::fixture::{LONG, bodies, create, held, holding, next, queued, rows, take_over};
use crate::store::error::StoreError;
use crate::store::row::{NewMessage, Row};
use crate::store::run_info::{Filter, RunStatus};
use crate::store::time::Timestamp;
use crate::store::{Commit, NewRun, Parts, Prune, Rows, Store};
use std::time::Duration;

async fn listed(store: &dyn Store, filters: Vec<Filter>) -> Vec<String> {
    let list = store.list(filters, None, 100).await.unwrap();
    assert_eq!(list.next, None);
    list.runs.into_iter().map(|run| run.id).collect()
}

async fn end(store: &dyn Store, id: &str, status: RunStatus) {
    let claimed = create(store, held(id)).await;
    store.commit(Commit { status: Some(status), release: true, ..next(&claimed, b"") }).await.unwrap();
}

/// All filters must match, the newest run comes first, and a text is not a pattern.
pub async fn c11_runs_are_listed_by_status_graph_and_time(store: &dyn Store) {
    create(store, queued("a")).await;
    end(store, "b", RunStatus::Finished).await;
    create(store, NewRun { graph: "ess%".into(), ..queued("c") }).await;
    assert_eq!(listed(store, vec![]).await, ["c", "b", "a"]);
    assert_eq!(listed(store, vec![Filter::Graph("essay".into())]).await, ["b", "a"]);
    assert_eq!(listed(store, vec![Filter::Graph("ess%".into())]).await, ["c"]);
    assert_eq!(listed(store, vec![Filter::Status(RunStatus::Finished)]).await, ["b"]);
    assert_eq!(listed(store, vec![Filter::Graph("essay".into()), Filter::Status(RunStatus::Running)]).await, ["a"]);
    for hostile in ["' OR 1=1 --", "", "%", "a\0b"] {
        assert!(listed(store, vec![Filter::Graph(hostile.into())]).await.is_empty());
    }
    let contradiction = vec![Filter::Status(RunStatus::Finished), Filter::Status(RunStatus::Running)];
    assert!(listed(store, contradiction).await.is_empty());
    let info = store.head("c").await.unwrap();
    let later = info.changed.after(Duration::from_secs(1));
    assert_eq!(listed(store, vec![Filter::CreatedBefore(later), Filter::ChangedBefore(later)]).await.len(), 3);
    assert!(listed(store, vec![Filter::CreatedSince(later)]).await.is_empty());
    assert!(listed(store, vec![Filter::ChangedSince(later)]).await.is_empty());
    assert!(listed(store, vec![Filter::CreatedSince(Timestamp::default()), Filter::CreatedSince(later)]).await.is_empty());
    assert!(listed(store, vec![Filter::CreatedSince(info.created)]).await.contains(&"c".to_string()));
    assert!(!listed(store, vec![Filter::CreatedBefore(info.created)]).await.contains(&"c".to_string()));
    assert_eq!(store.list(vec![Filter::Graph("ess%".into())], None, 9).await.unwrap().runs, [info]);
}

/// Pages follow each other without gaps, even when runs are created and deleted between them.
pub async fn c11_pages_list_every_run_once(store: &dyn Store) {
    for number in 0..10 {
        create(store, queued(&number.to_string())).await;
    }
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = store.list(vec![], after, 3).await.unwrap();
        assert!(page.runs.len() <= 3);
        seen.extend(page.runs.into_iter().map(|run| run.id));
        after = page.next;
        if after.is_none() {
            break;
        }
        create(store, queued(&format!("later {}", seen.len()))).await;
        store.delete(seen.last().unwrap()).await.unwrap();
    }
    assert_eq!(seen, ["9", "8", "7", "6", "5", "4", "3", "2", "1", "0"]);
    assert!(store.list(vec![], None, 0).await.unwrap().runs.is_empty());
}

/// Ended runs are removed when they are old enough. Live, stuck and held runs stay.
pub async fn c11_ended_runs_are_removed_by_age(store: &dyn Store) {
    for (id, status) in [("a", RunStatus::Finished), ("b", RunStatus::Failed), ("c", RunStatus::Compensated)] {
        end(store, id, status).await;
    }
    end(store, "held", RunStatus::Finished).await;
    take_over(store, "held", "bob", LONG).await;
    create(store, queued("live")).await;
    let prune = async |unchanged_for, count| store.prune(Prune::Ended { unchanged_for, count }).await.unwrap();
    assert_eq!(prune(LONG, 10).await, 0);
    assert_eq!(prune(Duration::ZERO, 2).await, 2);
    assert_eq!(prune(Duration::ZERO, 10).await, 1);
    assert_eq!(prune(Duration::ZERO, 10).await, 0);
    assert_eq!(listed(store, vec![]).await, ["live", "held"]);
}

/// Nothing of the run remains, and its id can be used again.
pub async fn c11_deleted_run_is_gone(store: &dyn Store) {
    store.create(queued("r"), rows("r", 5)).await.unwrap();
    store.send_message("r", NewMessage::seal("r", "go", Some("once".into()), vec![])).await.unwrap();
    store.delete("r").await.unwrap();
    assert!(matches!(store.head("r").await, Err(StoreError::RunNotFound { .. })));
    assert!(matches!(store.read("r", Rows::Each(vec![1]), Parts::Whole).await, Err(StoreError::RunNotFound { .. })));
    let again = create(store, queued("r")).await;
    assert_eq!((again.run.head, again.run.last_message, bodies(store, "r").await.len()), (1, 0, 1));
    assert!(store.inbox("r", 0).await.unwrap().is_empty());
}

/// The named rows stay, a fenced driver cannot prune, and the head is never removed.
pub async fn c11_pruning_keeps_the_named_rows(store: &dyn Store) {
    store.create(held("r"), rows("r", 20)).await.unwrap();
    let prune = async |epoch, before, keep: &[u64]| {
        let held = holding("r", epoch);
        store.prune(Prune::Rows { held, before, keep: keep.to_vec() }).await
    };
    assert!(matches!(prune(2, 10, &[]).await, Err(StoreError::Fenced { .. })));
    assert_eq!(prune(1, 10, &[3, 5, 15]).await.unwrap(), 7);
    let kept: Vec<Row> = store.read("r", Rows::Each(vec![3, 5, 10]), Parts::Whole).await.unwrap();
    assert!(kept.into_iter().all(|row| row.open("r").is_ok()));
    assert!(matches!(store.read("r", Rows::Each(vec![4]), Parts::Whole).await, Err(StoreError::Pruned { oldest: 10, .. })));
    assert_eq!(prune(1, 8, &[5]).await.unwrap(), 1, "a row that is no longer named is removed");
    assert_eq!(store.head("r").await.unwrap().oldest, 10, "the oldest row number never decreases");
    assert_eq!(prune(1, 100, &[]).await.unwrap(), 11);
    let info = store.head("r").await.unwrap();
    assert_eq!((info.head, info.oldest), (20, 20));
    assert_eq!(store.read("r", Rows::Range(20..=20), Parts::Whole).await.unwrap().len(), 1);
}
