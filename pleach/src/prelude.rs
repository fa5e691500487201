//! What a first program needs: `use pleach::prelude::*;`.

#[doc(no_inline)]
pub use crate::ActorSystem;
#[cfg(all(feature = "inspect", unix))]
#[doc(no_inline)]
pub use crate::inspect::InspectBuilder;
#[cfg(feature = "postgres")]
pub use crate::store::PostgresStore;
#[cfg(feature = "sqlite")]
pub use crate::store::SqliteStore;
#[doc(no_inline)]
pub use pleach_core::{
    Actor, ActorPath, ActorRef, AnyRef, AskError, CancelToken, Cause, Context, Counts, Event, EventHub, EventKinds, Exit,
    FailureInfo, Group, GroupBuilder, GroupClosed, Mailbox, NextOr, OneForAll, OneForOne, Pool, Priority, PriorityEnvelope,
    Props, Recipient, Reply, RestForOne, RestartLimitScope, RestartPolicy, RootContext, Scope, SendError, Signal,
    SlowSubscriber, Supervisor, SupervisorDirective, SystemMessage, TaskError, Terminated, Topic,
};
#[cfg(feature = "graph")]
#[doc(no_inline)]
pub use pleach_graph::{
    CompiledGraph, END, FanOut, Graph, Hooks, NodeContext, NodeError, Policy, Retry, RunError, RunFault, RunRemote,
    store::{MemoryStore, Store},
};
#[doc(no_inline)]
pub use std::time::Duration;
