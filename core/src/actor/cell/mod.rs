//! The cell of an actor, and the loop that runs it.
//!
//! Each actor has one task, across all its restarts. The task owns the factory and the
//! [`ActorTask`]: the state and the batch of messages it works through. All others have the
//! [`Cell`]: the node in the tree and the mailbox.
//!
//! [`run_actor`] is the whole task: one stage after the other, until the actor is gone.
//! [`run_incarnation`] is the main stage: before every message it loads the control word once, then
//! it handles the message, until something ends the incarnation.
//!
//! ```text
//!    ┌──────────────────── restart ───────────────── WaitToRestart ◄┐
//!    ▼                                                      ▲       │ backoff, or restart plan
//!   Run ──► RestartingHook ──► StopChildren ──► StoppedHook ┴───────┘
//!    │                              ▲                 └─ exit ──► DeadLetters ──► Gone
//!    └─ stop, close, cancel, halt ──┘
//! ```
//!
//! The table of all states and transitions is in `lifecycle`; the table of all control bits is in
//! `mailbox::control`. Files, in reading order:
//!
//! | file | owns |
//! |---|---|
//! | `task` | `ActorTask`: the data of the task, and how it applies control |
//! | `actor_part` | the part of the task that depends on the actor's type |
//! | `turns` | the budget of a poll, suspended or not, current message or none, in one word |
//! | `work` | where the next message comes from: mailbox, timers, feed |
//! | `current_message` | the message that is being handled, until it is settled |
//! | `boxed_steps` | signals and behaviours, which few actors use |
//! | `lifecycle` | the stages and the transitions between them |
//! | `hooks` | the hooks `restarting` and `stopped`, with their time limit |
//! | `restart_wait` | the wait between two incarnations, and the next start |
//! | `teardown` | what is dropped, and reported, at the end |
//! | `guard` | polling user code: panics and cancels |
//! | `handler_time` | the time of long handlers |
//! | `instrumented` | the span of a message, for actors that ask for it |
//! | `factory` | the factory and the task in one allocation |
//! | `faults` | faults in handlers, for tests (`std`) |
//! | `feed_and_copy` | the feed of an actor, and the copy of its current message |
//! | `facts` | the cell as seen by observers |
//! | `member` | the cell as seen by senders and by the tree |
//! | `optional_state` | state that only some actors have |
//!
//! Invariants:
//! 1. A message is in exactly one place: mailbox, stash, batch, or current. `Turns::has_current` is
//!    true from the moment it left the batch until its handler returned `Ok`, so the code that ends
//!    an incarnation knows whether a message must be settled.
//! 2. User code runs only inside [`Guarded`], and its future is dropped before the state it borrows
//!    is touched.
//! 3. A parked actor has stored its waker and checked the control word after that.

pub(crate) mod actor_part;
pub(crate) mod boxed_steps;
pub(crate) mod current_message;
pub(crate) mod factory;
pub(crate) mod facts;
#[cfg(feature = "std")]
pub(crate) mod faults;
pub(crate) mod feed_and_copy;
pub(crate) mod guard;
pub(crate) mod handler_time;
pub(crate) mod hooks;
pub(crate) mod instrumented;
pub(crate) mod lifecycle;
pub(crate) mod member;
pub(crate) mod optional_state;
pub(crate) mod restart_wait;
pub(crate) mod task;
pub(crate) mod teardown;
pub(crate) mod turns;
pub(crate) mod work;

use crate::actor::Actor;
pub(crate) use crate::actor::cell::factory::{into_task, task_factory};
use crate::actor::cell::guard::Guarded;
use crate::actor::cell::lifecycle::{Stage, StageEnd};
use crate::actor::cell::optional_state::OptionalState;
use crate::actor::cell::task::{AnyTask, OwnedTask, Phase};
use crate::actor::cell::work::Next;
use crate::base::catch;
use crate::base::sync::{Arc, unsize};
use crate::mailbox::control;
use crate::mailbox::messages::{MessageStore, Messages};
use crate::mailbox::queue::QueueOf;
use crate::mailbox::receiver::Refill;
use crate::tree::member::Member;
use crate::tree::node::Node;
use crate::tree::node::children::Childless;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll};

/// The number of messages that an actor handles in one poll before it yields.
pub const MESSAGES_PER_POLL_MAX: u32 = 256;
/// The number of signals in a row after which one message is handled first.
pub const SIGNALS_IN_A_ROW_MAX: u32 = 16;

/// The shared part of an actor: its mailbox, with its node attached. `S` is where the
/// mailbox keeps its messages.
pub(crate) struct CellOf<S: ?Sized> {
    pub(crate) mailbox: QueueOf<S, OptionalState, CellHead>,
}

/// What an actor has beside its mailbox.
pub(crate) struct CellHead {
    node: Node,
}

/// The cell of an actor with messages `M`.
pub(crate) type Cell<M> = CellOf<Messages<M>>;

/// The cell of an actor, whatever its message type.
pub(crate) type AnyCell = CellOf<dyn MessageStore>;

/// What the stage `Run` works on. One reference to both is smaller than two, and every idle actor
/// has it.
struct Running<A: Actor, F> {
    task: OwnedTask<A>,
    factory: F,
}

/// The task of an actor, from its first start to its exit.
#[inline]
#[allow(clippy::manual_async_fn, reason = "an `async fn` stores its arguments twice")]
fn run_actor<A: Actor, F: FnMut() -> A + Send>(cell: Arc<Cell<A::Msg>>, factory: F) -> impl Future<Output = ()> + Send {
    async move {
        let mut running = Running { task: OwnedTask::<A>::new(Arc::clone(&cell)), factory };
        let mut member: Option<Arc<dyn Member>> = Some(unsize!(Arc::clone(&cell) => dyn Member));
        while running.task.0.stage != Stage::Gone {
            // The stages share their memory: an idle actor has room for the largest stage, not for
            // all of them.
            let end = match running.task.0.stage {
                Stage::Run | Stage::RestartingHook | Stage::StoppedHook => {
                    Guarded::new(&*cell, &mut member, run_incarnation(&cell, &mut running)).await
                }
                _ => Guarded::new(cell.any(), &mut member, running.task.0.any().quiet_stage(cell.any())).await,
            };
            running.task.0.any().next_stage(cell.any(), end);
        }
        let Running { mut task, factory } = running;
        if let Err(reason) = catch::catch(|| drop(factory)) {
            task.0.any().record_failure(cell.any(), reason);
        }
        if task.0.has_feed_or_copy {
            task.0.any().drop_feed_and_copy(cell.any());
        }
        let member = member.unwrap_or_else(|| unsize!(Arc::clone(&cell) => dyn Member));
        task.0.any().finish_exit(cell.any(), &member);
    }
}

/// A stage in which no code of the actor runs. It is compiled once for all actors.
struct QuietStage<'a> {
    task: &'a mut AnyTask,
    cell: &'a AnyCell,
    childless: Childless<'a>,
}

impl AnyTask {
    fn quiet_stage<'a>(&'a mut self, cell: &'a AnyCell) -> QuietStage<'a> {
        QuietStage { task: self, cell, childless: Childless::new(cell.node()) }
    }
}

impl Future for QuietStage<'_> {
    type Output = StageEnd;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<StageEnd> {
        let Self { task, cell, childless } = &mut *self;
        match task.stage {
            Stage::StopChildren => Pin::new(childless).poll(cx).map(|()| StageEnd::Done),
            Stage::WaitToRestart => task.poll_wait(cell, cx),
            _ => task.dead_letter_some(cell, cx.waker()).map(|()| StageEnd::Done),
        }
    }
}

/// A stage with code of the actor: `Run`, which is one incarnation from `started` to the event that
/// ends it, or one of the hooks. They are one future, so a hook needs neither memory nor a guard of
/// its own.
#[allow(clippy::manual_async_fn, reason = "an `async fn` stores its arguments twice")]
fn run_incarnation<A: Actor, F: FnMut() -> A + Send>(
    cell: &Cell<A::Msg>,
    running: &mut Running<A, F>,
) -> impl Future<Output = StageEnd> + Send {
    async move {
        if running.task.0.stage == Stage::RestartingHook {
            return running.task.0.restarting_hook(cell).await;
        }
        if running.task.0.stage == Stage::Run {
            if !running.task.0.has_state() {
                // Yield between incarnations: a state that fails at once must not block its thread,
                // nor run after a stop.
                poll_fn(|cx| cell.mark_parked(running.task.0.yield_if_spent(cx))).await;
                running.task.0.turns.spend();
                if running.task.0.part.cx.incarnation() > 0 && cell.mailbox.control_word() & control::STOP != 0 {
                    return running.task.0.any().begin_exit_in_run(cell, StageEnd::Stopped).unwrap_or(StageEnd::StageSet);
                }
                let actor = running.task.0.part.actor.insert((running.factory)());
                running.task.0.phase = Phase::Starting;
                if let Err(error) = actor.started(&mut running.task.0.part.cx).await {
                    return running.task.0.any().failed(error.into());
                }
                let incarnation = running.task.0.part.cx.incarnation();
                running.task.0.any().finish_start(cell, incarnation);
            }
            cell.begin_batch();
            running.task.0.phase = Phase::Busy;
            let end = loop {
                let word = cell.mailbox.control_word();
                if word != 0 {
                    if let Some(end) = running.task.0.any().apply_control(cell, word) {
                        break end;
                    }
                    if let Some(step) = running.task.0.any().next_boxed_step(word) {
                        if let Err(error) = running.task.0.begin_boxed_step(cell, step).await {
                            return running.task.0.any().failed(error.into());
                        }
                        running.task.0.finish_boxed_step(cell);
                        continue;
                    }
                }
                let message = if running.task.0.may_take_next() {
                    // Nothing is written between the check of the batch and the pop, so the
                    // compiler checks it once.
                    running.task.0.next_message(cell)
                } else {
                    match poll_fn(|cx| running.task.0.poll_next(cell, cx)).await {
                        Next::Single(message) => message,
                        Next::Found(Refill::Ended) => break StageEnd::Closed,
                        Next::Found(Refill::Control) => continue,
                        Next::Found(Refill::Messages) => {
                            cell.begin_batch();
                            continue;
                        }
                    }
                };
                if let Err(error) = running.task.0.handle_message(cell, message).await {
                    return running.task.0.any().failed(error.into());
                }
                running.task.0.finish_current(cell);
            };
            if let Some(end) = running.task.0.any().begin_exit_in_run(cell, end) {
                return end;
            }
        }
        let end = running.task.0.stopped_hook(cell).await;
        // The state is dropped here, as a part of user code. If the hook failed, `drop_state` drops
        // it later.
        if let StageEnd::Done = end {
            running.task.0.phase = Phase::NoState;
            running.task.0.part.actor = None;
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

    /// One signal more than the limit, and no message in between: the actor gets all signals and
    /// goes idle.
    #[test]
    fn a5_actor_without_messages_gets_all_signals() {
        struct Listener(Arc<crate::base::lock::Lock<u32>>);

        impl Actor for Listener {
            type Msg = ();
            type Error = core::convert::Infallible;

            async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), Self::Error> {
                Ok(())
            }

            async fn signal(
                &mut self,
                _signal: crate::events::signal::Signal,
                _cx: &mut Context<Self>,
            ) -> Result<(), Self::Error> {
                self.0.with(|received| *received += 1);
                Ok(())
            }
        }

        let sim = crate::dispatcher::Dispatcher::seeded(1);
        let scope = crate::scope::Scope::under(&crate::tree::token::CancelToken::root(sim.runtime()));
        let received = Arc::new(crate::base::lock::Lock::new(0));
        let counts = Arc::clone(&received);
        let actor = scope.spawn("listener", crate::actor::props::Props::new(move || Listener(Arc::clone(&counts)))).unwrap();
        for id in 0..=u64::from(SIGNALS_IN_A_ROW_MAX) {
            let id = crate::ids::path::ActorId::new(0, 1_000 + id);
            let ended = crate::events::signal::Terminated { id, path: actor.path(), exit: Exit::Closed };
            assert!(actor.try_send_system(crate::actor::system_message::SystemMessage::Terminated(ended)).is_ok());
        }
        sim.drain_ready();
        assert_eq!(received.with(|received| *received), SIGNALS_IN_A_ROW_MAX + 1);
    }

    /// Otherwise each message that an actor handles would slow down its senders.
    #[test]
    fn a14_receiver_and_senders_share_no_cache_line() {
        let between = crate::mailbox::queue::MessageQueue::<[u64; 2], OptionalState, CellHead>::BYTES_BETWEEN_SIDES;
        assert!(between >= 64, "{between}");
    }

    #[test]
    fn a14_cell_and_task_stay_small() {
        // Together with the 128 bytes of a Tokio task, two counts of an `Arc` and the parent's
        // table, this is the memory of an idle actor.
        assert!(size_of::<Cell<[u64; 2]>>() <= 192, "{}", size_of::<Cell<[u64; 2]>>());
        let task = size_of_val(&*task_factory(|| Sink { _state: 0 }));
        assert!(task <= 208, "{task}");
    }
}
