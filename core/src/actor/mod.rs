//! Actors: a state and a handler for one message type, run by one task.
//!
//! This file has the [`Actor`] trait. The rest of the room, in reading order:
//!
//! | file | owns |
//! |---|---|
//! | `props`, `fn_actor` | `Props`: factory and options of an actor; actors from closures |
//! | `actor_ref` | `ActorRef`: the address, with tell, send and ask |
//! | `send`, `ask`, `reply` | the futures of a send and an ask; the channel of the answer |
//! | `context` | `Context`: what a handler can do |
//! | `stash`, `behaviour` | stashed messages; replaced handlers |
//! | `timers`, `timer_schedule` | delayed messages, and when they are due |
//! | `spawn`, `spawn_started` | starting an actor, and waiting for its start |
//! | `recipient` | `Recipient`: an address for another message type |
//! | `system_message` | `SystemMessage`: commands that bypass the queue |
//! | `cell` | the loop that runs an actor, and its lifecycle |

pub(crate) mod actor_ref;
pub(crate) mod ask;
pub(crate) mod behaviour;
pub(crate) mod cell;
pub(crate) mod context;
pub(crate) mod fn_actor;
pub(crate) mod props;
pub(crate) mod recipient;
pub(crate) mod reply;
pub(crate) mod reserve;
pub(crate) mod send;
pub(crate) mod send_all;
pub(crate) mod spawn;
pub(crate) mod spawn_started;
pub(crate) mod stash;
pub(crate) mod system_message;
pub(crate) mod timer_schedule;
pub(crate) mod timers;

use crate::actor::context::Context;
use crate::base::reason::BoxError;
use crate::events::cause::Exit;
use crate::events::failure::FailureInfo;
use crate::events::signal::Signal;
use core::future::Future;

/// A state that handles one message at a time.
///
/// An actor is run by one task. Its handler is a plain `async fn`; the next message starts after it
/// has returned. An `Err` and a panic are treated alike: the failure goes to the supervisor, which
/// restarts the actor from its [`Props`](crate::Props), resumes it, stops it, or escalates the
/// failure.
///
/// # Examples
/// ```
/// use pleach::prelude::*;
///
/// struct Counter {
///     total: u64,
/// }
///
/// enum Msg {
///     Add(u64),
///     Total(Reply<u64>),
/// }
///
/// impl Actor for Counter {
///     type Msg = Msg;
///     type Error = core::convert::Infallible;
///
///     async fn handle(&mut self, msg: Msg, _cx: &mut Context<Self>) -> Result<(), Self::Error> {
///         match msg {
///             Msg::Add(n) => self.total += n,
///             Msg::Total(reply) => reply.send(self.total),
///         }
///         Ok(())
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), pleach::Error> {
/// let system = ActorSystem::new("app")?;
/// let counter = system.spawn("counter", Props::new(|| Counter { total: 0 }))?;
/// counter.tell(Msg::Add(2))?;
/// assert_eq!(counter.ask(Msg::Total).await?, 2);
/// # system.shutdown(Duration::from_secs(5)).await?;
/// # Ok(())
/// # }
/// ```
pub trait Actor: Sized + Send + 'static {
    /// The message type, usually an enum. Messages are stored inline in the mailbox, without a box.
    type Msg: Send + 'static;

    /// The error type of the handler and the hooks. Any error works, including `anyhow::Error`; use
    /// `Infallible` if they cannot fail.
    type Error: Into<BoxError> + Send;

    /// Handles one message. An `Err` is a failure of the actor.
    ///
    /// If the actor is cancelled, the returned future is dropped at its current await.
    fn handle(&mut self, msg: Self::Msg, cx: &mut Context<Self>) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Runs before the first message of each incarnation. An `Err` is a failure of that
    /// incarnation.
    fn started(&mut self, cx: &mut Context<Self>) -> impl Future<Output = Result<(), Self::Error>> + Send {
        let _ = cx;
        core::future::ready(Ok(()))
    }

    /// Runs on the failed state before it is replaced. An `Err` is recorded and does not prevent
    /// the restart.
    ///
    /// The hook must return within the grace period of the system, else it is dropped.
    fn restarting(
        &mut self,
        failure: &FailureInfo,
        cx: &mut Context<Self>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send {
        let _ = (failure, cx);
        core::future::ready(Ok(()))
    }

    /// Runs once at the end of each incarnation, with the reason in `exit`.
    ///
    /// After [`Exit::Failed`](crate::Exit::Failed) a restart may follow. The hook has a fresh
    /// token, which is not cancelled by the cancel that ended the actor. It must return within the
    /// grace period of the system, else it is dropped. An `Err` is recorded and changes nothing
    /// else.
    fn stopped(&mut self, exit: &Exit, cx: &mut Context<Self>) -> impl Future<Output = Result<(), Self::Error>> + Send {
        let _ = (exit, cx);
        core::future::ready(Ok(()))
    }

    /// Handles a signal: the exit of an actor that this one watches, or of a child, and failures of
    /// children. The default ignores it.
    ///
    /// To receive signals as messages in `handle`, see
    /// [`Props::map_signals`](crate::Props::map_signals).
    fn signal(&mut self, signal: Signal, cx: &mut Context<Self>) -> impl Future<Output = Result<(), Self::Error>> + Send {
        let _ = (signal, cx);
        core::future::ready(Ok(()))
    }
}
