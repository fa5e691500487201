//! [`RunStream`]: a run as a stream of its events.
//!
//! The hooks of the run push events into a bounded queue; the reader of the stream polls the run.
//! The lock of the queue is never held while a waker is woken or an event is dropped.

use crate::context::events::{Hooks, RunEvent};
use crate::error::Outcome;
use crate::run::future::RunFuture;
use crate::run::options::RunOptions;
use futures_core::Stream;
use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, IntoFuture, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// The number of events that wait to be read before the oldest are dropped: 1,024.
///
/// The reader of a stream also drives the run, so only a node that emits more events at once
/// reaches this limit.
pub const STREAM_CAPACITY: usize = 1_024;

/// One item of a [`RunStream`]: an event, a gap, or the end.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunUpdate<S> {
    /// An event of the run, in order.
    Event(RunEvent<S>),
    /// This many older events were dropped because the queue was full.
    Missed(u64),
    /// The run has ended with this outcome. It is the last item.
    Ended(Outcome<S>),
}

/// A run as a stream of [`RunUpdate`]s. Returned by [`RunOptions::stream`].
///
/// Reading the stream drives the run. Dropping the stream ends the run.
///
/// ```
/// use pleach::graph::RunUpdate;
/// use pleach::{END, Graph};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = Graph::<u32>::new("doubling")
///     .add_node("double", |n: u32| async move { n * 2 })
///     .add_edge("double", END)
///     .set_entry("double")
///     .compile()?;
///
/// let mut stream = graph.run(21).stream();
/// while let Some(update) = stream.next().await {
///     match update {
///         RunUpdate::Event(event) => println!("{event:?}"),
///         RunUpdate::Ended(outcome) => assert_eq!(outcome?, 42),
///         _ => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "streams do nothing unless read"]
pub struct RunStream<S> {
    run: Option<RunFuture<S>>,
    queue: Arc<Queue<S>>,
    outcome: Option<Outcome<S>>,
}

struct Queue<S>(Mutex<QueueState<S>>);

struct QueueState<S> {
    events: VecDeque<RunEvent<S>>,
    missed: u64,
    reader: Option<Waker>,
}

impl<S: Clone + Send + Sync + 'static> RunStream<S> {
    pub(crate) fn of(options: RunOptions<'_, S>) -> Self {
        let queue = Arc::new(Queue(Mutex::new(QueueState { events: VecDeque::new(), missed: 0, reader: None })));
        let filled = Arc::clone(&queue);
        let hooks = Hooks::new(move |event: &RunEvent<&S>| filled.push(event.cloned()));
        Self { run: Some(options.hooks(hooks).into_future()), queue, outcome: None }
    }

    /// Returns the next update, or `None` after [`RunUpdate::Ended`]. It is cancel safe.
    pub async fn next(&mut self) -> Option<RunUpdate<S>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl<S> Queue<S> {
    fn push(&self, event: RunEvent<S>) {
        let (left_out, reader) = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let left_out = if state.events.len() >= STREAM_CAPACITY { state.events.pop_front() } else { None };
            state.missed += u64::from(left_out.is_some());
            state.events.push_back(event);
            (left_out, state.reader.take())
        };
        drop(left_out);
        reader.into_iter().for_each(Waker::wake);
    }

    fn pop(&self, waker: &Waker) -> Option<RunUpdate<S>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::take(&mut state.missed) {
            0 => {
                let event = state.events.pop_front().map(RunUpdate::Event);
                if event.is_none() {
                    state.reader = Some(waker.clone());
                }
                event
            }
            missed => Some(RunUpdate::Missed(missed)),
        }
    }
}

impl<S> Unpin for RunStream<S> {}

impl<S: Send + 'static> Stream for RunStream<S> {
    type Item = RunUpdate<S>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<RunUpdate<S>>> {
        let this = self.get_mut();
        loop {
            if let Some(update) = this.queue.pop(cx.waker()) {
                return Poll::Ready(Some(update));
            }
            let Some(run) = &mut this.run else {
                return Poll::Ready(this.outcome.take().map(RunUpdate::Ended));
            };
            match Pin::new(run).poll(cx) {
                Poll::Ready(outcome) => {
                    this.run = None;
                    this.outcome = Some(outcome);
                }
                Poll::Pending => return this.queue.pop(cx.waker()).map_or(Poll::Pending, |update| Poll::Ready(Some(update))),
            }
        }
    }
}

impl<S> fmt::Debug for RunStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunStream(..)")
    }
}
