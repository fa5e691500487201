//! C6, C10, C13, C15: calls of many runs that share round trips. Each is judged separately, none
//! delays another, and no batches block each other. `cargo xtask test` starts a server.
#![cfg(all(feature = "conformance", feature = "postgres"))]

use crate::common::postgres::{application, connect, fresh_schema, server, store};
use crate::common::proxy::Proxy;
use crate::common::{LONG, check_dropped_commits, create_held, forced, holding, lease, next, row};
use pleach_graph::store::{
    Claim, Commit, Committed, Deadline, Held, MemoryStore, NewMessage, Parts, PostgresStore, Release, Rows, RunStatus, Store,
    StoreError, Timestamp, Wake,
};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;
use tokio_postgres::Client;

/// A call that takes this long waited for a lock.
const PATIENCE: Duration = Duration::from_secs(10);

async fn at_once<T>(call: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, call).await.expect("the call waits for a lock")
}

/// Makes all commits at once: the first alone, and the others in one batch.
async fn commit_all(store: &PostgresStore, commits: &[Commit]) -> Vec<Result<Committed, StoreError>> {
    let mut running: Vec<_> = commits.iter().map(|commit| store.commit(commit.clone())).collect();
    let mut answers: Vec<Option<_>> = commits.iter().map(|_| None).collect();
    std::future::poll_fn(|cx| {
        for (call, answer) in running.iter_mut().zip(&mut answers).filter(|(_, answer)| answer.is_none()) {
            if let Poll::Ready(output) = call.as_mut().poll(cx) {
                *answer = Some(output);
            }
        }
        if answers.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    answers.into_iter().flatten().collect()
}

/// Creates runs with these ids, held by "ann".
async fn create_all(store: &PostgresStore, ids: &[&str]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for id in ids {
        claims.push(create_held(store, id).await);
    }
    claims
}

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// A commit of the run that changes something at random, or cannot succeed.
fn any_commit(random: &mut Random, claim: &Claim, last: &Commit) -> Commit {
    let body = vec![random.below(256) as u8; random.below(200) as usize];
    let good = next(claim, &body);
    let at = Timestamp::from_millis(1_800_000_000_000 + random.below(1_000) as i64);
    match random.below(12) {
        0 => Commit { epoch: good.epoch + 1, ..good },
        1 => Commit { instance: good.instance + 1, ..good },
        2 => next(
            &Claim { run: pleach_graph::store::RunInfo { head: claim.run.head + 1, ..claim.run.clone() }, now: claim.now },
            &body,
        ),
        // The driver did not hear the answer.
        3 | 4 => last.clone(),
        5 => Commit { status: Some(RunStatus::Waiting), wake: Some(Wake::At(at)), ..good },
        6 => Commit { status: Some(RunStatus::Running), wake: Some(Wake::OnMessage), seen: 0, ..good },
        7 => Commit { deadline: Some(Deadline::At(at)), takes: vec![1, 2, 9], ..good },
        8 => {
            let second = row(&claim.run.id, claim.run.head + 2, claim.run.epoch, b"2");
            Commit { rows: good.rows.iter().cloned().chain([second]).collect(), deadline: Some(Deadline::Never), ..good }
        }
        9 => next(claim, &vec![7; 300 << 10]),
        _ => good,
    }
}

#[tokio::test]
async fn c6_commits_of_a_batch_are_judged_one_by_one() {
    for seed in 0..6 {
        let (postgres, plain) = (store(&fresh_schema().await).await, MemoryStore::new());
        let ids: Vec<String> = (0..20).map(|number| format!("run {number}")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let mut claims = create_all(&postgres, &ids).await;
        let mut last = Vec::new();
        for id in &ids {
            create_held(&plain, id).await;
            for number in 0..2 {
                let message = NewMessage::seal(id, "signal/go", None, vec![number]);
                postgres.send_message(id, message.clone()).await.unwrap();
                plain.send_message(id, message).await.unwrap();
            }
            last.push(Commit::new(holding(id, 1), vec![row(id, 1, 1, b"{}")]));
        }
        let mut random = Random(seed);
        for _ in 0..12 {
            let commits: Vec<Commit> =
                claims.iter().zip(&last).map(|(claim, last)| any_commit(&mut random, claim, last)).collect();
            let answers = at_once(commit_all(&postgres, &commits)).await;
            for (at, (commit, answer)) in commits.iter().zip(answers).enumerate() {
                let expected = plain.commit(commit.clone()).await;
                let of = |answer: &Result<Committed, StoreError>| match answer {
                    Ok(committed) => Ok(committed.last_message),
                    Err(error) => Err(error.to_string()),
                };
                assert_eq!(of(&answer), of(&expected), "seed {seed}: {commit:?}");
                if answer.is_ok() {
                    claims[at].run.head = commit.rows.last().unwrap().sequence;
                    last[at] = commit.clone();
                }
            }
        }
        for id in &ids {
            let (stored, expected) = (postgres.head(id).await.unwrap(), plain.head(id).await.unwrap());
            let facts = |info: &pleach_graph::store::RunInfo| {
                (
                    info.status,
                    info.epoch,
                    info.head,
                    info.owner.clone(),
                    info.deadline,
                    info.last_message,
                    info.wake_at.is_some(),
                )
            };
            assert_eq!(facts(&stored), facts(&expected), "seed {seed}: {id}");
            let rows = async |store: &dyn Store| store.read(id, Rows::Range(1..=99), Parts::Whole).await.unwrap();
            assert_eq!(rows(&postgres).await, rows(&plain).await, "seed {seed}: {id}");
            let inbox = async |store: &dyn Store| store.inbox(id, 0).await.unwrap().len();
            assert_eq!(inbox(&postgres).await, inbox(&plain).await, "seed {seed}: {id}");
        }
    }
}

#[tokio::test]
async fn c13_locked_row_delays_only_its_own_commit_of_a_batch() {
    let url = fresh_schema().await;
    let store = store(&url).await;
    let claims = create_all(&store, &["a", "b", "c", "d"]).await;
    let frozen = connect(&url).await;
    frozen.batch_execute("BEGIN; SELECT FROM pleach_run WHERE id = 'b' FOR UPDATE").await.unwrap();
    let mut commits: Vec<_> = claims.iter().map(|claim| store.commit(next(claim, b"{}"))).collect();
    let mut done = [false; 4];
    let others = std::future::poll_fn(|cx| {
        for (at, commit) in commits.iter_mut().enumerate() {
            if !done[at]
                && let Poll::Ready(answer) = commit.as_mut().poll(cx)
            {
                answer.unwrap();
                done[at] = true;
            }
        }
        if done == [true, false, true, true] { Poll::Ready(()) } else { Poll::Pending }
    });
    at_once(others).await;
    frozen.batch_execute("ROLLBACK").await.unwrap();
    at_once(commits.remove(1)).await.unwrap();
    assert_eq!(store.head("b").await.unwrap().head, 2);
}

#[tokio::test]
async fn c10_stray_row_damages_only_its_own_run_of_a_batch() {
    let url = fresh_schema().await;
    let store = store(&url).await;
    let claims = create_all(&store, &["a", "b", "c", "d"]).await;
    let stray = "INSERT INTO pleach_log (run, seq, sum, header, body) SELECT no, 2, 0, '', '' FROM pleach_run WHERE id = 'c'";
    connect(&url).await.batch_execute(stray).await.unwrap();
    let commits: Vec<Commit> = claims.iter().map(|claim| next(claim, b"{}")).collect();
    let answers = at_once(commit_all(&store, &commits)).await;
    assert!(answers[0].is_ok() && answers[1].is_ok() && answers[3].is_ok(), "{answers:?}");
    assert!(matches!(answers[2], Err(StoreError::Damaged { sequence: 2, .. })), "{answers:?}");
}

/// Waits until this many statements of the store wait for a lock.
async fn waiting(url: &str, count: i64) {
    let watcher = connect(&server()).await;
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'";
    at_once(async { while watcher.query_one(waiting, &[&application(url)]).await.unwrap().get::<_, i64>(0) < count {} }).await;
}

#[tokio::test]
async fn c10_each_run_of_a_lost_batch_repeats_its_own_commit() {
    let url = fresh_schema().await;
    let store = store(&url).await;
    let claims = create_all(&store, &["a", "b", "c", "d"]).await;
    let locker = connect(&url).await;
    locker.batch_execute("BEGIN; LOCK TABLE pleach_log IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let commits: Vec<Commit> = claims.iter().map(|claim| next(claim, b"{}")).collect();
    let committing = tokio::spawn({
        let store = store.clone();
        async move { commit_all(&store, &commits).await }
    });
    waiting(&url, 2).await;
    // The server ends all connections that wait: the single commit and the batch.
    let terminate = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE application_name = $1 AND wait_event_type = 'Lock'";
    let ended: i64 = connect(&server()).await.query_one(terminate, &[&application(&url)]).await.unwrap().get(0);
    assert_eq!(ended, 2, "the single commit and the batch");
    waiting(&url, 4).await;
    locker.batch_execute("ROLLBACK").await.unwrap();
    let answers = at_once(committing).await.unwrap();
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    for id in ["a", "b", "c", "d"] {
        assert_eq!(store.head(id).await.unwrap().head, 2, "{id} is committed once");
    }
}

#[tokio::test]
async fn c10_unanswered_batch_fails_each_commit_and_the_next_one_lands() {
    let url = fresh_schema().await;
    let proxy = Proxy::start(&url).await;
    let slow = PostgresStore::builder(&proxy.url(&url)).answer_timeout(Duration::from_secs(1)).connect().await.unwrap();
    let claims = create_all(&slow, &["a", "b", "c"]).await;
    let commits: Vec<Commit> = claims.iter().map(|claim| next(claim, b"{}")).collect();
    assert!(commit_all(&slow, &commits).await.iter().all(Result::is_ok));
    let second: Vec<Commit> =
        commits.iter().map(|commit| Commit { rows: vec![row(&commit.run, 3, 1, b"{}")], ..commit.clone() }).collect();
    proxy.swallow_old_connections();
    let answers = at_once(commit_all(&slow, &second)).await;
    assert!(answers.iter().all(|answer| matches!(answer, Err(StoreError::Unavailable(_)))), "{answers:?}");
    let answers = at_once(commit_all(&slow, &second)).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c13_dropped_commits_land_completely_or_not_at_all() {
    check_dropped_commits(store(&fresh_schema().await).await).await;
}

/// How often the server had to break a deadlock in this database. Sessions report with a delay, and
/// when they end.
async fn deadlocks(client: &Client) -> i64 {
    let count = "SELECT pg_stat_get_db_deadlocks(oid) FROM pg_database WHERE datname = current_database()";
    client.query_one(count, &[]).await.unwrap().get(0)
}

const RUNS: u64 = 16;
const ROUNDS: u64 = 60;

/// One client: commits, renews, releases and posts to the same runs as the others, several at once
/// and in any order. Every driver has the same epoch, so all their fences may match.
async fn hammer(store: PostgresStore, seed: u64) {
    let mut random = Random(seed);
    for round in 0..ROUNDS {
        let mut ids: Vec<String> = (0..RUNS).map(|number| format!("run {number}")).collect();
        for at in (1..ids.len()).rev() {
            ids.swap(at, random.below(at as u64 + 1) as usize);
        }
        let mut commits = Vec::new();
        for id in &ids {
            let info = store.head(id).await.unwrap();
            let held = Held::of(&info);
            let rows = vec![row(id, info.head + 1, info.epoch, &seed.to_be_bytes())];
            commits.push(Commit { takes: vec![info.last_message], ..Commit::new(held, rows) });
        }
        let held: Vec<Held> = commits.iter().map(Commit::held).collect();
        let renew = async |held: Vec<Held>| drop(at_once(store.renew(held, LONG)).await.unwrap());
        let backwards: Vec<Held> = held.iter().rev().cloned().collect();
        let post = NewMessage::seal(&ids[0], "signal/go", None, vec![]);
        let others: [Pin<Box<dyn Future<Output = ()> + Send + '_>>; 4] = [
            Box::pin(renew(held.clone())),
            Box::pin(renew(backwards.clone())),
            Box::pin(async { drop(store.send_message(&ids[0], post).await) }),
            Box::pin(async {
                if round % 8 == 0 {
                    drop(at_once(store.release(backwards[..4].to_vec(), Release::AsIs)).await.unwrap());
                    for one in &backwards[..4] {
                        drop(at_once(store.claim(forced(&one.run), lease(&format!("driver {seed} {round}")))).await);
                    }
                }
            }),
        ];
        let [first, second, third, fourth] = others;
        let (answers, ..) = tokio::join!(commit_all(&store, &commits), first, second, third, fourth);
        for answer in answers {
            let is_sound = matches!(answer, Ok(_) | Err(StoreError::Fenced { .. }));
            assert!(is_sound, "{answer:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c13_crossed_batches_of_several_connections_never_deadlock() {
    let url = fresh_schema().await;
    let watcher = connect(&server()).await;
    let before = deadlocks(&watcher).await;
    let first = store(&url).await;
    for number in 0..RUNS {
        create_held(&first, &format!("run {number}")).await;
    }
    let mut clients = Vec::new();
    for seed in 0..4 {
        clients.push(tokio::spawn(hammer(store(&url).await, seed)));
    }
    for client in clients {
        client.await.unwrap();
    }
    for number in 0..RUNS {
        let id = format!("run {number}");
        let head = first.head(&id).await.unwrap().head;
        let rows = first.read(&id, Rows::Range(1..=head), Parts::Headers).await.unwrap();
        assert!(head > ROUNDS && rows.len() as u64 == head.min(1_000), "{id}: {} of {head} rows", rows.len());
    }
    drop(first);
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
    at_once(async { while watcher.query_one(sessions, &[&application(&url)]).await.unwrap().get::<_, i64>(0) > 0 {} }).await;
    assert_eq!(deadlocks(&watcher).await, before, "the server broke a deadlock (40P01)");
}
