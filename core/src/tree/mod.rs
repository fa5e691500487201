//! The tree: nodes, members, cancellation, waits and supervision.
//!
//! [`Tree`] holds what all members of one tree share: the runtime, the ids and the events.
//!
//! | module | owns |
//! |---|---|
//! | `node` | one place in the tree: parent, children, exit, waiters |
//! | `member` | the trait of everything that has a node: actor, task, scope, group |
//! | `adopt`, `child` | adding a member below a parent; finding a child by name |
//! | `any_ref`, `wait_all` | public handles: a member without its type; waiting for children |
//! | `token`, `cancel_grace` | cancellation: tokens, and the time that a cancelled future may use |
//! | `current` | which member is being polled on this thread or core |
//! | `task` | a future that runs as a member |
//! | `reserve` | what is allocated when a system is sealed, and refusals |
//! | `facts`, `observed` | what members tell an observer; what observers have seen before |
//! | `walk` | visits a subtree in steps, and continues later |
//! | `waits` | the wait-for graph and its cycles |
//! | `supervision`, `lineage` | what happens after a failure; where a failure is in the tree |
//!
//! Lock rules:
//! 1. Each node and each token has one lock. No thread holds two of them at once.
//! 2. No user code (strategies, sinks, hooks, wakers, destructors) runs under a lock.
//!
//! Loops, not recursion, walk the tree in both directions, because a branch may be very deep.

pub(crate) mod adopt;
pub(crate) mod any_ref;
pub(crate) mod cancel_grace;
pub(crate) mod child;
pub(crate) mod current;
pub(crate) mod facts;
pub(crate) mod lineage;
pub(crate) mod member;
pub(crate) mod node;
pub(crate) mod observed;
pub(crate) mod reserve;
pub(crate) mod sample;
pub(crate) mod supervision;
pub(crate) mod task;
pub(crate) mod token;
pub(crate) mod wait_all;
pub(crate) mod waits;
pub(crate) mod walk;
pub(crate) mod watch;

use crate::base::catch;
#[cfg(feature = "std")]
use crate::base::handler_faults::HandlerFaults;
use crate::base::lock::Lock;
use crate::base::runtime::Runtime;
use crate::base::sync::{Arc, CoreAtomicUsize, Ordering};
use crate::events::event::LONG_HANDLER_DEFAULT;
use crate::events::give_ups::GiveUps;
use crate::events::health_report::HealthReports;
use crate::events::hub::Events;
use crate::events::instrument::Instrument;
use crate::events::limit::Seal;
use crate::ids::path::ActorId;
use crate::tree::member::Member;
use crate::tree::observed::{HealthLimits, Observed};
use crate::tree::supervision::retry::RetryQueue;
use crate::tree::supervision::sink::EscalationSink;
use crate::tree::supervision::strategy::SupervisorStrategy;
use crate::tree::supervision::unhandled::Unhandled;
use crate::tree::watch::HandlerWatch;
use alloc::vec::Vec;
use core::time::Duration;

/// The default time limit of the hooks `restarting` and `stopped`: 5 s. A system can set another
/// one.
pub const GRACE_DEFAULT: Duration = Duration::from_secs(5);

/// What all members of one tree share.
pub(crate) struct Tree {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) events: Arc<Events>,
    pub(crate) unhandled: Unhandled,
    pub(crate) retries: RetryQueue,
    pub(crate) give_ups: GiveUps,
    pub(crate) health_reports: Arc<HealthReports>,
    pub(crate) observed: Observed,
    pub(crate) health_limits: HealthLimits,
    pub(crate) grace: Duration,
    pub(crate) long_handler: Duration,
    /// The strategy of parents without their own; `None` means one-for-one.
    pub(crate) strategy: Option<Arc<dyn SupervisorStrategy>>,
    /// Whether the system is sealed, and what it has refused since.
    pub(crate) seal: Seal,
    /// Busy actors, while a listener wants to know of stuck handlers.
    pub(crate) watch: HandlerWatch,
    /// Code around the messages of instrumented actors.
    pub(crate) instrument: Option<Arc<dyn Instrument>>,
    /// Whether all actors are instrumented.
    pub(crate) instruments_all: bool,
    /// What decides which messages of actors fail, in a test.
    #[cfg(feature = "std")]
    pub(crate) faults: Option<Arc<dyn HandlerFaults>>,
    /// The sink of supervisors that neither have nor inherit one. Read only when a failure
    /// escalates, so a lock is cheap enough.
    sink: Lock<Option<Arc<dyn EscalationSink>>>,
    /// The number of this tree in the process.
    number: usize,
    last_id: Lock<u64>,
    drop_queue: Lock<DropQueue>,
}

/// Members that are being dropped. One thread drops them all in a loop.
#[derive(Default)]
struct DropQueue {
    members: Vec<Arc<dyn Member>>,
    /// A thread is draining the queue.
    is_draining: bool,
}

/// How many trees this process has created. The number keeps the ids of different trees apart.
static TREES: CoreAtomicUsize = CoreAtomicUsize::new(0);

/// The settings of a tree that a user can choose.
pub(crate) struct TreeSettings {
    pub(crate) grace: Duration,
    pub(crate) long_handler: Duration,
    pub(crate) strategy: Option<Arc<dyn SupervisorStrategy>>,
    pub(crate) sink: Option<Arc<dyn EscalationSink>>,
    pub(crate) health_limits: HealthLimits,
    pub(crate) instrument: Option<Arc<dyn Instrument>>,
    pub(crate) instruments_all: bool,
}

impl Default for TreeSettings {
    fn default() -> Self {
        Self {
            grace: GRACE_DEFAULT,
            long_handler: LONG_HANDLER_DEFAULT,
            strategy: None,
            sink: None,
            health_limits: HealthLimits::default(),
            instrument: None,
            instruments_all: false,
        }
    }
}

impl Tree {
    pub(crate) fn new(runtime: Arc<dyn Runtime>) -> Arc<Self> {
        Self::with_settings(runtime, TreeSettings::default())
    }

    pub(crate) fn with_settings(runtime: Arc<dyn Runtime>, settings: TreeSettings) -> Arc<Self> {
        catch::install();
        let TreeSettings { grace, long_handler, strategy, sink, health_limits, instrument, instruments_all } = settings;
        let (events, unhandled, retries) = (Arc::new(Events::new()), Unhandled::new(), RetryQueue::new());
        let (number, sink, last_id) = (TREES.fetch_add(1, Ordering::Relaxed), Lock::new(sink), Lock::new(0));
        let drop_queue = Lock::new(DropQueue::default());
        #[cfg(feature = "std")]
        let faults = runtime.handler_faults();
        Arc::new(Self {
            runtime,
            events,
            unhandled,
            retries,
            give_ups: GiveUps::new(),
            health_reports: Arc::new(HealthReports::new()),
            observed: Observed::new(),
            health_limits,
            grace,
            long_handler,
            strategy,
            seal: Seal::new(),
            watch: HandlerWatch::new(),
            instrument,
            instruments_all,
            #[cfg(feature = "std")]
            faults,
            sink,
            number,
            last_id,
            drop_queue,
        })
    }

    /// Drops `member`, and every member that is passed here meanwhile, in a loop.
    #[cold]
    pub(crate) fn drop_member(&self, member: Arc<dyn Member>) {
        let is_first = self.drop_queue.with(|drop_queue| {
            drop_queue.members.push(member);
            !core::mem::replace(&mut drop_queue.is_draining, true)
        });
        if is_first {
            // A member drops user values. If one panics, another thread must be able to continue
            // the loop.
            let drop_loop = DropLoop(self);
            while let Some(member) = drop_loop.next() {
                drop(member);
            }
            core::mem::forget(drop_loop);
        }
    }

    pub(crate) fn sink(&self) -> Option<Arc<dyn EscalationSink>> {
        self.sink.with(|sink| sink.clone())
    }

    pub(crate) fn set_sink(&self, sink: Arc<dyn EscalationSink>) {
        let replaced = self.sink.with(|known| known.replace(sink));
        drop(replaced);
    }

    /// Returns the id of the `number`th member of this tree.
    pub(crate) fn id(&self, number: u64) -> ActorId {
        ActorId::new(self.number, number)
    }

    /// Returns a new id, unique in the process.
    pub(crate) fn next_id(&self) -> ActorId {
        // A counter behind a lock, because 32-bit targets have no 64-bit atomics.
        self.last_id.with(|last| {
            *last += 1;
            self.id(*last)
        })
    }
}

/// The loop that drops the queued members. Dropped itself only on a panic: then the next thread
/// takes over.
struct DropLoop<'a>(&'a Tree);

impl DropLoop<'_> {
    fn next(&self) -> Option<Arc<dyn Member>> {
        self.0.drop_queue.with(|drop_queue| {
            let next = drop_queue.members.pop();
            drop_queue.is_draining = next.is_some();
            next
        })
    }
}

impl Drop for DropLoop<'_> {
    fn drop(&mut self) {
        self.0.drop_queue.with(|drop_queue| drop_queue.is_draining = false);
    }
}
