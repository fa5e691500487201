//! `Node` and `Member`: a place in the tree, and whatever stands on it: a task, an actor, a scope, a supervisor.
//!
//! Owned here, behind one lock a node: the children, the way they are wound down, the exit, and everybody who waits for either.
//!
//! ```text
//!          adopt                       leave: exit set, on_done run       leave: out of the parent, waiters woken
//!  (none) ──────► Open ──► Closing ───────────────────────────► Exited ─────────────────────────────► Gone
//!                  ▲ reopen  │ refuse_children: adopts nothing
//!                  └─────────┘
//! ```
//!
//! Invariants:
//! 1. A member is in its parent's table from `adopt` to `leave`, once; its slot there does not change.
//! 2. The exit is set once. Every `on_done` runs once, outside the lock, before the parent lets go of the member.
//! 3. The parent's waiters see "no children" only after every `on_done` of every child has run.
//! 4. A child holds its parent, a parent holds a child only while it is in the table: no cycle survives an exit.
//! 5. A node's lock is never held together with another, and no user code runs under it.

use crate::ask::Unanswered;
use crate::guardian::Guardian;
use crate::lock::Lock;
use crate::sync::{AtomicUsize, Ordering};
use crate::wakers::{Wakers, wake_all};
use crate::world::World;
use crate::{
    ActorId, ActorPath, CancelToken, Cause, Counts, Event, Exit, FailureInfo, Instant, Name, Reason, Signal, Terminated, catch,
};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::any::Any;
use core::hash::BuildHasher;
use core::task::{Poll, Waker};
use hashbrown::{DefaultHashBuilder, HashTable};
use slab::Slab;

/// Something that stands in the tree.
pub(crate) trait Member: Any + Send + Sync {
    fn node(&self) -> &Node;

    /// End in an orderly way: an actor after the message in hand (stop) or after all it has (close).
    fn wind_down(self: Arc<Self>, how: WindDown);

    /// A cause has been recorded on the node; end at the next await.
    fn cut_off(self: Arc<Self>);

    /// The last child is gone while the node refuses new ones. A member with no task of its own answers with its exit.
    fn childless(&self) -> Option<Exit>;

    /// A failure that a child's supervision did not settle, as this member sees it.
    fn child_failed(self: Arc<Self>, failure: FailureInfo);

    /// Whether this member listens to signals.
    fn hears(&self) -> bool {
        false
    }

    /// Something happened around this member: a child failed, something it watches ended. Only actors listen.
    fn hear(&self, _signal: Signal) {}

    /// What became of the messages of this member; zero for what has none.
    fn counts(&self) -> Counts {
        Counts::default()
    }

    /// Whether it is inside a poll at this moment.
    fn in_poll(&self) -> bool {
        false
    }

    /// A reply was dropped unanswered inside a poll of this member: hold it until the outcome is known, if there will be one.
    fn hold_unanswered(&self, unanswered: Arc<dyn Unanswered>) -> Result<(), Arc<dyn Unanswered>> {
        Err(unanswered)
    }

    /// Whose reply this member awaits in its own task.
    fn asking(&self) -> Option<Arc<dyn Member>> {
        None
    }

    fn set_asking(&self, _target: Option<Arc<dyn Member>>) {}
}

/// The two orderly ways to end; the third way, cancel, is [`cancel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WindDown {
    Stop,
    Close,
}

impl WindDown {
    pub(crate) fn exit(self) -> Exit {
        match self {
            Self::Stop => Exit::Stopped,
            Self::Close => Exit::Closed,
        }
    }
}

pub(crate) struct Node {
    pub(crate) world: Arc<World>,
    pub(crate) id: ActorId,
    pub(crate) name: Name,
    pub(crate) parent: Option<Arc<dyn Member>>,
    slot: AtomicUsize,
    life: Lock<Life>,
}

struct Life {
    phase: Phase,
    exit: Option<Exit>,
    cancel: Option<Box<Cancel>>,
    kin: Option<Box<Kin>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    Closing,
    Exited,
    Gone,
}

struct Cancel {
    cause: Cause,
    at: Instant,
}

/// What most nodes never need: an idle actor has none of it.
#[derive(Default)]
struct Kin {
    children: Slab<Arc<dyn Member>>,
    names: HashTable<usize>,
    hasher: DefaultHashBuilder,
    winding: Option<Winding>,
    wound_down: Option<WindDown>,
    guardian: Guardian,
    first_failure: Option<FailureInfo>,
    ended: Counts,
    on_done: Vec<OnDone>,
    watchers: Vec<Arc<dyn Member>>,
    exit_waiters: Wakers,
    child_waiters: Wakers,
    token: Option<CancelToken>,
    above: Option<(CancelToken, usize)>,
}

pub(crate) type OnDone = Box<dyn FnOnce(&Exit) + Send>;

/// Children ending one after the other, the youngest first.
struct Winding {
    how: WindDown,
    waiting_for: Option<ActorId>,
    oldest_first: Vec<Arc<dyn Member>>,
}

/// Why a parent took no child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    ShuttingDown,
    NameTaken,
}

/// Something that had not ended when a bounded wait ran out.
#[derive(Clone, Debug)]
pub struct Running {
    /// Where it stands in the tree.
    pub path: ActorPath,
    /// How long ago it was cancelled, `None` if it was not.
    pub cancelled_for: Option<core::time::Duration>,
    /// Whether it is inside one poll at this moment: it computes or blocks and does not reach an await.
    pub in_poll: bool,
}

impl Life {
    fn kin(&mut self) -> &mut Kin {
        self.kin.get_or_insert_default()
    }
}

impl Node {
    pub(crate) fn new(world: Arc<World>, id: ActorId, name: Name, parent: Option<Arc<dyn Member>>) -> Self {
        let life = Life { phase: Phase::Open, exit: None, cancel: None, kin: None };
        Self { world, id, name, parent, slot: AtomicUsize::new(0), life: Lock::new(life) }
    }

    pub(crate) fn path(&self) -> ActorPath {
        let mut steps = Vec::new();
        self.collect_steps(&mut steps);
        steps.reverse();
        ActorPath::from_steps(steps.into())
    }

    fn collect_steps(&self, steps: &mut Vec<Name>) {
        let mut node = self;
        // The root has an empty name and no step in any path.
        while node.name.given() != Some("") {
            steps.push(node.name.clone());
            match &node.parent {
                Some(parent) => node = parent.node(),
                None => return,
            }
        }
    }

    pub(crate) fn failure(&self, incarnation: u32, reason: Reason) -> FailureInfo {
        FailureInfo::new(self.id, self.path(), incarnation, reason, self.world.runtime.now())
    }

    /// Takes a child in, unless this node is ending or the name is taken.
    pub(crate) fn adopt(&self, child: Arc<dyn Member>) -> Result<(), Refused> {
        self.life.with(|life| {
            if life.phase != Phase::Open || life.cancel.is_some() {
                return Err(Refused::ShuttingDown);
            }
            let kin = life.kin();
            let slot = kin.children.vacant_key();
            if let Some(name) = child.node().name.given() {
                kin.claim_name(name, slot)?;
            }
            child.node().slot.store(slot, Ordering::Relaxed);
            kin.children.insert(child);
            Ok(())
        })
    }

    /// A live child by name, or by the id in a made name.
    pub(crate) fn child(&self, name: &Name) -> Option<Arc<dyn Member>> {
        self.life.with(|life| {
            let kin = life.kin.as_ref()?;
            match name.given() {
                Some(name) => kin.find(name).map(|slot| Arc::clone(&kin.children[slot])),
                None => kin.children.iter().map(|(_, child)| child).find(|child| child.node().name == *name).cloned(),
            }
        })
    }

    /// The live children in start order.
    pub(crate) fn children(&self) -> Vec<Arc<dyn Member>> {
        let mut children = self.life.with(|life| life.kin.as_ref().map(|kin| kin.snapshot()).unwrap_or_default());
        children.sort_unstable_by_key(|child| child.node().id);
        children
    }

    pub(crate) fn has_children(&self) -> bool {
        self.life.with(|life| life.kin.as_ref().is_some_and(|kin| !kin.children.is_empty()))
    }

    /// Takes no more children from now on. False if it already took none.
    pub(crate) fn refuse_children(&self) -> bool {
        self.life.with(|life| {
            let was_open = life.phase == Phase::Open;
            if was_open {
                life.phase = Phase::Closing;
            }
            was_open
        })
    }

    /// Takes children again, for the next incarnation. False if it was cancelled meanwhile.
    pub(crate) fn reopen(&self) -> bool {
        self.life.with(|life| {
            if life.phase == Phase::Closing && life.cancel.is_none() {
                life.phase = Phase::Open;
            }
            life.phase == Phase::Open
        })
    }

    /// Takes no more children, because it ends this way.
    pub(crate) fn note_wind_down(&self, how: WindDown) {
        self.life.with(|life| {
            if life.phase == Phase::Open {
                life.phase = Phase::Closing;
            }
            life.kin().wound_down = Some(how);
        });
    }

    pub(crate) fn noted_wind_down(&self) -> Option<WindDown> {
        self.life.with(|life| life.kin.as_ref().and_then(|kin| kin.wound_down))
    }

    /// Ends the children one after the other, the youngest first. The node must refuse new ones by now.
    pub(crate) fn wind_down_children(&self, how: WindDown) {
        let children = self.children();
        let first = self.life.with(|life| {
            if children.is_empty() {
                return None;
            }
            let kin = life.kin();
            kin.winding = Some(Winding { how, waiting_for: None, oldest_first: children });
            kin.next_to_wind_down()
        });
        if let Some((child, how)) = first {
            child.wind_down(how);
        }
    }

    /// Records the cause. False if there is one already or the member has ended.
    fn record_cancel(&self, cause: &Cause) -> bool {
        let at = self.world.runtime.now();
        let (recorded, token) = self.life.with(|life| {
            if life.cancel.is_some() || matches!(life.phase, Phase::Exited | Phase::Gone) {
                return (false, None);
            }
            life.cancel = Some(Box::new(Cancel { cause: cause.clone(), at }));
            (true, life.kin.as_ref().and_then(|kin| kin.token.clone()))
        });
        if let Some(token) = token {
            token.cancel(cause.clone());
        }
        recorded
    }

    pub(crate) fn cause(&self) -> Option<Cause> {
        self.life.with(|life| life.cancel.as_ref().map(|cancel| cancel.cause.clone()))
    }

    /// The token that is cancelled with this node; made when first asked for.
    pub(crate) fn token(&self) -> CancelToken {
        let known = self.life.with(|life| life.kin.as_ref().and_then(|kin| kin.token.clone()));
        if let Some(token) = known {
            return token;
        }
        let made = CancelToken::at_top(Arc::clone(&self.world));
        let (token, cause) = self.life.with(|life| {
            let token = life.kin().token.get_or_insert(made).clone();
            (token, life.cancel.as_ref().map(|cancel| cancel.cause.clone()))
        });
        if let Some(cause) = cause {
            token.cancel(cause);
        }
        token
    }

    /// Remembers the token this node hangs below, to leave it on exit.
    pub(crate) fn hang_below(&self, token: CancelToken, place: usize) {
        self.life.with(|life| life.kin().above = Some((token, place)));
    }

    pub(crate) fn exit(&self) -> Option<Exit> {
        self.life.with(|life| life.exit.clone())
    }

    pub(crate) fn first_failure(&self) -> Option<FailureInfo> {
        self.life.with(|life| life.kin.as_ref().and_then(|kin| kin.first_failure.clone()))
    }

    pub(crate) fn take_failure(&self) -> Option<FailureInfo> {
        self.life.with(|life| life.kin.as_mut().and_then(|kin| kin.first_failure.take()))
    }

    pub(crate) fn record_failure(&self, failure: &FailureInfo) {
        self.life.with(|life| {
            life.kin().first_failure.get_or_insert_with(|| failure.clone());
        });
    }

    /// Runs `f` on the supervision state of this node, under the lock: `f` is ours and short.
    pub(crate) fn with_guardian<R>(&self, f: impl FnOnce(&mut Guardian) -> R) -> R {
        self.life.with(|life| f(&mut life.kin().guardian))
    }

    /// Runs `f` with the exit, once: when it comes, or here and now if it came.
    pub(crate) fn on_done(&self, f: OnDone) {
        let late = self.life.with(|life| match &life.exit {
            Some(exit) => Some((exit.clone(), f)),
            None => {
                life.kin().on_done.push(f);
                None
            }
        });
        if let Some((exit, f)) = late {
            self.run_on_done(f, &exit);
        }
    }

    /// Tells `watcher` when this node ends; at once if it has.
    pub(crate) fn watch(&self, watcher: &Arc<dyn Member>) {
        let ended = self.life.with(|life| match &life.exit {
            Some(exit) => Some(exit.clone()),
            None => {
                let watchers = &mut life.kin().watchers;
                if !watchers.iter().any(|known| known.node().id == watcher.node().id) {
                    watchers.push(Arc::clone(watcher));
                }
                None
            }
        });
        if let Some(exit) = ended {
            watcher.hear(Signal::Terminated(self.terminated(exit)));
        }
    }

    pub(crate) fn unwatch(&self, watcher: ActorId) {
        let removed: Vec<_> = self.life.with(|life| match &mut life.kin {
            Some(kin) => kin.watchers.extract_if(.., |known| known.node().id == watcher).collect(),
            None => Vec::new(),
        });
        drop(removed);
    }

    pub(crate) fn watchers(&self) -> Vec<Arc<dyn Member>> {
        self.life.with(|life| life.kin.as_ref().map(|kin| kin.watchers.clone()).unwrap_or_default())
    }

    fn terminated(&self, exit: Exit) -> Terminated {
        Terminated { id: self.id, path: self.path(), exit }
    }

    fn run_on_done(&self, f: OnDone, exit: &Exit) {
        if let Err(reason) = catch::catch(|| f(exit)) {
            let failure = self.failure(0, reason);
            self.world.events.failure(&failure);
        }
    }

    /// Ready with the exit once every `on_done` has run and the parent has let go.
    pub(crate) fn poll_exit(&self, key: &mut Option<u64>, waker: &Waker) -> Poll<Exit> {
        let (polled, replaced) = self.life.with(|life| match (&life.exit, life.phase) {
            (Some(exit), Phase::Gone) => (Poll::Ready(exit.clone()), None),
            _ => (Poll::Pending, life.kin().exit_waiters.register(key, waker)),
        });
        drop(replaced);
        polled
    }

    pub(crate) fn forget_exit_waiter(&self, key: &mut Option<u64>) {
        let waker = self.life.with(|life| life.kin.as_mut().and_then(|kin| kin.exit_waiters.remove(key)));
        drop(waker);
    }

    /// Ready once there are no children.
    pub(crate) fn poll_childless(&self, key: &mut Option<u64>, waker: &Waker) -> Poll<()> {
        let (polled, replaced) = self.life.with(|life| match &mut life.kin {
            Some(kin) if !kin.children.is_empty() => (Poll::Pending, kin.child_waiters.register(key, waker)),
            _ => (Poll::Ready(()), None),
        });
        drop(replaced);
        polled
    }

    pub(crate) fn forget_child_waiter(&self, key: &mut Option<u64>) {
        let waker = self.life.with(|life| life.kin.as_mut().and_then(|kin| kin.child_waiters.remove(key)));
        drop(waker);
    }

    /// Everything below this node that has not ended, in start order.
    pub(crate) fn running(&self) -> Vec<Running> {
        let now = self.world.runtime.now();
        let mut found = Vec::new();
        let mut below = self.children();
        below.reverse();
        while let Some(member) = below.pop() {
            let node = member.node();
            let cancelled_for = node.life.with(|life| life.cancel.as_ref().map(|cancel| now.since(cancel.at)));
            found.push(Running { path: node.path(), cancelled_for, in_poll: member.in_poll() });
            let mut children = node.children();
            children.reverse();
            below.append(&mut children);
        }
        found
    }

    /// What became of every message of everything below this node, ended or not.
    pub(crate) fn counts_below(&self) -> Counts {
        let mut total = Counts::default();
        let mut nodes = vec![];
        total += self.ended_and_children(&mut nodes);
        while let Some(member) = nodes.pop() {
            total += member.counts();
            total += member.node().ended_and_children(&mut nodes);
        }
        total
    }

    fn ended_and_children(&self, children: &mut Vec<Arc<dyn Member>>) -> Counts {
        self.life.with(|life| match &life.kin {
            Some(kin) => {
                children.extend(kin.children.iter().map(|(_, child)| Arc::clone(child)));
                kin.ended
            }
            None => Counts::default(),
        })
    }

    /// Whether `ancestor` is this node or lies above it.
    pub(crate) fn is_within(&self, ancestor: &Node) -> bool {
        let mut node = self;
        loop {
            if core::ptr::eq(node, ancestor) {
                return true;
            }
            match &node.parent {
                Some(parent) => node = parent.node(),
                None => return false,
            }
        }
    }
}

impl Kin {
    /// Everybody to be told of the exit, once.
    #[allow(clippy::type_complexity, reason = "three lists, named where they are taken apart")]
    fn take_listeners(&mut self) -> (Vec<OnDone>, Vec<Arc<dyn Member>>, Option<(CancelToken, usize)>) {
        (core::mem::take(&mut self.on_done), core::mem::take(&mut self.watchers), self.above.take())
    }

    fn snapshot(&self) -> Vec<Arc<dyn Member>> {
        self.children.iter().map(|(_, child)| Arc::clone(child)).collect()
    }

    fn find(&self, name: &str) -> Option<usize> {
        let hash = self.hasher.hash_one(name);
        self.names.find(hash, |slot| self.children[*slot].node().name.given() == Some(name)).copied()
    }

    fn claim_name(&mut self, name: &str, slot: usize) -> Result<(), Refused> {
        if self.find(name).is_some() {
            return Err(Refused::NameTaken);
        }
        let Self { names, children, hasher, .. } = self;
        let rehash = |slot: &usize| hasher.hash_one(children[*slot].node().name.given().unwrap_or_default());
        names.insert_unique(hasher.hash_one(name), slot, rehash);
        Ok(())
    }

    fn let_go(&mut self, node: &Node, slot: usize) -> Option<Arc<dyn Member>> {
        if let Some(name) = node.name.given() {
            let hash = self.hasher.hash_one(name);
            if let Ok(entry) = self.names.find_entry(hash, |at| *at == slot) {
                entry.remove();
            }
        }
        let child = self.children.try_remove(slot);
        if self.children.is_empty() {
            // A supervisor that once had a million children does not keep their table.
            self.children = Slab::new();
            self.names = HashTable::new();
        }
        child
    }

    /// The next child to end, once the one before it has gone.
    fn next_to_wind_down(&mut self) -> Option<(Arc<dyn Member>, WindDown)> {
        let Self { children, winding, .. } = self;
        let plan = winding.as_mut()?;
        while let Some(child) = plan.oldest_first.pop() {
            let node = child.node();
            let slot = node.slot.load(Ordering::Relaxed);
            if children.get(slot).is_some_and(|there| there.node().id == node.id) {
                plan.waiting_for = Some(node.id);
                return Some((child, plan.how));
            }
        }
        *winding = None;
        None
    }
}

/// Cancels `member` and everything below it with `cause`; where there is a cause already, that one stays.
pub(crate) fn cancel(member: &Arc<dyn Member>, cause: &Cause) {
    let mut members = vec![Arc::clone(member)];
    while let Some(member) = members.pop() {
        if member.node().record_cancel(cause) {
            let children = member.node().children();
            Arc::clone(&member).cut_off();
            members.extend(children);
        }
    }
}

/// Ends a member: sets its exit, runs every `on_done`, takes it out of the tree, and tells whoever waited. Members above it that
/// have no task of their own and waited only for this one end with it.
pub(crate) fn leave(member: Arc<dyn Member>, exit: Exit) {
    let mut next = Some((member, exit));
    while let Some((member, exit)) = next {
        next = leave_one(&member, exit);
    }
}

fn leave_one(member: &Arc<dyn Member>, exit: Exit) -> Option<(Arc<dyn Member>, Exit)> {
    let node = member.node();
    let (on_done, watchers, above) = node.life.with(|life| {
        if life.exit.is_some() {
            return None;
        }
        life.phase = Phase::Exited;
        life.exit = Some(exit.clone());
        Some(life.kin.as_mut().map(|kin| kin.take_listeners()).unwrap_or_default())
    })?;
    if let Some((token, place)) = above {
        token.forget(place);
    }
    on_done.into_iter().for_each(|f| node.run_on_done(f, &exit));
    if let Some(parent) = node.parent.as_ref().filter(|parent| parent.hears()) {
        parent.hear(Signal::Terminated(node.terminated(exit.clone())));
    }
    for watcher in watchers {
        watcher.hear(Signal::Terminated(node.terminated(exit.clone())));
    }
    node.world.events.emit(|| Event::Ended { path: node.path(), exit: exit.clone() });
    let parent_exit = node.parent.as_ref().and_then(|parent| let_go(parent, member));
    let waiters = node.life.with(|life| {
        life.phase = Phase::Gone;
        life.kin.as_mut().map(|kin| kin.exit_waiters.take())
    });
    waiters.into_iter().for_each(wake_all);
    parent_exit.and_then(|exit| node.parent.clone().map(|parent| (parent, exit)))
}

/// Takes `child` out of `parent`'s table; the exit of `parent` if that was all it waited for and it has no task to notice.
fn let_go(parent: &Arc<dyn Member>, child: &Arc<dyn Member>) -> Option<Exit> {
    let node = child.node();
    let slot = node.slot.load(Ordering::Relaxed);
    let mut counts = child.counts();
    counts += node.life.with(|life| life.kin.as_ref().map(|kin| kin.ended).unwrap_or_default());
    let (released, next, waiters, childless) = parent.node().life.with(|life| {
        let closing = life.phase == Phase::Closing || life.cancel.is_some();
        let kin = life.kin();
        kin.ended += counts;
        let released = kin.let_go(node, slot);
        let in_turn = kin.winding.as_ref().is_some_and(|winding| winding.waiting_for == Some(node.id));
        let next = if in_turn { kin.next_to_wind_down() } else { None };
        let childless = kin.children.is_empty();
        let waiters = childless.then(|| kin.child_waiters.take());
        (released, next, waiters, childless && closing)
    });
    drop(released);
    waiters.into_iter().for_each(wake_all);
    if let Some((next, how)) = next {
        next.wind_down(how);
    }
    if childless { parent.childless() } else { None }
}
