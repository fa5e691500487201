//! Supervised actors, scopes, tasks and groups in one tree, without a runtime or I/O.
//!
//! Every running thing is a member of the tree and has a parent. Cancellation goes down the tree;
//! exits and failures go up. This crate is the core of `pleach`, which applications use.
//!
//! - It is `no_std` + `alloc`. Feature `std` (default) adds panic catching, threads and a clock;
//!   feature `tokio` adds `TokioRuntime`.
//! - It reaches the outside only through the [`Runtime`] trait. [`Dispatcher`] is the built-in
//!   runtime, also with a seed and virtual time for tests.
//! - All `unsafe` code is in two files: `base/lock.rs`, and `base/sync/without_cas.rs` for targets
//!   that cannot compare and swap.
//!
//! The modules below are declared in layer order: a module imports only from modules above it.
//! Start with `tree::node` (the tree), `mailbox` (the queue), `actor::cell` (the loop of an actor)
//! and `tree::supervision` (what follows a failure).
#![no_std]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

/// Building blocks: locks, wakers, time, the `Runtime` trait, panic catching.
mod base;

/// Names, paths and ids of members.
mod ids;

/// The built-in runtime, with a deterministic simulator and a thread driver; Tokio as a runtime.
mod dispatcher;

/// Pure decisions of supervision: restart limits, backoff, restart plans.
mod supervise;

/// Exits, failures, events, counts and the hub that distributes them.
mod events;

/// Nodes, cancellation, tasks, supervision and the wait-for graph.
mod tree;

/// What an observer sees: snapshots of the tree, rates, health.
mod inspect;

/// The message queue of an actor: capacity, overflow, reservations, control word.
mod mailbox;

/// Actors: props, cell, context, references, ask, send, timers.
mod actor;

/// Owners in the tree: scopes, supervisors, producers, blocking jobs.
mod scope;

/// Groups: tasks whose results are read in completion order.
mod group;

/// One address for several actors: pools and topics.
mod routing;

/// Whole systems: building, shutdown, mounting one in another.
mod system;

/// Loom models of the concurrent parts.
#[cfg(all(test, loom))]
mod models;

pub use actor::Actor;
pub use actor::actor_ref::ActorRef;
pub use actor::ask::Ask;
pub use actor::cell::{MESSAGES_PER_POLL_MAX, SIGNALS_IN_A_ROW_MAX};
pub use actor::context::Context;
pub use actor::fn_actor::{ContextFnActor, FnActor};
pub use actor::props::{BoxStream, Props};
pub use actor::recipient::Recipient;
pub use actor::recipient::ask::RecipientAsk;
pub use actor::recipient::send::RecipientSend;
pub use actor::reply::Reply;
pub use actor::reserve::TimerError;
pub use actor::send::Sending;
pub use actor::send_all::Unsent;
pub use actor::spawn::SpawnError;
pub use actor::spawn_started::{SpawnStarted, SpawnStartedError};
pub use actor::stash::{STASH_CAPACITY_DEFAULT, StashFull};
pub use actor::system_message::SystemMessage;
pub use actor::timer_schedule::TimerKey;
#[cfg(feature = "std")]
pub use base::block_on::block_on;
pub use base::catch::{catch as catch_panic, install as install_panic_hook};
#[cfg(feature = "std")]
pub use base::handler_faults::{HandlerFault, HandlerFaults};
pub use base::reason::{BoxError, Reason};
pub use base::runtime::{BoxFuture, Random, Runtime, SleepSlot};
pub use base::sync::{Arc, Weak};
pub use base::time::Instant;
pub use base::timeout::Elapsed;
pub use base::timeout::Timeout;
#[cfg(feature = "std")]
pub use dispatcher::std_clock::StdClock;
#[cfg(feature = "tokio")]
pub use dispatcher::tokio_runtime::{NoRuntime, TokioRuntime};
pub use dispatcher::{Clock, Dispatcher, Stalled, Step};
pub use events::annotated::AnnotatedError;
pub use events::cause::{Cause, Exit};
pub use events::counts::Counts;
pub use events::event::{
    DeadLetter, DeadLetterReason, DecisionScope, Event, EventKinds, GaveUp, LONG_HANDLER_DEFAULT, Lint, Recovery,
    SIBLINGS_LISTED_MAX,
};
pub use events::failure::{EscalationStage, FailureInfo, METADATA_MAX, UnexpectedExit};
pub use events::give_ups::GIVE_UPS_KEPT_MAX;
pub use events::health_report::{HEALTH_REPORTS_MAX, HealthReport, Problem};
pub use events::hub::{EventHub, ListenerHandle};
pub use events::instrument::{HandledMessage, HandlerOutcome, HandlerSpan, Instrument, SendContext};
pub use events::limit::{Limit, LimitReached, REFUSALS_KEPT_MAX, Refused};
pub use events::signal::{Signal, Terminated};
pub use events::subscription::{EventSubscription, SUBSCRIPTION_CAPACITY_DEFAULT, SubscriptionOptions};
pub use group::builder::{ERRORS_KEPT_DEFAULT, GroupBuilder, PanicPolicy};
pub use group::calls::NextOr;
pub use group::collect::{Drained, MapError, RaceError};
pub use group::error::{Errors, GoError, GoRejection, GroupClosed, GroupError, TaskError};
pub use group::handle::Group;
pub use group::in_place::InPlace;
pub use group::new_task::NewTask;
pub use group::task::TaskOutput;
pub use ids::name::{NAME_LEN_MAX, Name, NameError, NameFault};
pub use ids::path::{ActorId, ActorPath, PathError};
pub use inspect::any_ref::ActionError;
pub use inspect::children::Children;
pub use inspect::cursor::{Cursor, CursorError};
pub use inspect::health::{Health, HealthReason};
pub use inspect::info::{Activity, ActorInfo, LastFailure, MemberInfo, RestartInfo, WaitInfo, WaitKind};
pub use inspect::rates::{CountRates, RATES_TRACKED_DEFAULT, RateSampler, Rates};
pub use inspect::snapshot::{
    SNAPSHOT_DEPTH_MAX, SNAPSHOT_LIMIT_DEFAULT, SNAPSHOT_LIMIT_MAX, Snapshot, SnapshotError, SnapshotQuery,
};
pub use inspect::supervision::SupervisionInfo;
pub use mailbox::send_error::SendError;
pub use mailbox::{MAILBOX_CAPACITY_DEFAULT, Mailbox, Priority, PriorityEnvelope};
pub use routing::pool::Pool;
pub use routing::pool::builder::{POOL_SIZE_MAX, PoolBuilder, PoolError};
pub use routing::pool::send::PoolSend;
pub use routing::topic::{Published, SlowSubscriber, Subscription, Topic};
pub use scope::Scope;
pub use scope::blocking::{Blocking, BlockingError};
pub use scope::launch::Launch;
pub use scope::producer::{Produced, Producer, Unreceived};
pub use scope::supervisor::{Guardian, Supervisor};
pub use supervise::backoff::ExponentialBackoff;
pub use supervise::decide::{
    RESTART_LIMIT_DEFAULT, RESTART_LIMIT_MAX, Reach, RestartLimitScope, RestartPolicy, RestartRules, SupervisorDirective,
};
pub use system::System;
pub use system::builder::{BuildError, BuildSystem, SystemBuilder};
pub use system::mount::{MountError, Mounted};
pub use system::root_context::{DispatchError, LookupError, RootContext};
pub use system::shutdown::ShutdownError;
pub use tree::GRACE_DEFAULT;
pub use tree::adopt::Refusal;
pub use tree::any_ref::{AnyRef, Exited};
pub use tree::child::ChildError;
pub use tree::current::{identify_cores, runtime as current_runtime};
pub use tree::facts::MemberKind;
pub use tree::node::Running;
pub use tree::observed::HealthLimits;
pub use tree::reserve::SealError;
pub use tree::sample::ActorSample;
pub use tree::supervision::sink::{
    CompositeEscalationSink, CustomEscalationSink, EscalationSink, ParentSink, REFUSED_KEPT_MAX, RootEscalationSink,
    SINK_ATTEMPTS_MAX,
};
pub use tree::supervision::strategy::{AlwaysRestart, OneForAll, OneForOne, RestForOne, StrategyInfo, SupervisorStrategy};
pub use tree::supervision::unhandled::{ESCALATIONS_KEPT_MAX, Escalations};
pub use tree::task::{LaunchError, Outcome, Task};
pub use tree::token::{CancelToken, Cancelled};
pub use tree::wait_all::{WaitAll, WaitError};
pub use tree::waits::ask_error::AskError;
