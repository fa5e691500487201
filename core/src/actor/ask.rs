//! [`Ask`]: sends a question and waits for its one answer, or for the reason why there is none.
//!
//! An ask that an actor awaits in its own task adds an edge to the wait-for graph. An ask that
//! would close a cycle of asks fails with [`AskError::Cycle`], or is reported as a lint if it has a
//! timeout.

use crate::actor::cell::member::SendStart;
use crate::actor::cell::{AnyCell, Cell};
use crate::actor::reply::{Reply, ReplySlot};
use crate::base::runtime::Runtime;
use crate::base::sleep::Sleep;
use crate::base::sync::{Arc, unsize};
use crate::events::event::{Event, EventKinds, Lint};
use crate::mailbox::Priority;
use crate::mailbox::send_error::SendError;
use crate::mailbox::slot::Slot;
use crate::tree::current;
use crate::tree::member::Member;
use crate::tree::waits::ask_error::AskError;
use crate::tree::waits::{Edge, Unanswered, Wait, WaitCycle};
use alloc::boxed::Box;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

/// The future of [`ActorRef::ask`](crate::ActorRef::ask): sends a question and waits for its
/// answer.
///
/// The question is sent when the future is first polled. There is no time limit by default.
///
/// Cancel safety: dropping it stops waiting. A question that still waits for room is withdrawn; one
/// that was accepted is handled, and its answer is dropped.
///
/// # Examples
/// ```
/// use pleach::BoxError;
/// use pleach::prelude::*;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), pleach::Error> {
/// let system = ActorSystem::new("app")?;
/// let props = Props::from_fn(|| 7u32, |n: &mut u32, reply: Reply<u32>| {
///     reply.send(*n);
///     Ok::<(), BoxError>(())
/// });
/// let seven = system.spawn("seven", props)?;
/// let answer = seven.ask(|reply| reply).timeout(Duration::from_secs(1)).await?;
/// assert_eq!(answer, 7);
/// # system.shutdown(Duration::from_secs(5)).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an ask does nothing unless awaited"]
pub struct Ask<'a, M: Send + 'static, T, Q> {
    to: &'a Arc<Cell<M>>,
    /// Present until the question is sent.
    question: Option<Q>,
    /// Present once the question is sent.
    slot: Option<Arc<ReplySlot<T>>>,
    details: Option<Box<AskDetails>>,
}

/// The part of an ask that only some need: those with a timeout, from inside an actor, or to a full
/// mailbox.
#[derive(Default)]
pub(crate) struct AskDetails {
    timeout: AskTimeout,
    /// The key of the question while it waits for room.
    waiting: Option<u64>,
    edge: Option<(Arc<dyn Member>, Edge)>,
}

impl<'a, M, T, Q> Ask<'a, M, T, Q>
where
    M: Send + 'static,
    T: Send + 'static,
    Q: FnOnce(Reply<T>) -> M,
{
    #[inline]
    pub(crate) fn new(to: &'a Arc<Cell<M>>, question: Q) -> Self {
        Self { to, question: Some(question), slot: None, details: None }
    }

    /// Sets a time limit for the answer. Default: none.
    ///
    /// The time starts when the future is first polled. After it, the ask fails with
    /// [`AskError::TimedOut`].
    pub fn timeout(mut self, wait: Duration) -> Self {
        ask_details(&mut self.details, self.to.any()).timeout.set(wait);
        self
    }

    /// Sends the question if that has not been done, and polls the answer.
    #[inline]
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, AskError>> {
        if let Some(question) = self.question.take() {
            return self.send_question(question, cx);
        }
        if let Some(details) = &self.details
            && let Some(key) = details.waiting
        {
            return self.poll_waiting(key, cx.waker());
        }
        match &self.slot {
            Some(slot) => slot.poll(cx.waker()),
            None => Poll::Ready(Err(AskError::Dropped)),
        }
    }

    #[inline]
    fn send_question(&mut self, question: Q, cx: &mut Context<'_>) -> Poll<Result<T, AskError>> {
        let slot = match self.to.any().is_reserved() {
            false => ReplySlot::new(cx.waker()),
            true => self.reserved_slot(cx.waker())?,
        };
        add_wait_edge(&mut self.details, self.to, &slot, cx.waker())?;
        let message = question(Reply::to(&slot));
        self.slot = Some(slot);
        match self.to.mailbox().push_fast(message) {
            Ok(()) => Poll::Pending,
            Err(message) => self.send_slowly(message, cx.waker()),
        }
    }

    /// Takes a reserved slot. Such an ask always has details, so that its end returns the slot.
    #[cold]
    fn reserved_slot(&mut self, waker: &Waker) -> Result<Arc<ReplySlot<T>>, AskError> {
        let slot = self.to.any().reserved_reply(waker)?;
        ask_details(&mut self.details, self.to.any());
        Ok(slot)
    }

    /// Sends the question to a mailbox that may be full.
    #[cold]
    fn send_slowly(&mut self, message: M, waker: &Waker) -> Poll<Result<T, AskError>> {
        match self.to.any().begin_question(&mut Some(message), &mut self.details, waker) {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// Polls an ask whose question waits for room.
    #[cold]
    fn poll_waiting(&mut self, key: u64, waker: &Waker) -> Poll<Result<T, AskError>> {
        if let Err(error) = self.to.any().poll_question(key, &mut None::<M>, &mut self.details, waker) {
            return Poll::Ready(Err(error));
        }
        // A question that waits may have an error already, such as a wait cycle.
        self.slot.as_ref().map_or(Poll::Pending, |slot| slot.poll(waker))
    }
}

impl AnyCell {
    /// Sends the question in `slot`, or begins to wait for room.
    fn begin_question(
        &self,
        slot: &mut dyn Slot,
        details: &mut Option<Box<AskDetails>>,
        waker: &Waker,
    ) -> Result<(), AskError> {
        match self.begin_send_slow(slot, Priority::NORMAL, waker) {
            Ok(SendStart::Accepted | SendStart::ReceiverBehind) => {}
            Ok(SendStart::Waits(key)) => details.get_or_insert_default().waiting = Some(key),
            Err(SendError::CannotWait(..)) => return Err(self.ask_cannot_wait()),
            Err(_) => return Err(self.closed_to_asks()),
        }
        Ok(())
    }

    /// Polls a question that waits for room. Fails if the mailbox was closed; the question is then
    /// in `slot`.
    fn poll_question(
        &self,
        key: u64,
        slot: &mut dyn Slot,
        details: &mut Option<Box<AskDetails>>,
        waker: &Waker,
    ) -> Result<(), AskError> {
        match self.mailbox().poll_waiting(key, slot, waker) {
            Poll::Pending => Ok(()),
            Poll::Ready(sent) => {
                details.get_or_insert_default().waiting = None;
                sent.map_err(|_| self.closed_to_asks())
            }
        }
    }

    #[cold]
    pub(super) fn closed_to_asks(&self) -> AskError {
        self.node().exit().map_or(AskError::Closed, AskError::from)
    }
}

/// Before a question is sent: if an actor asks in its own task, adds the wait edge and checks for a
/// cycle.
#[inline]
fn add_wait_edge<M: Send + 'static, T: Send + 'static>(
    details: &mut Option<Box<AskDetails>>,
    to: &Arc<Cell<M>>,
    slot: &Arc<ReplySlot<T>>,
    waker: &Waker,
) -> Result<(), AskError> {
    match current::polled_with(waker) {
        Some(asker) => add_wait_edge_from(
            &asker,
            ask_details(details, to.any()),
            unsize!(Arc::clone(to) => dyn Member),
            unsize!(Arc::clone(slot) => dyn Unanswered),
        ),
        None => Ok(()),
    }
}

/// Returns the details of an ask to `to`.
fn ask_details<'a>(details: &'a mut Option<Box<AskDetails>>, to: &AnyCell) -> &'a mut AskDetails {
    if details.is_none() && to.is_reserved() {
        *details = to.reserved_ask_details();
    }
    details.get_or_insert_default()
}

fn add_wait_edge_from(
    asker: &Arc<dyn Member>,
    details: &mut AskDetails,
    target: Arc<dyn Member>,
    slot: Arc<dyn Unanswered>,
) -> Result<(), AskError> {
    details.end_edge();
    let edge = Edge { target, wait: Wait::Answer(slot) };
    asker.begin_wait(edge.clone());
    details.edge = Some((Arc::clone(asker), edge.clone()));
    if WaitCycle::find(asker, &edge).is_some() { break_cycles(asker, details, &edge) } else { Ok(()) }
}

/// Admits the sends that wait in a cycle with this ask. If the ask still cannot get an answer, it
/// fails, or a lint is reported if it has a timeout.
#[cold]
fn break_cycles(asker: &Arc<dyn Member>, details: &AskDetails, edge: &Edge) -> Result<(), AskError> {
    WaitCycle::admit_sends(asker, edge);
    let Some(cycle) = WaitCycle::find_ask_cycle(asker, edge) else { return Ok(()) };
    if !details.timeout.is_set() {
        return Err(AskError::Cycle(cycle.paths()));
    }
    edge.target.node().events().emit(EventKinds::WAIT_CYCLES, || Event::Lint(Lint::AskCycle(cycle.paths())));
    Ok(())
}

/// The time limit of an ask. It starts at the first poll; by default there is none.
#[derive(Default)]
pub(crate) struct AskTimeout {
    limit: Option<Duration>,
    sleep: Option<Sleep>,
}

impl AskTimeout {
    pub(crate) fn set(&mut self, limit: Duration) {
        self.limit = Some(limit);
    }

    fn is_set(&self) -> bool {
        self.limit.is_some()
    }

    /// Ready with the error once the time has passed. Never ready without a limit.
    pub(crate) fn poll(&mut self, runtime: &Arc<dyn Runtime>, cx: &mut Context<'_>) -> Poll<AskError> {
        let Some(limit) = self.limit else { return Poll::Pending };
        let sleep = self.sleep.get_or_insert_with(|| Sleep::until(runtime, runtime.now() + limit));
        Pin::new(sleep).poll(cx).map(|()| AskError::TimedOut(limit))
    }
}

/// The wait edge of an ask whose message is made before its receiver is known.
pub(crate) struct AskEdge {
    slot: Arc<dyn Unanswered>,
    details: Option<Box<AskDetails>>,
}

impl AskEdge {
    /// Creates the edge of an ask that waits at `slot`. With a `timeout`, a cycle of asks is a lint
    /// and not an error; the caller enforces the timeout itself.
    pub(super) fn new(slot: Arc<dyn Unanswered>, timeout: &AskTimeout) -> Self {
        let mut edge = Self { slot, details: None };
        if let Some(limit) = timeout.limit {
            edge.details.get_or_insert_default().timeout.set(limit);
        }
        edge
    }

    /// Points the edge to `to`, the only receiver of the message, which is about to be sent. Fails
    /// if that closes a cycle of asks.
    pub(crate) async fn point_to(&mut self, to: &Arc<dyn Member>) -> Result<(), AskError> {
        let asker = poll_fn(|cx| Poll::Ready(current::polled_with(cx.waker()))).await;
        match asker {
            Some(asker) => {
                add_wait_edge_from(&asker, self.details.get_or_insert_default(), Arc::clone(to), Arc::clone(&self.slot))
            }
            None => Ok(()),
        }
    }
}

impl AskDetails {
    fn end_edge(&mut self) {
        if let Some((asker, edge)) = self.edge.take() {
            asker.end_wait(&edge);
        }
    }
}

/// Removes the wait edge, because the asker no longer waits for this answer.
impl Drop for AskDetails {
    fn drop(&mut self) {
        self.end_edge();
    }
}

impl<M: Send + 'static, T, Q> Ask<'_, M, T, Q> {
    /// Ends all waits: withdraws a question that is not in the queue, and removes the wait edge.
    #[cold]
    fn end_wait(&mut self) {
        let Some(mut details) = self.details.take() else { return };
        if let Some(key) = details.waiting.take() {
            self.to.any().mailbox().withdraw(key, &mut None::<M>);
        }
        if self.to.any().is_reserved() {
            details.end_edge();
            if let Some(slot) = self.slot.take() {
                slot.end();
            }
            details.timeout = AskTimeout::default();
            self.to.any().give_back(details);
        }
    }
}

impl<M: Send + 'static, T, Q> Drop for Ask<'_, M, T, Q> {
    #[inline]
    fn drop(&mut self) {
        if self.details.is_some() {
            self.end_wait();
        }
    }
}

// The question is moved and never pinned.
impl<M: Send + 'static, T, Q> Unpin for Ask<'_, M, T, Q> {}

impl<M, T, Q> Future for Ask<'_, M, T, Q>
where
    M: Send + 'static,
    T: Send + 'static,
    Q: FnOnce(Reply<T>) -> M,
{
    type Output = Result<T, AskError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let mut polled = this.poll_answer(cx);
        if let Some(details) = &mut this.details {
            if polled.is_pending() {
                polled = details.timeout.poll(&this.to.node().tree().runtime, cx).map(Err);
            }
            if polled.is_ready() {
                this.end_wait();
            }
        }
        polled
    }
}
