//! Supervised actors, structured scopes and tasks in one tree: cancellation goes down it, failures come up it.
//!
//! What runs on Tokio runs inside a Tokio runtime (`#[tokio::main]` will do); the simulator needs none. [`prelude`] has what most
//! programs need.
//!
//! # An actor
//!
//! A state, one enum of messages, and a handler that is a plain `async fn`. [`Props`] say how to make one, again and again;
//! [`ActorRef`] is its address.
//!
//! ```
//! use pleach::prelude::*;
//!
//! struct Budget { cents: u32 }
//!
//! enum Msg { Spend(u32), Left(Reply<u32>) }
//!
//! impl Actor for Budget {
//!     type Msg = Msg;
//!     type Error = String; // any error
//!
//!     async fn handle(&mut self, msg: Msg, _cx: &mut Context<Self>) -> Result<(), String> {
//!         match msg {
//!             Msg::Spend(n) => self.cents = self.cents.checked_sub(n).ok_or(format!("{n} is too much"))?,
//!             Msg::Left(reply) => reply.send(self.cents),
//!         }
//!         Ok(())
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), pleach::Error> {
//! let system = ActorSystem::new("shop")?; // dropping it cancels everything below
//! let budget = system.spawn("budget", Props::new(|| Budget { cents: 500 }).mailbox(Mailbox::bounded(64)))?;
//!
//! budget.tell(Msg::Spend(120))?; // never waits: a full mailbox gives the message back
//! budget.send(Msg::Spend(30)).await?; // waits for room
//! assert_eq!(budget.ask(Msg::Left).await?, 350); // waits for the answer, or says why there is none
//!
//! system.shutdown(Duration::from_secs(5)).await?; // what is queued is handled first
//! # Ok(())
//! # }
//! ```
//!
//! Three words end an actor, and they end everything else in the tree too: [`stop`](ActorRef::stop) after the message in hand,
//! [`close`](ActorRef::close) after all that is queued, [`cancel`](ActorRef::cancel) at its next await. [`Exit`] says which it was.
//!
//! # A supervisor
//!
//! An `Err` or a panic in a handler goes to the parent's [strategy](OneForOne): the actor restarts from its props, and its address and
//! mailbox stay. The message that failed is counted as failed, or [tried again](Props::retry), or made a
//! [dead letter](Props::dead_letter_failed); none is lost in silence, and [`Counts`] add up.
//!
//! ```
//! # use pleach::prelude::*;
//! # #[tokio::main]
//! # async fn main() -> Result<(), pleach::Error> {
//! # let system = ActorSystem::new("shop")?;
//! let crew = system.supervisor("crew", OneForOne::new().intensity(3, Duration::from_secs(5)))?;
//! let till = crew.spawn("till", Props::from_fn(|| 0, |sum: &mut u32, paid: u32| {
//!     *sum += paid;
//!     if paid > 0 { Ok(()) } else { Err("nothing paid") }
//! }))?;
//!
//! for paid in [5, 0, 7] {
//!     till.tell(paid)?;
//! }
//! till.close();
//! assert_eq!(till.exited().await, Exit::Closed);
//! assert_eq!(till.counts(), Counts { accepted: 3, handled: 2, failed: 1, dead_lettered: 0 });
//! # Ok(())
//! # }
//! ```
//!
//! # A scope
//!
//! A [`Scope`] owns tasks, actors, producers and further scopes. It stands in a system ([`System::scope`]) or alone ([`scope()`]).
//! A task that fails cancels its siblings, and waiting for the scope gives that failure.
//!
//! ```
//! # use pleach::prelude::*;
//! # #[tokio::main]
//! # async fn main() -> Result<(), pleach::Error> {
//! let scope = pleach::scope()?;
//! let patient = scope.launch(std::future::pending::<()>())?;
//! scope.launch(async { Err("no time") })?;
//!
//! assert!(scope.wait_all().await.is_err());
//! assert!(matches!(patient.exited().await, Exit::Cancelled(Cause::Failed(_))));
//! # Ok(())
//! # }
//! ```
//!
//! # A group
//!
//! A [`Group`] runs tasks and gives their results in the order they come. `go` waits for a slot, `close` ends the input, `next` reads until
//! all is read; the first task that fails cancels the rest unless told otherwise. It stands in a system ([`System::group`]), in a scope,
//! in an actor, or alone ([`group()`]).
//!
//! ```
//! # use pleach::prelude::*;
//! # #[tokio::main]
//! # async fn main() -> Result<(), pleach::Error> {
//! # let system = ActorSystem::new("shop")?;
//! let lengths = system.group::<usize>("lengths").limit(8).build()?;
//! for word in ["actors", "scopes", "graphs"] {
//!     lengths.go(async move { word.len() }).await?;
//! }
//! lengths.close();
//! let mut sum = 0;
//! while let Some(length) = lengths.next().await {
//!     sum += length?;
//! }
//! assert_eq!(sum, 18);
//! # Ok(())
//! # }
//! ```
//!
//! # A graph
//!
//! A [`Graph`] is steps over a state of your own type. It is checked once, by `compile`, which reports all that is wrong with it; a
//! [run](CompiledGraph::run) goes step by step in the task that awaits it, and can be cancelled inside a step.
//!
//! ```
//! # use pleach::prelude::*;
//! # #[tokio::main]
//! # async fn main() -> Result<(), pleach::Error> {
//! let graph = Graph::<Vec<u32>>::new("collatz")
//!     .add_node("step", |mut seen: Vec<u32>| async move {
//!         let n = seen.last().copied().ok_or("nothing to begin with")?;
//!         seen.push(if n % 2 == 0 { n / 2 } else { 3 * n + 1 });
//!         Ok::<_, pleach::BoxError>(seen)
//!     })
//!     .add_conditional_edge("step", ["step", END], |seen: &Vec<u32>| if seen.last() == Some(&1) { END } else { "step" })
//!     .set_entry("step")
//!     .compile()?;
//!
//! assert_eq!(graph.run(vec![6]).max_iterations(100).await?, [6, 3, 10, 5, 16, 8, 4, 2, 1]);
//! # Ok(())
//! # }
//! ```
//!
//! # A simulation
//!
//! In [`sim`] the same program runs in virtual time, under a schedule that a seed fixes. [`explore`](sim::explore) tries many, and names
//! the first that fails and how to replay it.
//!
//! ```
//! use pleach::prelude::*;
//! use pleach::sim::explore;
//!
//! explore(0..100, |sim| {
//!     let system = sim.system("shop");
//!     let echo = system.spawn("echo", Props::from_fn(|| (), |_, reply: Reply<u32>| {
//!         reply.send(7);
//!         Ok::<(), pleach::BoxError>(())
//!     })).unwrap();
//!     sim.run(async {
//!         sim.sleep(Duration::from_secs(3_600)).await; // an hour that takes no time
//!         assert_eq!(echo.ask(|reply| reply).await.unwrap(), 7);
//!     });
//!     assert_eq!(sim.now().since_start(), Duration::from_secs(3_600));
//! });
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod actor_system;
#[cfg(feature = "tokio")]
pub mod broadcast;
mod error;
pub mod sim;
#[cfg(feature = "tokio")]
mod tokio_runtime;

pub use actor_system::{ActorSystem, ActorSystemBuilder};
pub use error::Error;
pub use pleach_core::*;
#[cfg(feature = "graph")]
pub use pleach_graph::*;
#[cfg(feature = "tokio")]
pub use tokio_runtime::{NoRuntime, TokioRuntime};

/// A token with nothing above it, on the Tokio runtime this code runs in.
#[cfg(feature = "tokio")]
pub fn token() -> Result<CancelToken, NoRuntime> {
    Ok(CancelToken::root(TokioRuntime::current()?))
}

/// A scope that stands alone, with no system, on the Tokio runtime this code runs in.
#[cfg(feature = "tokio")]
pub fn scope() -> Result<Scope, NoRuntime> {
    Ok(Scope::under(&token()?))
}

/// A group that stands alone, with no system, on the Tokio runtime this code runs in. `GroupBuilder::under(&token()?)` sets more.
#[cfg(feature = "tokio")]
pub fn group<T: Send + 'static>() -> Result<Group<T>, NoRuntime> {
    Ok(Group::under(&token()?))
}

/// What most programs need: `use pleach::prelude::*;`.
pub mod prelude {
    #[cfg(feature = "postgres")]
    pub use crate::store::PostgresStore;
    #[cfg(feature = "sqlite")]
    pub use crate::store::SqliteStore;
    pub use crate::{
        Actor, ActorPath, ActorRef, ActorSystem, AskError, CancelToken, Cause, Context, Counts, Event, EventKinds, Exit,
        FailureEventHub, FailureInfo, Group, GroupBuilder, GroupClosed, Mailbox, NextOr, OneForAll, OneForOne, Pool, Priority,
        PriorityEnvelope, Props, Recipient, Reply, RestForOne, RestartPolicy, RootContext, Scope, SendError, Signal,
        SlowSubscriber, Supervisor, SupervisorDirective, SystemMessage, TaskError, Terminated, Topic,
    };
    #[cfg(feature = "graph")]
    pub use crate::{
        CompiledGraph, END, FanOut, Graph, Hooks, NodeContext, NodeError, Policy, Retry, RunError, RunFault, RunRemote,
        store::{MemoryStore, Store},
    };
    pub use std::time::Duration;
}

/// The README's program is a test.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
