//! [`ResumeChanges`]: what a resume changes in a stored run before the run continues.

use pleach_core::BoxError;

/// The changes that a resume makes to a stored run.
pub(crate) struct ResumeChanges<S> {
    pub(crate) point: ResumePoint,
    /// The node where the run continues. Default: the stored next node.
    pub(crate) from: Option<String>,
    pub(crate) replace: Option<Box<dyn FnOnce(S) -> S + Send>>,
    pub(crate) validate: Option<Validate<S>>,
}

pub(crate) type Validate<S> = Box<dyn Fn(&S) -> Result<(), BoxError> + Send>;

/// The position from which a run continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResumePoint {
    /// The current position.
    Head,
    /// Before the last completed node.
    LastStep,
    /// The position after the record with this sequence number.
    After(u64),
}

impl<S> Default for ResumeChanges<S> {
    fn default() -> Self {
        Self { point: ResumePoint::Head, from: None, replace: None, validate: None }
    }
}
