//! `Actor`: a state and what it does with a message.

pub(crate) mod actor_ref;
pub(crate) mod ask;
pub(crate) mod cell;
pub(crate) mod context;
pub(crate) mod props;
pub(crate) mod recipient;
pub(crate) mod send;
pub(crate) mod spawn;
pub(crate) mod spawn_started;
pub(crate) mod stash;
pub(crate) mod system_message;
pub(crate) mod timers;

use crate::actor::context::Context;
use crate::base::reason::BoxError;
use crate::events::cause::Exit;
use crate::events::failure::FailureInfo;
use crate::events::signal::Signal;
use core::future::Future;

/// A state that handles one message at a time.
///
/// Methods are written as plain `async fn`s. An `Err` takes the same road as a panic: to the supervisor, which restarts the actor from
/// its [`Props`](crate::Props), resumes it, stops it, or hands the failure up.
///
/// ```
/// use pleach::{Actor, Context, Reply};
///
/// struct Counter { total: u64 }
/// enum Msg { Add(u64), Total(Reply<u64>) }
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
/// ```
pub trait Actor: Sized + Send + 'static {
    /// What it is told. One enum per actor; stored in place in the mailbox.
    type Msg: Send + 'static;

    /// How it fails. Any error will do, `anyhow::Error` among them; `Infallible` if it does not.
    type Error: Into<BoxError> + Send;

    /// Handles one message. Dropped at its current await if the actor is cancelled.
    fn handle(&mut self, msg: Self::Msg, cx: &mut Context<Self>) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Runs before the first message of each incarnation. An `Err` is a failure of that incarnation.
    fn started(&mut self, cx: &mut Context<Self>) -> impl Future<Output = Result<(), Self::Error>> + Send {
        let _ = cx;
        core::future::ready(Ok(()))
    }

    /// Runs on the failed state before it is replaced.
    fn restarting(
        &mut self,
        failure: &FailureInfo,
        cx: &mut Context<Self>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send {
        let _ = (failure, cx);
        core::future::ready(Ok(()))
    }

    /// Runs once at the end of each incarnation, whatever ended it, with a fresh token and within the system's grace period. With
    /// `Exit::Failed` a restart may follow.
    fn stopped(&mut self, exit: &Exit, cx: &mut Context<Self>) -> impl Future<Output = Result<(), Self::Error>> + Send {
        let _ = (exit, cx);
        core::future::ready(Ok(()))
    }

    /// Hears what happens around the actor: ends of what it watches, failures of its children. Ignored by default. To hear of it
    /// in `handle`, as messages, see [`Props::map_system`](crate::Props::map_system).
    fn signal(&mut self, signal: Signal, cx: &mut Context<Self>) -> impl Future<Output = Result<(), Self::Error>> + Send {
        let _ = (signal, cx);
        core::future::ready(Ok(()))
    }
}
