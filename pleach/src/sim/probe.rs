//! [`Probe`]: an actor that records its messages, for a test to expect.

use crate::actor::{ActorRef, AnyRef, Mailbox, Props};
use crate::runtime::{BoxFuture, Instant, Runtime};
use crate::sim::panics::panic_for;
use crate::system::System;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// How long [`Probe::expect`] and [`Probe::expect_match`] wait in virtual time.
pub const PROBE_WAIT_DEFAULT: Duration = Duration::from_secs(10);

/// How many messages a probe keeps until the test takes them. A further one fails.
pub const PROBE_CAPACITY: usize = 65_536;

/// An actor that records its messages; made by [`Sim::probe`](crate::sim::Sim::probe). The test
/// passes its address to the program, and expects messages in order.
///
/// Each expectation takes messages from the front of the record. Dropping the probe does not stop
/// the actor.
///
/// ```
/// use pleach::prelude::*;
/// use pleach::sim::Sim;
///
/// let sim = Sim::new(1);
/// let system = sim.system("shop");
/// let mail = sim.probe::<String>(&system, "mail");
/// let (to, after) = (mail.address().clone(), Duration::from_secs(60));
/// let clerk = Props::from_fn_with(|| (), move |_, order: u32, cx| {
///     to.tell(format!("order {order}"))?;
///     cx.send_after(after, order + 1);
///     Ok::<(), pleach::BoxError>(())
/// });
/// let clerk = system.spawn("clerk", clerk).unwrap();
/// sim.run(async {
///     clerk.tell(1).unwrap();
///     mail.expect("order 1".to_string()).await;
///     mail.expect_none_for(Duration::from_secs(59)).await;
///     mail.expect_within(Duration::from_secs(1), "order 2".to_string()).await;
///     let third = mail.expect_match(Duration::from_secs(60), |text| text.ends_with('3')).await;
///     assert_eq!(third, "order 3");
/// });
/// ```
pub struct Probe<M: Send + 'static> {
    address: ActorRef<M>,
    record: Arc<Record<M>>,
    runtime: Arc<dyn Runtime>,
}

/// The messages that the test has not taken.
struct Record<M> {
    state: Mutex<Recorded<M>>,
}

struct Recorded<M> {
    messages: VecDeque<M>,
    waiting: Option<Waker>,
}

impl<M> Record<M> {
    fn state(&self) -> MutexGuard<'_, Recorded<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, message: M) -> Result<(), String> {
        let waiting = {
            let mut state = self.state();
            if state.messages.len() >= PROBE_CAPACITY {
                return Err(format!(
                    "the probe has {PROBE_CAPACITY} messages that the test has not taken; take or expect them"
                ));
            }
            state.messages.push_back(message);
            state.waiting.take()
        };
        if let Some(waker) = waiting {
            waker.wake();
        }
        Ok(())
    }
}

impl<M: Send + 'static> Probe<M> {
    #[track_caller]
    pub(super) fn start(system: &System, name: &str, runtime: Arc<dyn Runtime>) -> Self {
        let record = Arc::new(Record { state: Mutex::new(Recorded { messages: VecDeque::new(), waiting: None }) });
        let kept = Arc::clone(&record);
        let props = Props::from_fn(|| (), move |_: &mut (), message: M| kept.push(message)).mailbox(Mailbox::unbounded());
        let spawned = system.spawn(name, props);
        let address = match spawned {
            Ok(address) => address,
            Err(error) => panic!("the probe {name:?} was not started: {error}"),
        };
        Self { address, record, runtime }
    }

    /// Returns the address of the probe, for the program under test.
    pub fn address(&self) -> &ActorRef<M> {
        &self.address
    }

    /// Returns the probe as a member of the tree, without its message type.
    pub fn any(&self) -> AnyRef {
        self.address.any()
    }

    /// Takes all messages that were recorded and not taken, in order.
    pub fn take(&self) -> Vec<M> {
        self.record.state().messages.drain(..).collect()
    }

    /// Takes the next message. Waits for it up to `limit` in virtual time.
    ///
    /// # Panics
    /// If no message comes in time.
    #[track_caller]
    pub fn next_within(&self, limit: Duration) -> impl Future<Output = M> {
        let (from, until) = (Location::caller(), self.runtime.now() + limit);
        async move {
            let message = self.next_until(until).await;
            message.unwrap_or_else(|| panic_for(from, format_args!("{} got no message within {limit:?}", self.address.path())))
        }
    }

    /// Takes the next message, which must equal `expected`. Waits for it up to 10 s in virtual
    /// time.
    ///
    /// # Panics
    /// If no message comes in time, or another one comes.
    #[track_caller]
    pub fn expect(&self, expected: M) -> impl Future<Output = ()>
    where
        M: PartialEq + fmt::Debug,
    {
        self.expect_within(PROBE_WAIT_DEFAULT, expected)
    }

    /// As [`expect`](Self::expect), with another time limit.
    ///
    /// # Panics
    /// If no message comes in time, or another one comes.
    #[track_caller]
    pub fn expect_within(&self, limit: Duration, expected: M) -> impl Future<Output = ()>
    where
        M: PartialEq + fmt::Debug,
    {
        let (from, until) = (Location::caller(), self.runtime.now() + limit);
        async move {
            let path = self.address.path();
            match self.next_until(until).await {
                Some(message) if message == expected => {}
                Some(message) => panic_for(from, format_args!("{path} got {message:?}, expected {expected:?}")),
                None => panic_for(from, format_args!("{path} got no message within {limit:?}, expected {expected:?}")),
            }
        }
    }

    /// Takes the next message, which must fulfil `is_expected`, and returns it. Waits for it up to
    /// `limit` in virtual time.
    ///
    /// # Panics
    /// If no message comes in time, or another one comes.
    #[track_caller]
    pub fn expect_match(&self, limit: Duration, is_expected: impl FnOnce(&M) -> bool) -> impl Future<Output = M>
    where
        M: fmt::Debug,
    {
        let (from, until) = (Location::caller(), self.runtime.now() + limit);
        async move {
            let path = self.address.path();
            match self.next_until(until).await {
                Some(message) if is_expected(&message) => message,
                Some(message) => panic_for(from, format_args!("{path} got {message:?}, which does not match")),
                None => panic_for(from, format_args!("{path} got no message within {limit:?}, expected one that matches")),
            }
        }
    }

    /// Waits for `time` in virtual time, in which no message may come. One that comes exactly at
    /// the end is left for the next expectation.
    ///
    /// # Panics
    /// If a message comes, or was recorded before.
    #[track_caller]
    pub fn expect_none_for(&self, time: Duration) -> impl Future<Output = ()>
    where
        M: fmt::Debug,
    {
        let (from, until) = (Location::caller(), self.runtime.now() + time);
        async move {
            let recorded = self.record.state().messages.pop_front();
            let message = if recorded.is_some() { recorded } else { self.next_before(until).await };
            if let Some(message) = message {
                panic_for(from, format_args!("{} got {message:?}, expected no message for {time:?}", self.address.path()));
            }
        }
    }

    /// Takes the next message that comes at `until` or earlier.
    async fn next_until(&self, until: Instant) -> Option<M> {
        self.next_before(until + Duration::from_nanos(1)).await
    }

    /// Takes the next message that comes before `end`. At that time messages and the timer are due
    /// together, so it belongs to the timer: the result does not depend on the seed.
    async fn next_before(&self, end: Instant) -> Option<M> {
        let timer = self.runtime.sleep_until(end);
        NextMessage { record: &self.record, timer, runtime: &*self.runtime, end }.await
    }
}

impl<M: Send + 'static> fmt::Debug for Probe<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe").field("path", &self.address.path()).finish_non_exhaustive()
    }
}

/// Waits for the next message, or for the end of the time.
struct NextMessage<'a, M> {
    record: &'a Record<M>,
    timer: BoxFuture<'static, ()>,
    runtime: &'a dyn Runtime,
    end: Instant,
}

impl<M> Future for NextMessage<'_, M> {
    type Output = Option<M>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<M>> {
        if self.runtime.now() >= self.end {
            return Poll::Ready(None);
        }
        let waker = cx.waker().clone();
        let replaced = {
            let mut state = self.record.state();
            if let Some(message) = state.messages.pop_front() {
                return Poll::Ready(Some(message));
            }
            state.waiting.replace(waker)
        };
        drop(replaced);
        self.timer.as_mut().poll(cx).map(|()| None)
    }
}
