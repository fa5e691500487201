//! `Timers`: messages that an actor sends itself later. They belong to one incarnation and end with
//! it.
//!
//! The timers are in the cold part of the actor's mailbox, so an actor without timers needs no
//! memory for them. Only the actor's own task touches them: it takes them out, polls one sleep for
//! the earliest timer, and puts them back. A due timer delivers its message after the messages that
//! were already taken, and before the queued ones.
//!
//! A closure that makes messages may panic at any call. Only that one message is lost; all timers,
//! and all messages already due, are kept.

use crate::actor::Actor;
use crate::actor::context::Context;
use crate::base::runtime::{BoxFuture, Runtime};
use crate::base::time::Instant;
use crate::base::visits;
use crate::mailbox::control;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::task::Poll;
use core::time::Duration;

/// The key of a timer, for [`Context::cancel_timer`](crate::Context::cancel_timer).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerKey(u64);

impl<A: Actor> Context<A> {
    /// Sends `message` to this actor after `wait`, unless this incarnation has ended by then.
    ///
    /// The message uses no mailbox capacity. Cancel it with [`cancel_timer`](Self::cancel_timer).
    ///
    /// # Examples
    /// ```
    /// use pleach::BoxError;
    /// use pleach::prelude::*;
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), pleach::Error> {
    /// let system = ActorSystem::new("app")?;
    /// let props = Props::from_fn_with(|| (), |(), msg: &str, cx| {
    ///     match msg {
    ///         "begin" => drop(cx.send_after(Duration::from_millis(1), "end")),
    ///         _ => cx.stop(),
    ///     }
    ///     Ok::<(), BoxError>(())
    /// });
    /// let actor = system.spawn("delayed", props)?;
    /// actor.tell("begin")?;
    /// assert_eq!(actor.exited().await, Exit::Stopped);
    /// # Ok(())
    /// # }
    /// ```
    pub fn send_after(&self, wait: Duration, message: A::Msg) -> TimerKey {
        let at = self.now() + wait;
        self.with_timers(|timers| timers.after(at, message))
    }

    /// Calls `message` every `period` and sends the result to this actor, until this incarnation
    /// ends.
    ///
    /// The first message is sent after one period. If the actor was busy, missed messages are not
    /// sent later. A period of zero is treated as 1 ns.
    ///
    /// # Examples
    /// ```
    /// use pleach::BoxError;
    /// use pleach::prelude::*;
    ///
    /// struct Ticker {
    ///     left: u32,
    /// }
    ///
    /// impl Actor for Ticker {
    ///     type Msg = ();
    ///     type Error = BoxError;
    ///
    ///     async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
    ///         cx.send_every(Duration::from_millis(1), || ());
    ///         Ok(())
    ///     }
    ///
    ///     async fn handle(&mut self, (): (), cx: &mut Context<Self>) -> Result<(), BoxError> {
    ///         self.left -= 1;
    ///         if self.left == 0 {
    ///             cx.stop();
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), pleach::Error> {
    /// let system = ActorSystem::new("app")?;
    /// let ticker = system.spawn("ticker", Props::new(|| Ticker { left: 3 }))?;
    /// assert_eq!(ticker.exited().await, Exit::Stopped);
    /// # Ok(())
    /// # }
    /// ```
    pub fn send_every(&self, period: Duration, message: impl FnMut() -> A::Msg + Send + 'static) -> TimerKey {
        let now = self.now();
        self.with_timers(|timers| timers.every(now, period, Box::new(message)))
    }

    /// Sets the receive timeout: whenever no message has arrived for `wait`, calls `message` and
    /// sends the result to this actor.
    ///
    /// It replaces an earlier one. Default: none. A new incarnation starts without one.
    pub fn set_receive_timeout(&self, wait: Duration, message: impl FnMut() -> A::Msg + Send + 'static) {
        self.with_timers(|timers| timers.set_receive_timeout(Some((wait, Box::new(message)))));
    }

    /// Removes the receive timeout, if one is set.
    pub fn clear_receive_timeout(&self) {
        self.with_timers(|timers| timers.set_receive_timeout(None));
    }

    /// Cancels a timer. Returns false if it has fired for the last time.
    pub fn cancel_timer(&self, key: TimerKey) -> bool {
        self.with_timers(|timers| timers.cancel(key))
    }

    fn with_timers<R>(&self, f: impl FnOnce(&mut Timers<A::Msg>) -> R) -> R {
        let answer = self.cell().with_timers(f);
        self.cell().mailbox().raise_silently(control::TIMERS);
        answer
    }
}

/// All timers of one incarnation.
pub(crate) struct Timers<M> {
    waiting: BTreeMap<(Instant, TimerKey), Timer<M>>,
    /// The due time of each timer, to find it by its key.
    due_at: BTreeMap<TimerKey, Instant>,
    idle: Option<ReceiveTimeout<M>>,
    last_key: u64,
    sleep: Option<(Instant, BoxFuture<'static, ()>)>,
    /// Messages that are due and not delivered, earliest first. They are kept here while further
    /// closures are called, which may panic.
    due: Vec<M>,
}

type MakeMessage<M> = Box<dyn FnMut() -> M + Send>;

enum Timer<M> {
    Once(M),
    Every(Duration, MakeMessage<M>),
}

/// The receive timeout: sends a message when none has arrived for a while.
struct ReceiveTimeout<M> {
    wait: Duration,
    make: MakeMessage<M>,
    /// When it is due, and how many messages had been taken when that was set.
    due: Option<(Instant, usize)>,
}

impl<M> Default for Timers<M> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), due_at: BTreeMap::new(), idle: None, last_key: 0, sleep: None, due: Vec::new() }
    }
}

impl<M> Timers<M> {
    pub(crate) fn after(&mut self, at: Instant, message: M) -> TimerKey {
        self.add(at, Timer::Once(message))
    }

    pub(crate) fn every(&mut self, now: Instant, period: Duration, make: MakeMessage<M>) -> TimerKey {
        // A period of zero would be due again at once, forever.
        let period = period.max(Duration::from_nanos(1));
        self.add(now + period, Timer::Every(period, make))
    }

    fn add(&mut self, at: Instant, timer: Timer<M>) -> TimerKey {
        self.last_key += 1;
        let key = TimerKey(self.last_key);
        self.wait(at, key, timer);
        key
    }

    fn wait(&mut self, at: Instant, key: TimerKey, timer: Timer<M>) {
        self.due_at.insert(key, at);
        self.waiting.insert((at, key), timer);
    }

    /// Sets or clears the receive timeout.
    pub(crate) fn set_receive_timeout(&mut self, timeout: Option<(Duration, MakeMessage<M>)>) {
        self.idle = timeout.map(|(wait, make)| ReceiveTimeout { wait, make, due: None });
    }

    /// Cancels a timer. Returns false if it has fired for the last time.
    pub(crate) fn cancel(&mut self, key: TimerKey) -> bool {
        visits::visit(1);
        let at = self.due_at.remove(&key);
        at.is_some_and(|at| self.waiting.remove(&(at, key)).is_some())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.idle.is_none() && self.due.is_empty()
    }

    /// Puts due messages into `batch`, earliest last, where it is taken first. Returns `Pending` if
    /// nothing is due, and then the waker is set.
    ///
    /// `taken` is the number of messages taken so far. `quiet` means that no further message is
    /// queued.
    pub(crate) fn poll(
        &mut self,
        runtime: &dyn Runtime,
        taken: usize,
        quiet: bool,
        batch: &mut Vec<M>,
        cx: &mut core::task::Context<'_>,
    ) -> Poll<()> {
        let now = runtime.now();
        self.collect_due(now);
        if quiet && let Some(idle) = &mut self.idle {
            self.due.extend(idle.take_due(now, taken));
        }
        if !self.due.is_empty() {
            batch.extend(core::mem::take(&mut self.due).into_iter().rev());
            return Poll::Ready(());
        }
        let Some(next) = self.next_due() else { return Poll::Pending };
        let (at, sleep) = self.sleep.get_or_insert_with(|| (next, runtime.sleep_until(next)));
        if *at != next {
            (*at, *sleep) = (next, runtime.sleep_until(next));
        }
        if sleep.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.sleep = None;
        self.poll(runtime, taken, quiet, batch, cx)
    }

    fn collect_due(&mut self, now: Instant) {
        while let Some(entry) = self.waiting.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((_, key), timer) = entry.remove_entry();
            self.due_at.remove(&key);
            match timer {
                Timer::Once(message) => self.due.push(message),
                Timer::Every(period, make) => {
                    // The next due time is relative to now, not to the last due time: an actor that
                    // was busy does not get all missed messages at once. The timer is back in the
                    // map before its closure is called, which may panic.
                    let at = now + period;
                    self.due_at.insert(key, at);
                    let timer = self.waiting.entry((at, key)).or_insert(Timer::Every(period, make));
                    if let Timer::Every(_, make) = timer {
                        self.due.push(make());
                    }
                }
            }
        }
    }

    fn next_due(&self) -> Option<Instant> {
        let idle = self.idle.as_ref().and_then(|idle| idle.due).map(|(at, _)| at);
        self.waiting.keys().next().map(|(at, _)| *at).into_iter().chain(idle).min()
    }
}

impl<M> ReceiveTimeout<M> {
    /// Returns the message if the timeout has passed and no message has arrived since it was set.
    /// Otherwise sets the timeout if a message has arrived.
    fn take_due(&mut self, now: Instant, taken: usize) -> Option<M> {
        match self.due {
            Some((at, then)) if then == taken && at <= now => {
                self.due = None;
                Some((self.make)())
            }
            Some((_, then)) if then == taken => None,
            _ => {
                self.due = Some((now + self.wait, taken));
                None
            }
        }
    }
}
