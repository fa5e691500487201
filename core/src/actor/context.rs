//! [`Context`]: an actor's access to itself, its children and the tree, passed to its handler and
//! hooks.
//!
//! The methods for timers, stash and behaviours are in `timers`, `stash` and `behaviour`.

use crate::actor::actor_ref::ActorRef;
use crate::actor::cell::Cell;
use crate::actor::props::Props;
use crate::actor::spawn::SpawnError;
use crate::actor::spawn_started::SpawnStarted;
use crate::actor::system_message::SystemMessage;
use crate::actor::{Actor, spawn, spawn_started};
use crate::base::reason::{BoxError, Reason};
use crate::base::runtime::BoxFuture;
use crate::base::sync::{Arc, unsize};
use crate::base::time::Instant;
use crate::base::timeout::Timeout;
use crate::events::failure::FailureInfo;
use crate::events::signal::Signal;
use crate::ids::path::{ActorId, ActorPath};
use crate::mailbox::control;
use crate::tree::adopt::Refusal;
use crate::tree::any_ref::AnyRef;
use crate::tree::child;
use crate::tree::child::ChildError;
use crate::tree::member::Member;
use crate::tree::task::Task;
use crate::tree::token::CancelToken;
use crate::tree::{node, supervision, task};
use alloc::string::String;
use alloc::vec::Vec;
use core::future::Future;
use core::time::Duration;

/// An actor's access to itself, its children and the tree. Every handler and hook gets it.
///
/// # Examples
/// ```
/// use pleach::BoxError;
/// use pleach::prelude::*;
///
/// struct Parent;
///
/// impl Actor for Parent {
///     type Msg = u32;
///     type Error = BoxError;
///
///     async fn handle(&mut self, n: u32, cx: &mut Context<Self>) -> Result<(), BoxError> {
///         let props = Props::from_fn(|| (), |(), _n: u32| Ok::<(), BoxError>(()));
///         let child = cx.spawn_unnamed(props)?; // ends before this actor ends
///         child.send(n).await?;
///         cx.stop(); // after this message
///         Ok(())
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), pleach::Error> {
/// let system = ActorSystem::new("app")?;
/// let parent = system.spawn("parent", Props::new(|| Parent))?;
/// parent.tell(1)?;
/// assert_eq!(parent.exited().await, Exit::Stopped);
/// # Ok(())
/// # }
/// ```
pub struct Context<A: Actor> {
    cell: Arc<Cell<A::Msg>>,
    incarnation: u32,
    /// Set within the `stopped` hook.
    ending: bool,
}

impl<A: Actor> Context<A> {
    pub(crate) fn new(cell: Arc<Cell<A::Msg>>) -> Self {
        Self { cell, incarnation: 0, ending: false }
    }

    /// Returns the address of this actor.
    pub fn me(&self) -> ActorRef<A::Msg> {
        ActorRef::new(Arc::clone(&self.cell))
    }

    /// Returns the id of this actor.
    pub fn id(&self) -> ActorId {
        self.cell.node().id()
    }

    /// Returns the path of this actor in the tree.
    pub fn path(&self) -> ActorPath {
        self.cell.node().path()
    }

    /// Returns the number of this incarnation: 0 before the first restart.
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// Returns the current time of the runtime's clock.
    pub fn now(&self) -> Instant {
        self.cell.node().runtime().now()
    }

    /// Waits for `wait` on the runtime's clock. In the simulator this is virtual time; Tokio's own
    /// timers do not work there.
    ///
    /// # Examples
    /// ```
    /// use pleach::{Actor, BoxError, Context};
    /// use core::time::Duration;
    ///
    /// struct Poller;
    ///
    /// impl Actor for Poller {
    ///     type Msg = ();
    ///     type Error = BoxError;
    ///
    ///     async fn handle(&mut self, (): (), cx: &mut Context<Self>) -> Result<(), BoxError> {
    ///         cx.sleep(Duration::from_millis(10)).await;
    ///         let answer = cx.timeout(Duration::from_secs(1), async { 7 }).await?;
    ///         assert_eq!(answer, 7);
    ///         Ok(())
    ///     }
    /// }
    /// # drop(Poller);
    /// ```
    pub fn sleep(&self, wait: Duration) -> BoxFuture<'static, ()> {
        let runtime = self.cell.node().runtime();
        runtime.sleep_until(runtime.now() + wait)
    }

    /// Limits the time of `future` on the runtime's clock, counted from this call.
    ///
    /// # Errors
    /// [`Elapsed`](crate::Elapsed) if the time has passed. The future is dropped together with the
    /// returned one.
    pub fn timeout<F: Future>(&self, wait: Duration, future: F) -> Timeout<F> {
        Timeout::new(self.cell.node().runtime(), wait, future)
    }

    /// Returns the token of this actor. It is cancelled with the actor and when the actor has
    /// ended; cancelling it cancels the actor.
    ///
    /// Within `stopped` this is a fresh token, the same for the whole hook, that lasts for the
    /// grace period.
    pub fn token(&self) -> CancelToken {
        if self.ending { node::last_token(self.cell.node(), self.incarnation) } else { node::token(&self.member()) }
    }

    /// Spawns a child called `name`. It ends before this actor ends, and before this actor
    /// restarts.
    ///
    /// # Errors
    /// [`SpawnError`] if the name is invalid or taken, or this actor is ending. It returns the
    /// props.
    pub fn spawn<C: Actor>(&self, name: &str, props: Props<C>) -> Result<ActorRef<C::Msg>, SpawnError<C>> {
        spawn::actor(&self.member(), Some(name), props)
    }

    /// Spawns a child and waits until its `started` hook has returned `Ok`, across restarts if
    /// needed.
    ///
    /// The call itself spawns the child; it keeps running if the future is dropped. A child whose
    /// `started` awaits an ask to this actor can never finish, because this actor waits for the
    /// child.
    ///
    /// # Errors
    /// [`SpawnStartedError`](crate::SpawnStartedError) if the child was not spawned, or ended
    /// before it had started.
    pub fn spawn_started<C: Actor>(&self, name: &str, props: Props<C>) -> SpawnStarted<C> {
        spawn_started::actor(&self.member(), name, props)
    }

    /// Spawns a child with a generated name. See [`spawn`](Self::spawn).
    pub fn spawn_unnamed<C: Actor>(&self, props: Props<C>) -> Result<ActorRef<C::Msg>, SpawnError<C>> {
        spawn::actor(&self.member(), None, props)
    }

    /// Stops a child permanently, whatever its restart policy. Returns its address, to wait for its
    /// exit elsewhere.
    ///
    /// # Errors
    /// [`ChildError`] if there is no such child.
    pub fn stop_child(&self, name: &str) -> Result<AnyRef, ChildError> {
        child::stop_child(self.cell.node(), name)
    }

    /// Restarts a child: an actor after its current message, a supervisor with all its children.
    /// This does not count as a failure.
    ///
    /// # Errors
    /// [`ChildError`] if there is no such child, or it cannot be restarted.
    pub fn restart_child(&self, name: &str) -> Result<(), ChildError> {
        child::restart_child(self.cell.node(), name)
    }

    /// Returns the live children, in the order in which they were started.
    pub fn children(&self) -> Vec<AnyRef> {
        self.cell.node().children().into_iter().map(|member| AnyRef { member }).collect()
    }

    /// Runs `future` as a child task, and sends the actor the message that `message` makes from its
    /// output.
    ///
    /// The task is dropped when this incarnation ends. A panic in it is recorded, and does not fail
    /// the actor.
    ///
    /// # Errors
    /// [`Refusal`] if this actor is ending and accepts no more children.
    pub fn pipe_to_self<F>(
        &self,
        future: F,
        message: impl FnOnce(F::Output) -> A::Msg + Send + 'static,
    ) -> Result<Task, Refusal>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let me = self.me();
        let pipe = async move {
            let message = message(future.await);
            // An actor that accepts no more messages does not need the result.
            drop(me.send(message).await);
        };
        task::launch(&self.member(), None, task::TaskKind::Pipe, pipe).map_err(|refused| refused.reason)
    }

    /// Stops this actor after the current message. Queued messages become dead letters.
    pub fn stop(&self) {
        self.cell.any().raise(control::STOP);
    }

    /// Adds metadata to every later failure of this incarnation, including panics, such as an
    /// endpoint or a tenant.
    ///
    /// An existing key gets the new value. Returns false, and changes nothing, if the key is new
    /// and there are already [`METADATA_MAX`](crate::METADATA_MAX) keys. A restart begins without
    /// metadata. [`AnnotatedError`](crate::AnnotatedError) annotates a single error.
    pub fn annotate(&self, key: impl Into<String>, value: impl Into<String>) -> bool {
        self.cell.node().annotate(self.incarnation, key.into(), value.into())
    }

    /// Records a failure and notifies the parent with [`Signal::Failure`](crate::Signal::Failure).
    /// This actor keeps running: no strategy decides, and nothing restarts.
    pub fn notify_failure(&self, error: impl Into<BoxError>) -> FailureInfo {
        let failure = self.recorded(error.into());
        if let Some(parent) = self.cell.node().parent().filter(|parent| parent.wants_signals()) {
            parent.notify(Signal::Failure(failure.clone()));
        }
        failure
    }

    /// Escalates a failure past this actor's own supervisor, as if that supervisor's strategy had
    /// chosen [`Escalate`](crate::SupervisorDirective::Escalate).
    ///
    /// The failure goes to the supervisor's sink if it has one, else to the strategy above it. This
    /// actor keeps running until the decision made there reaches it.
    pub fn escalate(&self, error: impl Into<BoxError>) -> FailureInfo {
        let failure = self.recorded(error.into());
        if let Some(parent) = self.cell.node().parent()
            && let Some((next, failure)) = supervision::escalate(parent, &failure, false)
        {
            supervision::propagate::propagate(next, failure);
        }
        failure
    }

    /// Creates a failure of this incarnation and reports it as an event.
    fn recorded(&self, error: BoxError) -> FailureInfo {
        let failure = self.cell.node().failure(self.incarnation, Reason::Error(error));
        self.cell.node().events().record_failure(&failure);
        failure
    }

    /// Sends a command or signal to this actor itself; see [`ActorRef::try_send_system`].
    pub fn try_send_system(&self, message: SystemMessage) {
        // The actor is alive while its own code runs, so this cannot fail.
        drop(self.me().try_send_system(message));
    }

    /// Watches `other`: this actor gets [`Signal::Terminated`](crate::Signal::Terminated) when it
    /// ends, or at once if it has ended.
    pub fn watch(&self, other: &AnyRef) {
        node::watch(&other.member, &self.member());
    }

    /// Stops watching `other`. A [`Signal::Terminated`](crate::Signal::Terminated) that is already
    /// queued is removed.
    pub fn unwatch(&self, other: &AnyRef) {
        node::unwatch(other.member.node(), self.cell.node());
        self.cell.any().mailbox().remove_terminated(other.id());
    }

    /// Returns the live actors that this one [watches](Self::watch), ordered by the age of their
    /// ids.
    pub fn watching(&self) -> Vec<AnyRef> {
        self.cell.node().watching().into_iter().map(|member| AnyRef { member }).collect()
    }

    /// Returns the actors that watch this one.
    pub fn watchers(&self) -> Vec<AnyRef> {
        self.cell.node().watchers().into_iter().map(|member| AnyRef { member }).collect()
    }

    pub(crate) fn member(&self) -> Arc<dyn Member> {
        unsize!(Arc::clone(&self.cell) => dyn Member)
    }

    pub(crate) fn cell(&self) -> &Arc<Cell<A::Msg>> {
        &self.cell
    }

    pub(crate) fn next_incarnation(&mut self) {
        self.incarnation += 1;
        self.ending = false;
    }

    /// From now on `token` returns a fresh token: the cancel that ended the incarnation does not
    /// reach its last hook.
    pub(crate) fn begin_ending(&mut self) {
        self.ending = true;
    }
}
