//! The timed workloads. Each round runs every peer once and compares it with the floor of that
//! round.

use std::collections::BTreeMap;
use std::panic;
use std::time::Duration;

use crate::graphs::{self, owned};
use crate::ground::{Place, Senders};
use crate::groups::{Feed, Shape, Work};
use crate::growth::Growth;
use crate::peers::Peer;
use crate::report::Figure;

/// Rounds of one pass. A round gives one sample per peer, which is compared with the floor's.
const ROUNDS: usize = 5;

/// The fraction of a value below which a difference is noise.
const NOISE: f64 = 0.25;

pub struct Timed {
    pub name: &'static str,
    ops: u64,
    /// Returns `None` if the peer cannot run it.
    run: fn(&Peer, u64) -> Option<Duration>,
}

/// The sizes keep one sample between a hundredth and a tenth of a second for most peers. Graphs
/// never wait, so their samples are short enough to fit between two other programs on a busy
/// machine.
pub const WORKLOADS: &[Timed] = &[
    Timed {
        name: "actor.tell_unbounded",
        ops: 200_000,
        run: |peer, ops| Some(peer.tell_unbounded?(Place::Workers, ops, Senders::Tasks(1))),
    },
    Timed {
        name: "actor.tell_unbounded_outside",
        ops: 200_000,
        run: |peer, ops| Some(peer.tell_unbounded?(Place::Workers, ops, Senders::Threads(1))),
    },
    Timed {
        name: "actor.tell_bounded1024",
        ops: 200_000,
        run: |peer, ops| Some(peer.tell_bounded?(Place::Workers, ops, Senders::Tasks(1))),
    },
    Timed {
        name: "actor.tell_bounded1024_outside",
        ops: 200_000,
        run: |peer, ops| Some(peer.tell_bounded?(Place::Workers, ops, Senders::Threads(1))),
    },
    Timed {
        name: "actor.tell_4senders",
        ops: 200_000,
        run: |peer, ops| Some(peer.tell_unbounded?(Place::Workers, ops, Senders::Tasks(4))),
    },
    Timed {
        name: "actor.tell_4senders_outside",
        ops: 200_000,
        run: |peer, ops| Some(peer.tell_unbounded?(Place::Workers, ops, Senders::Threads(4))),
    },
    Timed {
        name: "actor.tell_unbounded_main",
        ops: 200_000,
        run: |peer, ops| Some(peer.tell_unbounded?(Place::Main, ops, Senders::Caller)),
    },
    Timed {
        name: "actor.tell_bounded1024_main",
        ops: 200_000,
        run: |peer, ops| Some(peer.tell_bounded?(Place::Main, ops, Senders::Caller)),
    },
    Timed {
        name: "actor.tell_4senders_main",
        ops: 1_000_000,
        run: |peer, ops| Some(peer.tell_unbounded?(Place::Main, ops, Senders::Tasks(4))),
    },
    Timed {
        name: "actor.tell_outside_main",
        ops: 1_000_000,
        run: |peer, ops| Some(peer.tell_unbounded?(Place::Main, ops, Senders::Threads(1))),
    },
    Timed { name: "actor.ask", ops: 50_000, run: |peer, ops| Some(peer.ask?(Place::Workers, ops)) },
    Timed { name: "actor.ring1000", ops: 100_000, run: |peer, ops| Some(peer.ring?(ops)) },
    Timed { name: "actor.ring1000_named", ops: 100_000, run: |peer, ops| Some(peer.ring_named?(ops)) },
    Timed { name: "actor.spawn", ops: 10_000, run: |peer, ops| Some(peer.spawn?(Place::Workers, ops)) },
    Timed { name: "actor.spawn_named", ops: 5_000, run: |peer, ops| Some(peer.spawn_named?(ops)) },
    Timed { name: "actor.spawn1000", ops: 10_000, run: |peer, ops| Some(peer.spawn_crowd?(ops)) },
    Timed { name: "actor.spawn1000_named", ops: 10_000, run: |peer, ops| Some(peer.spawn_crowd_named?(ops)) },
    Timed { name: "actor.restart_error", ops: 10_000, run: |peer, ops| Some(peer.restart_error?(ops)) },
    Timed { name: "actor.supervised", ops: 100_000, run: |peer, ops| Some(peer.supervised?(ops)) },
    Timed { name: "actor.restart_panic", ops: 5_000, run: |peer, ops| quietly(|| Some(peer.restart_panic?(ops))) },
    Timed {
        name: "actor.restart_error_awaited",
        ops: 5_000,
        run: |peer, ops| Some(peer.restart_error_awaited?(Place::Workers, ops)),
    },
    Timed {
        name: "actor.restart_panic_awaited",
        ops: 2_000,
        run: |peer, ops| quietly(|| Some(peer.restart_panic_awaited?(Place::Workers, ops))),
    },
    Timed {
        name: "actor.restart_error_awaited_main",
        ops: 5_000,
        run: |peer, ops| Some(peer.restart_error_awaited?(Place::Main, ops)),
    },
    Timed {
        name: "actor.restart_panic_awaited_main",
        ops: 2_000,
        run: |peer, ops| quietly(|| Some(peer.restart_panic_awaited?(Place::Main, ops))),
    },
    Timed { name: "group.128", ops: 25_600, run: |peer, ops| group(peer, TINY_128, ops) },
    Timed { name: "group.128_max4", ops: 12_800, run: |peer, ops| group(peer, TINY_128.limit(4), ops) },
    Timed { name: "group.128_max64", ops: 25_600, run: |peer, ops| group(peer, TINY_128.limit(64), ops) },
    Timed { name: "group.10k", ops: 50_000, run: |peer, ops| group(peer, TINY_10K, ops) },
    Timed { name: "group.10k_max4", ops: 20_000, run: |peer, ops| group(peer, TINY_10K.limit(4), ops) },
    Timed { name: "group.10k_max64", ops: 50_000, run: |peer, ops| group(peer, TINY_10K.limit(64), ops) },
    Timed { name: "group.128_joined", ops: 25_600, run: |peer, ops| group(peer, TINY_128.feed(Feed::Joined), ops) },
    Timed { name: "group.128_two_tasks", ops: 25_600, run: |peer, ops| group(peer, TINY_128.feed(Feed::TwoTasks), ops) },
    Timed {
        name: "group.128_max4_joined",
        ops: 12_800,
        run: |peer, ops| group(peer, TINY_128.limit(4).feed(Feed::Joined), ops),
    },
    Timed {
        name: "group.128_max4_two_tasks",
        ops: 12_800,
        run: |peer, ops| group(peer, TINY_128.limit(4).feed(Feed::TwoTasks), ops),
    },
    Timed { name: "group.10k_joined", ops: 50_000, run: |peer, ops| group(peer, TINY_10K.feed(Feed::Joined), ops) },
    Timed { name: "group.10k_two_tasks", ops: 50_000, run: |peer, ops| group(peer, TINY_10K.feed(Feed::TwoTasks), ops) },
    Timed {
        name: "group.10k_max4_joined",
        ops: 20_000,
        run: |peer, ops| group(peer, TINY_10K.limit(4).feed(Feed::Joined), ops),
    },
    Timed {
        name: "group.10k_max4_two_tasks",
        ops: 20_000,
        run: |peer, ops| group(peer, TINY_10K.limit(4).feed(Feed::TwoTasks), ops),
    },
    Timed {
        name: "group.128_joined_main",
        ops: 25_600,
        run: |peer, ops| group_on_main(peer, TINY_128.feed(Feed::Joined), ops),
    },
    Timed {
        name: "group.128_two_tasks_main",
        ops: 25_600,
        run: |peer, ops| group_on_main(peer, TINY_128.feed(Feed::TwoTasks), ops),
    },
    Timed { name: "group.pends_once", ops: 25_600, run: |peer, ops| group(peer, TINY_128.work(Work::PendsOnce), ops) },
    Timed { name: "group.cpu", ops: 128, run: |peer, ops| group(peer, Shape::tiny(64).work(Work::Cpu), ops) },
    Timed { name: "group.256_max32_short", ops: 25_600, run: |peer, ops| group(peer, TINY_256, ops) },
    Timed { name: "group.256_max32_short_fail_fast", ops: 25_600, run: |peer, ops| group(peer, TINY_256.fail_fast(), ops) },
    Timed { name: "group.256_max32_mixed", ops: 2_560, run: |peer, ops| group(peer, TINY_256.work(Work::Mixed), ops) },
    Timed {
        name: "group.256_max32_mixed_fail_fast",
        ops: 25_600,
        run: |peer, ops| group(peer, TINY_256.work(Work::Mixed).fail_fast(), ops),
    },
    Timed { name: "group.in_place", ops: 51_200, run: |peer, ops| Some(peer.group_in_place?(Place::Workers, TINY_128, ops)) },
    Timed {
        name: "group.in_place_pends_once",
        ops: 51_200,
        run: |peer, ops| Some(peer.group_in_place?(Place::Workers, TINY_128.work(Work::PendsOnce), ops)),
    },
    Timed {
        name: "graph.linear10",
        ops: 50_000,
        run: |peer, ops| peer.graph?(Place::Workers, graphs::Shape::Line(10), ops / 10),
    },
    Timed {
        name: "graph.linear10_context",
        ops: 50_000,
        run: |peer, ops| peer.graph?(Place::Workers, graphs::Shape::LineWithContext(10), ops / 10),
    },
    Timed {
        name: "graph.linear100",
        ops: 50_000,
        run: |peer, ops| peer.graph?(Place::Workers, graphs::Shape::Line(100), ops / 100),
    },
    Timed {
        name: "graph.loop10k",
        ops: 50_000,
        run: |peer, ops| peer.graph?(Place::Workers, graphs::Shape::Loop(10_000), ops / 10_000),
    },
    Timed { name: "graph.fanout8", ops: 2_000, run: |peer, ops| peer.graph?(Place::Workers, graphs::Shape::FanOut8, ops) },
    Timed { name: "graph.owned_linear10", ops: 50_000, run: |peer, ops| owned(peer, owned::Shape::Line(10), ops / 10) },
    Timed { name: "graph.owned_linear100", ops: 50_000, run: |peer, ops| owned(peer, owned::Shape::Line(100), ops / 100) },
    Timed { name: "graph.owned_loop10k", ops: 50_000, run: |peer, ops| owned(peer, owned::Shape::Loop(10_000), ops / 10_000) },
    Timed { name: "graph.owned_fanout8", ops: 2_000, run: |peer, ops| owned(peer, owned::Shape::FanOut8, ops) },
    Timed {
        name: "graph.sleeps20k",
        ops: 20_000,
        run: |peer, ops| peer.graph?(Place::Workers, graphs::Shape::Sleeps(20_000), ops / 20_000),
    },
    Timed {
        name: "graph.sleeps80k",
        ops: 80_000,
        run: |peer, ops| peer.graph?(Place::Workers, graphs::Shape::Sleeps(80_000), ops / 80_000),
    },
    Timed { name: "graph.compile1000", ops: 20, run: |peer, ops| Some(peer.compile?(1_000, ops)) },
    Timed { name: "graph.compile10k", ops: 4, run: |peer, ops| Some(peer.compile?(10_000, ops)) },
    Timed { name: "store.commit_one", ops: 200, run: |peer, ops| Some(peer.commit?(1, ops)) },
    Timed { name: "store.commit_64", ops: 640, run: |peer, ops| Some(peer.commit?(64, ops)) },
    Timed { name: "graph.checkpoint_one", ops: 200, run: |peer, ops| Some(peer.steps?(1, ops)) },
    Timed { name: "graph.checkpoint_64", ops: 3_200, run: |peer, ops| Some(peer.steps?(64, ops)) },
    Timed { name: "graph.checkpoint_one_steady", ops: 1_000, run: |peer, ops| Some(peer.steady_steps?(1, ops)) },
    Timed { name: "graph.checkpoint_64_steady", ops: 12_800, run: |peer, ops| Some(peer.steady_steps?(64, ops)) },
    Timed { name: "graph.stored_map", ops: 1_000, run: |peer, ops| Some(peer.stored_map?(1_000, ops)) },
    Timed { name: "graph.resume_10k", ops: 20, run: |peer, ops| Some(peer.resume?(10_000, ops)) },
    Timed { name: "growth.exceeded_1k", ops: 1_000, run: |peer, ops| Some(peer.growth?(Growth::Exceeded, ops)) },
    Timed { name: "growth.exceeded_10k", ops: 10_000, run: |peer, ops| Some(peer.growth?(Growth::Exceeded, ops)) },
    Timed { name: "growth.exceeded_100k", ops: 100_000, run: |peer, ops| Some(peer.growth?(Growth::Exceeded, ops)) },
    Timed { name: "growth.one_for_all_1k", ops: 1_000, run: |peer, ops| Some(peer.growth?(Growth::OneForAll, ops)) },
    Timed { name: "growth.one_for_all_10k", ops: 10_000, run: |peer, ops| Some(peer.growth?(Growth::OneForAll, ops)) },
    Timed { name: "growth.one_for_all_100k", ops: 100_000, run: |peer, ops| Some(peer.growth?(Growth::OneForAll, ops)) },
    Timed { name: "growth.chain_1k", ops: 1_000, run: |peer, ops| Some(peer.growth?(Growth::Chain, ops)) },
    Timed { name: "growth.chain_10k", ops: 10_000, run: |peer, ops| Some(peer.growth?(Growth::Chain, ops)) },
    Timed { name: "growth.chain_100k", ops: 100_000, run: |peer, ops| Some(peer.growth?(Growth::Chain, ops)) },
    Timed { name: "growth.supervisors_1k", ops: 1_000, run: |peer, ops| Some(peer.growth?(Growth::Supervisors, ops)) },
    Timed { name: "growth.supervisors_10k", ops: 10_000, run: |peer, ops| Some(peer.growth?(Growth::Supervisors, ops)) },
    Timed { name: "growth.supervisors_100k", ops: 100_000, run: |peer, ops| Some(peer.growth?(Growth::Supervisors, ops)) },
    Timed { name: "growth.kill_1m", ops: 1_000_000, run: |peer, ops| Some(peer.growth?(Growth::Kill, ops)) },
    Timed { name: "graph.postgres_one", ops: 500, run: |peer, ops| peer.postgres_steps?(1, ops) },
    Timed { name: "graph.postgres_64", ops: 3_200, run: |peer, ops| peer.postgres_steps?(64, ops) },
    Timed { name: "worker.claims", ops: 512, run: |peer, ops| peer.claims?(ops) },
];

const TINY_128: Shape = Shape::tiny(128);
const TINY_256: Shape = Shape::tiny(256).limit(32);
const TINY_10K: Shape = Shape::tiny(10_000);

fn owned(peer: &Peer, shape: owned::Shape, runs: u64) -> Option<Duration> {
    Some(peer.owned_graph?(Place::Workers, shape, runs))
}

fn group(peer: &Peer, shape: Shape, ops: u64) -> Option<Duration> {
    peer.group?(Place::Workers, shape, ops)
}

fn group_on_main(peer: &Peer, shape: Shape, ops: u64) -> Option<Duration> {
    peer.group?(Place::Main, shape, ops)
}

/// The samples of one peer and workload: the ns per operation, and the ratio to the floor of the
/// same round.
#[derive(Default)]
struct Samples {
    ns: Vec<f64>,
    ratios: Vec<f64>,
}

/// All samples up to now. The first of `peers` is the floor.
pub struct Bench<'a> {
    peers: &'a [&'a Peer],
    samples: BTreeMap<(&'static str, &'static str), Samples>,
}

impl<'a> Bench<'a> {
    pub fn new(peers: &'a [&'a Peer]) -> Self {
        Bench { peers, samples: BTreeMap::new() }
    }

    /// Runs one pass of one workload.
    pub fn pass(&mut self, workload: &Timed) {
        for round in 0..ROUNDS {
            let ns = self.round(workload, round);
            let floor = ns[0];
            for (peer, ns) in self.peers.iter().zip(ns) {
                if let Some(ns) = ns {
                    let samples = self.samples.entry((workload.name, peer.name)).or_default();
                    samples.ns.push(ns);
                    samples.ratios.extend(floor.map(|floor| ns / floor));
                }
            }
        }
    }

    /// Runs each peer once. Each round starts with another peer, so that no peer always follows the
    /// same one.
    fn round(&self, workload: &Timed, round: usize) -> Vec<Option<f64>> {
        let mut ns = vec![None; self.peers.len()];
        for turn in 0..self.peers.len() {
            let index = (turn + round) % self.peers.len();
            let taken = (workload.run)(self.peers[index], workload.ops);
            ns[index] = taken.map(|taken| taken.as_nanos() as f64 / workload.ops as f64);
        }
        ns
    }

    /// Returns the medians of a workload over all passes up to now.
    pub fn figures(&self, workload: &Timed) -> Vec<Figure> {
        let of_peer = |peer: &&Peer| {
            let samples = self.samples.get(&(workload.name, peer.name))?;
            Some(Figure {
                workload: workload.name,
                peer: peer.name,
                value: median(&samples.ns),
                ratio: (!samples.ratios.is_empty()).then(|| median(&samples.ratios)),
                is_unsteady: is_unsteady(&samples.ns),
            })
        };
        self.peers.iter().filter_map(of_peer).collect()
    }
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn median(samples: &[f64]) -> f64 {
    let sorted = sorted(samples);
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 }
}

/// Whether the middle half of the samples spans more than [`NOISE`] of their median.
fn is_unsteady(samples: &[f64]) -> bool {
    let sorted = sorted(samples);
    let quarter = sorted.len() / 4;
    let span = sorted[sorted.len() - 1 - quarter] - sorted[quarter];
    span > NOISE * median(samples)
}

/// Runs the work with a silent panic hook: the workload measures restarts, not the printing of
/// reports.
fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let result = work();
    panic::set_hook(hook);
    result
}
