//! What a node of a sealed system has allocated: its path, records of failures, and the restart
//! history of its children.

use crate::base::reason::Reason;
use crate::base::sync::Arc;
use crate::events::event::{Event, EventKinds, Lint};
use crate::events::failure::FailureInfo;
use crate::events::limit::{Limit, LimitReached};
use crate::ids::path::ActorPath;
use crate::supervise::decide::{RESTART_LIMIT_MAX, RestartLimitScope, RestartRules};
use crate::tree::member::Member;
use crate::tree::node::Node;
use alloc::vec::Vec;

/// The records of failures that a member of a sealed system uses in turns: the one that observers
/// see, and the next.
const FAILURE_RECORDS: usize = 2;

impl Node {
    /// Reserves what restarts of `children`, and failures of this member, need.
    pub(crate) fn reserve(&self, rules: &RestartRules, children: &[Arc<dyn Member>]) {
        let path = self.path();
        let record = || FailureInfo::new(self.id(), path.clone(), 0, Reason::none(), self.runtime().now()).below(self.parent());
        let mut unused: Vec<_> = core::iter::repeat_with(record).take(FAILURE_RECORDS).collect();
        let restarts = if rules.restarts_max > RESTART_LIMIT_MAX { 0 } else { rules.restarts_max as usize };
        self.state.with(|state| {
            let rare = state.rare_details();
            core::mem::swap(&mut rare.unused_failures, &mut unused);
            rare.reserved_path = Some(path.clone());
            if children.is_empty() {
                return;
            }
            let supervision = &mut state.child_table().supervision;
            supervision.reserve_streaks(children.len());
            match rules.limit_scope {
                RestartLimitScope::Shared => supervision.reserve_recent(None, restarts),
                RestartLimitScope::PerChild => {
                    children.iter().for_each(|child| supervision.reserve_recent(Some(child.node().id()), restarts));
                }
            }
        });
        drop(unused);
    }

    /// Takes a record for the next failure, in a sealed system.
    pub(super) fn take_unused_failure(&self) -> Option<FailureInfo> {
        self.state.with(|state| state.existing_rare_mut().and_then(|rare| rare.unused_failures.pop()))
    }

    /// Returns the path that was stored when the system was sealed.
    fn reserved_path(&self) -> Option<ActorPath> {
        self.state.with(|state| state.existing_rare().and_then(|rare| rare.reserved_path.clone()))
    }

    /// Returns what a refusal says.
    pub(crate) fn limit_reached(&self, limit: Limit, reserved: usize) -> LimitReached {
        LimitReached { member: self.reserved_path().unwrap_or_else(|| self.path()), limit, reserved }
    }

    /// Counts and reports that this member of a sealed system was refused something.
    #[cold]
    pub(crate) fn refuse(&self, limit: Limit, reserved: usize) -> LimitReached {
        let reached = self.limit_reached(limit, reserved);
        self.report_refusal(&reached);
        reached
    }

    /// The same with what the refusal says.
    pub(crate) fn report_refusal(&self, reached: &LimitReached) {
        if self.tree().seal.note(reached, self.runtime().now()) {
            self.events().emit(EventKinds::LIMITS, || Event::Lint(Lint::LimitReached(reached.clone())));
        }
    }
}
