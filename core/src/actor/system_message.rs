//! [`SystemMessage`]: commands and signals that bypass the message queue of an actor.

use crate::events::failure::FailureInfo;
use crate::events::signal::Terminated;
use crate::tree::any_ref::AnyRef;

/// A command or signal that bypasses the message queue; see
/// [`ActorRef::try_send_system`](crate::ActorRef::try_send_system).
///
/// It is processed before queued messages and never rejected for lack of room.
///
/// # Examples
/// ```
/// use pleach::BoxError;
/// use pleach::prelude::*;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), pleach::Error> {
/// let system = ActorSystem::new("app")?;
/// let props = Props::from_fn(|| (), |(), (): ()| Ok::<(), BoxError>(()));
/// let actor = system.spawn("worker", props)?;
/// actor.try_send_system(SystemMessage::Suspend).unwrap();
/// actor.tell(())?; // waits in the mailbox
/// actor.try_send_system(SystemMessage::Resume).unwrap();
/// actor.close();
/// assert_eq!(actor.exited().await, Exit::Closed);
/// assert_eq!(actor.counts().handled, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SystemMessage {
    /// Stop the actor after its current message.
    Stop,
    /// Restart the actor from its factory. The mailbox keeps its messages.
    Restart,
    /// Handle no messages until resumed; control is still processed.
    Suspend,
    /// Handle messages again after a suspend.
    Resume,
    /// Notify this watcher when the actor ends.
    Watch(AnyRef),
    /// Do not notify this watcher any more.
    Unwatch(AnyRef),
    /// Reports that a watched actor, or a child, has ended.
    Terminated(Terminated),
    /// Reports that a child failed. Its supervision has already decided.
    Failure(FailureInfo),
    /// Reports that a failure below this actor was escalated.
    Escalate(FailureInfo),
}
