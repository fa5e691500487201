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
pub(crate) mod factory;
pub(crate) mod guard;
pub(crate) mod handler_time;
pub(crate) mod hooks;
pub(crate) mod lifecycle;
pub(crate) mod member;
pub(crate) mod optional_state;
pub(crate) mod restart_wait;
pub(crate) mod signals;
pub(crate) mod task;

use crate::actor::Actor;
pub(crate) use crate::actor::cell::factory::{into_task, task_factory};
use crate::actor::cell::guard::Guarded;
use crate::actor::cell::optional_state::OptionalState;
use crate::actor::cell::task::{ActorTask, EarlyPark, Stage, StageEnd};
use crate::actor::props::ActorOptions;
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
    pub(crate) mailbox: MessageQueue<M, OptionalState<M>>,
    options: Option<Arc<ActorOptions<M>>>,
}

/// The whole life of an actor, as one task.
#[inline]
#[allow(clippy::manual_async_fn, reason = "an `async fn` stores its arguments twice")]
fn run_actor<A: Actor, F: FnMut() -> A + Send>(cell: Arc<Cell<A::Msg>>, mut factory: F) -> impl Future<Output = ()> + Send {
    async move {
        let mut task = ActorTask::new(Arc::clone(&cell));
        let mut member: Option<Arc<dyn Member>> = Some(Arc::clone(&cell) as Arc<dyn Member>);
        while task.stage != Stage::Gone {
            // The stages share their memory: an idle actor keeps room for the largest and not for each.
            let end = match task.stage {
                Stage::Run | Stage::Gone => {
                    Guarded::new(&cell, &mut member, run_incarnation(&cell, &mut task, &mut factory)).await
                }
                Stage::RestartingHook => Guarded::new(&cell, &mut member, task.restarting_hook(&cell)).await,
                Stage::StopChildren => Guarded::new(&cell, &mut member, Childless::of(&cell.node)).await,
                Stage::StoppedHook => Guarded::new(&cell, &mut member, task.stopped_hook(&cell)).await,
                Stage::WaitToRestart => Guarded::new(&cell, &mut member, poll_fn(|cx| task.poll_wait(&cell, cx))).await,
                Stage::DeadLetters => {
                    Guarded::new(&cell, &mut member, poll_fn(|cx| task.dead_letter_some(&cell, cx.waker()))).await
                }
            };
            task.next_stage(&cell, end);
        }
        let member = member.unwrap_or_else(|| Arc::clone(&cell) as Arc<dyn Member>);
        task.finish_exit(&cell, &member, factory);
    }
}

/// One incarnation: from `started` to whatever ends it.
#[allow(clippy::manual_async_fn, reason = "an `async fn` stores its arguments twice")]
fn run_incarnation<A: Actor>(
    cell: &Cell<A::Msg>,
    task: &mut ActorTask<A>,
    factory: &mut (impl FnMut() -> A + Send),
) -> impl Future<Output = StageEnd> + Send {
    async move {
        if task.actor.is_none() {
            // A state that fails as soon as it is made must not hold a worker, nor outlive a stop.
            poll_fn(|cx| cell.mark_parked(task.yield_if_spent(cx))).await;
            task.budget -= 1;
            if task.cx.incarnation() > 0 && cell.mailbox.control_word() & control::STOP != 0 {
                return task.begin_exit_in_run(cell, StageEnd::Stopped).unwrap_or(StageEnd::StageSet);
            }
            let actor = task.actor.insert(factory());
            if let Err(error) = actor.started(&mut task.cx).await {
                return StageEnd::failed(error);
            }
            task.settle_stash(cell, StashedIn::Hook);
            task.early_park = EarlyPark::Unlikely;
            task.announce_start(cell);
        }
        cell.begin_batch();
        task.early_park = EarlyPark::Unlikely;
        let mut signals = 0;
        let end = loop {
            let word = cell.mailbox.control_word();
            if word != 0 {
                if let Some(end) = task.apply_control(cell, word) {
                    break end;
                }
                if let Some(step) = task.next_boxed_step(word, &mut signals) {
                    if let Err(error) = task.begin_boxed_step(cell, step).await {
                        return StageEnd::failed(error);
                    }
                    task.finish_boxed_step(cell);
                    continue;
                }
            }
            if !task.batch.is_empty() && !task.suspended && task.budget > 0 {
                // Nothing is written between the look at the batch and the message, so that it is not looked at twice.
                if let Err(error) = task.handle_next(cell).await {
                    return StageEnd::failed(error);
                }
                task.finish_current(cell);
                signals = 0;
                continue;
            }
            let found = poll_fn(|cx| {
                let found = task.poll_work(cell, cx);
                // A batch may be a single message, and an incarnation too: only a poll that ends begins the count anew.
                if found.is_pending() {
                    task.budget = MESSAGES_PER_POLL_MAX as u16;
                }
                cell.mark_parked(found)
            });
            let handling = match found.await {
                Refill::Single(message) => task.handle_message(cell, message),
                Refill::Ended => break StageEnd::Closed,
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
                return StageEnd::failed(error);
            }
            task.finish_current(cell);
        };
        if let Some(end) = task.begin_exit_in_run(cell, end) {
            return end;
        }
        let end = task.stopped_hook(cell).await;
        // Here it goes as a part of the user's code; if the hook failed, by itself and later.
        if let StageEnd::Done = end {
            task.actor = None;
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
        let task = size_of_val(&*task_factory(|| Sink { _state: 0 }));
        assert!(task <= 208, "{task}");
    }
}
