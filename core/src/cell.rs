//! `Cell`: an actor in the tree, and THE loop that runs it.
//!
//! One task per actor, across all its restarts. The task owns the actor's state, the batch of messages it is working through and the
//! factory; everybody else holds the `Cell`: the node in the tree and the inbox. `drain` is one incarnation: control first (one
//! load of a word before every message), then a message, until something ends it. `ending` decides what comes after.
//!
//! ```text
//!   live ─► drain ──Ok(End)──► ending::after ──Restart or Resume──► drain …
//!             │                      └───────Leave───► ending::leave ─► Gone
//!             └──cancel or panic (Guarded)─┘
//! ```
//!
//! Invariants:
//! 1. A message is in exactly one place: inbox, batch, or in hand; `in_hand` is true from the moment it left the batch until its
//!    handler returned `Ok`, so whoever ends an incarnation knows whether there is a message to account for.
//! 2. The drain is dropped before anything else happens to the state it borrows.
//! 3. A parked actor has left its waker and looked at control once more since.

use crate::current::Current;
use crate::ending::{self, After, Tenancy};
use crate::events::{DeadLetter, DeadLetterReason, Event};
use crate::guarded::Guarded;
use crate::mailbox::{Inbox, Refill, control};
use crate::node::{Member, Node};
use crate::props::{Extra, Parts};
use crate::sync::{AtomicUsize, Ordering};
use crate::{Actor, AskError, BoxError, BoxStream, Context, catch};
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::future::{Future, poll_fn};
use core::task::Poll;

/// After this many messages in one poll an actor lets others run.
pub const MESSAGES_PER_POLL_MAX: u32 = 256;
/// After this many signals in a row one user message is served.
pub const SIGNALS_IN_A_ROW_MAX: u32 = 16;
/// While senders wait for room, they are let in at least after this many messages.
const ADMIT_EVERY: u32 = 32;
/// An actor that has just worked through this many messages looks for more once before it goes idle: the sender is still at it.
const BUSY: u32 = 32;

pub(crate) struct Cell<M> {
    node: Node,
    inbox: Inbox<M>,
    posture: AtomicUsize,
    extra: Option<Arc<Extra<M>>>,
}

/// Where the actor's task is.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Posture {
    Outside,
    Polling,
    Resting,
}

/// What the task owns.
pub(crate) struct Body<A: Actor> {
    pub(crate) actor: Option<A>,
    pub(crate) cx: Context<A>,
    pub(crate) batch: VecDeque<A::Msg>,
    pub(crate) factory: Box<dyn FnMut() -> A + Send>,
    pub(crate) feed: Option<BoxStream<A::Msg>>,
    pub(crate) in_hand: bool,
    pub(crate) suspended: bool,
    pub(crate) kept: Option<Box<Kept<A::Msg>>>,
}

/// A second copy of the message in hand, for actors whose `Props` ask for it.
pub(crate) struct Kept<M> {
    pub(crate) message: Option<M>,
    pub(crate) attempts: u32,
    pub(crate) description: Option<Cow<'static, str>>,
}

/// How an incarnation came to its own end.
pub(crate) enum End {
    Stopped,
    Closed,
    Cancelled,
    Failed(BoxError),
    ChildFailed,
    Restart,
}

impl<M: Send + 'static> Cell<M> {
    pub(crate) fn new(node: Node, inbox: Inbox<M>, extra: Option<Arc<Extra<M>>>) -> Self {
        Self { node, inbox, posture: AtomicUsize::new(Posture::Outside as usize), extra }
    }

    /// How this actor words a message in records.
    pub(crate) fn describe(&self, message: &M) -> Cow<'static, str> {
        match self.extra().and_then(|extra| extra.describe.as_ref()) {
            // A describer is user code: if it panics, the type's name stands in.
            Some(describe) => catch::catch(|| describe(message)).map_or_else(|_| type_name::<M>(), Cow::Owned),
            None => type_name::<M>(),
        }
    }

    /// Records a message that was accepted and will not be handled, and drops it. The inbox has counted it.
    pub(crate) fn bury(&self, message: M, reason: DeadLetterReason) {
        self.node.world.events.emit(|| {
            let message = self.describe(&message);
            Event::DeadLetter(DeadLetter { to: self.node.path(), message, reason })
        });
        if let Err(reason) = catch::catch(|| drop(message)) {
            self.node.world.events.failure(&self.node.failure(0, reason));
        }
    }

    /// Sets control bits, and wakes the actor if it must look at them now.
    pub(crate) fn raise(&self, bits: usize) {
        if let Some(waker) = self.inbox.raise(bits) {
            self.node.world.runtime.wake_for_control(waker);
        }
    }

    /// Serves control only, from the next message on.
    pub(crate) fn suspend(&self) {
        self.inbox.lower(control::RESUME);
        self.raise(control::SUSPEND);
    }

    pub(crate) fn resume(&self) {
        self.inbox.lower(control::SUSPEND);
        self.raise(control::RESUME);
    }

    pub(crate) fn close(&self) {
        if let Some(waker) = self.inbox.close() {
            self.node.world.runtime.wake_for_control(waker);
        }
    }
}

impl<M> Cell<M> {
    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    pub(crate) fn inbox(&self) -> &Inbox<M> {
        &self.inbox
    }

    pub(crate) fn extra(&self) -> Option<&Extra<M>> {
        self.extra.as_deref()
    }

    pub(crate) fn posture(&self) -> Posture {
        match self.posture.load(Ordering::Relaxed) {
            0 => Posture::Outside,
            1 => Posture::Polling,
            _ => Posture::Resting,
        }
    }

    pub(crate) fn set_posture(&self, posture: Posture) {
        self.posture.store(posture as usize, Ordering::Relaxed);
    }
}

pub(crate) fn type_name<M>() -> Cow<'static, str> {
    Cow::Borrowed(core::any::type_name::<M>())
}

/// The whole life of an actor, as one task.
pub(crate) fn live<A: Actor>(cell: Arc<Cell<A::Msg>>, parts: Parts<A>) -> impl Future<Output = ()> + Send {
    // A block and not an `async fn`: an argument of an `async fn` is stored twice.
    async move {
        let tenancy = Tenancy::new(Arc::clone(&cell));
        let mut current = Some(Current::new(Arc::clone(&cell) as Arc<dyn Member>));
        let mut body = Body::new(&cell, parts);
        let exit = loop {
            let end = Guarded::new(&cell, &mut current, drain(&cell, &mut body)).await;
            match ending::after(&cell, &mut current, &mut body, end).await {
                After::Again => {}
                After::Leave(exit) => break exit,
            }
        };
        ending::leave(&cell, &mut current, body, exit, tenancy).await;
    }
}

/// One incarnation: from `started` to whatever ends it.
async fn drain<A: Actor>(cell: &Cell<A::Msg>, body: &mut Body<A>) -> End {
    if body.actor.is_none() {
        let actor = body.actor.insert((body.factory)());
        if let Err(error) = actor.started(&mut body.cx).await {
            return End::Failed(error.into());
        }
        let incarnation = body.cx.incarnation();
        cell.node.world.events.emit(|| Event::Started { path: cell.node.path(), incarnation });
    }
    let mut left = MESSAGES_PER_POLL_MAX;
    let mut worked = 0;
    let mut signals = 0;
    let mut unadmitted = 0;
    loop {
        let word = cell.inbox.word();
        if word != 0 {
            if let Some(end) = obey(cell, body, word, &mut unadmitted) {
                return end;
            }
            if signals < SIGNALS_IN_A_ROW_MAX
                && let Some(signal) = cell.inbox.pop_signal()
                && let Some(actor) = body.actor.as_mut()
            {
                signals += 1;
                match actor.signal(signal, &mut body.cx).await {
                    Ok(()) => continue,
                    Err(error) => return End::Failed(error.into()),
                }
            }
        }
        signals = 0;
        if body.suspended {
            rest(cell, |cx| cell.inbox.poll_control(cx.waker())).await;
            continue;
        }
        if let Some(message) = body.batch.pop_front() {
            body.in_hand = true;
            cell.inbox.begin();
            if cell.extra.is_some() {
                keep_copy(cell, body, &message);
            }
            let Some(actor) = body.actor.as_mut() else { return End::Restart };
            if let Err(error) = actor.handle(message, &mut body.cx).await {
                return End::Failed(error.into());
            }
            cell.inbox.finish();
            body.in_hand = false;
            body.kept = None;
            worked += 1;
            left -= 1;
            if left == 0 {
                left = MESSAGES_PER_POLL_MAX;
                step_aside(cell).await;
            }
            continue;
        }
        let Body { batch, feed, .. } = &mut *body;
        let refilled = rest(cell, |cx| {
            let may_park = core::mem::take(&mut worked) < BUSY;
            let refilled = refill(cell, batch, feed, may_park, cx);
            if refilled.is_pending() && !may_park {
                cx.waker().wake_by_ref();
            }
            refilled
        });
        match refilled.await {
            Refill::Messages | Refill::Control => {}
            Refill::Ended => return End::Closed,
        }
    }
}

/// Does what the control word says; the end it orders, if it does.
#[cold]
fn obey<A: Actor>(cell: &Cell<A::Msg>, body: &mut Body<A>, word: usize, unadmitted: &mut u32) -> Option<End> {
    if word & control::CANCEL != 0 {
        return Some(End::Cancelled);
    }
    if word & control::UNANSWERED != 0 {
        cell.inbox.take_unanswered().into_iter().for_each(|reply| reply.answer(AskError::Dropped));
    }
    if word & control::STOP != 0 {
        return Some(End::Stopped);
    }
    if word & control::CHILD_FAILED != 0 {
        cell.inbox.lower(control::CHILD_FAILED);
        return Some(End::ChildFailed);
    }
    if word & control::RESTART != 0 {
        cell.inbox.lower(control::RESTART);
        return Some(End::Restart);
    }
    if word & (control::SUSPEND | control::RESUME) != 0 {
        cell.inbox.lower(control::SUSPEND | control::RESUME);
        body.suspended = word & control::RESUME == 0;
    }
    if word & control::SENDERS != 0 {
        *unadmitted += 1;
        if *unadmitted >= ADMIT_EVERY {
            *unadmitted = 0;
            cell.inbox.admit();
        }
    }
    None
}

/// More messages from the inbox, else from the stream that feeds this actor.
fn refill<M: Send + 'static>(
    cell: &Cell<M>,
    batch: &mut VecDeque<M>,
    feed: &mut Option<BoxStream<M>>,
    may_park: bool,
    cx: &mut core::task::Context<'_>,
) -> Poll<Refill> {
    let refilled = cell.inbox.refill(batch, may_park, cx.waker());
    let (Poll::Pending, Some(stream)) = (&refilled, feed.as_mut()) else { return refilled };
    match stream.as_mut().poll_next(cx) {
        Poll::Pending => Poll::Pending,
        Poll::Ready(Some(item)) => {
            cell.inbox.accept_from_feed();
            batch.push_back(item);
            Poll::Ready(Refill::Messages)
        }
        Poll::Ready(None) => {
            *feed = None;
            cell.close();
            cell.inbox.refill(batch, may_park, cx.waker())
        }
    }
}

/// Waits for `poll` and says so: a waker is left or the task is woken already.
async fn rest<M, T>(cell: &Cell<M>, mut poll: impl FnMut(&mut core::task::Context<'_>) -> Poll<T>) -> T {
    poll_fn(|cx| {
        let polled = poll(cx);
        if polled.is_pending() {
            cell.set_posture(Posture::Resting);
        }
        polled
    })
    .await
}

/// Lets others run, and comes back.
async fn step_aside<M>(cell: &Cell<M>) {
    let mut stepped = false;
    rest(cell, |cx| {
        if core::mem::replace(&mut stepped, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cold]
fn keep_copy<A: Actor>(cell: &Cell<A::Msg>, body: &mut Body<A>, message: &A::Msg) {
    let Some(extra) = cell.extra() else { return };
    let attempts = body.kept.as_ref().map_or(0, |kept| kept.attempts);
    let description = extra.describe.is_some().then(|| cell.describe(message));
    let message = extra.copy.map(|copy| copy(message));
    body.kept = Some(Box::new(Kept { message, attempts, description }));
}

impl<A: Actor> Body<A> {
    fn new(cell: &Arc<Cell<A::Msg>>, parts: Parts<A>) -> Self {
        Self {
            actor: None,
            cx: Context::new(Arc::clone(cell)),
            batch: VecDeque::new(),
            factory: parts.factory,
            feed: parts.feed,
            in_hand: false,
            suspended: false,
            kept: None,
        }
    }
}
