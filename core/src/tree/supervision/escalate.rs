//! `EscalationSink`: where a failure goes that supervision handed up, and what happens while nobody takes it.
//!
//! A supervisor's sink is its own (from `Props`), else its strategy's target, else that of the nearest one above it, else the system's default; with
//! none at all the failure becomes the supervisor's own, and its parent's strategy decides.
//!
//! Invariants:
//! 1. A sink runs under no lock, in the task in which the failure came up, or in the one that tries again.
//! 2. A failure that a sink refused is tried again in the order in which failures came, [`ATTEMPTS_MAX`] times in all, with growing
//!    pauses; what waits behind a refused one is as good as refused, and is tried for itself the last time; then, or if more than [`REFUSED_KEPT_MAX`] wait, it goes to the root as undeliverable. It never goes nowhere.
//! 3. One task per tree tries again, a child of the topmost guardian, and only while something waits. When it is cut off, at shutdown,
//!    what waits goes to the root.

use crate::base::catch;
use crate::base::lock::Lock;
use crate::events::failure::FailureInfo;
use crate::ids::name::Name;
use crate::tree::member::Member;
use crate::tree::node::Node;
use crate::tree::task::TaskKind;
use crate::tree::{Tree, supervision, task};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

/// How often a failure is given to a sink before it goes to the root as undeliverable.
pub const ATTEMPTS_MAX: u32 = 8;
/// How many refused failures wait to be tried again, in one system.
pub const REFUSED_KEPT_MAX: usize = 1_024;
/// The pause before the second attempt; each one after that is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// How many failures a composite remembers as partly taken.
const OWED_MAX: usize = 256;

/// Somewhere a failure can go. `Err` gives it back, and it is tried again later.
///
/// The failure is in the view of the supervisor that handed it up: its id and path; the origin says where it happened.
pub trait EscalationSink: Send + Sync + 'static {
    /// Takes the failure, or gives it back. Be quick: a task of the tree waits.
    fn handle(&self, failure: FailureInfo) -> Result<(), FailureInfo>;

    /// Whether the supervisor's own parent gets the failure among others, and decides about the supervisor. Unless it does, one that
    /// restarted its children too often ends.
    fn leads_to_parent(&self) -> bool {
        false
    }
}

/// To the supervisor itself, as its own failure: the strategy of its parent decides. This is what happens unless a sink is given; naming
/// it takes back one that would be inherited, or makes it one of several.
#[derive(Clone, Copy, Debug, Default)]
pub struct ParentGuardianSink;

impl EscalationSink for ParentGuardianSink {
    fn handle(&self, failure: FailureInfo) -> Result<(), FailureInfo> {
        let Some(supervisor) = failure.supervisor() else { return Err(failure) };
        supervision::propagate(supervisor, failure);
        Ok(())
    }

    fn leads_to_parent(&self) -> bool {
        true
    }
}

/// To the root at once, past everybody on the way: logged, counted, given to the root's sink and handler, told on the hub.
#[derive(Clone, Copy, Debug, Default)]
pub struct RootEscalationSink;

impl EscalationSink for RootEscalationSink {
    fn handle(&self, failure: FailureInfo) -> Result<(), FailureInfo> {
        let Some(supervisor) = failure.supervisor() else { return Err(failure) };
        supervisor.node().tree().unhandled(failure);
        Ok(())
    }
}

/// To a closure.
#[derive(Clone, Copy, Debug)]
pub struct CustomEscalationSink<F>(F);

impl<F: Fn(FailureInfo) -> Result<(), FailureInfo> + Send + Sync + 'static> CustomEscalationSink<F> {
    /// A sink that is this closure.
    pub fn new(handle: F) -> Self {
        Self(handle)
    }
}

impl<F: Fn(FailureInfo) -> Result<(), FailureInfo> + Send + Sync + 'static> EscalationSink for CustomEscalationSink<F> {
    fn handle(&self, failure: FailureInfo) -> Result<(), FailureInfo> {
        (self.0)(failure)
    }
}

/// To all of several. One that refuses is tried again by itself; those that took the failure do not get it twice.
pub struct CompositeEscalationSink {
    sinks: Vec<Arc<dyn EscalationSink>>,
    /// Failures that some have taken and others not, and which others.
    owed: Lock<VecDeque<(FailureInfo, Vec<usize>)>>,
}

impl CompositeEscalationSink {
    /// A composite of nobody, which takes everything.
    pub fn new() -> Self {
        Self { sinks: Vec::new(), owed: Lock::new(VecDeque::new()) }
    }

    /// And this one.
    #[must_use]
    pub fn and(mut self, sink: impl EscalationSink) -> Self {
        self.sinks.push(Arc::new(sink));
        self
    }
}

impl Default for CompositeEscalationSink {
    fn default() -> Self {
        Self::new()
    }
}

impl EscalationSink for CompositeEscalationSink {
    fn handle(&self, failure: FailureInfo) -> Result<(), FailureInfo> {
        let known = self.owed.with(|owed| {
            let at = owed.iter().position(|(other, _)| other.same(&failure) && other.stage() == failure.stage())?;
            owed.remove(at)
        });
        let to = known.map_or_else(|| (0..self.sinks.len()).collect(), |(_, to)| to);
        let refused: Vec<usize> = to.into_iter().filter(|at| attempt(&*self.sinks[*at], failure.clone()).is_err()).collect();
        if refused.is_empty() {
            return Ok(());
        }
        let forgotten = self.owed.with(|owed| {
            owed.push_back((failure.clone(), refused));
            if owed.len() > OWED_MAX { owed.pop_front() } else { None }
        });
        drop(forgotten);
        Err(failure)
    }

    fn leads_to_parent(&self) -> bool {
        self.sinks.iter().any(|sink| sink.leads_to_parent())
    }
}

/// Gives `failure` to `sink`. One that panics has refused it, and its panic is a failure on record.
pub(crate) fn attempt(sink: &dyn EscalationSink, failure: FailureInfo) -> Result<(), FailureInfo> {
    let kept = failure.clone();
    match catch::catch(|| sink.handle(failure)) {
        Ok(answer) => answer,
        Err(reason) => {
            if let Some(supervisor) = kept.supervisor() {
                supervisor.node().record(reason);
            }
            Err(kept)
        }
    }
}

/// The sink of the supervisor at `node`, `None` for the way to its own parent.
pub(crate) fn sink_of(node: &Node) -> Option<Arc<dyn EscalationSink>> {
    for node in node.upwards() {
        let (own, strategy) =
            node.known_supervision(|guardian| (guardian.sink.clone(), guardian.strategy.clone())).unwrap_or_default();
        let target = || {
            let asked = strategy.map(|strategy| catch::catch(|| strategy.escalation_target()));
            asked.and_then(|target| {
                target.unwrap_or_else(|reason| {
                    node.record(reason);
                    None
                })
            })
        };
        if let Some(sink) = own.or_else(target) {
            return Some(sink);
        }
    }
    node.tree().sink()
}

/// Failures that a sink refused, until they are tried again. One a tree.
pub(crate) struct Refused {
    waiting: Lock<Waiting>,
}

#[derive(Default)]
struct Waiting {
    queue: VecDeque<Undelivered>,
    /// A task is at it.
    tended: bool,
}

#[derive(Clone)]
struct Undelivered {
    sink: Arc<dyn EscalationSink>,
    failure: FailureInfo,
    attempts: u32,
}

impl Refused {
    pub(crate) fn new() -> Self {
        Self { waiting: Lock::new(Waiting::default()) }
    }
}

/// Gives `failure` to `sink`, now or, if it refuses, later.
pub(crate) fn deliver(supervisor: &Arc<dyn Member>, sink: Arc<dyn EscalationSink>, failure: FailureInfo) {
    let tree = supervisor.node().tree();
    let behind = tree.refused.waiting.with(|waiting| waiting.queue.iter().any(|other| Arc::ptr_eq(&other.sink, &sink)));
    let (failure, attempts) = if behind {
        (failure, 0)
    } else {
        match attempt(&*sink, failure) {
            Ok(()) => return,
            Err(failure) => (failure, 1),
        }
    };
    let mut undelivered = Some(Undelivered { sink, failure, attempts });
    let begin = tree.refused.waiting.with(|waiting| {
        if waiting.queue.len() < REFUSED_KEPT_MAX {
            waiting.queue.extend(undelivered.take());
        }
        !core::mem::replace(&mut waiting.tended, true)
    });
    undelivered.into_iter().for_each(|one| give_up(tree, one));
    if begin {
        tend(supervisor);
    }
}

/// Launches the task that tries again.
fn tend(supervisor: &Arc<dyn Member>) {
    // The guardian of the system ends last; in a tree without one it is the top.
    let top = supervisor.node().upwards().filter_map(Node::parent).last().unwrap_or(supervisor);
    let guardian = Name::new("system").ok().and_then(|name| top.node().child(&name));
    let tending = Tending { tree: Arc::clone(top.node().tree()), done: false };
    if let Err(refused) = task::launch(guardian.as_ref().unwrap_or(top), None, TaskKind::Pipe, tending.run()) {
        // Its drop flushes: whoever takes no task any more is about to end.
        drop(refused);
    }
}

struct Tending {
    tree: Arc<Tree>,
    done: bool,
}

impl Tending {
    async fn run(mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            let runtime = &self.tree.runtime;
            runtime.sleep_until(runtime.now() + pause).await;
            pause = pause.saturating_mul(2).min(PAUSE_MIN * 64);
            if !try_again(&self.tree) {
                self.done = true;
                return;
            }
        }
    }
}

impl Drop for Tending {
    fn drop(&mut self) {
        // One that came to its end has left nothing; what is there by now is another's.
        if !self.done {
            flush(&self.tree);
        }
    }
}

/// Tries each once, in order, but no sink that has refused in this round. False if nothing is left, and the task may end.
fn try_again(tree: &Tree) -> bool {
    // They stay in the queue meanwhile, so that whatever comes for the same sink waits behind them.
    let round = tree.refused.waiting.with(|waiting| waiting.queue.clone());
    let tried = round.len();
    let mut left: VecDeque<Undelivered> = VecDeque::new();
    for mut one in round {
        one.attempts += 1;
        let behind = left.iter().any(|other| Arc::ptr_eq(&other.sink, &one.sink));
        if behind && one.attempts < ATTEMPTS_MAX {
            // Its sink has refused in this round: that counts for all that wait for it.
            left.push_back(one);
            continue;
        }
        match attempt(&*one.sink, one.failure.clone()) {
            Ok(()) => {}
            Err(_) if one.attempts >= ATTEMPTS_MAX => give_up(tree, one),
            Err(failure) => left.push_back(Undelivered { failure, ..one }),
        }
    }
    let (settled, goes_on) = tree.refused.waiting.with(|waiting| {
        left.extend(waiting.queue.drain(tried..));
        let settled = core::mem::replace(&mut waiting.queue, left);
        waiting.tended = !waiting.queue.is_empty();
        (settled, waiting.tended)
    });
    drop(settled);
    goes_on
}

/// Everything that waits goes to the root.
fn flush(tree: &Tree) {
    let waiting = tree.refused.waiting.with(core::mem::take);
    waiting.queue.into_iter().for_each(|one| give_up(tree, one));
}

fn give_up(tree: &Tree, one: Undelivered) {
    let why = alloc::format!("refused {} times by its sink", one.attempts);
    tree.unhandled(one.failure.with_metadata("undeliverable", why));
}
