//! [`FailureInfo`]: one failure with its full context. Returned errors and panics both become one.

use crate::base::reason::Reason;
use crate::base::sync::Arc;
use crate::base::time::Instant;
use crate::events::annotated::AnnotatedError;
use crate::events::cause::Exit;
use crate::ids::path::{ActorId, ActorPath};
use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::String;
use core::any::Any;
use core::error::Error;
use core::fmt;
use core::time::Duration;

/// The maximum number of annotations of one incarnation; see
/// [`Context::annotate`](crate::Context::annotate).
pub const METADATA_MAX: usize = 32;

/// One failure of a member: which member, in which incarnation, why, and while handling which
/// message.
///
/// Cloning copies an `Arc`. An escalated failure keeps its [`origin`](Self::origin); its id and
/// path become those of the parent that handles it.
///
/// # Examples
///
/// ```
/// use pleach::FailureInfo;
/// use pleach::supervise::Reason;
///
/// let reason = Reason::Error("no change left".into());
/// let failure = FailureInfo::of("/user/till".parse()?, reason).with_metadata("currency", "EUR");
/// assert_eq!(failure.to_string(), "/user/till failed: no change left");
/// assert_eq!(failure.metadata()["currency"], "EUR");
/// # Ok::<(), pleach::actor::PathError>(())
/// ```
#[derive(Clone)]
pub struct FailureInfo(Arc<FailureRecord>);

/// The position of a failure in the tree. Only the tree knows its type (see `tree::lineage`).
pub(crate) type OpaqueLineage = Arc<dyn Any + Send + Sync>;

#[derive(Clone)]
struct FailureRecord {
    actor: ActorId,
    path: ActorPath,
    origin: ActorPath,
    incarnation: u32,
    reason: Arc<Reason>,
    restarts: u32,
    window: Duration,
    /// The restart limit, and the wait before the restart, once it was decided.
    restart_limit: Option<u32>,
    restart_delay: Option<Duration>,
    stage: EscalationStage,
    at: Instant,
    message: Option<Cow<'static, str>>,
    message_type: Option<&'static str>,
    metadata: BTreeMap<String, String>,
    /// The position in the tree, set by the tree.
    lineage: Option<OpaqueLineage>,
}

/// How far a failure has been escalated up the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EscalationStage {
    /// The failure is at the member where it happened.
    Initial,
    /// The failure was escalated to an ancestor.
    Escalated {
        /// How many levels it was escalated.
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
        Self(Arc::new(FailureRecord {
            actor,
            origin: path.clone(),
            path,
            incarnation,
            reason: Arc::new(reason),
            restarts: 0,
            window: Duration::ZERO,
            restart_limit: None,
            restart_delay: None,
            stage: EscalationStage::Initial,
            at,
            message: None,
            message_type: None,
            metadata,
            lineage: None,
        }))
    }

    /// Uses the record of an earlier failure of the same member again. Returns the reason if
    /// another owner still has that record.
    pub(crate) fn used_again(mut self, incarnation: u32, reason: Reason, at: Instant) -> Result<Self, Reason> {
        let Some(record) = Arc::get_mut(&mut self.0).filter(|record| record.stage == EscalationStage::Initial) else {
            return Err(reason);
        };
        let Some(last_reason) = Arc::get_mut(&mut record.reason) else { return Err(reason) };
        let metadata = match reason {
            Reason::Error(error) => {
                let (error, metadata) = AnnotatedError::split(error);
                *last_reason = Reason::Error(error);
                metadata
            }
            panic => {
                *last_reason = panic;
                BTreeMap::new()
            }
        };
        (record.incarnation, record.at, record.metadata) = (incarnation, at, metadata);
        (record.restarts, record.window) = (0, Duration::ZERO);
        (record.restart_limit, record.restart_delay) = (None, None);
        (record.message, record.message_type) = (None, None);
        Ok(self)
    }

    /// Creates a failure without a running system, to unit-test a strategy or a sink.
    ///
    /// It has id 0, incarnation 0, no restarts and time zero. The `with_…` methods change these.
    ///
    /// ```
    /// use pleach::FailureInfo;
    /// use pleach::supervise::{Reason, SupervisorDirective, SupervisorStrategy};
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
    /// # Ok::<(), pleach::actor::PathError>(())
    /// ```
    pub fn of(path: ActorPath, reason: Reason) -> Self {
        Self::new(ActorId::new(0, 0), path, 0, reason, Instant::ZERO)
    }

    /// Returns the failure with this incarnation number.
    #[must_use]
    pub fn with_incarnation(mut self, incarnation: u32) -> Self {
        self.record_mut().incarnation = incarnation;
        self
    }

    /// Returns the id of the failed member, or after an escalation that of the parent that handles
    /// it.
    pub fn actor(&self) -> ActorId {
        self.0.actor
    }

    /// Returns the path of the failed member, or after an escalation that of the parent that
    /// handles it.
    pub fn path(&self) -> &ActorPath {
        &self.0.path
    }

    /// Returns the path of the member that failed first. Escalation does not change it.
    pub fn origin(&self) -> &ActorPath {
        &self.0.origin
    }

    /// Returns the incarnation that failed: 0 before the first restart.
    pub fn incarnation(&self) -> u32 {
        self.0.incarnation
    }

    /// Returns the reason: the error or the panic.
    pub fn reason(&self) -> &Reason {
        &self.0.reason
    }

    /// Returns the error if it is a `T`, and `None` for a panic.
    pub fn error<T: Error + 'static>(&self) -> Option<&T> {
        match self.reason() {
            Reason::Error(error) => error.downcast_ref(),
            Reason::Panic { .. } => None,
        }
    }

    /// Returns how many restarts the supervisor had counted within [`window`](Self::window) when it
    /// decided.
    pub fn restarts(&self) -> u32 {
        self.0.restarts
    }

    /// Returns the sliding window in which the supervisor counts restarts.
    pub fn window(&self) -> Duration {
        self.0.window
    }

    /// Returns how many restarts the supervisor allows within [`window`](Self::window). `None`
    /// before it has decided, and without a limit.
    pub fn restart_limit(&self) -> Option<u32> {
        self.0.restart_limit
    }

    /// Returns how long the supervisor waits before the restart. `None` if it has not decided to
    /// restart.
    pub fn restart_delay(&self) -> Option<Duration> {
        self.0.restart_delay
    }

    /// Returns how far the failure has been escalated.
    pub fn stage(&self) -> EscalationStage {
        self.0.stage
    }

    /// Returns when the failure happened, on the runtime's clock.
    pub fn at(&self) -> Instant {
        self.0.at
    }

    /// Returns the message that was being handled, as formatted by `Props::describe` or else its
    /// type name. `None` outside of a handler.
    pub fn message(&self) -> Option<&str> {
        self.0.message.as_deref()
    }

    /// Returns the name of the type of that message, which never shows what the message contains.
    pub fn message_type(&self) -> Option<&'static str> {
        self.0.message_type
    }

    /// Returns the metadata, for example the `endpoint` of a remote failure.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.0.metadata
    }

    /// Returns the failure with one more pair of metadata.
    #[must_use]
    pub fn with_metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.record_mut().metadata.insert(key.into(), value.into());
        self
    }

    /// Returns the failure with this text as the handled message.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<Cow<'static, str>>) -> Self {
        self.record_mut().message = Some(message.into());
        self
    }

    pub(crate) fn with_message_type(mut self, message_type: &'static str) -> Self {
        self.record_mut().message_type = Some(message_type);
        self
    }

    /// Returns the position in the tree, if the tree has set it.
    pub(crate) fn lineage(&self) -> Option<&OpaqueLineage> {
        self.0.lineage.as_ref()
    }

    pub(crate) fn set_lineage(&mut self, lineage: OpaqueLineage) {
        self.record_mut().lineage = Some(lineage);
    }

    /// Returns the failure as its parent sees it: the id and path of the parent, one hop further.
    pub(crate) fn as_seen_by(&self, parent: ActorId, path: ActorPath, lineage: OpaqueLineage) -> Self {
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

    /// Adds the annotations of the node. Metadata of the error wins.
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

    /// Records the decision: the restart limit, and the wait if it is a restart.
    pub(crate) fn set_decision(&mut self, restart_limit: Option<u32>, restart_delay: Option<Duration>) {
        let record = self.record_mut();
        (record.restart_limit, record.restart_delay) = (restart_limit, restart_delay);
    }

    /// Returns the failure with this restart count and window.
    #[must_use]
    pub fn with_restarts(mut self, restarts: u32, window: Duration) -> Self {
        self.set_restarts(restarts, window);
        self
    }

    /// Returns whether both are the same occurrence, possibly at different levels of escalation.
    pub fn is_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0.reason, &other.0.reason)
    }

    fn record_mut(&mut self) -> &mut FailureRecord {
        Arc::make_mut(&mut self.0)
    }
}

/// The reason of a failure of a [permanent](crate::RestartPolicy::Permanent) child that ended
/// although neither its supervisor nor a cancel ordered it.
#[derive(Clone, Debug, PartialEq)]
pub struct UnexpectedExit {
    /// How the permanent child has ended.
    pub exit: Exit,
}

impl fmt::Display for UnexpectedExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "permanent child ended without an order ({}): stop it through its supervisor, or make it transient",
            self.exit
        )
    }
}

impl Error for UnexpectedExit {}

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
