//! [`Lineage`]: where a failure is in the tree, and which supervisor handles it.
//!
//! A [`FailureInfo`] carries it as an opaque value, so that `events` needs nothing of the tree.

use crate::base::sync::{Arc, Weak, unsize};
use crate::events::failure::FailureInfo;
use crate::ids::path::ActorPath;
use crate::tree::member::Member;
use core::any::Any;

#[derive(Clone, Default)]
struct Lineage {
    /// The parent of the failed member, or of the supervisor that handles the failure.
    parent: Option<Weak<dyn Member>>,
    /// The supervisor that handles the failure, once it was escalated.
    supervisor: Option<Weak<dyn Member>>,
    /// No supervisor from here up has a sink. Known only while the failure is being escalated.
    has_no_sink: bool,
}

impl FailureInfo {
    fn position(&self) -> Option<&Lineage> {
        self.lineage()?.downcast_ref()
    }

    /// Records that a child of `parent` failed.
    pub(crate) fn below(mut self, parent: Option<&Arc<dyn Member>>) -> Self {
        self.set_lineage(
            unsize!(Arc::new(Lineage { parent: parent.map(Arc::downgrade), ..Lineage::default() }) => dyn Any + Send + Sync),
        );
        self
    }

    /// Returns the failure as the parent sees it: id and path of the parent, one hop further, same
    /// origin. Returns `None` for a failure of the root, and once the parent has ended.
    ///
    /// A supervisor does this to a failure before it escalates it. The original stays unchanged,
    /// and nothing is reported.
    #[must_use]
    pub fn escalate_to_parent(&self) -> Option<Self> {
        Some(self.escalated_to(&self.position()?.parent.as_ref()?.upgrade()?))
    }

    /// Returns the failure as `parent` sees it, which handles it from now on.
    #[must_use]
    pub(crate) fn escalated_to(&self, parent: &Arc<dyn Member>) -> Self {
        let path = self.path_one_up(parent).unwrap_or_else(|| parent.node().path());
        let lineage = Lineage {
            parent: parent.node().parent().map(Arc::downgrade),
            supervisor: Some(Arc::downgrade(parent)),
            has_no_sink: self.has_no_sink(),
        };
        self.as_seen_by(parent.node().id(), path, unsize!(Arc::new(lineage) => dyn Any + Send + Sync))
    }

    /// Returns the path of `parent`, if it is the parent of the supervisor that handles the
    /// failure. Building the path from the nodes at every level would make a deep escalation cost
    /// the square of its depth.
    fn path_one_up(&self, parent: &Arc<dyn Member>) -> Option<ActorPath> {
        let supervisor = self.supervisor()?;
        let is_parent = supervisor.node().parent().is_some_and(|above| core::ptr::eq(above.node(), parent.node()));
        // A root is not a segment of any path.
        if is_parent && !supervisor.node().name.is_root() { self.path().parent() } else { None }
    }

    /// Returns the supervisor that handles the failure, if it was escalated and the supervisor
    /// still exists.
    pub(crate) fn supervisor(&self) -> Option<Arc<dyn Member>> {
        self.position()?.supervisor.as_ref()?.upgrade()
    }

    /// Returns whether it is known that no supervisor from here up has a sink.
    pub(crate) fn has_no_sink(&self) -> bool {
        self.position().is_some_and(|lineage| lineage.has_no_sink)
    }

    /// Records whether a sink exists further up. Valid for one escalation only: sinks can be set at
    /// run time.
    pub(crate) fn set_has_no_sink(&mut self, has_no_sink: bool) {
        if self.has_no_sink() != has_no_sink {
            let lineage = self.position().cloned().unwrap_or_default();
            self.set_lineage(unsize!(Arc::new(Lineage { has_no_sink, ..lineage }) => dyn Any + Send + Sync));
        }
    }
}
