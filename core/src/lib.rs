//! One tree of scopes, tasks and supervised actors, with no runtime and no I/O of its own.
//!
//! **Everything that runs belongs to a scope. Cancellation goes down the tree, exits come up it.** This crate is the heart of
//! `pleach`, which is what applications add. It is `no_std` + `alloc`; the [`Runtime`] trait is its only way out, and
//! [`Dispatcher`] a runtime that it brings along.
//!
//! Read in this order: `cell` (the loop that runs an actor), `ending` (what follows a failure), `mailbox::inbox`, `node` (the tree).
#![no_std]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod actor;
mod actor_ref;
mod annotated;
mod ask;
mod ask_cycle;
#[cfg(feature = "std")]
mod blocking;
mod blocking_work;
mod cancel;
mod cancel_grace;
#[cfg(feature = "std")]
#[path = "catch/on.rs"]
mod catch;
#[cfg(not(feature = "std"))]
#[path = "catch/off.rs"]
mod catch;
mod cause;
mod cell;
mod context;
mod counted;
mod counts;
mod current;
mod dispatcher;
mod escalate;
mod events;
mod failure;
mod group;
mod guardian;
mod hub;
mod lock;
mod mailbox;
#[cfg(all(test, loom))]
mod models;
mod mount;
mod name;
mod node;
mod path;
mod pool;
mod produce;
mod props;
mod recipient;
mod root_context;
mod runtime;
mod scope;
mod sleep;
mod snapshot;
mod spawn;
mod spawn_started;
mod subscription;
mod supervise;
mod supervisor;
mod sync;
mod system;
mod system_message;
mod task;
mod time;
mod timers;
mod topic;
mod unhandled;
mod wait_all;
mod wakers;
mod world;

pub use actor::Actor;
pub use actor_ref::{ActorRef, AnyRef, Exited};
pub use annotated::AnnotatedError;
pub use ask::{Ask, AskError, Reply};
#[cfg(feature = "std")]
pub use blocking::block_on;
pub use blocking_work::{Blocking, BlockingError};
pub use cancel::{CancelToken, Cancelled};
pub use catch::{catch as catch_panic, install as note_panic_places};
pub use cause::{Cause, Exit};
pub use cell::{MESSAGES_PER_POLL_MAX, SIGNALS_IN_A_ROW_MAX};
pub use context::{Context, StashFull};
pub use counts::Counts;
pub use current::{identify_cores, runtime as current_runtime};
#[cfg(feature = "std")]
pub use dispatcher::StdClock;
pub use dispatcher::{Clock, Dispatcher, Stalled, Step};
pub use escalate::{
    ATTEMPTS_MAX, CompositeEscalationSink, CustomEscalationSink, EscalationSink, ParentGuardianSink, REFUSED_KEPT_MAX,
    RootEscalationSink,
};
pub use events::{DeadLetter, DeadLetterReason, Event, EventKinds, GaveUp, LONG_HANDLER_DEFAULT, Lint};
pub use failure::{BoxError, EndedUnasked, EscalationStage, FailureInfo, METADATA_MAX, Reason};
pub use group::{
    Drained, ERRORS_KEPT_DEFAULT, Elapsed, Errors, GoError, Group, GroupBuilder, GroupClosed, GroupError, InPlace, MapError,
    NewTask, NextOr, NotTaken, PanicPolicy, RaceError, TaskError, TaskOutput,
};
pub use hub::{FailureEventHub, Listening};
pub use mailbox::{MAILBOX_CAPACITY_DEFAULT, Mailbox, Priority, PriorityEnvelope, STASH_CAPACITY_DEFAULT, SendError, Sending};
pub use mount::{MountError, Mounted};
pub use name::{NAME_LEN_MAX, Name, NameError, NameFault};
pub use node::Running;
pub use path::{ActorId, ActorPath, PathError};
pub use pool::{POOL_SIZE_MAX, Pool, PoolAsk, PoolBuilder, PoolError, PoolSend};
pub use produce::{Produced, Producer, Unreceived};
pub use props::{BoxStream, FnActor, Props, StateFn};
pub use recipient::{Recipient, RecipientAsk, RecipientSend};
pub use root_context::{DispatchError, LookupError, RootContext};
pub use runtime::{BoxFuture, Random, Runtime};
pub use scope::{Launch, Scope};
pub use sleep::Timeout;
pub use spawn::{Refusal, SpawnError};
pub use spawn_started::{NotStarted, Starting};
pub use subscription::{EventSubscription, SUBSCRIPTION_CAPACITY_DEFAULT, SubscriptionOptions};
pub use supervise::{
    All, AlwaysRestart, ExponentialBackoff, INTENSITY_DEFAULT, INTENSITY_MAX, One, OneForAll, OneForOne, Reach, Reaching, Rest,
    RestForOne, RestartBudget, RestartPolicy, RestartStrategy, Restarts, SupervisorDirective, SupervisorStrategy,
};
pub use supervisor::{ChildError, Guardian, Supervisor};
pub use system::{ShutdownError, System, SystemBuilder};
pub use system_message::{Signal, SystemMessage, Terminated};
pub use task::{LaunchError, Outcome, Task};
pub use time::Instant;
pub use timers::TimerKey;
pub use topic::{Published, SlowSubscriber, Subscription, Topic};
pub use unhandled::{ESCALATIONS_KEPT_MAX, Escalations};
pub use wait_all::{WaitAll, WaitError};
pub use world::GRACE_DEFAULT;
