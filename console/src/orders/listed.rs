//! [`Listed`]: a run that a bulk action was planned for, and whether it is still that run.

use crate::action::FoundRun;
use crate::failure::Failure;
use crate::view::Filters;
use serde_json::Value;

/// A run as the list had it when the bulk action was planned.
pub(super) struct Listed {
    pub(super) id: String,
    created: Option<String>,
}

impl Listed {
    pub(super) fn of(row: &Value) -> Option<Self> {
        let text = |field: &str| row[field].as_str().map(str::to_string);
        Some(Self { id: text("id")?, created: text("created") })
    }

    pub(super) fn bytes(&self) -> usize {
        self.id.len() + self.created.as_ref().map_or(0, String::len)
    }

    /// Says why a run does not match the plan any more.
    pub(super) fn change(&self, found: &FoundRun, filters: &Filters) -> Option<Failure> {
        let FoundRun { status, created } = found;
        let text = if self.created.as_ref().is_some_and(|listed| listed != created) {
            format!("run {} was replaced since it was planned", self.id)
        } else if !filters.has_status(status) {
            format!("run {} is {status} now, and does not match the filters any more", self.id)
        } else {
            return None;
        };
        Some(Failure::new("changed", text).advice("look at the run, and plan the action again"))
    }
}
