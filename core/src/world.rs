//! `World`: what every member of one tree has in common: its runtime, its ids and its events.

use crate::events::Events;
use crate::lock::Lock;
use crate::{ActorId, Runtime, catch};
use alloc::sync::Arc;
use core::time::Duration;

/// How long a `stopped` hook may take after a cancel, unless the system says otherwise.
pub const GRACE_DEFAULT: Duration = Duration::from_secs(5);

pub(crate) struct World {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) events: Events,
    pub(crate) grace: Duration,
    last_id: Lock<u64>,
}

impl World {
    pub(crate) fn new(runtime: Arc<dyn Runtime>) -> Arc<Self> {
        Self::with_grace(runtime, GRACE_DEFAULT)
    }

    pub(crate) fn with_grace(runtime: Arc<dyn Runtime>, grace: Duration) -> Arc<Self> {
        catch::install();
        Arc::new(Self { runtime, events: Events::default(), grace, last_id: Lock::new(0) })
    }

    /// An id that nothing in this tree ever had.
    pub(crate) fn next_id(&self) -> ActorId {
        // A counter behind the lock, because 32-bit targets have no 64-bit atomics.
        self.last_id.with(|last| {
            *last += 1;
            ActorId(*last)
        })
    }
}
