//! The workloads that are counted: allocations, live heap, and the slowest push.
//!
//! Allocations and heap are deterministic except for rounding, so one run is enough. The slowest
//! push is repeated because of preemption, and it also depends on the state of the heap; see
//! [`worst_push`].

use crate::counting;
use crate::ground::Place;
use crate::groups::Shape;
use crate::peers::Peer;
use crate::report::Figure;

/// A counted workload.
pub struct Counted {
    pub name: &'static str,
    /// Whether the value is compared with the floor's.
    pub has_floor: bool,
    /// Returns `None` if the peer cannot run it, or needs too much heap for a million actors.
    run: fn(&Peer) -> Option<f64>,
}

pub const WORKLOADS: &[Counted] = &[
    Counted { name: "actor.worst_push", has_floor: false, run: worst_push },
    Counted {
        name: "actor.allocs_tell",
        has_floor: true,
        run: |peer| {
            let tell = peer.tell_batches?;
            Some(allocations_per_op(|ops| tell(ops, BACKLOG)))
        },
    },
    Counted {
        name: "actor.allocs_ask",
        has_floor: true,
        run: |peer| {
            let ask = peer.ask?;
            Some(allocations_per_op(|ops| {
                ask(Place::Current, ops);
            }))
        },
    },
    Counted {
        name: "group.allocs_task",
        has_floor: true,
        run: |peer| {
            let group = peer.group?;
            Some(allocations_per_op(|ops| {
                group(Place::Current, Shape::tiny(125), ops);
            }))
        },
    },
    Counted { name: "graph.memory_nested100", has_floor: false, run: |peer| heap_per_level(peer, 100) },
    Counted { name: "graph.memory_nested400", has_floor: false, run: |peer| heap_per_level(peer, 400) },
    Counted { name: "actor.memory_100k_fresh", has_floor: true, run: |peer| heap_per_actor(peer, 100_000, 0) },
    Counted { name: "actor.memory_100k_after1", has_floor: true, run: |peer| heap_per_actor(peer, 100_000, 1) },
    Counted { name: "actor.memory_100k_after200", has_floor: true, run: |peer| heap_per_actor(peer, 100_000, 200) },
    Counted {
        name: "actor.memory_1m_fresh",
        has_floor: true,
        run: |peer| {
            heap_per_actor(peer, 10_000, 0).filter(|bytes| *bytes < MILLION_HEAP_MAX)?;
            heap_per_actor(peer, 1_000_000, 0)
        },
    },
];

/// Queued messages while allocations per tell are counted. No peer keeps a buffer of this size
/// after the messages are handled.
const BACKLOG: u64 = 1_000;

/// A peer with more bytes per actor than this does not run the workload of a million actors.
const MILLION_HEAP_MAX: f64 = 2_048.0;

/// Runs of the backlog. The fastest run counts for each bucket.
const PUSH_RUNS: usize = 3;

const PUSH_BACKLOG: u64 = 4_000_000;

/// Measures all peers. The first of `peers` is the floor.
pub fn figures(workload: &Counted, peers: &[&Peer]) -> Vec<Figure> {
    let mut floor = None;
    let mut figures = Vec::new();
    for peer in peers {
        let Some(value) = (workload.run)(peer) else {
            continue;
        };
        let floor = *floor.get_or_insert(value);
        figures.push(Figure {
            workload: workload.name,
            peer: peer.name,
            value,
            ratio: (workload.has_floor && floor > 0.0).then(|| value / floor),
            is_unsteady: false,
        });
    }
    figures
}

/// Takes the difference of a long and a short run, so that the cost of the start cancels out.
fn allocations_per_op(run: impl Fn(u64)) -> f64 {
    const SHORT: u64 = 2_000;
    const LONG: u64 = 12_000;
    let count = |ops| {
        counting::start();
        run(ops);
        counting::stop().allocations as f64
    };
    (count(LONG) - count(SHORT)) / (LONG - SHORT) as f64
}

fn heap_per_actor(peer: &Peer, actors: u64, messages: u64) -> Option<f64> {
    Some(peer.idle_heap?(actors, messages) as f64 / actors as f64)
}

fn heap_per_level(peer: &Peer, levels: u64) -> Option<f64> {
    Some(peer.nested_heap?(levels) as f64 / levels as f64)
}

/// Measures the slowest push. For each bucket the fastest run counts, because preemption rarely
/// hits the same bucket each time. The slowest bucket is reported.
///
/// A mailbox that grows one buffer is cheap while the allocator can extend it in place, and
/// expensive when it must copy. So its figure is a lower bound that rises with the earlier work of
/// the process.
fn worst_push(peer: &Peer) -> Option<f64> {
    let run = peer.worst_push?;
    let mut quietest = run(PUSH_BACKLOG);
    for _ in 1..PUSH_RUNS {
        for (slowest, again) in quietest.iter_mut().zip(run(PUSH_BACKLOG)) {
            *slowest = again.min(*slowest);
        }
    }
    quietest.into_iter().max().map(|ns| ns as f64)
}
