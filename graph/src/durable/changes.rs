//! What a resume changes in a stored run before the run continues.

use pleach_core::BoxError;

/// What is to be different from what is stored.
pub(crate) struct ResumeChanges<S> {
    pub(crate) point: ResumePoint,
    /// The node to go on at, in place of the one that is next.
    pub(crate) from: Option<String>,
    pub(crate) replace: Option<Box<dyn FnOnce(S) -> S + Send>>,
    pub(crate) validate: Option<Validate<S>>,
}

pub(crate) type Validate<S> = Box<dyn Fn(&S) -> Result<(), BoxError> + Send>;

/// From where a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResumePoint {
    /// Where it stands.
    Head,
    /// Before the last node that was done.
    LastStep,
    /// As it stood after this record.
    After(u64),
}

impl<S> Default for ResumeChanges<S> {
    fn default() -> Self {
        Self { point: ResumePoint::Head, from: None, replace: None, validate: None }
    }
}
