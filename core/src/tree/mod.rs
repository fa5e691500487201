//! `Tree`: what every member of one tree has in common: its runtime, its ids and its events.

pub(crate) mod adopt;
pub(crate) mod any_ref;
pub(crate) mod cancel_grace;
pub(crate) mod child;
pub(crate) mod current;
pub(crate) mod lineage;
pub(crate) mod member;
pub(crate) mod node;
pub(crate) mod supervision;
pub(crate) mod task;
pub(crate) mod token;
pub(crate) mod wait_all;
pub(crate) mod waits;

use crate::base::catch;
use crate::base::lock::Lock;
use crate::base::runtime::Runtime;
use crate::events::event::LONG_HANDLER_DEFAULT;
use crate::events::hub::Events;
use crate::ids::path::ActorId;
use crate::tree::member::Member;
use crate::tree::supervision::escalate::{EscalationSink, Refused};
use crate::tree::supervision::strategy::SupervisorStrategy;
use crate::tree::supervision::unhandled::Unhandled;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;

/// How long a `stopped` hook may take after a cancel, unless the system says otherwise.
pub const GRACE_DEFAULT: Duration = Duration::from_secs(5);

pub(crate) struct Tree {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) events: Arc<Events>,
    pub(crate) unhandled: Unhandled,
    pub(crate) refused: Refused,
    pub(crate) grace: Duration,
    pub(crate) long_handler: Duration,
    /// For every parent that has none of its own; one-for-one where there is none here either.
    pub(crate) strategy: Option<Arc<dyn SupervisorStrategy>>,
    /// For every supervisor that neither has nor inherits one. Read when a failure escalates, so a lock costs nothing that counts.
    sink: Lock<Option<Arc<dyn EscalationSink>>>,
    /// Which tree of this process it is.
    number: usize,
    last_id: Lock<u64>,
    dropping: Lock<Dropping>,
}

/// Members whose last owner has gone, until one thread has dropped them all.
#[derive(Default)]
struct Dropping {
    members: Vec<Arc<dyn Member>>,
    driven: bool,
}

/// How many trees there were in this process. It tells their ids apart, and nothing else is known of them here.
static TREES: AtomicUsize = AtomicUsize::new(0);

/// What a tree has that can be chosen.
pub(crate) struct TreeSettings {
    pub(crate) grace: Duration,
    pub(crate) long_handler: Duration,
    pub(crate) strategy: Option<Arc<dyn SupervisorStrategy>>,
    pub(crate) sink: Option<Arc<dyn EscalationSink>>,
}

impl Default for TreeSettings {
    fn default() -> Self {
        Self { grace: GRACE_DEFAULT, long_handler: LONG_HANDLER_DEFAULT, strategy: None, sink: None }
    }
}

impl Tree {
    pub(crate) fn new(runtime: Arc<dyn Runtime>) -> Arc<Self> {
        Self::with(runtime, TreeSettings::default())
    }

    pub(crate) fn with(runtime: Arc<dyn Runtime>, settings: TreeSettings) -> Arc<Self> {
        catch::install();
        let TreeSettings { grace, long_handler, strategy, sink } = settings;
        let (events, unhandled, refused) = (Arc::new(Events::new()), Unhandled::new(), Refused::new());
        let (number, sink, last_id) = (TREES.fetch_add(1, Ordering::Relaxed), Lock::new(sink), Lock::new(0));
        let dropping = Lock::new(Dropping::default());
        Arc::new(Self { runtime, events, unhandled, refused, grace, long_handler, strategy, sink, number, last_id, dropping })
    }

    /// Drops `member`, and everything that is given here while it is dropped, in a loop.
    #[cold]
    pub(crate) fn drop_in_turn(&self, member: Arc<dyn Member>) {
        let drives = self.dropping.with(|dropping| {
            dropping.members.push(member);
            !core::mem::replace(&mut dropping.driven, true)
        });
        if drives {
            // What a member drops is partly a user's: a panic in it must not leave the list without a driver.
            let driver = Driver(self);
            while let Some(member) = driver.next() {
                drop(member);
            }
            core::mem::forget(driver);
        }
    }

    pub(crate) fn sink(&self) -> Option<Arc<dyn EscalationSink>> {
        self.sink.with(|sink| sink.clone())
    }

    pub(crate) fn set_sink(&self, sink: Arc<dyn EscalationSink>) {
        let replaced = self.sink.with(|known| known.replace(sink));
        drop(replaced);
    }

    /// The id of the `number`th member of this tree.
    pub(crate) fn id(&self, number: u64) -> ActorId {
        ActorId::new(self.number, number)
    }

    /// An id that nothing in this process ever had.
    pub(crate) fn next_id(&self) -> ActorId {
        // A counter behind the lock, because 32-bit targets have no 64-bit atomics.
        self.last_id.with(|last| {
            *last += 1;
            self.id(*last)
        })
    }
}

/// The one thread that drops the members of the list. Dropped only by a panic: then the next thread takes the list over.
struct Driver<'a>(&'a Tree);

impl Driver<'_> {
    fn next(&self) -> Option<Arc<dyn Member>> {
        self.0.dropping.with(|dropping| {
            let next = dropping.members.pop();
            dropping.driven = next.is_some();
            next
        })
    }
}

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        self.0.dropping.with(|dropping| dropping.driven = false);
    }
}
