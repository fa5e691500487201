//! Shared parts of the cases: runs, rows, leases, and waiting without a runtime.

use super::Checking;
use crate::store::error::StoreError;
use crate::store::limits::BODY_BYTES_MAX;
use crate::store::record::{Fork, Header, Kind, LiveToken, Place, PlacedBy, Record};
use crate::store::row::Row;
use crate::store::run_info::{GraphVersion, RunInfo};
use crate::store::time::Timestamp;
use crate::store::{Claim, Commit, Held, Lease, NewRun, Parts, Rows, Store, Tags, Wake, Wanted};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

pub(super) const GRAPH: &str = "essay";
pub(super) const PRINT: &str = "0123456789abcdef";

/// The instance of every run, unless a case uses another one.
pub(super) const INSTANCE: u64 = 7_040_201;

/// A lease that does not expire during a case, and one that expires at once.
pub(super) const LONG: Duration = Duration::from_secs(600);
pub(super) const SHORT: Duration = Duration::from_millis(1);

/// How long a case waits for an expected change.
const TIMEOUT: Duration = Duration::from_secs(20);

pub(super) fn lease(owner: &str, length: Duration) -> Lease {
    Lease { owner: owner.into(), length }
}

pub(super) fn version() -> GraphVersion {
    GraphVersion { fingerprint: PRINT.into(), schema: 3 }
}

/// A run that is not held and is due at once.
pub(super) fn queued(id: &str) -> NewRun {
    NewRun {
        id: id.into(),
        graph: GRAPH.into(),
        version: version(),
        instance: INSTANCE,
        from: None,
        lease: None,
        wake: Wake::Now,
        deadline: None,
        tags: Tags::default(),
    }
}

/// A run that is held by `ann`.
pub(super) fn held(id: &str) -> NewRun {
    NewRun { lease: Some(lease("ann", LONG)), ..queued(id) }
}

/// A header with a value in every field.
pub(super) fn header(sequence: u64, epoch: u64) -> Header {
    let path = vec![Fork { sequence: 7, branch: 0 }, Fork { sequence: 9, branch: 41 }];
    let token = LiveToken {
        id: PlacedBy { sequence, branch: 0 },
        path: path.clone(),
        at: Place::Router("judge".into()),
        row: sequence,
        visit_records: vec![1, 2],
    };
    Header {
        graph: GRAPH.into(),
        fingerprint: PRINT.into(),
        schema: 3,
        epoch,
        kind: Kind::Step,
        parent: sequence - 1,
        path,
        node: "write".into(),
        next: Some(Place::Node("judge".into())),
        attempt: 2,
        visits: sequence,
        iteration: 1,
        at: Timestamp::from_millis(1_700_000_000_123),
        undo: 0,
        undo_before: 0,
        keys_of: 4,
        frontier: Some(vec![token]),
        base: Some(1),
    }
}

pub(super) fn row(run: &str, sequence: u64, epoch: u64, body: &[u8]) -> Row {
    Row::seal(run, sequence, &header(sequence, epoch), body.to_vec(), BODY_BYTES_MAX).expect("a row of a case")
}

/// The first rows of a run.
pub(super) fn rows(run: &str, count: u64) -> Vec<Row> {
    (1..=count).map(|sequence| row(run, sequence, 1, b"{}")).collect()
}

pub(super) async fn create(store: &dyn Store, run: NewRun) -> Claim {
    let first = rows(&run.id, 1);
    store.create(run, first).await.expect("a new run")
}

/// A commit of one row after the head of the claim.
pub(super) fn next(claim: &Claim, body: &[u8]) -> Commit {
    let RunInfo { id, epoch, head, .. } = &claim.run;
    Commit::new(Held::of(&claim.run), vec![row(id, head + 1, *epoch, body)])
}

/// A run of the usual instance, held with this epoch.
pub(super) fn holding(run: &str, epoch: u64) -> Held {
    Held { run: run.into(), instance: INSTANCE, epoch }
}

pub(super) async fn claim(store: &dyn Store, run: &str, owner: &str, length: Duration) -> Result<Claim, StoreError> {
    let wanted = Wanted::One { run: run.into(), force: false };
    store.claim(wanted, lease(owner, length)).await.map(only)
}

pub(super) async fn take_over(store: &dyn Store, run: &str, owner: &str, length: Duration) -> Claim {
    let wanted = Wanted::One { run: run.into(), force: true };
    only(store.claim(wanted, lease(owner, length)).await.expect("a claim by force"))
}

/// Claims ready runs of the usual graph.
pub(super) async fn claim_ready(store: &dyn Store, owner: &str, length: Duration, count: usize) -> Vec<Claim> {
    let wanted = Wanted::Ready { graphs: vec![(GRAPH.into(), version())], count };
    store.claim(wanted, lease(owner, length)).await.expect("claims")
}

pub(super) fn only(mut claims: Vec<Claim>) -> Claim {
    assert_eq!(claims.len(), 1, "claiming one run returns one claim: {claims:?}");
    claims.remove(0)
}

pub(super) fn ids(claims: &[Claim]) -> Vec<&str> {
    claims.iter().map(|claim| claim.run.id.as_str()).collect()
}

pub(super) async fn read(store: &dyn Store, run: &str, which: Rows) -> Result<Vec<Record>, StoreError> {
    store.read(run, which, Parts::Whole).await?.into_iter().map(|row| row.open(run)).collect()
}

/// Checks the whole log of a run, and returns its bodies.
pub(super) async fn bodies(store: &dyn Store, run: &str) -> Vec<Vec<u8>> {
    let records = read(store, run, Rows::Range(1..=u64::MAX)).await.expect("the log");
    assert!(records.iter().map(|record| record.sequence).eq(1..=records.len() as u64), "sequences have no gaps");
    records.into_iter().map(|record| record.body).collect()
}

/// Calls `ask` until it returns an answer.
pub(super) async fn until<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(begun.elapsed() < TIMEOUT, "the expected change did not come within {TIMEOUT:?}");
        pause().await;
    }
}

/// Claims a run as soon as the lease of its holder has expired.
pub(super) async fn claim_after_lease(
    store: &dyn Store,
    run: &str,
    owner: &str,
    length: Duration,
) -> Result<Claim, StoreError> {
    until(async || match claim(store, run, owner, length).await {
        Err(StoreError::Held { .. }) => None,
        other => Some(other),
    })
    .await
}

/// Yields once to other tasks.
async fn pause() {
    let mut is_first = true;
    std::future::poll_fn(|cx: &mut Context<'_>| {
        if std::mem::take(&mut is_first) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    })
    .await;
}

/// Runs all futures concurrently in one task.
pub(super) async fn together<F: Future<Output: Unpin> + Unpin>(futures: Vec<F>) -> Vec<F::Output> {
    let mut futures: Vec<Result<F::Output, F>> = futures.into_iter().map(Err).collect();
    std::future::poll_fn(|cx| {
        for one in &mut futures {
            if let Err(future) = one
                && let Poll::Ready(answer) = Pin::new(future).poll(cx)
            {
                *one = Ok(answer);
            }
        }
        if futures.iter().all(Result::is_ok) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    futures.into_iter().filter_map(Result::ok).collect()
}

/// Prints the name of the case if it panics.
pub(super) async fn named(name: &'static str, case: Checking<'_>) {
    struct Named<'a>(&'static str, Checking<'a>);

    impl Future for Named<'_> {
        type Output = ();

        fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            self.1.as_mut().poll(cx)
        }
    }

    impl Drop for Named<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("the store fails the conformance case {}", self.0);
            }
        }
    }

    Named(name, case).await;
}
