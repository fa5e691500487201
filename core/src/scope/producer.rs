//! `produce`: a task that fills a channel, and the receiver at its other end. The channel closes exactly once, when the task ends.
//!
//! One sender, one receiver, a bounded queue between them. The task's `on_done` closes the channel, so it closes even if the sender
//! was moved out of the task; what is queued by then can still be received.

use crate::base::lock::Lock;
use crate::base::wakers;
use crate::base::wakers::Spare;
use crate::tree::member::Member;
use crate::tree::task;
use crate::tree::task::{LaunchError, Outcome, Task, TaskKind};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use futures_core::Stream;

/// The end of a channel that a producer fills.
pub struct Producer<T> {
    channel: Arc<Channel<T>>,
}

/// The end of a channel that is read: item by item, or as a `Stream`. Dropping it makes the producer's sends fail.
pub struct Produced<T> {
    channel: Arc<Channel<T>>,
    task: Task,
}

/// Nobody receives any more. The item comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Unreceived<T>(pub T);

impl<T> fmt::Display for Unreceived<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody receives any more: the receiver was dropped, or the producer has ended")
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
        let mut waker = Spare::of(waker);
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
        let mut waker = Spare::of(waker);
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
    /// Hands an item over, waiting for room. `Err` gives it back when nobody receives any more.
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
    /// The next item, `None` after the last: the producer has returned, failed or been cancelled.
    pub async fn next(&mut self) -> Option<T> {
        poll_fn(|cx| self.channel.poll_receive(cx.waker())).await
    }

    /// The task that produces.
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
