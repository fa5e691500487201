//! The log: rows are read back in order and unchanged, and only the holder of the run can write.

use super::Checking;
use super::fixture::{LONG, bodies, claim, create, header, held, holding, next, queued, read, row, rows, take_over, together};
use crate::store::error::StoreError;
use crate::store::limits::{BODY_BYTES_MAX, READ_ROWS_MAX, ROW_BYTES_MAX, ROWS_PER_COMMIT_MAX, TEXT_BYTES_MAX};
use crate::store::row::Row;
use crate::store::run_info::{Origin, RunStatus};
use crate::store::{Commit, Parts, Prune, Rows, Store, Wake};
use std::time::Duration;

/// Header and body are read back as sealed, and the run's own row matches.
pub async fn c1_record_is_read_back_unchanged(store: &dyn Store) {
    let claimed = create(store, held("r")).await;
    let mut commit = next(&claimed, br#"{"words":["a","b"]}"#);
    commit.version = Some(crate::store::run_info::GraphVersion { fingerprint: "fedc".into(), schema: 4 });
    store.commit(commit).await.unwrap();
    let record = read(store, "r", Rows::Each(vec![2])).await.unwrap().remove(0);
    assert_eq!((record.run.as_str(), record.sequence), ("r", 2));
    assert_eq!((record.header, record.body), (header(2, 1), br#"{"words":["a","b"]}"#.to_vec()));
    let info = store.head("r").await.unwrap();
    assert_eq!((info.id.as_str(), info.graph.as_str(), info.status), ("r", "essay", RunStatus::Running));
    assert_eq!((info.epoch, info.head, info.oldest, info.last_message, info.takeovers), (1, 2, 1, 0, 0));
    assert_eq!((info.owner.as_deref(), info.version.fingerprint.as_str(), info.version.schema), (Some("ann"), "fedc", 4));
    assert!(info.changed >= info.created && info.lease_until > Some(info.created));
}

/// No text is special, and no two texts are equal to a store.
pub async fn c1_any_text_is_a_distinct_run_id(store: &dyn Store) {
    let long = "x".repeat(TEXT_BYTES_MAX);
    let ids = [
        "a",
        "A",
        "%",
        "_",
        "a%",
        "' OR 1=1 --",
        "\"; DROP TABLE run;",
        "$1",
        "?1",
        "../a",
        " ",
        "\n",
        "ä",
        "a\u{308}",
        "🌱",
        &long,
    ];
    for id in ids {
        create(store, held(id)).await;
    }
    for id in ids {
        assert_eq!(store.head(id).await.unwrap().id, id);
        assert_eq!(read(store, id, Rows::Each(vec![1])).await.unwrap()[0].run, id);
    }
}

/// Headers and bodies are opaque bytes: empty, any values, and many.
pub async fn c1_bytes_are_stored_unchanged(store: &dyn Store) {
    create(store, held("r")).await;
    let all: Vec<u8> = (0..=255).collect();
    let bytes = [vec![], all.clone(), vec![0; 3], all.repeat(8_192)];
    let plain = |(body, sequence): (&Vec<u8>, u64)| Row {
        sequence,
        header: body[..body.len().min(300)].to_vec(),
        body: body.clone(),
        sum: u32::MAX,
    };
    let written: Vec<Row> = bytes.iter().zip(2..).map(plain).collect();
    store.commit(Commit::new(holding("r", 1), written.clone())).await.unwrap();
    assert!(store.read("r", Rows::Range(2..=5), Parts::Whole).await.unwrap() == written, "bytes differ");
}

/// The key of a row is its sequence, never its node.
pub async fn c1_log_keeps_every_turn_of_a_loop(store: &dyn Store) {
    let mut claimed = create(store, held("r")).await;
    for turn in 0..20_u8 {
        store.commit(next(&claimed, &[turn])).await.unwrap();
        claimed.run.head += 1;
    }
    let turns: Vec<Vec<u8>> = (0..20_u8).map(|turn| vec![turn]).collect();
    assert_eq!(bodies(store, "r").await[1..], turns);
}

/// A header can be checked without its body, which is not read.
pub async fn c1_headers_are_read_without_their_bodies(store: &dyn Store) {
    let claimed = create(store, held("r")).await;
    store.commit(next(&claimed, &[b'x'; 100_000])).await.unwrap();
    let found = store.read("r", Rows::Range(1..=2), Parts::Headers).await.unwrap();
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|row| row.body.is_empty()));
    assert_eq!(found[1].open_header("r").unwrap(), header(2, 1));
}

/// Sequences in any order and with repetitions are read in order, once. A page has the first rows.
pub async fn c1_rows_are_read_in_order_and_in_pages(store: &dyn Store) {
    let count = READ_ROWS_MAX as u64 + 10;
    store.create(held("r"), rows("r", count)).await.unwrap();
    let sequences = async |which| -> Vec<u64> {
        store.read("r", which, Parts::Headers).await.unwrap().iter().map(|row| row.sequence).collect()
    };
    assert_eq!(sequences(Rows::Each(vec![9, 2, 2, 7])).await, [2, 7, 9]);
    assert_eq!(sequences(Rows::Range(3..=6)).await, [3, 4, 5, 6]);
    assert_eq!(sequences(Rows::Range(count - 1..=u64::MAX)).await, [count - 1, count]);
    assert!(sequences(Rows::Range(count + 1..=u64::MAX)).await.is_empty());
    assert!(sequences(Rows::Each(vec![])).await.is_empty());
    let first = sequences(Rows::Range(1..=u64::MAX)).await;
    assert!(!first.is_empty() && first.len() <= READ_ROWS_MAX && first.iter().copied().eq(1..=first.len() as u64));
    let rest = sequences(Rows::Range(first.len() as u64 + 1..=u64::MAX)).await;
    assert_eq!(rest.last(), Some(&count), "the second page has the rest");
}

/// A sequence above the head is an error that names it.
pub async fn c1_missing_row_is_reported(store: &dyn Store) {
    create(store, held("r")).await;
    for sequence in [0, 2, i64::MAX as u64] {
        let rejected = store.read("r", Rows::Each(vec![1, sequence]), Parts::Whole).await.unwrap_err();
        let expected = sequence;
        assert!(
            matches!(&rejected, StoreError::NoSuchRow { run, sequence, head: 1 } if run == "r" && *sequence == expected),
            "{rejected}"
        );
    }
}

/// A commit is atomic: rows, status, wake time, taken messages, release.
pub async fn c2_rejected_commit_changes_nothing(store: &dyn Store) {
    create(store, held("r")).await;
    let message = crate::store::row::NewMessage::seal("r", "go", None, b"1".to_vec());
    store.send_message("r", message).await.unwrap();
    let before = store.head("r").await.unwrap();
    let stale = Commit {
        status: Some(RunStatus::Finished),
        wake: Some(Wake::OnMessage),
        takes: vec![1],
        release: true,
        ..Commit::new(holding("r", 9), vec![row("r", 2, 9, b"{}"), row("r", 3, 9, b"{}")])
    };
    assert!(matches!(store.commit(stale).await, Err(StoreError::Fenced { epoch: 9, .. })));
    assert_eq!(store.head("r").await.unwrap(), before);
    assert_eq!(bodies(store, "r").await.len(), 1);
    assert_eq!(store.inbox("r", 0).await.unwrap().len(), 1);
}

/// The answer to a commit can be lost. A repeated commit is confirmed again and writes nothing.
pub async fn c2_repeated_commit_is_confirmed_again(store: &dyn Store) {
    let claimed = create(store, held("r")).await;
    let commit = Commit {
        rows: vec![row("r", 2, 1, b"2"), row("r", 3, 1, b"3")],
        status: Some(RunStatus::Waiting),
        release: true,
        ..next(&claimed, b"")
    };
    let first = store.commit(commit.clone()).await.unwrap();
    let after = store.head("r").await.unwrap();
    assert_eq!(store.commit(commit).await.unwrap().last_message, first.last_message);
    assert_eq!(store.head("r").await.unwrap(), after);
    assert_eq!(bodies(store, "r").await.len(), 3);
    let other = Commit::new(holding("r", 1), vec![row("r", 2, 1, b"2"), row("r", 3, 1, b"other")]);
    assert!(
        matches!(store.commit(other).await, Err(StoreError::Fenced { .. })),
        "another commit with the same sequences is no repetition"
    );
}

/// A fork has its own copy of the rows.
pub async fn c5_fork_outlives_its_original(store: &dyn Store) {
    create(store, queued("first")).await;
    let origin = Origin { run: "first".into(), sequence: 1 };
    create(store, crate::store::NewRun { from: Some(origin.clone()), ..held("fork") }).await;
    store.delete("first").await.unwrap();
    assert_eq!(store.head("fork").await.unwrap().from, Some(origin));
    assert_eq!(bodies(store, "fork").await.len(), 1);
}

/// Reading a pruned row is an error with the oldest row; later rows are readable.
pub async fn c5_pruned_row_error_names_the_oldest(store: &dyn Store) {
    store.create(held("r"), rows("r", 10)).await.unwrap();
    let held = holding("r", 1);
    store.prune(Prune::Rows { held, before: 7, keep: vec![] }).await.unwrap();
    for which in [Rows::Each(vec![6]), Rows::Each(vec![1, 9]), Rows::Range(6..=9)] {
        assert!(matches!(read(store, "r", which).await, Err(StoreError::Pruned { oldest: 7, .. })));
    }
    assert_eq!(read(store, "r", Rows::Range(7..=10)).await.unwrap().len(), 4);
    assert_eq!(store.head("r").await.unwrap().oldest, 7);
}

/// A claim raises the epoch, and the former driver can no longer write.
pub async fn c6_stale_epoch_is_fenced(store: &dyn Store) {
    let stale = create(store, held("r")).await;
    let fresh = take_over(store, "r", "bob", LONG).await;
    assert_eq!((stale.run.epoch, fresh.run.epoch), (1, 2));
    assert!(matches!(store.commit(next(&stale, b"stale")).await, Err(StoreError::Fenced { epoch: 1, .. })));
    store.commit(next(&fresh, b"fresh")).await.unwrap();
    assert!(matches!(store.commit(next(&stale, b"stale")).await, Err(StoreError::Fenced { epoch: 1, .. })));
    let mut future = next(&fresh, b"never given");
    (future.epoch, future.rows) = (3, vec![row("r", 3, 3, b"never given")]);
    assert!(matches!(store.commit(future).await, Err(StoreError::Fenced { epoch: 3, .. })));
    assert_eq!(bodies(store, "r").await[1..], [b"fresh"]);
}

/// A commit must follow the head without a gap.
pub async fn c6_wrong_head_is_fenced(store: &dyn Store) {
    let mut claimed = create(store, held("r")).await;
    store.commit(next(&claimed, b"2")).await.unwrap();
    assert!(matches!(store.commit(next(&claimed, b"again")).await, Err(StoreError::Fenced { .. })));
    claimed.run.head = 5;
    assert!(matches!(store.commit(next(&claimed, b"gap")).await, Err(StoreError::Fenced { .. })));
    assert_eq!(store.head("r").await.unwrap().head, 2);
}

/// Of several concurrent commits with one sequence, exactly one succeeds.
pub async fn c6_one_of_concurrent_commits_succeeds(store: &dyn Store) {
    let mut claimed = create(store, held("r")).await;
    for _ in 0..10 {
        let commits = (0..8_u8).map(|writer| store.commit(next(&claimed, &[writer]))).collect();
        let answers = together(commits).await;
        let succeeded: Vec<usize> = (0..answers.len()).filter(|one| answers[*one].is_ok()).collect();
        assert_eq!(succeeded.len(), 1, "{answers:?}");
        claimed.run.head += 1;
        assert_eq!(bodies(store, "r").await.last(), Some(&vec![succeeded[0] as u8]));
    }
}

/// A commit that runs concurrently with a claim succeeds before it or is fenced. No commit succeeds
/// after the claim.
pub async fn c6_concurrent_claim_and_commit_leave_one_driver(store: &dyn Store) {
    let mut claimed = create(store, held("r")).await;
    for turn in 0..20_u8 {
        let (mut fresh, mut is_committed) = (None, false);
        let commit = next(&claimed, &[turn]);
        let owner = format!("driver {turn}");
        let committing = Box::pin(async { is_committed = store.commit(commit).await.is_ok() });
        let claiming = Box::pin(async { fresh = Some(take_over(store, "r", &owner, LONG).await) });
        together(vec![committing as Checking<'_>, claiming]).await;
        let fresh = fresh.unwrap();
        assert_eq!(fresh.run.epoch, claimed.run.epoch + 1);
        assert_eq!(fresh.run.head, claimed.run.head + u64::from(is_committed), "the claim sees a commit that succeeded");
        claimed = fresh;
    }
    assert_eq!(bodies(store, "r").await.len() as u64, claimed.run.head);
}

/// Sizes are limited, and the error has the size and the limit.
pub async fn c10_too_large_values_are_rejected(store: &dyn Store) {
    create(store, held("r")).await;
    let large = Row { sequence: 2, header: vec![], body: vec![0; ROW_BYTES_MAX + 1], sum: 0 };
    let rejected = store.commit(Commit::new(holding("r", 1), vec![large])).await.unwrap_err();
    assert!(
        matches!(rejected, StoreError::TooLarge { limit: ROW_BYTES_MAX, size, .. } if size == ROW_BYTES_MAX + 1),
        "{rejected}"
    );
    let many =
        (2..ROWS_PER_COMMIT_MAX as u64 + 3).map(|sequence| Row { sequence, header: vec![], body: vec![], sum: 0 }).collect();
    assert!(matches!(
        store.commit(Commit::new(holding("r", 1), many)).await,
        Err(StoreError::TooLarge { limit: ROWS_PER_COMMIT_MAX, .. })
    ));
    let message = crate::store::row::NewMessage::seal("r", "large", None, vec![0; BODY_BYTES_MAX + 1]);
    assert!(matches!(store.send_message("r", message).await, Err(StoreError::TooLarge { limit: BODY_BYTES_MAX, .. })));
    let long = "x".repeat(TEXT_BYTES_MAX + 1);
    assert!(matches!(store.create(held(&long), vec![]).await, Err(StoreError::TooLarge { limit: TEXT_BYTES_MAX, .. })));
    assert_eq!(bodies(store, "r").await.len(), 1);
}

/// Rejects missing rows, gaps, empty texts, texts with a NUL, and zero leases.
pub async fn c10_invalid_arguments_are_rejected(store: &dyn Store) {
    create(store, held("r")).await;
    let invalid = |answer: Result<(), StoreError>| assert!(matches!(answer, Err(StoreError::Invalid { .. })), "{answer:?}");
    invalid(store.commit(Commit::new(holding("r", 1), vec![])).await.map(drop));
    invalid(store.commit(Commit::new(holding("r", 1), vec![row("r", 2, 1, b""), row("r", 4, 1, b"")])).await.map(drop));
    invalid(store.create(held("gap"), vec![row("gap", 2, 1, b"")]).await.map(drop));
    for id in ["", "a\0b"] {
        let plain = Row { sequence: 1, header: vec![], body: vec![], sum: 0 };
        invalid(store.create(held(id), vec![plain]).await.map(drop));
        invalid(store.head(id).await.map(drop));
        invalid(store.delete(id).await);
        invalid(claim(store, id, "bob", LONG).await.map(drop));
        invalid(claim(store, "r", id, LONG).await.map(drop));
    }
    invalid(claim(store, "r", "ann", Duration::ZERO).await.map(drop));
    assert!(matches!(store.head("gap").await, Err(StoreError::RunNotFound { .. })));
}

/// Every method names the run that does not exist.
pub async fn c10_unknown_run_is_named(store: &dyn Store) {
    let unknown = |answer: Result<(), StoreError>| {
        assert!(matches!(&answer, Err(StoreError::RunNotFound { run }) if run == "none"), "{answer:?}");
    };
    unknown(store.head("none").await.map(drop));
    unknown(claim(store, "none", "bob", LONG).await.map(drop));
    unknown(store.read("none", Rows::Each(vec![1]), Parts::Whole).await.map(drop));
    unknown(store.read("none", Rows::Range(1..=2), Parts::Headers).await.map(drop));
    unknown(store.inbox("none", 0).await.map(drop));
    unknown(store.send_message("none", crate::store::row::NewMessage::seal("none", "go", None, vec![])).await.map(drop));
    unknown(store.delete("none").await);
    assert!(matches!(store.commit(Commit::new(holding("none", 1), rows("none", 1))).await, Err(StoreError::Fenced { .. })));
}
