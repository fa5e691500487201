//! Observing a running system: the tree as plain values, message rates, health.
//!
//! - [`System::snapshot`](crate::system::System::snapshot) lists the members below a path, a page
//!   at a time.
//! - [`System::health`](crate::system::System::health) says whether the system does its work, with
//!   reasons. A member reports its own problems with
//!   [`AnyRef::report_health`](crate::actor::AnyRef::report_health).
//! - [`RateSampler`] computes messages per second.
//! - With the feature `inspect`, `InspectBuilder::inspect` opens a local socket for tools, and
//!   `Client` speaks its protocol (`docs/inspect-protocol.md`). `Inspector` serves the same
//!   protocol within the process. Unix only.
//!
//! Nothing here costs anything until it is called. No actor is sent a message for it.
//!
//! ```
//! use pleach::inspect::SnapshotQuery;
//! use pleach::prelude::*;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), pleach::Error> {
//! let system = ActorSystem::new("shop")?;
//! system.spawn_started("till", Props::from_fn(|| (), |_, n: u32| if n > 0 { Ok(()) } else { Err("zero") })).await?;
//! let tree = system.snapshot(&SnapshotQuery::new())?;
//! println!("{tree}");
//! assert!(tree.to_string().contains("till (actor)"));
//! assert!(system.health().is_ready());
//! # Ok(())
//! # }
//! ```

#[cfg(all(feature = "inspect", unix))]
mod client;
#[cfg(all(feature = "inspect", unix))]
mod connection;
#[cfg(all(feature = "inspect", unix))]
mod event_info;
#[cfg(all(feature = "inspect", unix))]
mod events;
#[cfg(all(feature = "inspect", unix))]
mod health_watch;
#[cfg(all(feature = "inspect", unix))]
mod inspector;
#[cfg(all(feature = "inspect", unix))]
mod options;
#[cfg(all(feature = "inspect", unix))]
mod protocol;
#[cfg(all(feature = "inspect", unix))]
mod rows;
#[cfg(all(feature = "inspect", unix))]
mod samplers;
#[cfg(all(feature = "inspect", unix))]
mod serve;
#[cfg(all(feature = "inspect", unix))]
mod server;
#[cfg(all(feature = "inspect", unix))]
mod socket_file;
#[cfg(all(feature = "inspect", unix))]
mod stream;
#[cfg(all(feature = "inspect", unix))]
mod supervision;
#[cfg(all(feature = "inspect", unix))]
mod waits;
#[cfg(all(feature = "inspect", unix))]
mod why;

#[cfg(all(feature = "inspect", unix))]
pub use client::{Client, ClientError};
#[cfg(all(feature = "inspect", unix))]
pub use event_info::{DeadLetterDetails, DecisionDetails, EventInfo, FailureDetails, Followed};
#[cfg(all(feature = "inspect", unix))]
pub use inspector::Inspector;
#[cfg(all(feature = "inspect", unix))]
pub use options::{
    CONNECTIONS_DEFAULT, IDLE_TIMEOUT_DEFAULT, InspectAction, InspectBuilder, InspectError, InspectOptions, REQUEST_LEN_MAX,
    WRITE_TIMEOUT_DEFAULT,
};
pub use pleach_core::{
    ActionError, Activity, ActorInfo, Children, CountRates, Cursor, CursorError, GIVE_UPS_KEPT_MAX, HEALTH_REPORTS_MAX, Health,
    HealthLimits, HealthReason, HealthReport, LastFailure, MemberInfo, MemberKind, Problem, RATES_TRACKED_DEFAULT, RateSampler,
    Rates, RestartInfo, SNAPSHOT_DEPTH_MAX, SNAPSHOT_LIMIT_DEFAULT, SNAPSHOT_LIMIT_MAX, Snapshot, SnapshotError, SnapshotQuery,
    SupervisionInfo, WaitInfo, WaitKind,
};
#[cfg(all(feature = "inspect", unix))]
pub use protocol::{
    Failure, Hello, PROTOCOL_VERSION, Row, Rows, RowsRequest, SnapshotRequest, SocketStats, Top, TopBy, TopRequest, TopRow,
    TopSums, Waiter, Why,
};
#[cfg(all(feature = "inspect", unix))]
pub use supervision::Supervision;
