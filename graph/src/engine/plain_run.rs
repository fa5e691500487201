//! [`PlainRun`]: a run that has not needed an engine yet.
//!
//! Most nodes of a run in memory take the state, return it at their first poll, and pass it on. A
//! run of such nodes needs no context, no lanes and no allocation of its own. Its fan-outs run here
//! too, one branch after the other. As soon as a node waits, fails, or takes more than the state,
//! the run continues in an [`Engine`] at the same place.
//!
//! Invariants:
//! 1. A state is in exactly one place: in a lane, in its node, or in the fork.
//! 2. Visits and commits are counted as an engine counts them, so ids of tokens do not depend on
//!    where the engine takes over.
//! 3. User code is called inside `catch_panic`.

use crate::compile::plan::{BranchHeads, Plan, PlanFanOut};
use crate::define::fan_out::Merge;
use crate::engine::Engine;
use crate::engine::fan_out::join::fork_of;
use crate::engine::fast_path::{Counts, FastPath, FastPathEnd, VisitLimits};
use crate::engine::lane::Lane;
use crate::engine::poll_slice::PollSlice;
use crate::error::{During, MergeError, Outcome, RunFault};
use crate::token::{BranchPath, TokenId};
use pleach_core::{Reason, catch_panic};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::vec;

pub(crate) struct PlainRun<S> {
    plan: Arc<Plan<S>>,
    limits: VisitLimits,
    slice: PollSlice,
    counts: Counts,
    root: Lane<S>,
    fork: Option<PlainFork<S>>,
}

/// A fan-out, of which all branches before the current one have arrived.
pub(super) struct PlainFork<S> {
    /// The sequence number of the commit that opened it.
    pub(super) sequence: u64,
    /// The state before the fan-out.
    pub(super) before: S,
    /// The states of the branches of a `map` that have not started.
    pub(super) items: Option<vec::IntoIter<S>>,
    pub(super) total: usize,
    /// The states of the branches that have arrived, in order.
    pub(super) ended: Vec<S>,
    /// The largest iteration count of these branches.
    pub(super) iteration: u64,
    /// The current branch. It gets its path from the engine.
    pub(super) branch: Lane<S>,
}

/// How a poll of a plain run ended.
pub(crate) enum PlainPoll<S> {
    Ended(S),
    /// The step limit of the poll is reached.
    Yields,
    /// The run needs an engine.
    Stops(PlainStop<S>),
}

/// Why a plain run stops, for its engine.
pub(crate) struct PlainStop<S>(StopAt<S>);

pub(super) enum StopAt<S> {
    /// The current lane ended its fast path like this.
    Lane(FastPathEnd<S>),
    /// The code of a fan-out failed: the items of a `map`, the clone of a state, or the merge.
    FanOut(RunFault),
}

impl<S: Send + 'static> PlainRun<S> {
    #[inline]
    pub(crate) fn new(plan: Arc<Plan<S>>, limits: VisitLimits, steps_per_poll: u32, state: S) -> Self {
        let counts = Counts { visits: 0, sequence: 1, steps_left: 0 };
        let root = Lane::root(plan.shape.entry, 1, Some(state));
        Self { plan, limits, slice: PollSlice::new(steps_per_poll), counts, root, fork: None }
    }

    /// Runs nodes until the run ends, reaches the step limit, or needs an engine.
    #[inline]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> PlainPoll<S> {
        let Self { plan, limits, slice, counts, root, fork } = self;
        counts.steps_left = slice.begin();
        let mut path = FastPath { plan, graph_cx: None, limits: *limits, counts, during: During::Node };
        let stop = match catch_panic(|| run(&mut path, slice, root, fork, cx)) {
            Ok(StopAt::Lane(FastPathEnd::Arrived)) => {
                return PlainPoll::Ended(root.state.take().expect("a lane that arrived has its state"));
            }
            Ok(StopAt::Lane(FastPathEnd::Stopped)) if path.counts.steps_left == 0 => return PlainPoll::Yields,
            Ok(stop) => stop,
            Err(reason) => panicked(&mut path, root, fork, reason),
        };
        PlainPoll::Stops(PlainStop(stop))
    }

    /// Returns whether the run needs an engine for its first node.
    #[inline]
    pub(crate) fn needs_engine(&self) -> bool {
        self.plan.nodes[self.root.at as usize].takes_context
    }

    /// Returns an engine for a run that has not started.
    #[inline]
    pub(crate) fn into_engine(self) -> Engine<S> {
        let Self { plan, limits, slice, counts, root, .. } = self;
        Engine::plain(plan, limits, slice, counts, root)
    }

    /// Continues the run in an engine. Breaks with the engine if the run is still pending.
    #[inline(never)]
    pub(crate) fn continue_in_engine(
        self,
        PlainStop(stop): PlainStop<S>,
        cx: &mut Context<'_>,
    ) -> ControlFlow<Engine<S>, Outcome<S>> {
        let Self { plan, limits, slice, counts, root, fork } = self;
        let mut engine = Engine::plain(plan, limits, slice, counts, root);
        match engine.take_over(stop, fork, cx) {
            Poll::Ready(outcome) => ControlFlow::Continue(outcome),
            Poll::Pending => ControlFlow::Break(engine),
        }
    }
}

/// Runs nodes and fan-outs. Panics of user code pass through.
fn run<S: Send + 'static>(
    path: &mut FastPath<'_, S>,
    slice: &mut PollSlice,
    root: &mut Lane<S>,
    fork: &mut Option<PlainFork<S>>,
    cx: &mut Context<'_>,
) -> StopAt<S> {
    loop {
        let ended = match fork {
            None => path.run(root, cx),
            Some(fork) => path.run(&mut fork.branch, cx),
        };
        match (ended, &mut *fork) {
            (FastPathEnd::Arrived, Some(fork)) => fork.arrive(path.counts),
            (FastPathEnd::Forks(sequence), None) => match begin(path, root, sequence) {
                None => return StopAt::Lane(FastPathEnd::Forks(sequence)),
                begun => *fork = begun,
            },
            (FastPathEnd::Stopped, _) if path.counts.steps_left == 0 => {
                path.counts.steps_left = slice.extend(None);
                if path.counts.steps_left == 0 {
                    return StopAt::Lane(FastPathEnd::Stopped);
                }
                continue;
            }
            (ended, _) => return StopAt::Lane(ended),
        }
        if let Some(open) = fork
            && !open.start_branch(path, root)
            && let Some(all) = fork.take()
        {
            match all.join(path, root) {
                Ok(false) => {}
                Ok(true) => return StopAt::Lane(FastPathEnd::Arrived),
                Err(fault) => return StopAt::FanOut(fault),
            }
        }
    }
}

/// Opens the fan-out after the node of the root. Returns `None` if it needs an engine.
fn begin<S: Send + 'static>(path: &mut FastPath<'_, S>, root: &mut Lane<S>, sequence: u64) -> Option<PlainFork<S>> {
    let PlanFanOut { heads, options, join } = fork_of(path.plan, root.at);
    if options.timeout.is_some() || options.spawned {
        return None;
    }
    let (total, items) = match heads {
        BranchHeads::Each(heads, _) => (heads.len(), None),
        BranchHeads::Map(_, items) => {
            let before = root.state.as_ref().expect("a lane that forks has its state");
            let items = path.calling(During::Split, || items(before));
            (items.len(), Some(items.into_iter()))
        }
    };
    let before = root.state.take().expect("a lane that forks has its state");
    let branch = Lane::new(0, None, TokenId { sequence, branch: 0 }, BranchPath::default(), *join);
    Some(PlainFork { sequence, before, items, total, ended: Vec::with_capacity(total), iteration: root.iteration, branch })
}

impl<S: Send + 'static> PlainFork<S> {
    /// Places the next branch at its first node. Returns false if all have started.
    fn start_branch(&mut self, path: &mut FastPath<'_, S>, root: &Lane<S>) -> bool {
        let number = self.ended.len();
        if number == self.total {
            return false;
        }
        let (head, state) = match &fork_of(path.plan, root.at).heads {
            BranchHeads::Each(heads, clone) => (heads[number], path.calling(During::CloneState, || clone(&self.before))),
            BranchHeads::Map(head, _) => {
                let next = self.items.as_mut().and_then(Iterator::next);
                (*head, next.expect("a map has an item for each branch"))
            }
        };
        self.branch.at = head;
        self.branch.state = Some(state);
        self.branch.iteration = root.iteration;
        self.branch.token = TokenId { sequence: self.sequence, branch: number as u32 };
        true
    }

    /// Keeps the state of the branch that has arrived.
    fn arrive(&mut self, counts: &mut Counts) {
        // The commit of its arrival.
        counts.next_sequence();
        self.iteration = self.iteration.max(self.branch.iteration);
        self.ended.push(self.branch.state.take().expect("a lane that arrived has its state"));
    }

    /// Merges the states of all branches and moves the root on. Returns whether it has arrived.
    fn join(self, path: &mut FastPath<'_, S>, root: &mut Lane<S>) -> Result<bool, RunFault> {
        let Self { before, ended, iteration, .. } = self;
        let PlanFanOut { options, join, .. } = fork_of(path.plan, root.at);
        let merged = path.calling(During::Merge, || match &options.merge {
            Merge::States(merge) => merge(before, ended),
            Merge::Results(merge) => merge(before, ended.into_iter().map(Ok).collect()),
        });
        match merged {
            Ok(merged) => {
                (root.state, root.iteration) = (Some(merged), iteration);
                Ok(root.place(*join, path.counts.next_sequence()))
            }
            Err(error) => {
                let (node, reason) = (path.name(root.at), Arc::new(Reason::Error(error)));
                Err(RunFault::Merge(MergeError { node, reason }))
            }
        }
    }
}

/// Returns where a run stops whose code panicked.
#[cold]
fn panicked<S: Send + 'static>(
    path: &mut FastPath<'_, S>,
    root: &Lane<S>,
    fork: &Option<PlainFork<S>>,
    reason: Reason,
) -> StopAt<S> {
    let is_of_fan_out = matches!(path.during, During::Split | During::CloneState | During::Merge);
    match fork {
        _ if is_of_fan_out => StopAt::FanOut(RunFault::panic(path.name(root.at), path.during, &reason)),
        Some(fork) => StopAt::Lane(path.panicked(fork.branch.at, reason)),
        None => StopAt::Lane(path.panicked(root.at, reason)),
    }
}

#[cfg(test)]
mod tests {
    use crate::{CompiledGraph, END, FanOut, Graph, Hooks, NodeContext, RunEvent};
    use pleach_core::block_on;
    use std::future::IntoFuture as _;
    use std::sync::{Arc, Mutex};

    /// The tokens that nodes with a context have seen: commit, branch, iteration.
    type Seen = Arc<Mutex<Vec<(u64, u32, u64)>>>;

    /// A state whose clone panics on demand.
    #[derive(Debug, PartialEq)]
    struct State(Vec<u32>);

    impl Clone for State {
        fn clone(&self) -> Self {
            assert!(!self.0.contains(&CLONE_PANICS), "the clone");
            Self(self.0.clone())
        }
    }

    const CLONE_PANICS: u32 = 66;

    /// What breaks in a graph.
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Fault {
        None,
        Node,
        NodePanic,
        BranchNode,
        BranchPanic,
        BranchRouter,
        Router,
        RouterPanic,
        Split,
        Clone,
        Merge,
        MergePanic,
    }

    const FAULTS: [Fault; 12] = [
        Fault::None,
        Fault::Node,
        Fault::NodePanic,
        Fault::BranchNode,
        Fault::BranchPanic,
        Fault::BranchRouter,
        Fault::Router,
        Fault::RouterPanic,
        Fault::Split,
        Fault::Clone,
        Fault::Merge,
        Fault::MergePanic,
    ];

    fn add(number: u32) -> impl Fn(State) -> std::future::Ready<Result<State, String>> + Send + Sync + 'static {
        move |mut state: State| {
            state.0.push(number);
            std::future::ready(Ok(state))
        }
    }

    /// Line, fan-out with a router in one branch, `map`, loop. A node with a context is in a branch
    /// or at the end, and `waits` makes the plain run stop inside of a fan-out.
    fn graph(fault: Fault, in_branch: bool, waits: bool, seen: &Seen) -> CompiledGraph<State> {
        let seen = Arc::clone(seen);
        let note = move |cx: NodeContext, state: State| {
            seen.lock().unwrap().push((cx.token.sequence, cx.token.branch, cx.iteration));
            std::future::ready(Ok::<_, String>(state))
        };
        let merge = move |mut before: State, branches: Vec<State>| {
            assert!(fault != Fault::MergePanic, "the merge");
            branches.iter().for_each(|branch| before.0.push(branch.0.len() as u32));
            if fault == Fault::Merge { Err("no merge") } else { Ok(before) }
        };
        let first = move |mut state: State| async move {
            assert!(fault != Fault::NodePanic, "the node");
            state.0.push(if fault == Fault::Clone { CLONE_PANICS } else { 1 });
            if fault == Fault::Node { Err("no node") } else { Ok(state) }
        };
        let branch = move |mut state: State| async move {
            assert!(fault != Fault::BranchPanic, "the branch");
            if waits {
                let mut is_first = true;
                std::future::poll_fn(|cx| {
                    cx.waker().wake_by_ref();
                    if std::mem::take(&mut is_first) { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
                })
                .await;
            }
            state.0.push(3);
            if fault == Fault::BranchNode { Err("no branch") } else { Ok(state) }
        };
        let graph = Graph::new("plain")
            .add_node("first", first)
            .add_node("one", add(2))
            .add_node("one-more", add(4))
            .add_node("other", branch)
            .add_node("between", add(5))
            .add_node("item", add(6))
            .add_node("turn", add(7))
            .add_node("end", note.clone())
            .set_entry("first")
            .add_parallel_edge("first", ["one", "other"], "between", FanOut::try_merge(merge))
            .add_conditional_edge("one", ["one-more", "between"], move |_: &State| match fault {
                Fault::BranchRouter => "nowhere",
                _ => "one-more",
            })
            .add_edge("other", "between")
            .map(
                "between",
                move |state: &State| {
                    assert!(fault != Fault::Split, "the items");
                    (0..3).map(|item| State(vec![state.0.len() as u32, item])).collect()
                },
                "item",
                "turn",
                |before: State, _: Vec<State>| before,
            )
            .add_edge("item", "turn")
            .add_conditional_edge("turn", ["turn", "end"], move |state: &State| {
                assert!(fault != Fault::RouterPanic, "the router");
                match fault {
                    Fault::Router => "nowhere",
                    _ if state.0.len() < 9 => "turn",
                    _ => "end",
                }
            })
            .add_edge("end", END);
        let graph = match in_branch {
            true => graph.add_node("noted", note).add_edge("one-more", "noted").add_edge("noted", "between"),
            false => graph.add_edge("one-more", "between"),
        };
        graph.compile().unwrap()
    }

    /// The outcome of a run as text: its state, or its fault with the state and the branch.
    fn outcome(graph: &CompiledGraph<State>, on_full_path: bool) -> String {
        let run = graph.run(State(vec![0]));
        let run = if on_full_path { run.hooks(Hooks::new(|_: &RunEvent<&State>| {})) } else { run };
        match block_on(run.into_future()) {
            Ok(state) => format!("{state:?}"),
            Err(error) => {
                let branch = error.branch().clone();
                format!("{:?} in branch {branch:?} with {:?}", error.to_string(), error.into_state())
            }
        }
    }

    #[test]
    fn f4_plain_runs_agree_with_the_full_path() {
        let mut kinds = std::collections::BTreeSet::new();
        for fault in FAULTS {
            for (in_branch, waits) in [(false, false), (false, true), (true, false), (true, true)] {
                let of = |on_full_path| {
                    let seen = Seen::default();
                    let outcome = outcome(&graph(fault, in_branch, waits, &seen), on_full_path);
                    (outcome, std::mem::take(&mut *seen.lock().unwrap()))
                };
                let (plain, full) = (of(false), of(true));
                assert_eq!(plain, full, "{fault:?}, context in a branch: {in_branch}, waits: {waits}");
                kinds.insert(plain.0);
            }
        }
        assert!(kinds.len() >= FAULTS.len(), "each fault has its own outcome: {kinds:#?}");
    }
}
