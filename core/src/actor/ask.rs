//! `Reply` and `Ask`: a question and its one answer, or why there will be none.
//!
//! The slot of an answer is one allocation, shared by the `Reply` in the message and the `Ask` that waits. A `Reply` dropped inside a
//! poll of an actor is held by that actor until the outcome of its handler is known, so that the asker learns of the failure and not
//! merely of the drop. An ask awaited in an actor's own task leaves an edge there; closing a cycle of such edges is an error.

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

/// The place for an answer, carried in a message. Answer with [`send`](Reply::send); dropping it tells the asker that there is none.
pub struct Reply<T: Send + 'static> {
    slot: Option<Arc<ReplySlot<T>>>,
}

struct ReplySlot<T>(Lock<AnswerState<T>>);

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

    /// Answers. If the asker has gone, the answer is dropped.
    #[inline]
    pub fn send(mut self, answer: T) {
        let slot = self.slot.take();
        // Nothing is left in it to be dropped unanswered.
        core::mem::forget(self);
        if let Some(slot) = slot {
            slot.settle(AnswerState::Answered(answer));
        }
    }

    /// Whether nobody waits for the answer any more.
    pub fn is_unwanted(&self) -> bool {
        self.slot.as_ref().is_none_or(|slot| Arc::strong_count(slot) == 1)
    }
}

impl<T: Send + 'static> Drop for Reply<T> {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        let slot: Arc<dyn Unanswered> = slot;
        let member = current::member();
        let unheld = match member {
            Some(member) => member.hold_unanswered(slot).err(),
            None => Some(slot),
        };
        if let Some(slot) = unheld {
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
    /// A slot whose answer wakes `waker`.
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
        // What is taken out is dropped or used outside the lock.
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

    /// Has the answer wake another task than the one before, unless it is there by now.
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

/// An answer on its way; from `ActorRef::ask`. The question goes out when this is first polled.
#[must_use = "an ask does nothing unless awaited"]
pub struct Ask<'a, M: Send + 'static, T, Q> {
    to: &'a Arc<Cell<M>>,
    /// Until it is asked.
    question: Option<Q>,
    /// Once it is asked.
    slot: Option<Arc<ReplySlot<T>>>,
    /// While it waits for room.
    sending: Option<Box<Sending<'a, M>>>,
    details: Option<Box<AskDetails>>,
}

/// What an ask with a timeout, or one from inside an actor, needs besides.
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

    /// Waits at most this long.
    pub fn timeout(mut self, wait: Duration) -> Self {
        self.details.get_or_insert_default().timeout = Some(wait);
        self
    }

    /// Asks, if that has not been done, and looks for the answer.
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
            // It may already be told that there will be no answer; then the question is taken back.
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

/// Before a question goes out: if an actor asks in its own task, leaves the edge and looks for a cycle.
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

/// Lets in the sends that wait in a cycle with this ask. If it still can get no answer, it fails, or there is a lint.
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

/// A question that is a message before it is known who gets it: its answer, and the edge to whoever that is.
pub(crate) struct PendingAsk<T> {
    slot: Arc<ReplySlot<T>>,
    details: Option<Box<AskDetails>>,
}

impl<T: Send + 'static> PendingAsk<T> {
    /// The message, and what waits for its answer. A `timeout` makes a cycle of asks a lint and no error; it is for the caller to keep.
    pub(crate) fn new<M>(question: impl FnOnce(Reply<T>) -> M, timeout: Option<Duration>, waker: &Waker) -> (M, Self) {
        let mut pending = Self { slot: ReplySlot::new(waker), details: None };
        if timeout.is_some() {
            pending.details.get_or_insert_default().timeout = timeout;
        }
        (question(Reply::to(&pending.slot)), pending)
    }

    /// It is about to be sent to `to`, and to nobody else.
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

/// The asker no longer waits for this answer.
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
