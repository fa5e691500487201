//! [`Batcher`]: calls of many runs that share a round trip.
//!
//! A call that comes while no other is under way is made by its caller, at once. Calls that come
//! meanwhile wait in a queue. A *runner*, a separate task, makes all waiting calls in one round
//! trip, then the calls that came during it, until none is left. So batches form by themselves, and
//! a call that is alone waits for nothing.
//!
//! | state of a call | entered by | left by |
//! |---|---|---|
//! | with its caller | `turn`, if nothing is under way, or the call is large | its caller |
//! | waiting | `turn` | `next_batch`; the end of a runner that is dropped |
//! | in a batch | `next_batch` | its result |
//!
//! Invariants:
//! 1. Each call gets a result of its own. What a batch cannot decide, its caller does alone: a
//!    failure of one call costs the others nothing.
//! 2. While calls wait, there is a runner. A runner that got no answer for [`PATIENCE`] no longer
//!    counts as one: the next batch does not wait for its answer. A call that waits for [`STALL`]
//!    starts a second runner: nothing polls the first one, because another task blocks its thread
//!    or its runtime is idle.
//! 3. A call whose caller is gone is not made, unless its batch has begun.
//! 4. Nothing is awaited, woken or spawned under the lock.

use crate::store::error::StoreError;
use pleach_core::BoxFuture;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// The largest number of calls in one batch.
pub(super) const CALLS_PER_BATCH_MAX: usize = 256;

/// The number of bytes after which a batch takes no further call.
const BYTES_PER_BATCH: usize = 1 << 20;

/// A call with more bytes is made alone: others would wait for its bytes.
pub(super) const BYTES_PER_CALL_MAX: usize = 256 << 10;

/// The largest number of waiting calls.
const WAITING_MAX: usize = 65_536;

/// The number of runners at a time, besides one that relieves them.
const RUNNERS_MAX: usize = 1;

/// A batch without an answer for this long does not delay the next one.
const PATIENCE: Duration = Duration::from_millis(250);

/// A runner that does not take a call for this long is not polled.
const STALL: Duration = Duration::from_millis(500);

/// What a batch says about one of its calls.
#[derive(Debug)]
pub(super) enum CallResult<A> {
    /// The call succeeded.
    Done(A),
    /// The call failed.
    Failed(StoreError),
    /// The call was not made, or the store rejected it: its caller makes it alone.
    Alone,
    /// The connection was lost, so the call may have succeeded: its caller repeats it once.
    Lost,
}

/// How a call continues.
pub(super) enum Turn<'a, C, A> {
    /// The caller makes the call. It may be repeated once on another connection, unless it
    /// `is_repeated`.
    Alone { is_repeated: bool, place: Option<DirectPlace<'a, C, A>> },
    /// The call is over.
    Over(Result<A, StoreError>),
}

impl<C, A> Turn<'_, C, A> {
    /// The turn of a call that no batch can make.
    pub(super) const ALONE: Self = Self::Alone { is_repeated: false, place: None };
}

/// Makes a batch of calls; returns a result for each, in order.
type MakeBatch<C, A> = dyn Fn(Vec<Arc<C>>) -> BoxFuture<'static, Vec<CallResult<A>>> + Send + Sync;

/// One kind of call.
pub(super) struct Batcher<C, A> {
    make: Box<MakeBatch<C, A>>,
    queue: Mutex<Queue<C, A>>,
}

struct Queue<C, A> {
    waiting: VecDeque<WaitingCall<C, A>>,
    /// The calls that their callers make while others may come.
    direct: usize,
    runners: usize,
}

struct WaitingCall<C, A> {
    call: Arc<C>,
    bytes: usize,
    reply: oneshot::Sender<CallResult<A>>,
}

/// A batch that is about to be made.
struct Batch<C, A> {
    calls: Vec<Arc<C>>,
    replies: Vec<oneshot::Sender<CallResult<A>>>,
}

impl<C: Send + Sync + 'static, A: Send + 'static> Batcher<C, A> {
    pub(super) fn new(
        make: impl Fn(Vec<Arc<C>>) -> BoxFuture<'static, Vec<CallResult<A>>> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let queue = Queue { waiting: VecDeque::new(), direct: 0, runners: 0 };
        Arc::new(Self { make: Box::new(make), queue: Mutex::new(queue) })
    }

    fn lock(&self) -> MutexGuard<'_, Queue<C, A>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the call to the caller, or makes it in a batch. Cancel safe: a call whose future is
    /// dropped is made completely or not at all.
    pub(super) async fn turn(self: &Arc<Self>, call: &Arc<C>, bytes: usize) -> Turn<'_, C, A> {
        if bytes > BYTES_PER_CALL_MAX {
            return Turn::ALONE;
        }
        let mut answer = {
            let mut queue = self.lock();
            if queue.direct == 0 && queue.runners == 0 {
                queue.direct = 1;
                return Turn::Alone { is_repeated: false, place: Some(DirectPlace(self)) };
            }
            if queue.waiting.len() >= WAITING_MAX {
                drop(queue);
                return Turn::Over(Err(StoreError::unreachable("65,536 calls wait for PostgreSQL; try again later")));
            }
            let (reply, answer) = oneshot::channel();
            queue.waiting.push_back(WaitingCall { call: Arc::clone(call), bytes, reply });
            let starts = queue.runners < RUNNERS_MAX;
            queue.runners += usize::from(starts);
            drop(queue);
            if starts {
                Runner::start(self);
            }
            answer
        };
        let answer = match tokio::time::timeout(STALL, &mut answer).await {
            Ok(answer) => answer,
            Err(_) => {
                self.relieve(call);
                answer.await
            }
        };
        match answer {
            Ok(CallResult::Done(answer)) => Turn::Over(Ok(answer)),
            Ok(CallResult::Failed(error)) => Turn::Over(Err(error)),
            Ok(CallResult::Alone) => Turn::ALONE,
            // The runner was dropped with its runtime.
            Ok(CallResult::Lost) | Err(_) => Turn::Alone { is_repeated: true, place: None },
        }
    }

    /// Starts a second runner if no runner has taken the call.
    fn relieve(self: &Arc<Self>, call: &Arc<C>) {
        let mut queue = self.lock();
        let waits = queue.waiting.iter().any(|waiting| Arc::ptr_eq(&waiting.call, call));
        let starts = waits && queue.runners <= RUNNERS_MAX;
        queue.runners += usize::from(starts);
        drop(queue);
        if starts {
            Runner::start(self);
        }
    }
}

/// Counts a call that its caller makes, until it is dropped.
pub(super) struct DirectPlace<'a, C, A>(&'a Batcher<C, A>);

impl<C, A> Drop for DirectPlace<'_, C, A> {
    fn drop(&mut self) {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner).direct -= 1;
    }
}

/// The task that makes batches until no call waits.
struct Runner<C: Send + Sync + 'static, A: Send + 'static> {
    batcher: Arc<Batcher<C, A>>,
    /// Whether the batcher counts this runner.
    is_counted: bool,
}

impl<C: Send + Sync + 'static, A: Send + 'static> Runner<C, A> {
    fn start(batcher: &Arc<Batcher<C, A>>) {
        let runner = Self { batcher: Arc::clone(batcher), is_counted: true };
        tokio::spawn(runner.run());
    }

    async fn run(mut self) {
        while self.is_counted
            && let Some(Batch { calls, replies }) = self.next_batch()
        {
            let mut making = (self.batcher.make)(calls);
            let results = match tokio::time::timeout(PATIENCE, &mut making).await {
                Ok(results) => results,
                Err(_) => {
                    self.give_way();
                    making.await
                }
            };
            for (reply, result) in replies.into_iter().zip(results) {
                // The caller may be gone.
                drop(reply.send(result));
            }
        }
    }

    /// Takes the calls of the next batch. Returns `None` if no call waits, and this runner ends.
    fn next_batch(&mut self) -> Option<Batch<C, A>> {
        let mut batch = Batch { calls: Vec::new(), replies: Vec::new() };
        let (mut bytes, mut left) = (0, Vec::new());
        let mut queue = self.batcher.lock();
        while batch.calls.len() < CALLS_PER_BATCH_MAX
            && bytes < BYTES_PER_BATCH
            && let Some(waiting) = queue.waiting.pop_front()
        {
            if waiting.reply.is_closed() {
                left.push(waiting);
                continue;
            }
            bytes += waiting.bytes;
            batch.calls.push(waiting.call);
            batch.replies.push(waiting.reply);
        }
        if batch.calls.is_empty() {
            self.is_counted = false;
            queue.runners -= 1;
        }
        drop(queue);
        (!batch.calls.is_empty()).then_some(batch)
    }

    /// Leaves its place to another runner, which starts if calls wait.
    fn give_way(&mut self) {
        self.is_counted = false;
        let starts = {
            let mut queue = self.batcher.lock();
            let starts = !queue.waiting.is_empty();
            queue.runners -= usize::from(!starts);
            starts
        };
        if starts {
            Self::start(&self.batcher);
        }
    }
}

/// A runner that is dropped before it has ended leaves the waiting calls to their callers.
impl<C: Send + Sync + 'static, A: Send + 'static> Drop for Runner<C, A> {
    fn drop(&mut self) {
        if !self.is_counted {
            return;
        }
        let waiting = {
            let mut queue = self.batcher.lock();
            queue.runners -= 1;
            std::mem::take(&mut queue.waiting)
        };
        drop(waiting);
    }
}
