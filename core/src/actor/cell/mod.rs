//! `Cell`: an actor in the tree, and THE loop that runs it.
//!
//! One task per actor, across all its restarts, in the box that was its `recipe`. The task owns the factory and the [`Body`]: state, the batch
//! of messages it is working through. Everybody else holds the [`Cell`]: the node in the tree and the mailbox (see `door`). [`drain`] is one incarnation: control
//! first (one load of a word before every message), then a message, until something ends it; `ending` decides what stage comes next.
//!
//! ```text
//!    ┌─────────────────────── restart ─────────────── (Waiting) ◄──┐
//!    ▼                                                  │   backoff, or for the group
//!   Run ──► Restarting ──► EndChildren ──► Stopped ─────┼──────────┘
//!    │   (restarting hook)  (youngest first) (hook, then └─ leave ──► Bury ──► Gone
//!    └─ stop, close, cancel, halt ──►┘         drop state)         (dead letters)
//! ```
//!
//! A stop or the end of input, for good and with no children, goes all the way to the end of `Stopped` within `Run`.
//!
//! Invariants:
//! 1. A message is in exactly one place: mailbox, batch, or in hand. `in_hand` is true from the moment it left the batch until its
//!    handler returned `Ok`, so whoever ends an incarnation knows whether there is a message to account for.
//! 2. User code runs inside [`Guarded`] only, and its future is dropped before anything else happens to the state it borrows.
//! 3. A parked actor has left its waker and looked at control once more since.

pub(crate) mod current_message;
pub(crate) mod extras;
pub(crate) mod factory;
pub(crate) mod guard;
pub(crate) mod handler_time;
pub(crate) mod hooks;
pub(crate) mod lifecycle;
pub(crate) mod member;
pub(crate) mod restart_wait;
pub(crate) mod signals;
pub(crate) mod task;

use crate::actor::Actor;
use crate::actor::cell::extras::Extras;
pub(crate) use crate::actor::cell::factory::{recipe, task};
use crate::actor::cell::guard::Guarded;
use crate::actor::cell::task::{Body, Early, End, Stage};
use crate::actor::props::Extra;
use crate::actor::stash::StashedIn;
use crate::mailbox::control;
use crate::mailbox::queue::{MessageQueue, Refill};
use crate::tree::member::Member;
use crate::tree::node::Node;
use crate::tree::node::children::Childless;
use alloc::sync::Arc;
use core::future::{Future, poll_fn};

/// After this many messages in one poll an actor lets others run.
pub const MESSAGES_PER_POLL_MAX: u32 = 256;
/// After this many signals in a row one user message is served.
pub const SIGNALS_IN_A_ROW_MAX: u32 = 16;
/// What everybody holds of an actor.
pub(crate) struct Cell<M> {
    node: Node,
    pub(crate) mailbox: MessageQueue<M, Extras<M>>,
    extra: Option<Arc<Extra<M>>>,
}

/// The whole life of an actor, as one task.
#[inline]
#[allow(clippy::manual_async_fn, reason = "an `async fn` stores its arguments twice")]
fn live<A: Actor, F: FnMut() -> A + Send>(cell: Arc<Cell<A::Msg>>, mut factory: F) -> impl Future<Output = ()> + Send {
    async move {
        let mut body = Body::new(Arc::clone(&cell));
        let mut member: Option<Arc<dyn Member>> = Some(Arc::clone(&cell) as Arc<dyn Member>);
        while body.stage != Stage::Gone {
            // The stages share their memory: an idle actor keeps room for the largest and not for each.
            let end = match body.stage {
                Stage::Run | Stage::Gone => Guarded::new(&cell, &mut member, drain(&cell, &mut body, &mut factory)).await,
                Stage::Restarting => Guarded::new(&cell, &mut member, body.restarting(&cell)).await,
                Stage::EndChildren => Guarded::new(&cell, &mut member, Childless::of(&cell.node)).await,
                Stage::Stopped => Guarded::new(&cell, &mut member, body.stopped(&cell)).await,
                Stage::Waiting => Guarded::new(&cell, &mut member, poll_fn(|cx| body.poll_wait(&cell, cx))).await,
                Stage::Bury => Guarded::new(&cell, &mut member, poll_fn(|cx| body.bury_some(&cell, cx.waker()))).await,
            };
            body.next_stage(&cell, end);
        }
        let member = member.unwrap_or_else(|| Arc::clone(&cell) as Arc<dyn Member>);
        body.depart(&cell, &member, factory);
    }
}

/// One incarnation: from `started` to whatever ends it.
#[allow(clippy::manual_async_fn, reason = "an `async fn` stores its arguments twice")]
fn drain<A: Actor>(
    cell: &Cell<A::Msg>,
    body: &mut Body<A>,
    factory: &mut (impl FnMut() -> A + Send),
) -> impl Future<Output = End> + Send {
    async move {
        if body.actor.is_none() {
            // A state that fails as soon as it is made must not hold a worker, nor outlive a stop.
            poll_fn(|cx| cell.rest(body.step_aside(cx))).await;
            body.left -= 1;
            if body.cx.incarnation() > 0 && cell.mailbox.word() & control::STOP != 0 {
                return body.leave_at_once(cell, End::Stopped).unwrap_or(End::Left);
            }
            let actor = body.actor.insert(factory());
            if let Err(error) = actor.started(&mut body.cx).await {
                return End::failed(error);
            }
            body.settle_stash(cell, StashedIn::Hook);
            body.early = Early::Unlikely;
            body.say_up(cell);
        }
        cell.begin_batch();
        body.early = Early::Unlikely;
        let mut signals = 0;
        let end = loop {
            let word = cell.mailbox.word();
            if word != 0 {
                if let Some(end) = body.carry_out(cell, word) {
                    break end;
                }
                if let Some(aside) = body.next_aside(word, &mut signals) {
                    if let Err(error) = body.begin_aside(cell, aside).await {
                        return End::failed(error);
                    }
                    body.settle_aside(cell);
                    continue;
                }
            }
            if !body.batch.is_empty() && !body.suspended && body.left > 0 {
                // Nothing is written between the look at the batch and the message, so that it is not looked at twice.
                if let Err(error) = body.take_next(cell).await {
                    return End::failed(error);
                }
                body.put_down(cell);
                signals = 0;
                continue;
            }
            let found = poll_fn(|cx| {
                let found = body.find_work(cell, cx);
                // A batch may be a single message, and an incarnation too: only a poll that ends begins the count anew.
                if found.is_pending() {
                    body.left = MESSAGES_PER_POLL_MAX as u16;
                }
                cell.rest(found)
            });
            let handling = match found.await {
                Refill::Alone(message) => body.take_up(cell, message),
                Refill::Ended => break End::Closed,
                Refill::Control => {
                    signals = 0;
                    continue;
                }
                Refill::Messages => {
                    cell.begin_batch();
                    continue;
                }
            };
            signals = 0;
            if let Err(error) = handling.await {
                return End::failed(error);
            }
            body.put_down(cell);
        };
        if let Some(end) = body.leave_at_once(cell, end) {
            return end;
        }
        let end = body.stopped(cell).await;
        // Here it goes as a part of the user's code; if the hook failed, by itself and later.
        if let End::Done = end {
            body.actor = None;
        }
        end
    }
}

#[cfg(all(test, feature = "std", target_pointer_width = "64", not(loom)))]
mod tests {
    use super::*;
    use crate::actor::context::Context;
    use crate::events::cause::Exit;

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

    /// One signal more than are heard in a row, and no message to serve in between: the actor hears them all and goes idle.
    #[test]
    fn a5_many_signals_and_no_message() {
        struct Hears(Arc<crate::base::lock::Lock<u32>>);

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
        let heard = Arc::new(crate::base::lock::Lock::new(0));
        let counts = Arc::clone(&heard);
        let actor = scope.actor("hears", crate::Props::new(move || Hears(Arc::clone(&counts)))).unwrap();
        for id in 0..=u64::from(SIGNALS_IN_A_ROW_MAX) {
            let id = crate::ActorId::new(0, 1_000 + id);
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
        let task = size_of_val(&*recipe(|| Sink { _state: 0 }));
        assert!(task <= 208, "{task}");
    }
}
