//! C9, C13: one locked row never stops another run: frozen clients, killed clients, and concurrent
//! writers. `cargo xtask test` starts a server.
#![cfg(all(feature = "conformance", feature = "postgres"))]

use crate::common::postgres::{application, connect, fresh_schema, server, store};
use crate::common::proxy::Proxy;
use crate::common::{LONG, create_held, forced, lease, next, queued, ready, row};
use pleach_graph::store::{
    Commit, Filter, Held, INBOX_MAX, NewMessage, PostgresStore, Prune, Release, Renewed, RunInfo, RunStatus, Store, StoreError,
    Wanted,
};
use pleach_graph::{END, Graph, Worker};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_postgres::Client;

/// A call that takes this long waited for a lock.
const PATIENCE: Duration = Duration::from_secs(5);

/// A client that has locked the row of a run and does nothing more.
async fn freeze(url: &str, run: &str) -> Client {
    let client = connect(url).await;
    client.batch_execute("BEGIN").await.unwrap();
    client.query_one("SELECT id FROM pleach_run WHERE id = $1 FOR UPDATE", &[&run]).await.unwrap();
    client
}

async fn unfreeze(client: &Client) {
    client.batch_execute("ROLLBACK").await.unwrap();
}

/// The answer of a call that must not wait for a lock.
async fn at_once<T>(call: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, call).await.expect("the call waits for a lock")
}

async fn lease_of(store: &PostgresStore, run: &str) -> RunInfo {
    at_once(store.head(run)).await.unwrap()
}

#[tokio::test]
async fn c13_busy_rows_do_not_block_renewal() {
    let url = fresh_schema().await;
    let store = store(&url).await;
    let mut held = Vec::new();
    for id in ["a", "b", "c", "d"] {
        held.push(Held::of(&create_held(&store, id).await.run));
    }
    let before = lease_of(&store, "a").await.lease_until;
    let frozen = freeze(&url, "b").await;
    for _ in 0..3 {
        let Renewed { lost, busy, .. } = at_once(store.renew(held.clone(), LONG * 2)).await.unwrap();
        assert_eq!((lost, busy), (vec![], vec![held[1].clone()]));
    }
    for id in ["a", "c", "d"] {
        assert!(lease_of(&store, id).await.lease_until > before, "{id} was not renewed");
    }
    assert!(lease_of(&store, "b").await.lease_until < lease_of(&store, "a").await.lease_until);
    unfreeze(&frozen).await;
    let Renewed { lost, busy, .. } = at_once(store.renew(held.clone(), LONG * 2)).await.unwrap();
    assert_eq!((lost, busy), (vec![], vec![]));
    // A locked run that is not held is lost, not busy.
    let taken = store.claim(forced("b"), lease("bob")).await.unwrap().remove(0);
    assert_eq!(taken.run.epoch, 2);
    let frozen = freeze(&url, "b").await;
    let Renewed { lost, busy, .. } = at_once(store.renew(held.clone(), LONG)).await.unwrap();
    assert_eq!((lost, busy), (vec![held[1].clone()], vec![]));
    unfreeze(&frozen).await;
}

#[tokio::test]
async fn c13_calls_for_other_runs_do_not_wait_for_a_locked_row() {
    let url = fresh_schema().await;
    let store = store(&url).await;
    let (a, c) = (create_held(&store, "a").await, create_held(&store, "c").await);
    for id in ["locked", "ready", "ended"] {
        store.create(queued(id), vec![row(id, 1, 1, b"{}")]).await.unwrap();
    }
    let ended = store.claim(forced("ended"), lease("bob")).await.unwrap().remove(0);
    let end = Commit { status: Some(RunStatus::Finished), release: true, ..next(&ended, b"{}") };
    store.commit(end).await.unwrap();
    let frozen = freeze(&url, "locked").await;
    at_once(store.send_message("a", NewMessage::seal("a", "signal/go", None, vec![]))).await.unwrap();
    at_once(store.commit(next(&a, b"{}"))).await.unwrap();
    at_once(store.prune(Prune::Rows { held: Held::of(&a.run), before: 2, keep: vec![] })).await.unwrap();
    let claimed = at_once(store.claim(ready(9), lease("bob"))).await.unwrap();
    assert_eq!(claimed.iter().map(|claim| claim.run.id.as_str()).collect::<Vec<_>>(), ["ready"]);
    at_once(store.claim(forced("c"), lease("eve"))).await.unwrap();
    assert_eq!(at_once(store.list(vec![Filter::Graph("essay".into())], None, 9)).await.unwrap().runs.len(), 5);
    at_once(store.create(queued("new"), vec![row("new", 1, 1, b"{}")])).await.unwrap();
    at_once(store.delete("new")).await.unwrap();
    assert_eq!(at_once(store.prune(Prune::Ended { unchanged_for: Duration::ZERO, count: 9 })).await.unwrap(), 1);
    let stale = Held::of(&c.run);
    assert_eq!(at_once(store.release(vec![Held::of(&a.run), stale.clone()], Release::AsIs)).await.unwrap(), [stale]);
    // Reading the locked run needs no lock.
    at_once(store.head("locked")).await.unwrap();
    at_once(store.inbox("locked", 0)).await.unwrap();
    unfreeze(&frozen).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c13_waiting_release_holds_no_other_row() {
    let url = fresh_schema().await;
    let store = store(&url).await;
    let mut held = Vec::new();
    for id in ["a", "b", "c"] {
        held.push(Held::of(&create_held(&store, id).await.run));
    }
    let frozen = freeze(&url, "b").await;
    let releasing = tokio::spawn({
        let (store, held) = (store.clone(), held.clone());
        async move { store.release(held, Release::AsIs).await }
    });
    for id in ["a", "c"] {
        at_once(async { while lease_of(&store, id).await.owner.is_some() {} }).await;
        at_once(store.claim(forced(id), lease("bob"))).await.unwrap();
    }
    assert!(!releasing.is_finished(), "it waits for b");
    unfreeze(&frozen).await;
    assert_eq!(at_once(releasing).await.unwrap().unwrap(), []);
    assert_eq!(lease_of(&store, "b").await.owner, None);
}

#[tokio::test]
async fn c13_call_for_a_locked_run_fails_with_the_reason() {
    let url = fresh_schema().await;
    // Half of the answer timeout is the lock timeout.
    let store = PostgresStore::builder(&url).answer_timeout(Duration::from_secs(1)).connect().await.unwrap();
    let claim = create_held(&store, "r").await;
    let frozen = freeze(&url, "r").await;
    let check = |error: StoreError| {
        assert!(matches!(error, StoreError::Unreachable(_)), "{error:?}");
        assert!(error.to_string().contains("55P03") && error.to_string().contains("pg_locks"), "{error}");
    };
    check(at_once(store.commit(next(&claim, b"{}"))).await.unwrap_err());
    check(at_once(store.send_message("r", NewMessage::seal("r", "signal/go", None, vec![]))).await.unwrap_err());
    check(at_once(store.claim(forced("r"), lease("bob"))).await.unwrap_err());
    check(at_once(store.release(vec![Held::of(&claim.run)], Release::AsIs)).await.unwrap_err());
    unfreeze(&frozen).await;
    store.commit(next(&claim, b"{}")).await.unwrap();
    let info = store.head("r").await.unwrap();
    assert_eq!((info.head, info.last_message, info.epoch), (2, 0, 1), "nothing was changed");
}

/// A client that freezes at any point of a call has locked nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c13_client_frozen_in_a_call_locks_nothing() {
    type Act = fn(PostgresStore) -> tokio::task::JoinHandle<()>;
    let acts: [(&str, Act); 4] = [
        ("post", |store| {
            tokio::spawn(async move {
                drop(store.send_message("r", NewMessage::seal("r", "command/pause", None, b"null".to_vec())).await);
            })
        }),
        ("claim", |store| tokio::spawn(async move { drop(store.claim(forced("r"), lease("late")).await) })),
        ("prune", |store| {
            let held = crate::common::holding("r", 1);
            tokio::spawn(async move { drop(store.prune(Prune::Rows { held, before: 1, keep: vec![] }).await) })
        }),
        ("delete", |store| tokio::spawn(async move { drop(store.delete("gone").await) })),
    ];
    for (name, act) in acts {
        for requests in 0.. {
            let url = fresh_schema().await;
            let proxy = Proxy::start(&url).await;
            let slow = store(&proxy.url(&url)).await;
            let other = store(&url).await;
            let held = Held::of(&create_held(&other, "r").await.run);
            other.create(queued("gone"), vec![row("gone", 1, 1, b"{}")]).await.unwrap();
            proxy.freeze_after(requests);
            let mut call = act(slow);
            let is_done = tokio::select! { done = &mut call => { done.unwrap(); true }, () = proxy.frozen() => false };
            let renewed = at_once(other.renew(vec![held], LONG)).await.unwrap();
            assert_eq!(renewed.busy, [], "{name} after {requests} requests");
            at_once(other.send_message("r", NewMessage::seal("r", "signal/go", None, vec![]))).await.unwrap();
            at_once(other.claim(forced("r"), lease("bob"))).await.unwrap();
            let deleted = at_once(other.delete("gone")).await;
            assert!(matches!(deleted, Ok(()) | Err(StoreError::RunNotFound { .. })), "{name}: {deleted:?}");
            call.abort();
            if is_done {
                assert!(requests > 1, "{name} was stopped at several points");
                break;
            }
        }
    }
}

/// A client that is killed at any point of a post leaves nothing locked, and the message is stored
/// at most once.
#[tokio::test]
async fn c13_post_interrupted_at_any_point_leaves_nothing_locked() {
    let url = fresh_schema().await;
    let store = store(&url).await;
    create_held(&store, "r").await;
    let mut posted = 0;
    for polls in 1.. {
        let message = NewMessage::seal("r", "signal/go", Some(format!("{polls}")), vec![]);
        let mut posting = store.send_message("r", message.clone());
        let mut left = polls;
        let polling = std::future::poll_fn(|cx| {
            left -= 1;
            match posting.as_mut().poll(cx) {
                std::task::Poll::Pending if left > 0 => std::task::Poll::Pending,
                polled => std::task::Poll::Ready(polled),
            }
        });
        let is_done = polling.await.is_ready();
        drop(posting);
        posted += 1;
        assert_eq!(at_once(store.send_message("r", message)).await.unwrap(), posted, "it is stored once");
        if is_done {
            assert!(polls > 2);
            break;
        }
    }
    assert_eq!(store.inbox("r", 0).await.unwrap().len() as u64, posted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c9_posts_of_many_clients_keep_the_limit_and_the_numbers() {
    let url = fresh_schema().await;
    let first = store(&url).await;
    create_held(&first, "r").await;
    let mut clients = Vec::new();
    for client in 0..4 {
        let store = store(&url).await;
        clients.push(tokio::spawn(async move {
            let (mut numbers, mut rejected) = (Vec::new(), 0);
            for turn in 0..INBOX_MAX / 4 + 5 {
                // Every tenth message has a dedup text that the other clients use, too.
                let dedup = (turn % 10 == 0).then(|| format!("{turn}"));
                match store.send_message("r", NewMessage::seal("r", "signal/go", dedup, vec![client])).await {
                    Ok(number) => numbers.push(number),
                    Err(StoreError::InboxFull { .. }) => rejected += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            (numbers, rejected)
        }));
    }
    let mut all = Vec::new();
    for client in clients {
        all.extend(client.await.unwrap().0);
    }
    while first.send_message("r", NewMessage::seal("r", "signal/go", None, vec![])).await.is_ok() {}
    assert_eq!(first.head("r").await.unwrap().last_message, INBOX_MAX as u64, "the limit is kept");
    let inbox: Vec<u64> = first.inbox("r", 0).await.unwrap().iter().map(|message| message.number).collect();
    assert_eq!(inbox, (1..=INBOX_MAX as u64).collect::<Vec<_>>(), "the limit is reached without gaps");
    assert!(all.iter().all(|number| inbox.contains(number)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c9_commands_of_many_clients_leave_one_of_each_kind() {
    let url = fresh_schema().await;
    let first = store(&url).await;
    create_held(&first, "r").await;
    let mut clients = Vec::new();
    for client in 0..4 {
        let store = store(&url).await;
        clients.push(tokio::spawn(async move {
            for turn in 0..20 {
                let name = ["command/pause", "command/resume", "command/cancel", "signal/go"][(turn + client) % 4];
                store.send_message("r", NewMessage::seal("r", name, None, b"null".to_vec())).await.unwrap();
            }
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
    let names: Vec<String> = first.inbox("r", 0).await.unwrap().into_iter().map(|message| message.message.name).collect();
    let count = |kinds: &[&str]| names.iter().filter(|name| kinds.contains(&name.as_str())).count();
    assert_eq!(count(&["command/pause", "command/resume"]), 1, "{names:?}");
    assert_eq!(count(&["command/cancel"]), 1, "{names:?}");
    assert_eq!(count(&["signal/go"]), 20, "{names:?}");
}

/// Makes calls that all wait for the lock of the run's row, so that all have read it before the
/// first one writes it.
async fn together<T: Send + 'static>(url: &str, calls: Vec<impl Future<Output = T> + Send + 'static>) -> Vec<T> {
    let frozen = freeze(url, "r").await;
    let calls: Vec<_> = calls.into_iter().map(tokio::spawn).collect();
    // The activity view is fixed within a transaction, so another client has to look.
    let watcher = connect(&server()).await;
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'";
    let all = calls.len() as i64;
    at_once(async { while watcher.query_one(waiting, &[&application(url)]).await.unwrap().get::<_, i64>(0) < all {} }).await;
    unfreeze(&frozen).await;
    let mut answers = Vec::new();
    for call in calls {
        answers.push(at_once(call).await.unwrap());
    }
    answers
}

type Posting = std::pin::Pin<Box<dyn Future<Output = Result<u64, StoreError>> + Send>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c13_writers_that_waited_for_a_row_decide_again() {
    let url = fresh_schema().await;
    let store = store(&url).await;
    let post = |name: &str, dedup: Option<&str>| -> Posting {
        let (store, post) = (store.clone(), NewMessage::seal("r", name, dedup.map(String::from), b"null".to_vec()));
        Box::pin(async move { store.send_message("r", post).await })
    };
    let claim = |owner: &'static str| {
        let store = store.clone();
        async move { store.claim(Wanted::One { run: "r".into(), force: false }, lease(owner)).await }
    };
    store.create(queued("r"), vec![row("r", 1, 1, b"{}")]).await.unwrap();
    let claims = together(&url, vec![claim("ann"), claim("bob"), claim("eve")]).await;
    assert_eq!(claims.iter().filter(|claim| claim.is_ok()).count(), 1, "{claims:?}");
    assert_eq!(claims.iter().filter(|claim| matches!(claim, Err(StoreError::Held { .. }))).count(), 2, "{claims:?}");
    let numbers = |answers: Vec<Result<u64, StoreError>>| answers.into_iter().map(Result::unwrap).collect::<Vec<_>>();
    let pauses = together(&url, vec![post("command/pause", None), post("command/pause", None)]).await;
    assert_eq!(numbers(pauses), [1, 1], "the second returns the same number");
    let mixed = together(&url, ["command/resume", "signal/go", "command/cancel"].map(|name| post(name, None)).into()).await;
    let mut mixed = numbers(mixed);
    mixed.sort_unstable();
    assert_eq!(mixed, [2, 3, 4]);
    let once = together(&url, (0..4).map(|_| post("signal/go", Some("once"))).collect()).await;
    assert_eq!(numbers(once), [5; 4], "one message for one dedup text");
    for _ in 2..INBOX_MAX - 1 {
        post("signal/go", None).await.unwrap();
    }
    let last = together(&url, (0..4).map(|_| post("signal/go", None)).collect()).await;
    assert_eq!(last.iter().filter(|answer| answer.is_ok()).count(), 1, "{last:?}");
    assert_eq!(last.iter().filter(|answer| matches!(answer, Err(StoreError::InboxFull { .. }))).count(), 3, "{last:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c13_worker_keeps_its_runs_while_one_row_is_locked() {
    // On a busy machine the worker may not be scheduled for a second or two.
    const LEASE: Duration = Duration::from_secs(6);
    const RUNS: [&str; 4] = ["run 0", "run 1", "run 2", "run 3"];
    let url = fresh_schema().await;
    let store = store(&url).await;
    let (begun, go) = (Arc::new(watch::Sender::new(0)), Arc::new(watch::Sender::new(false)));
    let node = {
        let (begun, go) = (Arc::clone(&begun), Arc::clone(&go));
        move |state: u32| {
            let (begun, mut go) = (Arc::clone(&begun), go.subscribe());
            async move {
                begun.send_modify(|begun| *begun += 1);
                go.wait_for(|go| *go).await.map_err(|error| error.to_string())?;
                Ok::<_, String>(state + 1)
            }
        }
    };
    let graph = Graph::<u32>::new("waiting").add_node("wait", node).add_edge("wait", END).set_entry("wait").compile().unwrap();
    for id in RUNS {
        graph.run(1).id(id).checkpoint(&store).enqueue().await.unwrap();
    }
    let worker = Worker::new(&store).graph(&graph).lease(LEASE).poll_every(Duration::from_millis(100)).start().unwrap();
    begun.subscribe().wait_for(|begun| *begun == RUNS.len()).await.unwrap();
    let frozen = freeze(&url, RUNS[1]).await;
    let begin = lease_of(&store, RUNS[0]).await.lease_until.unwrap();
    for id in [RUNS[0], RUNS[2], RUNS[3]] {
        // One lease later it is still renewed.
        let patience = async { while lease_of(&store, id).await.lease_until < Some(begin.after(LEASE)) {} };
        tokio::time::timeout(LEASE * 10, patience).await.expect("the run is renewed while another is locked");
    }
    unfreeze(&frozen).await;
    go.send_replace(true);
    for id in RUNS {
        let outcome = tokio::time::timeout(Duration::from_secs(30), graph.outcome_of(id, &store)).await.expect("it ends");
        assert_eq!(outcome.unwrap(), 2, "{id}");
        let info = store.head(id).await.unwrap();
        assert!(id == RUNS[1] || (info.epoch, info.takeovers) == (2, 0), "{id} was claimed once: {info:?}");
    }
    worker.close(Duration::from_secs(5)).await;
}
