//! [`LaneWaits`] of a lane: what a parked lane waits for.

use crate::engine::lane::{Lane, Phase};
use crate::log::visit::OpenWait;
use crate::log::visit::waits_inside::LaneWaits;
use std::sync::Arc;

impl LaneWaits {
    /// Returns the waits of a parked lane. `None` if it waits for its branches or is paused.
    pub(super) fn of<S: Send + 'static>(lane: &Lane<S>) -> Option<Self> {
        let records = lane.visit.as_ref()?.records.lock();
        match (&lane.phase, records.waits_inside()) {
            (Phase::Waiting(_), _) => {
                let due = records.failed.and_then(|(_, due)| due);
                Some(Self::Own(vec![OpenWait { key: String::new(), due, question: None, message: None }]))
            }
            (Phase::Running(_), Some(inside)) => Some(Self::Inside(Arc::clone(inside), inside.changes())),
            (Phase::Running(_), None) => Some(Self::Own(records.open.clone())),
            _ => None,
        }
    }
}
