//! The tags of a stored run, as its driver knows them.
//!
//! A change is stored with the next commit: at the latest with the record that ends the visit in
//! which it was made. A commit without a change does not mention the tags.

use crate::log::RunLog;
use crate::store::{TagError, Tags};

/// The tags of a run, and whether the store has them.
#[derive(Default)]
pub(super) struct LogTags {
    pub(super) tags: Tags,
    is_changed: bool,
}

impl LogTags {
    pub(super) fn stored(tags: Tags) -> Self {
        Self { tags, is_changed: false }
    }

    /// Returns the tags for the next commit, if they have changed since the last one.
    pub(super) fn take_changed(&mut self) -> Option<Tags> {
        std::mem::take(&mut self.is_changed).then(|| self.tags.clone())
    }
}

impl RunLog {
    /// Returns the current tags of the run.
    pub(crate) fn tags(&self) -> Tags {
        self.lock().tags.tags.clone()
    }

    /// Changes the tags. `change` returns whether it changed them.
    pub(crate) fn change_tags(&self, change: impl FnOnce(&mut Tags) -> Result<bool, TagError>) -> Result<(), TagError> {
        let mut state = self.lock();
        let is_changed = change(&mut state.tags.tags)?;
        state.tags.is_changed |= is_changed;
        Ok(())
    }
}
