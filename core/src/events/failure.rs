//! `FailureInfo`: one failure, with all that is known of it. The `Result` road and the panic road meet here.

use crate::base::reason::Reason;
use crate::base::time::Instant;
use crate::events::annotated::AnnotatedError;
use crate::events::cause::Exit;
use crate::ids::path::{ActorId, ActorPath};
use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use core::any::Any;
use core::error::Error;
use core::fmt;
use core::time::Duration;

/// How many annotations an incarnation can hold; see [`Context::annotate`](crate::Context::annotate).
pub const METADATA_MAX: usize = 32;

/// One failure of something in the tree: who, where, in which incarnation, why, and while doing what.
///
/// Cloning it is cheap. An escalated failure keeps its origin while its id and path become those of the parent.
#[derive(Clone)]
pub struct FailureInfo(Arc<Record>);

/// The position of a failure in the tree, as a value whose type only the tree knows.
pub(crate) type Lineage = Arc<dyn Any + Send + Sync>;

#[derive(Clone)]
struct Record {
    actor: ActorId,
    path: ActorPath,
    origin: ActorPath,
    incarnation: u32,
    reason: Arc<Reason>,
    restarts: u32,
    window: Duration,
    stage: EscalationStage,
    at: Instant,
    message: Option<Cow<'static, str>>,
    metadata: BTreeMap<String, String>,
    /// Where it is in the tree. The type is known to the tree alone.
    lineage: Option<Lineage>,
}

/// How far a failure has come up the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EscalationStage {
    /// It is where it happened.
    Initial,
    /// It was handed up this many times.
    Escalated {
        /// How many parents it has passed.
        hops: u32,
    },
}

impl FailureInfo {
    pub(crate) fn new(actor: ActorId, path: ActorPath, incarnation: u32, reason: Reason, at: Instant) -> Self {
        let (reason, metadata) = match reason {
            Reason::Error(error) => {
                let (error, metadata) = AnnotatedError::split(error);
                (Reason::Error(error), metadata)
            }
            panic => (panic, BTreeMap::new()),
        };
        Self(Arc::new(Record {
            actor,
            origin: path.clone(),
            path,
            incarnation,
            reason: Arc::new(reason),
            restarts: 0,
            window: Duration::ZERO,
            stage: EscalationStage::Initial,
            at,
            message: None,
            metadata,
            lineage: None,
        }))
    }

    /// A failure at `path` that no running system made, to unit-test a strategy or a sink with. It has the id 0, incarnation 0, no restarts, and the time 0
    /// of a clock; the `with_…` methods change that.
    ///
    /// ```
    /// use pleach::{FailureInfo, OneForOne, Reason, SupervisorDirective, SupervisorStrategy};
    ///
    /// // A strategy that gives up on the third failure.
    /// let strategy = |failure: &FailureInfo| match failure.restarts() {
    ///     0 | 1 => SupervisorDirective::Restart,
    ///     _ => SupervisorDirective::Stop,
    /// };
    /// let failure = FailureInfo::of("/user/till".parse()?, Reason::Error("no change left".into()));
    /// assert_eq!(strategy.decide(&failure), SupervisorDirective::Restart);
    /// let third = failure.with_restarts(2, std::time::Duration::from_secs(5));
    /// assert_eq!(strategy.decide(&third), SupervisorDirective::Stop);
    /// # Ok::<(), pleach::PathError>(())
    /// ```
    pub fn of(path: ActorPath, reason: Reason) -> Self {
        Self::new(ActorId::new(0, 0), path, 0, reason, Instant::ZERO)
    }

    /// The same failure in this incarnation.
    #[must_use]
    pub fn with_incarnation(mut self, incarnation: u32) -> Self {
        self.record_mut().incarnation = incarnation;
        self
    }

    /// Who failed; after an escalation, the parent that answers for it.
    pub fn actor(&self) -> ActorId {
        self.0.actor
    }

    /// Where it failed; after an escalation, the parent's path.
    pub fn path(&self) -> &ActorPath {
        &self.0.path
    }

    /// Where it first happened, whatever parents it has passed since.
    pub fn origin(&self) -> &ActorPath {
        &self.0.origin
    }

    /// Which incarnation failed: 0 before the first restart.
    pub fn incarnation(&self) -> u32 {
        self.0.incarnation
    }

    /// Why.
    pub fn reason(&self) -> &Reason {
        &self.0.reason
    }

    /// The error behind it as a `T`, if it was one.
    pub fn error<T: Error + 'static>(&self) -> Option<&T> {
        match self.reason() {
            Reason::Error(error) => error.downcast_ref(),
            Reason::Panic { .. } => None,
        }
    }

    /// How many restarts its supervisor had counted within [`window`](Self::window) when it decided.
    pub fn restarts(&self) -> u32 {
        self.0.restarts
    }

    /// The sliding window in which the supervisor counts restarts.
    pub fn window(&self) -> Duration {
        self.0.window
    }

    /// How far it has come up the tree.
    pub fn stage(&self) -> EscalationStage {
        self.0.stage
    }

    /// When it happened, on the runtime's clock.
    pub fn at(&self) -> Instant {
        self.0.at
    }

    /// The message being handled: as `Props::describe` words it, else the name of its type; `None` outside a message.
    pub fn message(&self) -> Option<&str> {
        self.0.message.as_deref()
    }

    /// Free metadata, for example `endpoint` and `transport` of a remote failure.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.0.metadata
    }

    /// The same failure with one more piece of metadata.
    #[must_use]
    pub fn with_metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.record_mut().metadata.insert(key.into(), value.into());
        self
    }

    /// The same failure while this message was handled.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<Cow<'static, str>>) -> Self {
        self.record_mut().message = Some(message.into());
        self
    }

    /// Where the tree has noted this failure to be.
    pub(crate) fn lineage(&self) -> Option<&Lineage> {
        self.0.lineage.as_ref()
    }

    pub(crate) fn set_lineage(&mut self, lineage: Lineage) {
        self.record_mut().lineage = Some(lineage);
    }

    /// The same failure as seen by a parent with this id and path.
    pub(crate) fn seen_by(&self, parent: ActorId, path: ActorPath, lineage: Lineage) -> Self {
        let hops = match self.0.stage {
            EscalationStage::Initial => 1,
            EscalationStage::Escalated { hops } => hops + 1,
        };
        let mut up = self.clone();
        let record = up.record_mut();
        record.actor = parent;
        record.path = path;
        record.lineage = Some(lineage);
        record.stage = EscalationStage::Escalated { hops };
        up
    }

    /// Adds what the node was annotated with; metadata of the error itself wins.
    pub(crate) fn with_annotations(mut self, annotations: BTreeMap<String, String>) -> Self {
        let metadata = &mut self.record_mut().metadata;
        for (key, value) in annotations {
            metadata.entry(key).or_insert(value);
        }
        self
    }

    pub(crate) fn set_restarts(&mut self, restarts: u32, window: Duration) {
        let record = self.record_mut();
        record.restarts = restarts;
        record.window = window;
    }

    /// The same failure after its supervisor has counted so many restarts within `window`.
    #[must_use]
    pub fn with_restarts(mut self, restarts: u32, window: Duration) -> Self {
        self.set_restarts(restarts, window);
        self
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0.reason, &other.0.reason)
    }

    fn record_mut(&mut self) -> &mut Record {
        Arc::make_mut(&mut self.0)
    }
}

/// A [permanent](crate::RestartPolicy::Permanent) child ended although neither its supervisor nor a cancel had ordered it.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedUnasked {
    /// How it ended.
    pub exit: Exit,
}

impl fmt::Display for EndedUnasked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a permanent child ended unasked ({}): end it through its supervisor, or make it transient", self.exit)
    }
}

impl Error for EndedUnasked {}

impl fmt::Display for FailureInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.0.origin, self.0.reason)?;
        if let Some(message) = self.message() {
            write!(f, " (handling {message})")?;
        }
        if let EscalationStage::Escalated { hops } = self.0.stage {
            write!(f, " (escalated to {}, {hops} up)", self.0.path)?;
        }
        Ok(())
    }
}

impl fmt::Debug for FailureInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailureInfo")
            .field("path", self.path())
            .field("origin", self.origin())
            .field("incarnation", &self.incarnation())
            .field("reason", self.reason())
            .field("restarts", &self.restarts())
            .field("stage", &self.stage())
            .field("message", &self.message())
            .finish_non_exhaustive()
    }
}

impl Error for FailureInfo {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self.reason() {
            Reason::Error(error) => Some(error.as_ref()),
            Reason::Panic { .. } => None,
        }
    }
}
