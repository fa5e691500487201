//! Where a failure is in the tree: below which parent, and which supervisor answers for it.
//!
//! A [`FailureInfo`] carries a [`Lineage`] without knowing its type, so that `events` needs nothing of the tree.

use crate::events::failure::FailureInfo;
use crate::ids::path::ActorPath;
use crate::tree::member::Member;
use alloc::sync::{Arc, Weak};

#[derive(Clone, Default)]
struct Lineage {
    /// The parent of the member that failed, or of the supervisor that answers for it.
    parent: Option<Weak<dyn Member>>,
    /// The supervisor that answers for the failure since it was escalated.
    supervisor: Option<Weak<dyn Member>>,
    /// No supervisor from here up has a sink. Known while the failure is being escalated.
    has_no_sink: bool,
}

impl FailureInfo {
    fn place(&self) -> Option<&Lineage> {
        self.lineage()?.downcast_ref()
    }

    /// Notes that a child of `parent` failed.
    pub(crate) fn below(mut self, parent: Option<&Arc<dyn Member>>) -> Self {
        self.set_lineage(Arc::new(Lineage { parent: parent.map(Arc::downgrade), ..Lineage::default() }));
        self
    }

    /// Returns the failure as the parent sees it: id and path of the parent, one hop further, same origin. `None` for a failure of the
    /// root, and once the parent has ended.
    ///
    /// A supervisor does this to a failure before it escalates it. This failure stays as it is, and nothing is reported.
    #[must_use]
    pub fn escalate_to_parent(&self) -> Option<Self> {
        Some(self.handed_to(&self.place()?.parent.as_ref()?.upgrade()?))
    }

    /// The same failure as `parent` sees it, which answers for it from now on.
    #[must_use]
    pub(crate) fn handed_to(&self, parent: &Arc<dyn Member>) -> Self {
        let path = self.path_one_up(parent).unwrap_or_else(|| parent.node().path());
        let lineage = Lineage {
            parent: parent.node().parent().map(Arc::downgrade),
            supervisor: Some(Arc::downgrade(parent)),
            has_no_sink: self.has_no_sink(),
        };
        self.seen_by(parent.node().id(), path, Arc::new(lineage))
    }

    /// The path of `parent`, if it is the parent of the supervisor that answers for the failure. Building it again at every level would
    /// make a deep escalation cost the square of its depth.
    fn path_one_up(&self, parent: &Arc<dyn Member>) -> Option<ActorPath> {
        let supervisor = self.supervisor()?;
        let is_parent = supervisor.node().parent().is_some_and(|above| core::ptr::eq(above.node(), parent.node()));
        // A root is not a segment of any path.
        if is_parent && !supervisor.node().name.is_root() { self.path().parent() } else { None }
    }

    /// The supervisor that answers for the failure, if it was escalated and the supervisor still exists.
    pub(crate) fn supervisor(&self) -> Option<Arc<dyn Member>> {
        self.place()?.supervisor.as_ref()?.upgrade()
    }

    /// Whether it is known that no supervisor from here up has a sink.
    pub(crate) fn has_no_sink(&self) -> bool {
        self.place().is_some_and(|place| place.has_no_sink)
    }

    /// Notes whether a sink exists further up. This holds for one way up: sinks can be set at run time.
    pub(crate) fn set_has_no_sink(&mut self, has_no_sink: bool) {
        if self.has_no_sink() != has_no_sink {
            let place = self.place().cloned().unwrap_or_default();
            self.set_lineage(Arc::new(Lineage { has_no_sink, ..place }));
        }
    }
}
