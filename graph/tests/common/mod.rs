//! Shared by the tests of stores: sample runs and rows, and temporary folders.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

#[cfg(feature = "tokio")]
pub mod observed;
#[cfg(all(feature = "conformance", feature = "postgres", unix))]
pub mod own_server;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "postgres")]
pub mod proxy;
#[cfg(feature = "tokio")]
pub mod unserved;
#[cfg(feature = "tokio")]
pub mod workers;

use pleach_graph::store::{
    BODY_BYTES_MAX, Claim, Commit, Filter, GraphVersion, Header, Held, Kind, Lease, NewMessage, NewRun, Parts, Place, Prune,
    Release, Row, Rows, RunStatus, Store, StoreError, Tags, Timestamp, Wake, Wanted,
};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

pub const LONG: Duration = Duration::from_secs(600);

/// The instance of every run.
pub const INSTANCE: u64 = 7_040_201;

pub fn header(sequence: u64, epoch: u64) -> Header {
    Header {
        graph: "essay".into(),
        fingerprint: "0123456789abcdef".into(),
        schema: 1,
        epoch,
        kind: Kind::Step,
        parent: sequence - 1,
        path: vec![],
        node: "write".into(),
        next: Some(Place::Node("judge".into())),
        attempt: 1,
        visits: sequence,
        iteration: 0,
        at: Timestamp::from_millis(1_700_000_000_000),
        frontier: None,
        base: None,
        undo: 0,
        undo_before: 0,
        keys_of: 0,
    }
}

pub fn row(run: &str, sequence: u64, epoch: u64, body: &[u8]) -> Row {
    Row::seal(run, sequence, &header(sequence, epoch), body.to_vec(), BODY_BYTES_MAX).unwrap()
}

pub fn lease(owner: &str) -> Lease {
    Lease { owner: owner.into(), length: LONG }
}

fn version() -> GraphVersion {
    GraphVersion { fingerprint: "0123456789abcdef".into(), schema: 1 }
}

/// A run of the usual instance, held with this epoch.
pub fn holding(run: &str, epoch: u64) -> Held {
    Held { run: run.into(), instance: INSTANCE, epoch }
}

pub fn queued(id: &str) -> NewRun {
    let (id, graph) = (id.into(), "essay".into());
    let (wake, tags) = (Wake::Now, Tags::default());
    NewRun { id, graph, version: version(), instance: INSTANCE, from: None, lease: None, wake, deadline: None, tags }
}

pub async fn create_held(store: &dyn Store, id: &str) -> Claim {
    store.create(NewRun { lease: Some(lease("ann")), ..queued(id) }, vec![row(id, 1, 1, b"{}")]).await.unwrap()
}

pub fn next(claim: &Claim, body: &[u8]) -> Commit {
    let (run, epoch, sequence) = (claim.run.id.as_str(), claim.run.epoch, claim.run.head + 1);
    Commit::new(Held::of(&claim.run), vec![row(run, sequence, epoch, body)])
}

pub fn ready(count: usize) -> Wanted {
    Wanted::Ready { graphs: vec![("essay".into(), version())], count }
}

pub fn forced(run: &str) -> Wanted {
    Wanted::One { run: run.into(), force: true }
}

/// The errors of all calls on a store whose database was upgraded since it was opened, by the name
/// of the call.
pub async fn errors_of_all_calls(store: &dyn Store, claim: &Claim) -> Vec<(&'static str, StoreError)> {
    let (run, held) = (claim.run.id.as_str(), Held::of(&claim.run));
    let rows = Prune::Rows { held: held.clone(), before: 1, keep: vec![] };
    vec![
        ("create", store.create(queued("new"), vec![row("new", 1, 1, b"{}")]).await.unwrap_err()),
        ("claim", store.claim(forced(run), lease("bob")).await.unwrap_err()),
        ("claim ready", store.claim(ready(1), lease("bob")).await.unwrap_err()),
        ("renew", store.renew(vec![held.clone()], LONG).await.unwrap_err()),
        ("release", store.release(vec![held], Release::AsIs).await.unwrap_err()),
        ("commit", store.commit(next(claim, b"{}")).await.unwrap_err()),
        ("head", store.head(run).await.unwrap_err()),
        ("read", store.read(run, Rows::Each(vec![1]), Parts::Whole).await.unwrap_err()),
        ("list", store.list(vec![], None, 9).await.unwrap_err()),
        ("post", store.send_message(run, NewMessage::seal(run, "signal/go", None, vec![])).await.unwrap_err()),
        ("inbox", store.inbox(run, 0).await.unwrap_err()),
        ("prune rows", store.prune(rows).await.unwrap_err()),
        ("prune ended", store.prune(Prune::Ended { unchanged_for: LONG, count: 9 }).await.unwrap_err()),
        ("delete", store.delete(run).await.unwrap_err()),
    ]
}

/// Checks that runs which only seem old because of a wrong clock are kept.
///
/// `set_times` changes the creation time of a run (if given) and its end time.
pub async fn check_wrong_clock(store: &dyn Store, set_times: impl AsyncFn(&str, Option<Timestamp>, Timestamp)) {
    let now = Timestamp::from(std::time::SystemTime::now()).as_millis();
    let ago = |days: i64| Timestamp::from_millis(now - days * 86_400_000);
    for id in ["a", "b", "c", "jitter", "reversed", "future"] {
        let finished =
            Commit { status: Some(RunStatus::Finished), release: true, ..next(&create_held(store, id).await, b"{}") };
        store.commit(finished).await.unwrap();
    }
    let prune = async || {
        let unchanged_for = Duration::from_secs(30 * 24 * 60 * 60);
        store.prune(Prune::Ended { unchanged_for, count: 9 }).await.unwrap()
    };
    // The clock showed 1970 when the run ended.
    set_times("a", None, Timestamp::default()).await;
    assert_eq!(prune().await, 0);
    // The clock has jumped by two years since, and runs have ended after that.
    set_times("b", Some(ago(801)), ago(800)).await;
    assert_eq!(prune().await, 0);
    // An end before the creation does not prove that runs ended regularly.
    set_times("reversed", None, ago(300)).await;
    assert_eq!(prune().await, 0);
    // Clocks differ a little.
    let minute = |time: Timestamp| Timestamp::from_millis(time.as_millis() + 60_000);
    set_times("jitter", Some(minute(ago(300))), ago(300)).await;
    // No jump: runs ended all along. An end in the future does not count. Runs that ended in 1970
    // or before their creation stay.
    set_times("c", Some(ago(301)), ago(300)).await;
    set_times("future", Some(ago(301)), ago(-4_000)).await;
    assert_eq!(prune().await, 3);
    assert!(store.head("a").await.is_ok() && store.head("reversed").await.is_ok());
}

/// Lists the runs of a filter by pages of one run. A damaged run is named as such. Ends after ten
/// pages.
pub async fn by_pages_of_one(store: &dyn Store, filter: Filter) -> Vec<String> {
    let (mut listed, mut after) = (Vec::new(), None);
    for _ in 0..10 {
        let page = store.list(vec![filter.clone()], after, 1).await.unwrap();
        listed.extend(page.runs.into_iter().map(|run| run.id));
        listed.extend(page.damaged.into_iter().map(|damaged| format!("{} is damaged", damaged.run)));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    listed
}

/// Bytes that do not compress.
pub fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut random = pleach_core::Random::seeded(seed);
    std::iter::repeat_with(|| random.next_u64() as u8).take(count).collect()
}

/// A temporary folder, removed when dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        Self::below(std::env::temp_dir())
    }

    /// In memory if the system has such a folder. For files whose syncs prove nothing.
    pub fn in_memory() -> Self {
        let memory = PathBuf::from("/dev/shm");
        Self::below(if memory.is_dir() { memory } else { std::env::temp_dir() })
    }

    fn below(place: PathBuf) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let path = place.join(format!("pleach-store-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed)));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Checks that `there` gets hints of runs that `here` creates. A hint before it listens is lost, so
/// several runs are created.
pub async fn check_hints_of_new_runs(here: &dyn Store, there: &dyn Store) {
    let mut hints = 0;
    for number in 0..100 {
        let hint = there.hint();
        let id = format!("new {number}");
        here.create(queued(&id), vec![row(&id, 1, 1, b"{}")]).await.unwrap();
        hints += u32::from(tokio::time::timeout(Duration::from_millis(500), hint).await.is_ok());
        // The first hint may only say that it listens from now on.
        if hints == 2 {
            return;
        }
    }
    panic!("no hint of a new run arrived");
}

/// Checks that a commit whose caller is gone lands completely or not at all, and never after
/// another driver has taken over. Several runs commit at once, so that their calls share batches.
#[cfg(feature = "tokio")]
pub async fn check_dropped_commits(store: impl Store + Clone + 'static) {
    const COMMITS: u64 = 80;
    let drive = async |store: &dyn Store, run: String, mut random: u64| {
        let mut below = move |limit: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % limit
        };
        let mut claim = create_held(store, &run).await;
        for number in 0..COMMITS {
            let commit = next(&claim, &number.to_be_bytes());
            let drops = below(2) == 0;
            if drops {
                let mut dropped = store.commit(commit.clone());
                for _ in 0..=below(40) {
                    let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(dropped.as_mut().poll(cx))).await;
                    if polled.is_ready() {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            }
            if drops && below(3) == 0 {
                // Another driver continues wherever the run is.
                let before = claim.run.head;
                claim = store.claim(forced(&run), lease(&number.to_string())).await.unwrap().pop().unwrap();
                if claim.run.head > before {
                    continue;
                }
            }
            store.commit(next(&claim, &number.to_be_bytes())).await.unwrap();
            claim.run.head += 1;
        }
        let rows = store.read(&run, Rows::Range(2..=COMMITS + 9), Parts::Whole).await.unwrap();
        let bodies: Vec<_> = rows.into_iter().map(|row| row.open(&run).unwrap().body).collect();
        assert_eq!(bodies, (0..COMMITS).map(|number| number.to_be_bytes().to_vec()).collect::<Vec<_>>(), "{run}");
    };
    let drivers = (0..8).map(|run| {
        let store = store.clone();
        tokio::spawn(async move { drive(&store, format!("run {run}"), run).await })
    });
    for driver in drivers.collect::<Vec<_>>() {
        driver.await.unwrap();
    }
}
