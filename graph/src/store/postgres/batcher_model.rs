//! A model of [`Batcher`]: many drivers commit through it to a pretended server that fails in every
//! way. The reference is one call after the other: what each driver expects of its own run.

use super::batcher::{BYTES_PER_CALL_MAX, Batcher, CallResult, Turn};
use crate::store::error::StoreError;
use pleach_core::BoxFuture;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::task::yield_now;

const DRIVERS: u64 = 12;
const CALLS_PER_DRIVER: u64 = 200;

/// A commit of one record.
struct Call {
    run: u64,
    epoch: u64,
    head: u64,
    record: u64,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Good,
    /// Another driver holds the run.
    Fenced,
    /// The same call as before.
    Repeated,
    /// The row is locked while the batch is made.
    Locked,
    /// It makes any statement fail that contains it.
    Poison,
    TooLarge,
}

/// The logs of all runs, and what has happened to batches.
#[derive(Default)]
struct Server {
    logs: Mutex<HashMap<u64, Vec<u64>>>,
    random: AtomicU64,
    shared: AtomicU64,
    lost: AtomicU64,
    unanswered: AtomicU64,
    undone: AtomicU64,
}

impl Server {
    fn below(&self, limit: u64) -> u64 {
        // A linear congruential generator; its high bits are good enough.
        let next = |state: u64| state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let state = self.random.fetch_update(SeqCst, SeqCst, |state| Some(next(state))).expect("always some");
        (next(state) >> 33) % limit
    }

    /// Executes one call as a statement of its own.
    fn apply(&self, call: &Call) -> Result<u64, StoreError> {
        if call.fate == Fate::Poison {
            return Err(StoreError::Damaged { run: call.run.to_string(), sequence: 0, reason: "poison" });
        }
        let mut logs = self.logs.lock().unwrap();
        let log = logs.entry(call.run).or_default();
        let head = log.len() as u64;
        if call.epoch == 1 && call.head == head {
            log.push(call.record);
            Ok(head + 1)
        } else if call.epoch == 1 && call.head + 1 == head && log.last() == Some(&call.record) {
            Ok(head)
        } else {
            Err(StoreError::Fenced { run: call.run.to_string(), epoch: call.epoch })
        }
    }

    /// Executes a batch as one statement, of which the answer may be lost.
    async fn make(&self, calls: Vec<Arc<Call>>) -> Vec<CallResult<u64>> {
        for _ in 0..self.below(8) {
            yield_now().await;
        }
        self.shared.fetch_add(u64::from(calls.len() > 1), SeqCst);
        if calls.iter().any(|call| call.fate == Fate::Poison) {
            self.undone.fetch_add(1, SeqCst);
            return calls.iter().map(|_| CallResult::Alone).collect();
        }
        let fault = self.below(8);
        let (is_lost, is_unanswered) = (fault == 0, fault == 1);
        let lands = !(is_lost || is_unanswered) || self.below(2) == 0;
        let mut results = Vec::new();
        for call in &calls {
            let is_plain = matches!(call.fate, Fate::Good | Fate::Repeated | Fate::Fenced);
            let answer = if is_plain && lands { self.apply(call).ok() } else { None };
            results.push(answer.map_or(CallResult::Alone, CallResult::Done));
        }
        if is_lost {
            self.lost.fetch_add(1, SeqCst);
            return calls.iter().map(|_| CallResult::Lost).collect();
        }
        if is_unanswered {
            self.unanswered.fetch_add(1, SeqCst);
            return calls.iter().map(|_| CallResult::Failed(StoreError::unavailable("no answer"))).collect();
        }
        results
    }
}

/// Makes a call as a store does, and repeats it as a run does while the store is unavailable.
async fn commit(batcher: &Arc<Batcher<Call, u64>>, server: &Server, call: Call) -> Result<u64, StoreError> {
    let bytes = if call.fate == Fate::TooLarge { BYTES_PER_CALL_MAX + 1 } else { 1 };
    let call = Arc::new(call);
    loop {
        match batcher.turn(&call, bytes).await {
            Turn::Over(Err(error)) if error.is_temporary() => {}
            Turn::Over(answer) => return answer,
            Turn::Alone { place: _place, .. } => {
                for _ in 0..server.below(4) {
                    yield_now().await;
                }
                return server.apply(&call);
            }
        }
    }
}

/// Drives one run, and compares each answer with the expected one. Returns the expected log.
async fn drive(batcher: Arc<Batcher<Call, u64>>, server: Arc<Server>, run: u64) -> Vec<u64> {
    let mut log: Vec<u64> = Vec::new();
    for number in 0..CALLS_PER_DRIVER {
        let fates =
            [Fate::Good, Fate::Good, Fate::Good, Fate::Fenced, Fate::Repeated, Fate::Locked, Fate::Poison, Fate::TooLarge];
        let fate = fates[server.below(fates.len() as u64) as usize];
        let is_repeated = fate == Fate::Repeated && !log.is_empty();
        let head = log.len() as u64 - u64::from(is_repeated);
        let record = if is_repeated { log[head as usize] } else { run * CALLS_PER_DRIVER + number };
        let epoch = if fate == Fate::Fenced { 0 } else { 1 };
        let answer = commit(&batcher, &server, Call { run, epoch, head, record, fate }).await;
        match fate {
            Fate::Fenced => assert!(matches!(answer, Err(StoreError::Fenced { .. })), "{answer:?}"),
            Fate::Poison => assert!(matches!(answer, Err(StoreError::Damaged { .. })), "{answer:?}"),
            _ => {
                if !is_repeated {
                    log.push(record);
                }
                assert_eq!(answer.expect("the call succeeds"), log.len() as u64, "{fate:?}");
            }
        }
    }
    log
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c6_batched_calls_are_answered_as_one_after_the_other() {
    for seed in 0..20 {
        let server = Arc::new(Server { random: AtomicU64::new(seed), ..Server::default() });
        let batcher = Batcher::new({
            let server = Arc::clone(&server);
            move |calls| {
                let server = Arc::clone(&server);
                Box::pin(async move { server.make(calls).await })
            }
        });
        let drivers: Vec<_> =
            (0..DRIVERS).map(|run| tokio::spawn(drive(Arc::clone(&batcher), Arc::clone(&server), run))).collect();
        for (run, driver) in (0..).zip(drivers) {
            let log = driver.await.expect("the driver does not panic");
            assert_eq!(server.logs.lock().unwrap()[&run], log, "seed {seed}: the log of run {run}");
        }
        for (what, count) in
            [("shared", &server.shared), ("lost", &server.lost), ("unanswered", &server.unanswered), ("undone", &server.undone)]
        {
            assert!(count.load(SeqCst) > 0, "seed {seed}: no batch was {what}");
        }
    }
}

/// A batcher whose batches wait until they are released, and the batches so far.
struct Held {
    batcher: Arc<Batcher<u64, u64>>,
    made: Arc<Mutex<Vec<Vec<u64>>>>,
    release: Arc<Notify>,
}

fn held() -> Held {
    let (made, release) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Notify::new()));
    let batcher = Batcher::new({
        let (made, release) = (Arc::clone(&made), Arc::clone(&release));
        move |calls: Vec<Arc<u64>>| -> BoxFuture<'static, Vec<CallResult<u64>>> {
            let (made, release) = (Arc::clone(&made), Arc::clone(&release));
            Box::pin(async move {
                made.lock().unwrap().push(calls.iter().map(|call| **call).collect());
                release.notified().await;
                calls.iter().map(|call| CallResult::Done(**call)).collect()
            })
        }
    });
    Held { batcher, made, release }
}

/// Starts a call in a task of its own, which tells how the call went on.
fn start(batcher: &Arc<Batcher<u64, u64>>, number: u64) -> oneshot::Receiver<Option<u64>> {
    let (sender, over) = oneshot::channel();
    let batcher = Arc::clone(batcher);
    tokio::spawn(async move {
        let turn = batcher.turn(&Arc::new(number), 1).await;
        let _ = sender.send(if let Turn::Over(Ok(answer)) = turn { Some(answer) } else { None });
    });
    over
}

async fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        yield_now().await;
    }
}

#[tokio::test]
async fn c13_batch_without_an_answer_does_not_delay_the_next() {
    let Held { batcher, made, release } = held();
    let Turn::Alone { place, .. } = batcher.turn(&Arc::new(0), 1).await else { panic!("nothing is under way") };
    let first = start(&batcher, 1);
    until(|| made.lock().unwrap().len() == 1).await;
    let second = start(&batcher, 2);
    let third = start(&batcher, 3);
    until(|| made.lock().unwrap().len() == 2).await;
    assert_eq!(*made.lock().unwrap(), [vec![1], vec![2, 3]], "the first is still under way");
    until(|| {
        release.notify_waiters();
        Arc::strong_count(&batcher) == 1
    })
    .await;
    drop(place);
    assert_eq!((first.await, second.await, third.await), (Ok(Some(1)), Ok(Some(2)), Ok(Some(3))));
}

#[tokio::test]
async fn c13_call_whose_caller_is_gone_is_not_made() {
    let Held { batcher, made, release } = held();
    let Turn::Alone { place, .. } = batcher.turn(&Arc::new(0), 1).await else { panic!("nothing is under way") };
    let first = start(&batcher, 1);
    until(|| made.lock().unwrap().len() == 1).await;
    let (two, three) = (Arc::new(2), Arc::new(3));
    let mut gone = Box::pin(batcher.turn(&two, 1));
    let mut stays = Box::pin(batcher.turn(&three, 1));
    std::future::poll_fn(|cx| {
        assert!(gone.as_mut().poll(cx).is_pending() && stays.as_mut().poll(cx).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    drop(gone);
    release.notify_one();
    release.notify_one();
    assert!(matches!(stays.await, Turn::Over(Ok(3))));
    assert_eq!((first.await, made.lock().unwrap().clone()), (Ok(Some(1)), vec![vec![1], vec![3]]));
    drop(place);
}

#[test]
fn c13_calls_outlive_the_runtime_of_their_batch() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mine, other) = (runtime(), runtime());
    let Held { batcher, made, .. } = held();
    let Turn::Alone { place, .. } = mine.block_on(batcher.turn(&Arc::new(0), 1)) else { panic!("nothing is under way") };
    // The other runtime runs the batch, and ends.
    let start_on = |runtime: &tokio::runtime::Runtime, number| {
        let _entered = runtime.enter();
        start(&batcher, number)
    };
    let _first = start_on(&other, 1);
    other.block_on(until(|| made.lock().unwrap().len() == 1));
    let second = start_on(&mine, 2);
    mine.block_on(yield_now());
    drop(other);
    let is_alone = mine.block_on(async { tokio::time::timeout(Duration::from_secs(60), second).await });
    assert_eq!(is_alone.expect("it does not wait for ever"), Ok(None));
    drop(place);
}

#[test]
fn c13_calls_do_not_depend_on_the_thread_of_their_runner() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mine, other) = (runtime(), runtime());
    let Held { batcher, made, release } = held();
    let Turn::Alone { place, .. } = mine.block_on(batcher.turn(&Arc::new(0), 1)) else { panic!("nothing is under way") };
    // The runner belongs to a thread that is busy from now on.
    let mut first = None;
    other.block_on(async {
        first = Some(start(&batcher, 1));
        yield_now().await;
    });
    let second = mine.block_on(async {
        let second = start(&batcher, 2);
        let release_all = async {
            loop {
                release.notify_one();
                yield_now().await;
            }
        };
        tokio::select! {
            second = second => second.ok().flatten(),
            () = release_all => None,
            () = tokio::time::sleep(Duration::from_secs(60)) => None,
        }
    });
    assert_eq!(second, Some(2), "it does not wait for the other thread");
    drop((first, place, made));
}

#[tokio::test]
async fn c13_waiting_calls_are_bounded() {
    let Held { batcher, made, .. } = held();
    let call = Arc::new(1);
    let Turn::Alone { place, .. } = batcher.turn(&call, 1).await else { panic!("nothing is under way") };
    let mut turns = Vec::new();
    let mut rejected = None;
    std::future::poll_fn(|cx| {
        while rejected.is_none() {
            let mut turn = Box::pin(batcher.turn(&call, 1));
            match turn.as_mut().poll(cx) {
                std::task::Poll::Pending => turns.push(turn),
                std::task::Poll::Ready(turn) => rejected = Some(turn),
            }
        }
        std::task::Poll::Ready(())
    })
    .await;
    assert!(matches!(rejected, Some(Turn::Over(Err(StoreError::Unreachable(_))))));
    assert_eq!((turns.len(), made.lock().unwrap().len()), (65_536, 0));
    drop((turns, place));
}
