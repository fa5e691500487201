//! `World`: what every member of one tree has in common: its runtime, its ids and its events.

use crate::hub::Events;
use crate::lock::Lock;
use crate::unhandled::Unhandled;
use crate::{ActorId, LONG_HANDLER_DEFAULT, Runtime, catch};
use alloc::sync::Arc;
use core::time::Duration;

/// How long a `stopped` hook may take after a cancel, unless the system says otherwise.
pub const GRACE_DEFAULT: Duration = Duration::from_secs(5);

pub(crate) struct World {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) events: Events,
    pub(crate) unhandled: Unhandled,
    pub(crate) grace: Duration,
    pub(crate) long_handler: Duration,
    last_id: Lock<u64>,
}

impl World {
    pub(crate) fn new(runtime: Arc<dyn Runtime>) -> Arc<Self> {
        Self::with(runtime, GRACE_DEFAULT, LONG_HANDLER_DEFAULT)
    }

    pub(crate) fn with(runtime: Arc<dyn Runtime>, grace: Duration, long_handler: Duration) -> Arc<Self> {
        catch::install();
        let (events, unhandled) = (Events::new(), Unhandled::new());
        Arc::new(Self { runtime, events, unhandled, grace, long_handler, last_id: Lock::new(0) })
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
