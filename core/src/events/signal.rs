//! [`Signal`]: what an actor's `signal` hook receives.

use crate::events::cause::Exit;
use crate::events::failure::FailureInfo;
use crate::ids::path::{ActorId, ActorPath};

/// A notification that an actor receives in its `signal` hook, outside of its mailbox.
///
/// # Examples
/// ```
/// use pleach::prelude::*;
///
/// struct Parent;
///
/// impl Actor for Parent {
///     type Msg = ();
///     type Error = pleach::BoxError;
///
///     async fn handle(&mut self, (): (), cx: &mut Context<Self>) -> Result<(), Self::Error> {
///         let props = Props::from_fn(|| (), |(), _: u32| Ok::<(), pleach::BoxError>(()));
///         let child = cx.spawn("child", props)?; // a parent watches its children
///         child.stop();
///         Ok(())
///     }
///
///     async fn signal(&mut self, signal: Signal, cx: &mut Context<Self>) -> Result<(), Self::Error> {
///         if let Signal::Terminated(_) = signal {
///             cx.stop();
///         }
///         Ok(())
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), pleach::Error> {
/// let system = ActorSystem::new("app")?;
/// let parent = system.spawn("parent", Props::new(|| Parent))?;
/// parent.tell(())?;
/// assert_eq!(parent.exited().await, Exit::Stopped);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Signal {
    /// A watched member or a child has ended.
    Terminated(Terminated),
    /// A child failed, and its supervision has handled the failure.
    Failure(FailureInfo),
    /// A failure of a descendant was escalated to this actor.
    Escalate(FailureInfo),
}

/// The end of a watched member or a child. A restart is not an end.
#[derive(Clone, Debug)]
pub struct Terminated {
    /// The id of the member that ended.
    pub id: ActorId,
    /// The path of the member that ended.
    pub path: ActorPath,
    /// How the member came to its end.
    pub exit: Exit,
}
