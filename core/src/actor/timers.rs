//! `Timers`: messages that an actor sends itself later. They belong to one incarnation and end with
//! it.
//!
//! The timers are in a cold part of the actor's mailbox, so an actor without timers needs no
//! memory for them. Only the actor's own task touches them: it takes them out, polls one sleep for
//! the earliest timer, and puts them back. A due timer delivers its message after the messages that
//! were already taken, and before the queued ones.
//!
//! When each timer is due is decided by the [`Schedule`], which knows no message type.
//!
//! A closure that makes messages may panic at any call. Only that one message is lost; all timers,
//! and all messages already due, are kept.

use crate::actor::Actor;
use crate::actor::context::Context;
use crate::actor::timer_schedule::{Schedule, TimerKey};
use crate::base::runtime::Runtime;
use crate::base::sorted;
use crate::base::sorted::SortedMap;
use crate::base::sync::Arc;
use crate::base::time::Instant;
use crate::mailbox::control;
use crate::mailbox::slot::Batch;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use core::task::Poll;
use core::time::Duration;

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
    ///
    /// In a [sealed](crate::System::seal) system without room for the timer, the message becomes a
    /// dead letter. [`try_send_after`](Self::try_send_after) returns it instead.
    pub fn send_after(&self, wait: Duration, message: A::Msg) -> TimerKey {
        self.try_send_after(wait, message).unwrap_or_else(|refused| self.lose_timer(refused))
    }

    pub(super) fn set_timer(&self, wait: Duration, message: A::Msg) -> TimerKey {
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
    ///
    /// In a [sealed](crate::System::seal) system without room for the timer, it is not set;
    /// [`try_send_every`](Self::try_send_every) says so.
    pub fn send_every(&self, period: Duration, message: impl FnMut() -> A::Msg + Send + 'static) -> TimerKey {
        self.try_send_every(period, message).unwrap_or(TimerKey::NEVER)
    }

    pub(super) fn set_repeated_timer(&self, period: Duration, message: impl FnMut() -> A::Msg + Send + 'static) -> TimerKey {
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

/// The timers of an actor, as its task sees them.
pub(crate) trait AnyTimers: Send {
    /// Returns the timers as their type, for code that knows it.
    fn as_any_mut(&mut self) -> &mut dyn Any;
    fn is_empty(&self) -> bool;
    /// Returns how many timers are set, including the receive timeout.
    fn len(&self) -> usize;
    /// Returns how many timers are set, without the receive timeout.
    fn set(&self) -> usize;
    fn last_key(&self) -> u64;
    /// Drops all timers, and keeps their memory. This is user code.
    fn clear(&mut self);

    /// Puts due messages into `batch`, earliest last, where it is taken first. Returns `Pending` if
    /// nothing is due, and then the waker is set.
    ///
    /// `taken` is the number of messages taken so far. `quiet` means that no further message is
    /// queued.
    fn poll(
        &mut self,
        runtime: &Arc<dyn Runtime>,
        taken: usize,
        quiet: bool,
        batch: &mut dyn Batch,
        cx: &mut core::task::Context<'_>,
    ) -> Poll<()>;
}

/// All timers of one incarnation.
pub(crate) struct Timers<M> {
    schedule: Schedule,
    sources: SortedMap<TimerKey, Source<M>>,
    last_key: u64,
    /// What the receive timeout sends.
    idle: Option<MakeMessage<M>>,
    /// Messages that are due and not delivered, earliest first. They are kept here while further
    /// closures are called, which may panic.
    due: Vec<M>,
}

type MakeMessage<M> = Box<dyn FnMut() -> M + Send>;

enum Source<M> {
    Once(M),
    Every(MakeMessage<M>),
}

impl<M> Timers<M> {
    /// Creates timers whose keys follow `last_key`: an actor uses no key twice.
    pub(crate) fn new(last_key: u64) -> Self {
        Self { schedule: Schedule::default(), sources: SortedMap::new(), last_key, idle: None, due: Vec::new() }
    }

    /// Reserves room for `timers` timers altogether, and the receive timeout.
    pub(crate) fn reserve(&mut self, timers: usize) {
        self.schedule.reserve(timers);
        sorted::reserve(&mut self.sources, timers);
        self.due.reserve_exact((timers + 1).saturating_sub(self.due.len()));
    }

    pub(crate) fn after(&mut self, at: Instant, message: M) -> TimerKey {
        self.add(at, None, Source::Once(message))
    }

    pub(crate) fn every(&mut self, now: Instant, period: Duration, make: MakeMessage<M>) -> TimerKey {
        // A period of zero would be due again at once, forever.
        let period = period.max(Duration::from_nanos(1));
        self.add(now + period, Some(period), Source::Every(make))
    }

    fn add(&mut self, at: Instant, period: Option<Duration>, source: Source<M>) -> TimerKey {
        self.last_key += 1;
        let key = TimerKey(self.last_key);
        self.sources.insert(key, source);
        self.schedule.add(key, at, period);
        key
    }

    /// Sets or clears the receive timeout.
    pub(crate) fn set_receive_timeout(&mut self, timeout: Option<(Duration, MakeMessage<M>)>) {
        let (wait, make) = timeout.unzip();
        self.schedule.set_receive_timeout(wait);
        self.idle = make;
    }

    /// Cancels a timer. Returns false if it has fired for the last time.
    pub(crate) fn cancel(&mut self, key: TimerKey) -> bool {
        let was_waiting = self.schedule.cancel(key);
        drop(self.sources.remove(&key));
        was_waiting
    }

    /// Adds the message of a due timer to the due messages.
    fn fire(&mut self, key: TimerKey) {
        match self.sources.get_mut(&key) {
            Some(Source::Every(make)) => self.due.push(make()),
            _ => {
                if let Some(Source::Once(message)) = self.sources.remove(&key) {
                    self.due.push(message);
                }
            }
        }
    }
}

impl<M: Send + 'static> AnyTimers for Timers<M> {
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn len(&self) -> usize {
        self.sources.len() + usize::from(self.idle.is_some())
    }

    fn is_empty(&self) -> bool {
        self.schedule.is_empty() && self.due.is_empty()
    }

    fn set(&self) -> usize {
        self.sources.len()
    }

    fn last_key(&self) -> u64 {
        self.last_key
    }

    fn clear(&mut self) {
        self.schedule.clear();
        self.idle = None;
        self.sources.clear();
        self.due.clear();
    }

    fn poll(
        &mut self,
        runtime: &Arc<dyn Runtime>,
        taken: usize,
        quiet: bool,
        batch: &mut dyn Batch,
        cx: &mut core::task::Context<'_>,
    ) -> Poll<()> {
        loop {
            let now = runtime.now();
            while let Some(key) = self.schedule.next_due(now) {
                self.fire(key);
            }
            if quiet && self.schedule.receive_timeout_is_due(now, taken) {
                self.due.extend(self.idle.as_mut().map(|make| make()));
            }
            if !self.due.is_empty() {
                self.due.drain(..).rev().for_each(|message| batch.push(&mut Some(message)));
                return Poll::Ready(());
            }
            if self.schedule.poll_sleep(runtime, cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}
