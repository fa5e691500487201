//! [`Reply`] and [`Ask`]: a question and its one answer, or the reason why there is none.
//!
//! The slot of the answer is one allocation, shared by the `Reply` in the message and the `Ask`
//! that waits.
//!
//! Invariants:
//! 1. A slot is settled once. Later answers are dropped.
//! 2. A `Reply` that is dropped inside a poll of an actor is kept by that actor until the outcome
//!    of its handler is known. So the asker gets the failure as its error, and not only "dropped".
//! 3. An ask that an actor awaits in its own task adds an edge to the wait-for graph. An ask that
//!    would close a cycle of asks fails with [`AskError::Cycle`], or is reported as a lint if it
//!    has a timeout.

use crate::actor::cell::Cell;
use crate::actor::send::Sending;
use crate::base::lock::Lock;
use crate::base::runtime::{BoxFuture, Runtime};
use crate::base::wakers;
use crate::events::event::{Event, EventKinds, Lint};
use crate::mailbox::send_error::SendError;
use crate::tree::current;
use crate::tree::member::Member;
use crate::tree::waits::ask_error::AskError;
use crate::tree::waits::{Edge, Unanswered, Wait, WaitCycle};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

/// The one-shot channel on which an ask is answered. It is part of the message.
///
/// Answer with [`send`](Self::send). If it is dropped without an answer, the ask fails: with the
/// failure if the handler failed, else with [`AskError::Dropped`].
///
/// A handler can keep a reply and answer later, from another handler or task.
///
/// # Examples
/// ```
/// use pleach::BoxError;
/// use pleach::prelude::*;
///
/// enum Msg {
///     Double(u32, Reply<u32>),
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), pleach::Error> {
/// let system = ActorSystem::new("app")?;
/// let props = Props::from_fn(|| (), |(), msg: Msg| {
///     let Msg::Double(n, reply) = msg;
///     reply.send(n * 2);
///     Ok::<(), BoxError>(())
/// });
/// let doubler = system.spawn("doubler", props)?;
/// assert_eq!(doubler.ask(|reply| Msg::Double(21, reply)).await?, 42);
/// # system.shutdown(Duration::from_secs(5)).await?;
/// # Ok(())
/// # }
/// ```
pub struct Reply<T: Send + 'static> {
    slot: Option<Arc<ReplySlot<T>>>,
}

/// The place of one answer, shared by its `Reply` and the waiting ask.
struct ReplySlot<T>(Lock<AnswerState<T>>);

/// The state of an ask. It changes once, from `Waiting`.
enum AnswerState<T> {
    Waiting(Waker),
    Answered(T),
    Failed(AskError),
}

impl<T: Send + 'static> Reply<T> {
    #[inline]
    fn to(slot: &Arc<ReplySlot<T>>) -> Self {
        Self { slot: Some(Arc::clone(slot)) }
    }

    /// Sends the answer. If the asker no longer waits, the answer is dropped.
    #[inline]
    pub fn send(mut self, answer: T) {
        let slot = self.slot.take();
        // `self` no longer has a slot, so its drop would do nothing.
        core::mem::forget(self);
        if let Some(slot) = slot {
            slot.settle(AnswerState::Answered(answer));
        }
    }

    /// Returns true if the asker no longer waits for the answer.
    pub fn is_unwanted(&self) -> bool {
        self.slot.as_ref().is_none_or(|slot| Arc::strong_count(slot) == 1)
    }
}

impl<T: Send + 'static> Drop for Reply<T> {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        let slot: Arc<dyn Unanswered> = slot;
        let member = current::member();
        let not_kept = match member {
            Some(member) => member.hold_unanswered(slot).err(),
            None => Some(slot),
        };
        if let Some(slot) = not_kept {
            slot.answer(AskError::Dropped);
        }
    }
}

impl<T: Send + 'static> fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply(..)")
    }
}

impl<T: Send + 'static> Unanswered for ReplySlot<T> {
    fn answer(&self, why: AskError) {
        self.settle(AnswerState::Failed(why));
    }

    fn is_open(&self) -> bool {
        self.0.with(|state| matches!(state, AnswerState::Waiting(_)))
    }
}

impl<T> AnswerState<T> {
    #[inline]
    fn into_poll(self) -> Poll<Result<T, AskError>> {
        match self {
            Self::Waiting(_) => Poll::Pending,
            Self::Answered(answer) => Poll::Ready(Ok(answer)),
            Self::Failed(why) => Poll::Ready(Err(why)),
        }
    }
}

impl<T> ReplySlot<T> {
    /// Creates a slot whose answer wakes `waker`.
    #[inline]
    fn new(waker: &Waker) -> Arc<Self> {
        Arc::new(Self(Lock::new(AnswerState::Waiting(waker.clone()))))
    }

    #[inline]
    fn settle(&self, answer: AnswerState<T>) {
        let before = self.0.with(|state| match state {
            AnswerState::Waiting(_) => core::mem::replace(state, answer),
            _ => answer,
        });
        if let AnswerState::Waiting(waker) = before {
            wakers::wake_each(Some(waker));
        }
    }

    #[inline]
    fn poll(&self, waker: &Waker) -> Poll<Result<T, AskError>> {
        // The value taken out is dropped or used outside the lock.
        let taken = self.0.with(|state| match state {
            AnswerState::Waiting(known) => Err(known.will_wake(waker)),
            _ => Ok(core::mem::replace(state, AnswerState::Failed(AskError::Dropped))),
        });
        match taken {
            Ok(answer) => answer.into_poll(),
            Err(true) => Poll::Pending,
            Err(false) => self.replace_waker(waker.clone()),
        }
    }

    /// Replaces the waker, or takes the answer if it has arrived meanwhile.
    #[cold]
    fn replace_waker(&self, waker: Waker) -> Poll<Result<T, AskError>> {
        let (taken, unused) = self.0.with(|state| match state {
            AnswerState::Waiting(known) => (None, core::mem::replace(known, waker)),
            _ => (Some(core::mem::replace(state, AnswerState::Failed(AskError::Dropped))), waker),
        });
        wakers::discard([unused]);
        taken.map_or(Poll::Pending, AnswerState::into_poll)
    }
}

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
    /// Present while the question waits for room.
    sending: Option<Box<Sending<'a, M>>>,
    details: Option<Box<AskDetails>>,
}

/// The part of an ask that only an ask with a timeout, or one from inside an actor, needs.
#[derive(Default)]
struct AskDetails {
    timeout: Option<Duration>,
    sleep: Option<BoxFuture<'static, ()>>,
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
        Self { to, question: Some(question), slot: None, sending: None, details: None }
    }

    /// Sets a time limit for the answer. Default: none.
    ///
    /// The time starts when the future is first polled. After it, the ask fails with
    /// [`AskError::TimedOut`].
    pub fn timeout(mut self, wait: Duration) -> Self {
        self.details.get_or_insert_default().timeout = Some(wait);
        self
    }

    /// Sends the question if that has not been done, and polls the answer.
    #[inline]
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, AskError>> {
        if let Some(question) = self.question.take() {
            return self.send_question(question, cx);
        }
        if self.sending.is_some() {
            return self.poll_sending(cx);
        }
        match &self.slot {
            Some(slot) => slot.poll(cx.waker()),
            None => Poll::Ready(Err(AskError::Dropped)),
        }
    }

    #[inline]
    fn send_question(&mut self, question: Q, cx: &mut Context<'_>) -> Poll<Result<T, AskError>> {
        let slot = ReplySlot::new(cx.waker());
        add_wait_edge(&mut self.details, self.to, &slot, cx.waker())?;
        let message = question(Reply::to(&slot));
        self.slot = Some(slot);
        match self.to.mailbox().try_push(message) {
            Ok(high_water) => {
                self.to.report_if_high_water(high_water);
                Poll::Pending
            }
            Err(SendError::Full(message)) => {
                self.sending = Some(Box::new(Sending::new(self.to, message).for_ask()));
                self.poll_sending(cx)
            }
            Err(_) => Poll::Ready(Err(self.closed())),
        }
    }

    #[cold]
    fn poll_sending(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, AskError>> {
        let Some(sending) = &mut self.sending else { return Poll::Pending };
        let Poll::Ready(sent) = Pin::new(&mut **sending).poll(cx) else {
            // The slot may already have an error, such as a wait cycle. Then the question is
            // withdrawn.
            let answered = self.slot.as_ref().map_or(Poll::Pending, |slot| slot.poll(cx.waker()));
            if answered.is_ready() {
                self.sending = None;
            }
            return answered;
        };
        self.sending = None;
        match sent {
            Ok(()) => self.poll_answer(cx),
            Err(_) => Poll::Ready(Err(self.closed())),
        }
    }

    #[cold]
    fn closed(&self) -> AskError {
        self.to.node().exit().map_or(AskError::Closed, AskError::from)
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
        Some(asker) => {
            add_wait_edge_from(&asker, details, Arc::clone(to) as Arc<dyn Member>, Arc::clone(slot) as Arc<dyn Unanswered>)
        }
        None => Ok(()),
    }
}

fn add_wait_edge_from(
    asker: &Arc<dyn Member>,
    details: &mut Option<Box<AskDetails>>,
    target: Arc<dyn Member>,
    slot: Arc<dyn Unanswered>,
) -> Result<(), AskError> {
    let details = details.get_or_insert_default();
    details.end_edge();
    let edge = Edge { target, wait: Wait::Answer(slot) };
    asker.begin_wait(edge.clone());
    details.edge = Some((Arc::clone(asker), edge.clone()));
    if WaitCycle::over(asker, &edge).is_some() { break_cycles(asker, details, &edge) } else { Ok(()) }
}

/// Admits the sends that wait in a cycle with this ask. If the ask still cannot get an answer, it
/// fails, or a lint is reported if it has a timeout.
#[cold]
fn break_cycles(asker: &Arc<dyn Member>, details: &AskDetails, edge: &Edge) -> Result<(), AskError> {
    WaitCycle::admit_all(asker, edge);
    let Some(cycle) = WaitCycle::of_asks(asker, edge) else { return Ok(()) };
    if details.timeout.is_none() {
        return Err(AskError::Cycle(cycle.paths()));
    }
    edge.target.node().events().emit(EventKinds::LINTS, || Event::Lint(Lint::AskCycle(cycle.paths())));
    Ok(())
}

/// An ask whose message is made before its receiver is known: the slot of the answer, and the wait
/// edge to the receiver.
pub(crate) struct PendingAsk<T> {
    slot: Arc<ReplySlot<T>>,
    details: Option<Box<AskDetails>>,
}

impl<T: Send + 'static> PendingAsk<T> {
    /// Creates the message and the pending ask. With a `timeout`, a cycle of asks is a lint and not
    /// an error; the caller enforces the timeout itself.
    pub(crate) fn new<M>(question: impl FnOnce(Reply<T>) -> M, timeout: Option<Duration>, waker: &Waker) -> (M, Self) {
        let mut pending = Self { slot: ReplySlot::new(waker), details: None };
        if timeout.is_some() {
            pending.details.get_or_insert_default().timeout = timeout;
        }
        (question(Reply::to(&pending.slot)), pending)
    }

    /// Adds the wait edge to `to`, the only receiver of the message, which is about to be sent.
    /// Fails if that closes a cycle of asks.
    pub(crate) fn begin_wait_for(&mut self, to: &Arc<dyn Member>, waker: &Waker) -> Result<(), AskError> {
        let Some(asker) = current::polled_with(waker) else { return Ok(()) };
        add_wait_edge_from(&asker, &mut self.details, Arc::clone(to), Arc::clone(&self.slot) as Arc<dyn Unanswered>)
    }

    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Result<T, AskError>> {
        self.slot.poll(waker)
    }
}

impl AskDetails {
    fn end_edge(&mut self) {
        if let Some((asker, edge)) = self.edge.take() {
            asker.end_wait(&edge);
        }
    }

    fn poll_timeout(&mut self, runtime: &dyn Runtime, cx: &mut Context<'_>) -> Poll<AskError> {
        let Some(wait) = self.timeout else { return Poll::Pending };
        let sleep = self.sleep.get_or_insert_with(|| runtime.sleep_until(runtime.now() + wait));
        sleep.as_mut().poll(cx).map(|()| AskError::TimedOut(wait))
    }
}

/// Removes the wait edge, because the asker no longer waits for this answer.
impl Drop for AskDetails {
    fn drop(&mut self) {
        self.end_edge();
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
                polled = details.poll_timeout(this.to.node().runtime(), cx).map(Err);
            }
            if polled.is_ready() {
                this.details = None;
            }
        }
        polled
    }
}
