//! The peers, one file each: a peer is a name and the workloads it can run.
//!
//! A field that is `None` is a workload the peer has no means for, and is left out of the report. The first peer of the
//! table is the floor that the ratios are formed against, so it has all of them.

mod actix;
mod kameo;
mod kanal;
mod pleach;
mod ractor;
mod tokio;

use std::time::Duration;

use crate::graphs;
use crate::ground::{Place, Senders};
use crate::groups::{self, Shape};
use crate::growth::Growth;

/// All peers, the floor first. The last ones have graphs only, and so no file here.
pub const PEERS: &[Peer] = &[
    tokio::PEER,
    pleach::PEER,
    kanal::PEER,
    ractor::PEER,
    kameo::PEER,
    actix::PEER,
    groups::futures::PEER,
    groups::tracker::PEER,
    Peer { graph: Some(graphs::plain::run), ..Peer::named("plain calls") },
    Peer { graph: Some(graphs::graph_flow::run), ..Peer::named("graph-flow") },
    Peer { graph: Some(graphs::langgraph::run), ..Peer::named("rust-langgraph") },
    Peer { graph: Some(graphs::dagrs::run), ..Peer::named("dagrs") },
];

/// Runs a graph; `None` for a shape that the peer has no means for.
pub type Running = fn(Place, graphs::Shape, u64) -> Option<Duration>;

/// A peer's workloads. `u64` is the number of operations, the `Duration` the time all of them took.
pub struct Peer {
    pub name: &'static str,
    /// The senders tell one actor with an unbounded mailbox; ends when all is handled.
    pub tell_unbounded: Option<fn(u64, Senders) -> Duration>,
    /// The same with a mailbox of [`CAPACITY`](crate::ground::CAPACITY), waiting while it is full.
    pub tell_bounded: Option<fn(u64, Senders) -> Duration>,
    /// Tells on [`Place::Current`] by [`tell_in_batches`](crate::ground::tell_in_batches), in batches of the second number.
    pub tell_batches: Option<fn(u64, u64)>,
    /// One request after the other, each waiting for its reply.
    pub ask: Option<fn(Place, u64) -> Duration>,
    /// One token goes around [`RING`](crate::ground::RING) actors; an operation is a hop.
    pub ring: Option<fn(u64) -> Duration>,
    /// Spawns and stops actors without a chosen name, then waits for all ends.
    pub spawn: Option<fn(Place, u64) -> Duration>,
    /// Spawns an actor under a name, stops it and waits for its end before the next.
    pub spawn_named: Option<fn(u64) -> Duration>,
    /// An actor fails with an error and is started again.
    pub restart_error: Option<fn(u64) -> Duration>,
    /// An actor panics and is started again.
    pub restart_panic: Option<fn(u64) -> Duration>,
    /// One message in [`FAILS_EVERY`](crate::ground::FAILS_EVERY) fails with an error; an operation is a message, failed or not.
    pub supervised: Option<fn(u64) -> Duration>,
    /// Pushes a backlog by [`slowest_by_bucket`](crate::ground::slowest_by_bucket) and gives its buckets.
    pub worst_push: Option<fn(u64) -> Vec<u64>>,
    /// The live heap by [`heap_of_idle`](crate::ground::heap_of_idle) of so many actors after so many messages each.
    pub idle_heap: Option<fn(u64, u64) -> i64>,
    /// Runs so many tasks, in groups of a shape, and reads every result.
    pub group: Option<fn(Place, Shape, u64) -> Duration>,
    /// The same with the tasks polled by their reader.
    pub group_in_place: Option<fn(Place, Shape, u64) -> Duration>,
    /// Runs a graph of that shape so many times, one run after the other.
    pub graph: Option<Running>,
    /// Commits 1 KB durably: by so many runs at once, so many times in all.
    pub commit: Option<fn(u64, u64) -> Duration>,
    /// So many durable steps in all, by so many runs at once.
    pub steps: Option<fn(u64, u64) -> Duration>,
    /// So many durable steps in all, by runs that map over so many branches at once.
    pub stored_map: Option<fn(u64, u64) -> Duration>,
    /// Resumes of a run that has so long a history.
    pub resume: Option<fn(u64, u64) -> Duration>,
    /// Claims so many runs that are ready in a PostgreSQL and brings them to their end; `None` without a server.
    pub claims: Option<fn(u64) -> Option<Duration>>,
    /// Something that happens to so many members of a tree at once.
    pub growth: Option<fn(Growth, u64) -> Duration>,
    /// Compiles a graph of so many nodes, so many times.
    pub compile: Option<fn(usize, u64) -> Duration>,
    /// The bytes of a graph of so many graphs within each other.
    pub nested_heap: Option<fn(u64) -> i64>,
}

impl Peer {
    /// A peer that runs nothing yet.
    pub const fn named(name: &'static str) -> Peer {
        Peer {
            name,
            tell_unbounded: None,
            tell_bounded: None,
            tell_batches: None,
            ask: None,
            ring: None,
            spawn: None,
            spawn_named: None,
            restart_error: None,
            restart_panic: None,
            supervised: None,
            worst_push: None,
            idle_heap: None,
            group: None,
            group_in_place: None,
            graph: None,
            commit: None,
            steps: None,
            stored_map: None,
            resume: None,
            claims: None,
            growth: None,
            compile: None,
            nested_heap: None,
        }
    }
}
