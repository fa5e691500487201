//! Supervised actors, structured concurrency and durable workflows for Rust, in one tree.
//!
//! Everything that runs has one parent. Cancellation goes down the tree, failures and exits come up
//! it. Actors, tasks, task groups and runs of state graphs end in the same three ways: `stop`,
//! `close` and `cancel`.
//!
//! ```
//! use pleach::prelude::*;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), pleach::Error> {
//!     let system = ActorSystem::new("shop")?;
//!     let workers = system.supervisor("workers", OneForOne::new())?; // restarts a failed child
//!     let counter = workers.spawn("counter", Props::from_fn(|| 0, |sum: &mut u32, n: u32| {
//!         *sum += n;
//!         if n > 0 { Ok(()) } else { Err("zero") } // an `Err` or a panic goes to the supervisor
//!     }))?;
//!     for n in [120, 0, 30] {
//!         counter.send(n).await?; // waits while the mailbox is full
//!     }
//!     system.shutdown(Duration::from_secs(5)).await?; // handles queued messages first
//!     println!("{}", system.counts()); // 3 accepted = 2 handled + 1 failed + 0 dead-lettered
//!     Ok(())
//! }
//! ```
//!
//! # Modules
//!
//! | module | what it has |
//! |---|---|
//! | [`prelude`] | What a first program needs. |
//! | [`actor`] | Actors, addresses, mailboxes, asks, timers, paths. |
//! | [`supervise`] | Strategies, restart limits, escalation, failures. |
//! | [`scope`](mod@scope) | Structured tasks, cancel tokens, producers, blocking work. |
//! | [`group`](mod@group) | Tasks whose results are read in completion order. |
//! | [`routing`] | Pools and topics. |
#![cfg_attr(feature = "graph", doc = "| [`graph`] | State graphs and their runs. |")]
#![cfg_attr(feature = "graph", doc = "| [`durable`] | Stored runs: resume, history, signals, migrations. |")]
#![cfg_attr(feature = "graph", doc = "| [`store`] | Where durable runs live: memory, SQLite, PostgreSQL. |")]
#![cfg_attr(feature = "graph", doc = "| [`worker`] | Workers that claim and execute durable runs. |")]
//! | [`events`] | What happens in a system, for listeners. |
//! | [`inspect`] | The tree as values, rates and health. |
//! | [`system`] | The system, its builder and its shutdown. |
//! | [`runtime`] | Tokio, the built-in dispatcher, or your own runtime. |
//! | [`telemetry`] | Log lines, metrics and spans. |
//! | [`sim`] | Virtual time and schedules that a seed fixes, for tests. |
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod actor;
mod actor_system;
#[cfg(doctest)]
mod book;
#[cfg(feature = "tokio")]
pub mod broadcast;
#[cfg(feature = "graph")]
pub mod durable;
mod error;
pub mod events;
#[cfg(feature = "graph")]
pub mod graph;
pub mod group;
pub mod inspect;
pub mod prelude;
pub mod routing;
pub mod runtime;
pub mod scope;
pub mod sim;
pub mod supervise;
pub mod system;
pub mod telemetry;

pub use error::Error;
#[doc(no_inline)]
pub use pleach_core::{
    Actor, ActorRef, BoxError, CancelToken, Cause, Context, Counts, Exit, FailureInfo, Group, Mailbox, Props, Reply, Scope,
    SendError, Supervisor,
};
#[cfg(feature = "graph")]
#[doc(no_inline)]
pub use pleach_graph::{CompiledGraph, END, Graph};
#[cfg(feature = "graph")]
pub use pleach_graph::{store, worker};
/// Makes a test that runs in the [simulator](sim), in one simulation per seed.
///
/// The function has one parameter, `&Sim` or `Sim`. It may be `async` and may return a `Result`.
///
/// | option | meaning | default |
/// |---|---|---|
/// | `seeds = 1000`, `seeds = 50..60` | how many seeds from 0 on, or which | `seeds = 100` |
/// | `seed = 7` | this seed only | |
/// | `faults = ..` | what [`Exploration::faults`](sim::Exploration::faults) takes | no faults |
///
/// The environment variables of [`Exploration::run`](sim::Exploration::run) apply.
///
/// ```
/// use pleach::prelude::*;
/// use pleach::sim::{FaultKind, Sim};
///
/// #[pleach::test(seeds = 1000, faults = FaultKind::HandlerFails.rate(0.05))]
/// async fn till_adds_up(sim: Sim) -> Result<(), pleach::Error> {
///     let system = sim.system("shop");
///     let till = system.spawn("till", Props::from_fn(|| (), |_, _: u32| Ok::<(), pleach::BoxError>(())))?;
///     till.send(5).await?;
///     Ok(())
/// }
/// ```
///
/// A misspelt option is an error of the compiler:
///
/// ```compile_fail
/// #[pleach::test(sedes = 1000)]
/// fn till_adds_up(sim: &pleach::sim::Sim) {}
/// ```
///
/// So is a function without a simulation:
///
/// ```compile_fail
/// #[pleach::test]
/// fn till_adds_up() {}
/// ```
#[cfg(feature = "macros")]
pub use pleach_macros::test;
#[doc(no_inline)]
pub use system::ActorSystem;

/// Returns a cancel token without a parent, on the current Tokio runtime.
///
/// # Errors
/// [`NoRuntime`](runtime::NoRuntime) outside of a Tokio runtime, or in one without timers.
#[cfg(feature = "tokio")]
pub fn token() -> Result<CancelToken, runtime::NoRuntime> {
    Ok(CancelToken::root(runtime::TokioRuntime::current()?))
}

/// Returns a scope that stands alone, without a system, on the current Tokio runtime.
///
/// # Errors
/// [`NoRuntime`](runtime::NoRuntime) outside of a Tokio runtime, or in one without timers.
#[cfg(feature = "tokio")]
pub fn scope() -> Result<Scope, runtime::NoRuntime> {
    Ok(Scope::under(&token()?))
}

/// Returns a group that stands alone, without a system, on the current Tokio runtime.
///
/// `GroupBuilder::under(&pleach::token()?)` sets a limit and other options.
///
/// # Errors
/// [`NoRuntime`](runtime::NoRuntime) outside of a Tokio runtime, or in one without timers.
#[cfg(feature = "tokio")]
pub fn group<T: Send + 'static>() -> Result<Group<T>, runtime::NoRuntime> {
    Ok(Group::under(&token()?))
}
