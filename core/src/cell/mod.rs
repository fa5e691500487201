//! `Cell`: an actor in the tree, and THE loop that runs it.
//!
//! One task per actor, across all its restarts. The task owns the [`Body`]: state, factory, the batch of messages it is working
//! through. Everybody else holds the [`Cell`]: the node in the tree and the inbox (see `door`). [`drain`] is one incarnation: control
//! first (one load of a word before every message), then a message, until something ends it; `ending` decides what stage comes next.
//!
//! ```text
//!              ┌──────────────── restart ────────────────┐
//!              ▼                                         │
//!   Run ──► Restarting ──► EndChildren ──► Stopped ──────┤
//!    │   (restarting hook)  (youngest first) (hook, then └─ leave ──► Bury ──► Gone
//!    └─ stop, close, cancel ──►┘              drop state)         (dead letters)
//! ```
//!
//! Invariants:
//! 1. A message is in exactly one place: inbox, batch, or in hand. `in_hand` is true from the moment it left the batch until its
//!    handler returned `Ok`, so whoever ends an incarnation knows whether there is a message to account for.
//! 2. User code runs inside [`Guarded`] only, and its future is dropped before anything else happens to the state it borrows.
//! 3. A parked actor has left its waker and looked at control once more since.

mod door;
mod ending;
mod guarded;

use crate::events::Event;
use crate::mailbox::{Inbox, Refill, control};
use crate::node::{Childless, Node};
use crate::props::{Extra, Parts};
use crate::{Actor, AskError, BoxError, BoxFuture, BoxStream, Context, Exit, FailureInfo};
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::task::Poll;
use guarded::Guarded;

/// After this many messages in one poll an actor lets others run.
pub const MESSAGES_PER_POLL_MAX: u32 = 256;
/// After this many signals in a row one user message is served.
pub const SIGNALS_IN_A_ROW_MAX: u32 = 16;
/// While senders wait for room, they are let in at least after this many messages.
const ADMIT_EVERY: u8 = 32;
/// An actor that has just worked through this many messages looks for more once before it goes idle: the sender is still at it.
const BUSY: u16 = 32;

/// What everybody holds of an actor.
pub(crate) struct Cell<M> {
    node: Node,
    inbox: Inbox<M>,
    extra: Option<Arc<Extra<M>>>,
}

/// What the actor's task owns. One of these is kept for every idle actor, so what is rare lies in a box.
struct Body<A: Actor> {
    actor: Option<A>,
    cx: Context<A>,
    batch: Vec<A::Msg>,
    factory: Box<dyn FnMut() -> A + Send>,
    rare: Option<Box<Rare<A::Msg>>>,
    worked: u16,
    unadmitted: u8,
    stage: Stage,
    leaving: Option<Leaving>,
    in_hand: bool,
    suspended: bool,
}

/// What only some actors need: those that are fed, keep copies of their messages, or have failed.
struct Rare<M> {
    feed: Option<BoxStream<M>>,
    kept: Option<M>,
    attempts: u32,
    retrying: bool,
    description: Option<Cow<'static, str>>,
    failure: Option<FailureInfo>,
    exit: Option<Exit>,
}

/// What the task is at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Run,
    Restarting,
    EndChildren,
    Stopped,
    Bury,
    Gone,
}

/// Why the actor ends for good.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaving {
    Stop,
    Close,
    Cancel,
    Fail,
}

/// How a stage came to its own end.
enum End {
    Done,
    Stopped,
    Closed,
    Cancelled,
    Failed(BoxError),
    ChildFailed,
    Restart,
}

impl End {
    fn of<E: Into<BoxError>>(result: Result<(), E>) -> Self {
        result.map_or_else(|error| Self::Failed(error.into()), |()| Self::Done)
    }
}

/// The whole life of an actor, as one task.
pub(crate) fn live<A: Actor>(cell: Arc<Cell<A::Msg>>, parts: Parts<A>) -> impl Future<Output = ()> + Send {
    let mut body = Body::new(Arc::clone(&cell), parts);
    // Blocks and not `async fn`s, here and below: an `async fn` stores its arguments twice.
    async move {
        while body.stage != Stage::Gone {
            // The stages share their memory: an idle actor keeps room for the largest and not for each.
            let end = match body.stage {
                Stage::Run | Stage::Gone => Guarded::new(&cell, drain(&cell, &mut body)).await,
                Stage::Restarting => Guarded::new(&cell, body.restarting()).await.map(End::of),
                Stage::EndChildren => Guarded::new(&cell, Childless::of(&cell.node)).await.map(|()| End::Done),
                Stage::Stopped => Guarded::new(&cell, body.stopped(&cell)).await.map(End::of),
                Stage::Bury => Guarded::new(&cell, poll_fn(|cx| body.bury_some(&cell, cx.waker()))).await.map(|()| End::Done),
            };
            body.next_stage(&cell, end);
        }
    }
}

/// One incarnation: from `started` to whatever ends it.
#[allow(clippy::manual_async_fn, reason = "an `async fn` stores its arguments twice")]
fn drain<A: Actor>(cell: &Cell<A::Msg>, body: &mut Body<A>) -> impl Future<Output = End> + Send {
    async move {
        if body.actor.is_none() {
            let actor = body.actor.insert((body.factory)());
            if let Err(error) = actor.started(&mut body.cx).await {
                return End::Failed(error.into());
            }
            body.say_started(cell);
        }
        let mut left = MESSAGES_PER_POLL_MAX;
        let mut signals = 0;
        loop {
            let word = cell.inbox.word();
            if word != 0 {
                if let Some(end) = body.obey(cell, word) {
                    return end;
                }
                if word & control::SIGNALS != 0 && signals < SIGNALS_IN_A_ROW_MAX && left > 0 {
                    signals += 1;
                    left -= 1;
                    if let Err(error) = body.hear(cell).await {
                        return End::Failed(error.into());
                    }
                    continue;
                }
            }
            if !body.batch.is_empty() && !body.suspended && left > 0 {
                signals = 0;
                if let Err(error) = body.take_up(cell).await {
                    return End::Failed(error.into());
                }
                cell.inbox.finish();
                body.in_hand = false;
                body.worked = body.worked.saturating_add(1);
                left -= 1;
                if left > 0 {
                    continue;
                }
            }
            // A batch may be a single message, so only a poll that ends begins the count anew.
            let found = poll_fn(|cx| {
                let aside = left == 0;
                let found = body.find_work(cell, aside, cx);
                if found.is_pending() {
                    left = MESSAGES_PER_POLL_MAX;
                }
                cell.rest(found)
            });
            match found.await {
                Refill::Ended => return End::Closed,
                Refill::Control => signals = 0,
                Refill::Messages => {}
            }
        }
    }
}

impl<A: Actor> Body<A> {
    fn new(cell: Arc<Cell<A::Msg>>, parts: Parts<A>) -> Self {
        let mut body = Self {
            actor: None,
            cx: Context::new(cell),
            batch: Vec::new(),
            factory: parts.factory,
            rare: None,
            worked: 0,
            unadmitted: 0,
            stage: Stage::Run,
            leaving: None,
            in_hand: false,
            suspended: false,
        };
        if let Some(feed) = parts.feed {
            body.rare.get_or_insert_default().feed = Some(feed);
        }
        body
    }

    /// Begins the next message. The batch is not empty and there is an actor. (Not inlined into the loop, so that the future of the
    /// handler is all that the loop keeps while it waits.)
    #[inline]
    fn take_up(&mut self, cell: &Cell<A::Msg>) -> impl Future<Output = Result<(), A::Error>> + Send {
        let message = self.batch.pop().expect("the caller has seen a message");
        let actor = self.actor.as_mut().expect("an incarnation has an actor from its start");
        self.in_hand = true;
        cell.inbox.begin();
        if let Some(extra) = cell.extra.as_deref() {
            extra.note(cell, &mut self.rare, &message);
        }
        actor.handle(message, &mut self.cx)
    }

    /// Hears the next signal, if it is still there. Signals are rare, so an idle actor keeps no room for this.
    fn hear(&mut self, cell: &Cell<A::Msg>) -> BoxFuture<'_, Result<(), A::Error>> {
        match (cell.inbox.pop_signal(), self.actor.as_mut()) {
            (Some(signal), Some(actor)) => Box::pin(actor.signal(signal, &mut self.cx)),
            _ => Box::pin(core::future::ready(Ok(()))),
        }
    }

    fn say_started(&self, cell: &Cell<A::Msg>) {
        let incarnation = self.cx.incarnation();
        cell.node.events().emit(|| Event::Started { path: cell.node.path(), incarnation });
    }

    /// Does what the control word says; the end it orders, if it does.
    #[cold]
    fn obey(&mut self, cell: &Cell<A::Msg>, word: u32) -> Option<End> {
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
            // What counts is the word as it was when the bits were cleared: a resume may have come since it was read.
            let word = cell.inbox.lower(control::SUSPEND | control::RESUME);
            if word & (control::SUSPEND | control::RESUME) != 0 {
                self.suspended = word & control::RESUME == 0;
            }
        }
        if word & control::SENDERS != 0 {
            self.unadmitted += 1;
            if self.unadmitted >= ADMIT_EVERY {
                self.unadmitted = 0;
                cell.inbox.admit();
            }
        }
        None
    }

    /// More messages from the inbox, else from the stream that feeds this actor; else parks. `aside` lets others run first.
    fn find_work(&mut self, cell: &Cell<A::Msg>, aside: bool, cx: &mut core::task::Context<'_>) -> Poll<Refill> {
        if aside {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.suspended {
            cell.inbox.admit();
            return cell.inbox.poll_control(cx.waker()).map(|()| Refill::Control);
        }
        if !self.batch.is_empty() {
            return Poll::Ready(Refill::Messages);
        }
        // Whoever sent that much is probably still at it: look once more before parking, which spares it a wake-up.
        let may_park = core::mem::take(&mut self.worked) < BUSY;
        let found = cell.inbox.refill(&mut self.batch, may_park, cx.waker());
        if found.is_ready() {
            return found;
        }
        if !may_park {
            cx.waker().wake_by_ref();
        }
        match self.rare.as_mut().filter(|rare| rare.feed.is_some()) {
            Some(rare) => rare.poll_feed(cell, &mut self.batch, cx),
            None => Poll::Pending,
        }
    }
}

impl<M> Default for Rare<M> {
    fn default() -> Self {
        Self { feed: None, kept: None, attempts: 0, retrying: false, description: None, failure: None, exit: None }
    }
}

impl<M: Send + 'static> Rare<M> {
    fn poll_feed(&mut self, cell: &Cell<M>, batch: &mut Vec<M>, cx: &mut core::task::Context<'_>) -> Poll<Refill> {
        let Some(feed) = &mut self.feed else { return Poll::Pending };
        match feed.as_mut().poll_next(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(item)) => {
                cell.inbox.accept_from_feed();
                batch.push(item);
                Poll::Ready(Refill::Messages)
            }
            Poll::Ready(None) => {
                self.feed = None;
                cell.close();
                cell.inbox.refill(batch, true, cx.waker())
            }
        }
    }
}

#[cfg(all(test, feature = "std", target_pointer_width = "64", not(loom)))]
mod tests {
    use super::*;

    struct Sink {
        _state: u64,
    }

    impl Actor for Sink {
        type Msg = [u64; 2];
        type Error = core::convert::Infallible;

        async fn handle(&mut self, _msg: [u64; 2], _cx: &mut Context<Self>) -> Result<(), Self::Error> {
            Ok(())
        }
    }

    fn size_of_output<A, B, F>(_: impl Fn(A, B) -> F) -> usize {
        size_of::<F>()
    }

    /// One signal more than are heard in a row, and no message to serve in between: the actor hears them all and goes idle.
    #[test]
    fn a5_many_signals_and_no_message() {
        struct Hears(Arc<crate::lock::Lock<u32>>);

        impl Actor for Hears {
            type Msg = ();
            type Error = core::convert::Infallible;

            async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), Self::Error> {
                Ok(())
            }

            async fn signal(&mut self, _signal: crate::Signal, _cx: &mut Context<Self>) -> Result<(), Self::Error> {
                self.0.with(|heard| *heard += 1);
                Ok(())
            }
        }

        let sim = crate::Dispatcher::seeded(1);
        let scope = crate::Scope::under(&crate::CancelToken::root(sim.runtime()));
        let heard = Arc::new(crate::lock::Lock::new(0));
        let counts = Arc::clone(&heard);
        let actor = scope.actor("hears", crate::Props::new(move || Hears(Arc::clone(&counts)))).unwrap();
        for id in 0..=u64::from(SIGNALS_IN_A_ROW_MAX) {
            let id = crate::ActorId(1_000 + id);
            let ended = crate::Terminated { id, path: actor.path(), exit: Exit::Closed };
            assert!(actor.try_send_system(crate::SystemMessage::Terminated(ended)).is_ok());
        }
        sim.drain_ready();
        assert_eq!(heard.with(|heard| *heard), SIGNALS_IN_A_ROW_MAX + 1);
    }

    #[test]
    fn a14_cell_and_task_stay_small() {
        // With the 128 bytes of a Tokio task, two counts of an `Arc`, and the parent's table that makes an idle actor.
        assert!(size_of::<Cell<[u64; 2]>>() <= 192);
        assert!(size_of_output(live::<Sink>) <= 208, "{}", size_of_output(live::<Sink>));
    }
}
