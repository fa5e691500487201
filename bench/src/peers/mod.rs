//! The peers, one file each. A peer is a name and the workloads that it can run.
//!
//! A field that is `None` is a workload that the peer cannot run; the report leaves it out. The
//! first peer is the floor of all ratios.

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

/// All peers, the floor first. Peers that only have groups or graphs have no file here.
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

/// Runs a graph. Returns `None` for a shape that the peer cannot run.
pub type Running = fn(Place, graphs::Shape, u64) -> Option<Duration>;

/// Runs tasks in groups. Returns `None` for a shape that the peer cannot run.
pub type RunningGroups = fn(Place, Shape, u64) -> Option<Duration>;

/// The workloads of a peer. A `u64` is a number of operations, except where a field says otherwise;
/// `Duration` is their total time.
pub struct Peer {
    pub name: &'static str,
    /// Sends to one actor with an unbounded mailbox, until all messages are handled.
    pub tell_unbounded: Option<fn(Place, u64, Senders) -> Duration>,
    /// The same with a mailbox of [`CAPACITY`](crate::ground::CAPACITY); senders wait while it is
    /// full.
    pub tell_bounded: Option<fn(Place, u64, Senders) -> Duration>,
    /// Sends on [`Place::Current`] by [`tell_in_batches`](crate::ground::tell_in_batches); the
    /// second number is the batch size.
    pub tell_batches: Option<fn(u64, u64)>,
    /// Sends one request after the other, and waits for each reply.
    pub ask: Option<fn(Place, u64) -> Duration>,
    /// Passes one token around [`RING`](crate::ground::RING) actors. One operation is a hop.
    pub ring: Option<fn(u64) -> Duration>,
    /// The same on [`Place::Main`], with names and the default mailbox.
    pub ring_named: Option<fn(u64) -> Duration>,
    /// Spawns and stops actors without a name, then waits for all exits.
    pub spawn: Option<fn(Place, u64) -> Duration>,
    /// On [`Place::Main`]: spawns [`CROWD`](crate::ground::CROWD) actors, stops them all, and waits
    /// for all exits.
    pub spawn_crowd: Option<fn(u64) -> Duration>,
    /// The same with a name for each.
    pub spawn_crowd_named: Option<fn(u64) -> Duration>,
    /// Spawns an actor with a name, stops it and waits for its exit before the next.
    pub spawn_named: Option<fn(u64) -> Duration>,
    /// Fails an actor with an error, which is then restarted.
    pub restart_error: Option<fn(u64) -> Duration>,
    /// Lets an actor panic, which is then restarted.
    pub restart_panic: Option<fn(u64) -> Duration>,
    /// Fails an actor with an error, waits for its restart, and fails it again.
    pub restart_error_awaited: Option<fn(Place, u64) -> Duration>,
    /// The same with panics.
    pub restart_panic_awaited: Option<fn(Place, u64) -> Duration>,
    /// Sends messages, of which one in [`FAILS_EVERY`](crate::ground::FAILS_EVERY) fails with an
    /// error. One operation is a message, failed or not.
    pub supervised: Option<fn(u64) -> Duration>,
    /// Pushes a backlog by [`slowest_by_bucket`](crate::ground::slowest_by_bucket) and returns its
    /// buckets.
    pub worst_push: Option<fn(u64) -> Vec<u64>>,
    /// Measures the live heap by [`heap_of_idle`](crate::ground::heap_of_idle): the number of
    /// actors, and the messages that each has handled.
    pub idle_heap: Option<fn(u64, u64) -> i64>,
    /// Runs tasks in groups of a shape, and reads every result.
    pub group: Option<RunningGroups>,
    /// The same with tasks that their reader polls.
    pub group_in_place: Option<fn(Place, Shape, u64) -> Duration>,
    /// Runs a graph of a shape, one run after the other.
    pub graph: Option<Running>,
    /// The same over a state that owns heap memory.
    pub owned_graph: Option<fn(Place, graphs::owned::Shape, u64) -> Duration>,
    /// Commits 1 KB durably: the number of runs at once, and of commits in total.
    pub commit: Option<fn(u64, u64) -> Duration>,
    /// Runs durable steps: the number of runs at once, and of steps in total.
    pub steps: Option<fn(u64, u64) -> Duration>,
    /// The same after 3,000 steps that are not timed, so that every log has reached its final size.
    pub steady_steps: Option<fn(u64, u64) -> Duration>,
    /// Runs durable steps by runs with a map: the number of branches, and of steps in total.
    pub stored_map: Option<fn(u64, u64) -> Duration>,
    /// Resumes a stored run: the length of its history, and the number of resumes.
    pub resume: Option<fn(u64, u64) -> Duration>,
    /// Claims ready runs in PostgreSQL and finishes them. Returns `None` without a server.
    pub claims: Option<fn(u64) -> Option<Duration>>,
    /// Runs durable steps in PostgreSQL: the number of runs at once, and of steps in total.
    pub postgres_steps: Option<fn(u64, u64) -> Option<Duration>>,
    /// Lets one event hit this many members of a tree at once.
    pub growth: Option<fn(Growth, u64) -> Duration>,
    /// Compiles a graph: the number of nodes, and of compilations.
    pub compile: Option<fn(usize, u64) -> Duration>,
    /// Measures the bytes of a graph with this many nested graphs.
    pub nested_heap: Option<fn(u64) -> i64>,
}

impl Peer {
    /// A peer without workloads.
    pub const fn named(name: &'static str) -> Peer {
        Peer {
            name,
            tell_unbounded: None,
            tell_bounded: None,
            tell_batches: None,
            ask: None,
            ring: None,
            ring_named: None,
            spawn: None,
            spawn_crowd: None,
            spawn_crowd_named: None,
            spawn_named: None,
            restart_error: None,
            restart_panic: None,
            restart_error_awaited: None,
            restart_panic_awaited: None,
            supervised: None,
            worst_push: None,
            idle_heap: None,
            group: None,
            group_in_place: None,
            graph: None,
            owned_graph: None,
            commit: None,
            steps: None,
            steady_steps: None,
            stored_map: None,
            resume: None,
            claims: None,
            postgres_steps: None,
            growth: None,
            compile: None,
            nested_heap: None,
        }
    }
}
