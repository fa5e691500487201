//! `produce`: a task that fills a bounded channel, and the receiver of the channel.
//!
//! One sender, one receiver, one lock. Wakers are cloned before the lock is taken and woken after
//! it is released.
//!
//! Invariants:
//! 1. The channel closes exactly once, when the task ends or the sender is dropped. The task's
//!    `on_done` closes it, so it also closes if the sender was moved out of the task.
//! 2. Items that are queued at the close can still be received.

use crate::base::lock::Lock;
use crate::base::sync::Arc;
use crate::base::wakers;
use crate::base::wakers::ClonedWaker;
use crate::tree::member::Member;
use crate::tree::task;
use crate::tree::task::{LaunchError, Outcome, Task, TaskKind};
use alloc::collections::VecDeque;
use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use futures_core::Stream;

/// The sending end of a producer's channel.
///
/// Passed to the closure of [`Scope::produce`](crate::Scope::produce). Dropping it closes the
/// channel.
pub struct Producer<T> {
    channel: Arc<Channel<T>>,
}

/// The receiving end of a producer's channel: read item by item, or as a `Stream`.
///
/// Dropping it makes the producer's sends fail.
///
/// ```
/// use pleach::{CancelToken, Scope};
/// use pleach::runtime::Dispatcher;
///
/// let sim = Dispatcher::seeded(1);
/// let scope = Scope::under(&CancelToken::root(sim.runtime()));
/// let mut numbers = scope.produce(8, |mut producer| async move {
///     for n in 1..=3 {
///         if producer.send(n).await.is_err() {
///             break; // the receiver was dropped
///         }
///     }
/// }).unwrap();
/// sim.simulate(async move {
///     let mut sum = 0;
///     while let Some(n) = numbers.next().await {
///         sum += n;
///     }
///     assert_eq!(sum, 6);
/// }).unwrap();
/// ```
pub struct Produced<T> {
    channel: Arc<Channel<T>>,
    task: Task,
}

/// The receiver of a channel is gone. Holds the item that was not sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Unreceived<T>(pub T);

impl<T> fmt::Display for Unreceived<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot send the item: the receiver was dropped, or the producer has ended")
    }
}

impl<T> fmt::Debug for Unreceived<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unreceived(..)")
    }
}

impl<T> core::error::Error for Unreceived<T> {}

struct Channel<T>(Lock<ChannelState<T>>);

struct ChannelState<T> {
    items: VecDeque<T>,
    capacity: usize,
    closed: bool,
    receiver_gone: bool,
    receiver: Option<Waker>,
    sender: Option<Waker>,
}

/// Starts a producer below `parent`.
pub(crate) fn produce<T, F>(
    parent: &Arc<dyn Member>,
    capacity: usize,
    producer: impl FnOnce(Producer<T>) -> F,
) -> Result<Produced<T>, LaunchError<F>>
where
    T: Send + 'static,
    F: Future<Output: Outcome> + Send + 'static,
{
    let state = ChannelState {
        items: VecDeque::new(),
        capacity: capacity.max(1),
        closed: false,
        receiver_gone: false,
        receiver: None,
        sender: None,
    };
    let channel = Arc::new(Channel(Lock::new(state)));
    let future = producer(Producer { channel: Arc::clone(&channel) });
    let task = task::launch(parent, None, TaskKind::Sibling, future)?;
    let closes = Arc::clone(&channel);
    task.on_done(move |_| closes.close());
    Ok(Produced { channel, task })
}

impl<T> Channel<T> {
    fn close(&self) {
        let (receiver, sender) = self.0.with(|state| {
            state.closed = true;
            (state.receiver.take(), state.sender.take())
        });
        wakers::wake_each(receiver.into_iter().chain(sender));
    }

    fn poll_send(&self, item: &mut Option<T>, waker: &Waker) -> Poll<Result<(), Unreceived<T>>> {
        let mut waker = ClonedWaker::of(waker);
        let (polled, wake) = self.0.with(|state| {
            if state.closed || state.receiver_gone {
                let given_back = item.take().map_or(Ok(()), |item| Err(Unreceived(item)));
                return (Poll::Ready(given_back), None);
            }
            if state.items.len() >= state.capacity {
                waker.put(&mut state.sender);
                return (Poll::Pending, None);
            }
            state.items.extend(item.take());
            (Poll::Ready(Ok(())), state.receiver.take())
        });
        wakers::wake_each(wake);
        polled
    }

    fn poll_receive(&self, waker: &Waker) -> Poll<Option<T>> {
        let mut waker = ClonedWaker::of(waker);
        let (polled, wake) = self.0.with(|state| match state.items.pop_front() {
            Some(item) => (Poll::Ready(Some(item)), state.sender.take()),
            None if state.closed => (Poll::Ready(None), None),
            None => {
                waker.put(&mut state.receiver);
                (Poll::Pending, None)
            }
        });
        wakers::wake_each(wake);
        polled
    }
}

impl<T> Producer<T> {
    /// Sends an item, and waits while the channel is full.
    ///
    /// Not cancel safe: dropping the future before it is ready drops the item.
    ///
    /// # Errors
    /// Returns the item in [`Unreceived`] if the receiver was dropped or the task has ended.
    pub async fn send(&mut self, item: T) -> Result<(), Unreceived<T>> {
        let mut item = Some(item);
        poll_fn(|cx| self.channel.poll_send(&mut item, cx.waker())).await
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.channel.close();
    }
}

impl<T> Produced<T> {
    /// Receives the next item. Returns `None` after the last one: the producer has returned, failed
    /// or been cancelled.
    ///
    /// Cancel safe: dropping the future loses no item.
    pub async fn next(&mut self) -> Option<T> {
        poll_fn(|cx| self.channel.poll_receive(cx.waker())).await
    }

    /// Returns the task that runs the producer.
    pub fn task(&self) -> &Task {
        &self.task
    }
}

impl<T> Stream for Produced<T> {
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.channel.poll_receive(cx.waker())
    }
}

impl<T> Drop for Produced<T> {
    fn drop(&mut self) {
        let (items, sender) = self.channel.0.with(|state| {
            state.receiver_gone = true;
            (core::mem::take(&mut state.items), state.sender.take())
        });
        drop(items);
        wakers::wake_each(sender);
    }
}

impl<T> fmt::Debug for Producer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Producer(..)")
    }
}

impl<T> fmt::Debug for Produced<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Produced({:?})", self.task)
    }
}
