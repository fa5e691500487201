//! A model of plain runs: random graphs run in a [`PlainRun`], and from the start in an engine.
//! Both must visit the same nodes in the same order, with the same tokens, and end alike.

use crate::engine::{PlainPoll, PlainRun, STEPS_PER_POLL_MAX, VisitLimits};
use crate::error::Outcome;
use crate::{CompiledGraph, END, FanOut, Graph, NodeContext};
use pleach_core::block_on;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::task::Poll;

/// A visit: the node, and if it takes a context its commit, branch and iteration.
type Visited = (u32, Option<(u64, u32, u64)>);

/// The visits in order.
type Trace = Arc<Mutex<Vec<Visited>>>;

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

struct Maker {
    random: Random,
    /// Whether nodes, merges, routers and items may fail.
    may_fail: bool,
    graph: Graph<Vec<u32>>,
    trace: Trace,
    nodes: u32,
}

impl Maker {
    fn fails(&mut self, one_of: u64) -> bool {
        self.random.below(one_of) == 0 && self.may_fail
    }

    /// Adds a node without an edge, and returns its name.
    fn node(&mut self) -> String {
        let (number, trace) = (self.nodes, Arc::clone(&self.trace));
        self.nodes += 1;
        let name = format!("n{number}");
        let graph = std::mem::replace(&mut self.graph, Graph::new(""));
        let kind = if self.fails(20) { self.random.below(2) } else { 2 + self.random.below(30) };
        let note = move |trace: &Trace, token| trace.lock().unwrap().push((number, token));
        self.graph = match kind {
            2..5 => graph.add_node(&*name, move |cx: NodeContext, mut state: Vec<u32>| {
                note(&trace, Some((cx.token.sequence, cx.token.branch, cx.iteration)));
                state.push(number);
                std::future::ready(Ok::<_, String>(state))
            }),
            5..8 => graph.add_node(&*name, move |mut state: Vec<u32>| {
                note(&trace, None);
                let mut waits = kind - 4;
                async move {
                    poll_fn(|cx| {
                        cx.waker().wake_by_ref();
                        waits -= 1;
                        if waits > 0 { Poll::Pending } else { Poll::Ready(()) }
                    })
                    .await;
                    state.push(number);
                    Ok::<_, String>(state)
                }
            }),
            0 => graph.add_node(&*name, move |_: Vec<u32>| {
                note(&trace, None);
                std::future::ready(Err::<Vec<u32>, _>(format!("node {number}")))
            }),
            1 => graph.add_node(&*name, move |state: Vec<u32>| {
                note(&trace, None);
                assert!(state.len() > 1_000_000, "node {number}");
                std::future::ready(Ok::<_, String>(state))
            }),
            _ => graph.add_node(&*name, move |mut state: Vec<u32>| {
                note(&trace, None);
                state.push(number);
                std::future::ready(Ok::<_, String>(state))
            }),
        };
        name
    }

    fn fan_out(&mut self) -> FanOut<Vec<u32>> {
        let fails = self.fails(15);
        let fan_out = match self.random.below(3) {
            0 => FanOut::collect(move |mut before: Vec<u32>, branches: Vec<Outcome<Vec<u32>>>| {
                for branch in branches {
                    before.push(branch.map_or(999, |state| state.len() as u32));
                }
                if fails { Err("merge") } else { Ok(before) }
            }),
            _ => FanOut::try_merge(move |mut before: Vec<u32>, branches: Vec<Vec<u32>>| {
                branches.iter().for_each(|branch| before.push(branch.len() as u32));
                if fails { Err("merge") } else { Ok(before) }
            }),
        };
        let fan_out = if self.random.below(3) == 0 { fan_out.fail_fast(false) } else { fan_out };
        match self.random.below(3) {
            0 => fan_out.limit(1 + self.random.below(3) as usize),
            _ => fan_out,
        }
    }

    fn change(&mut self, change: impl FnOnce(Graph<Vec<u32>>) -> Graph<Vec<u32>>) {
        self.graph = change(std::mem::replace(&mut self.graph, Graph::new("")));
    }

    /// Adds a line of nodes and fan-outs that ends at `end`. Returns its first node.
    fn line(&mut self, depth: u32, end: &str) -> String {
        let mut next = end.to_string();
        for _ in 0..1 + self.random.below(3) {
            next = self.before(depth, next);
        }
        next
    }

    /// Adds a node, with its edge or fan-out, before `next`. Returns it.
    fn before(&mut self, depth: u32, next: String) -> String {
        let name = self.node();
        let from = name.clone();
        match self.random.below(if depth == 0 { 4 } else { 8 }) {
            0..2 => self.change(|graph| graph.add_edge(from, next)),
            2 => {
                let answer = if self.fails(12) { "nowhere".to_string() } else { next.clone() };
                self.change(|graph| graph.add_conditional_edge(from, [next], move |_: &Vec<u32>| answer.clone()));
            }
            // A loop, which ends when the state is long.
            3 => {
                let (again, on) = (from.clone(), next.clone());
                self.change(|graph| {
                    graph.add_conditional_edge(from, [again.clone(), on.clone()], move |state: &Vec<u32>| match state.len() {
                        0..12 => again.clone(),
                        _ => on.clone(),
                    })
                });
            }
            4..7 => {
                let heads: Vec<String> = (0..1 + self.random.below(4)).map(|_| self.line(depth - 1, &next)).collect();
                let fan_out = self.fan_out();
                self.change(|graph| graph.add_parallel_edge(from, heads, next, fan_out));
            }
            _ => {
                let (head, count, fails) = (self.line(depth - 1, &next), self.random.below(5) as u32, self.fails(12));
                let items = move |state: &Vec<u32>| {
                    assert!(!fails, "items");
                    (0..count).map(|item| vec![state.len() as u32, item]).collect()
                };
                let fan_out = self.fan_out();
                self.change(|graph| graph.map(from, items, head, next, fan_out));
            }
        }
        name
    }
}

fn any_graph(seed: u64, may_fail: bool, trace: &Trace) -> CompiledGraph<Vec<u32>> {
    let (random, trace) = (Random(seed), Arc::clone(trace));
    let mut maker = Maker { random, may_fail, graph: Graph::new("any"), trace, nodes: 0 };
    let last = maker.node();
    maker.change(|graph| graph.add_edge(last.clone(), END));
    let entry = maker.line(3, &last);
    maker.graph.set_entry(entry).compile().expect("the graph is sound")
}

fn text(outcome: Outcome<Vec<u32>>) -> String {
    match outcome {
        Ok(state) => format!("{state:?}"),
        Err(error) => {
            let branch = error.branch().clone();
            format!("{:?} in branch {branch:?} with {:?}", error.to_string(), error.into_state())
        }
    }
}

/// Drives a plain run as `RunFuture` does.
async fn drive(plain: PlainRun<Vec<u32>>) -> Outcome<Vec<u32>> {
    if plain.needs_engine() {
        return plain.into_engine().await;
    }
    let mut plain = Some(plain);
    let stopped = poll_fn(|cx| {
        let polled = plain.as_mut().expect("it has not stopped").poll(cx);
        match (polled, &mut plain) {
            (PlainPoll::Ended(state), _) => Poll::Ready(ControlFlow::Continue(Ok(state))),
            (PlainPoll::Stops(stop), plain) => Poll::Ready(plain.take().expect("it has stopped").continue_in_engine(stop, cx)),
            (PlainPoll::Yields, _) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    });
    match stopped.await {
        ControlFlow::Continue(outcome) => outcome,
        ControlFlow::Break(engine) => engine.await,
    }
}

/// Runs a random graph in both ways. Returns the outcomes and the visits.
fn both(seed: u64, may_fail: bool, limits: VisitLimits, steps_per_poll: u32) -> [(String, Vec<Visited>); 2] {
    [true, false].map(|is_plain| {
        let trace = Trace::default();
        let plan = Arc::clone(&any_graph(seed, may_fail, &trace).plan);
        let run = PlainRun::new(plan, limits, steps_per_poll, vec![0]);
        let outcome = if is_plain { block_on(drive(run)) } else { block_on(run.into_engine()) };
        (text(outcome), std::mem::take(&mut *trace.lock().unwrap()))
    })
}

const NO_LIMITS: VisitLimits = VisitLimits { iterations_max: u64::MAX, visits_max: u64::MAX };

#[test]
fn f4_random_plain_runs_agree_with_engines() {
    let mut failed = 0;
    for seed in 0..400 {
        let mut random = Random(!seed);
        let mut limit = || if random.below(3) == 0 { 2 + random.below(30) } else { u64::MAX };
        let limits = VisitLimits { iterations_max: limit(), visits_max: limit() };
        let [plain, engine] = both(seed, true, limits, STEPS_PER_POLL_MAX);
        assert_eq!(plain, engine, "seed {seed}");
        failed += u32::from(!plain.0.starts_with('['));
    }
    assert!((100..300).contains(&failed), "{failed} runs have failed");
}

#[test]
fn f4_random_plain_runs_that_yield_agree_with_engines() {
    for seed in 0..400 {
        let steps_per_poll = 1 + Random(!seed).below(4) as u32;
        // Branches that yield take turns, so the order and the commits differ.
        let [plain, engine] = both(seed, false, NO_LIMITS, steps_per_poll).map(|(outcome, visits)| {
            let without_commit = |(node, token): Visited| (node, token.map(|(_, branch, iteration)| (branch, iteration)));
            let mut visits: Vec<_> = visits.into_iter().map(without_commit).collect();
            visits.sort_unstable();
            (outcome, visits)
        });
        assert_eq!(plain, engine, "seed {seed}");
    }
}
