//! `Context`: what an actor knows of its surroundings while it handles a message.

use crate::actor::actor_ref::ActorRef;
use crate::actor::cell::Cell;
use crate::actor::props::Props;
use crate::actor::spawn::SpawnError;
use crate::actor::spawn_started::Starting;
use crate::actor::system_message::SystemMessage;
use crate::actor::timers::{TimerKey, Timers};
use crate::actor::{Actor, spawn, spawn_started};
use crate::base::reason::{BoxError, Reason};
use crate::base::runtime::BoxFuture;
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
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;
use core::time::Duration;

/// An actor's view of itself and its surroundings, given to each of its methods.
pub struct Context<A: Actor> {
    cell: Arc<Cell<A::Msg>>,
    incarnation: u32,
    ending: bool,
}

impl<A: Actor> Context<A> {
    pub(crate) fn new(cell: Arc<Cell<A::Msg>>) -> Self {
        Self { cell, incarnation: 0, ending: false }
    }

    /// The actor's own address.
    pub fn me(&self) -> ActorRef<A::Msg> {
        ActorRef::new(Arc::clone(&self.cell))
    }

    /// Who it is.
    pub fn id(&self) -> ActorId {
        self.cell.node().id()
    }

    /// Where it stands in the tree.
    pub fn path(&self) -> ActorPath {
        self.cell.node().path()
    }

    /// Which incarnation this is: 0 before the first restart.
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// The time now, on the runtime's clock.
    pub fn now(&self) -> Instant {
        self.cell.node().runtime().now()
    }

    /// Waits for `wait`, on the runtime's clock: virtual in the simulator, where Tokio's own timers do not work.
    ///
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

    /// Gives `future` this long, from now on, on the runtime's clock. [`Elapsed`](crate::Elapsed) if that passed; the future is dropped
    /// with what this returns.
    pub fn timeout<F: Future>(&self, wait: Duration, future: F) -> Timeout<F> {
        Timeout::new(self.cell.node().runtime(), wait, future)
    }

    /// The token of this actor: cancelled with it or when it has ended, and the other way round. Within `stopped`, a fresh one, the same for
    /// all of the hook, that lasts for the grace period.
    pub fn token(&self) -> CancelToken {
        if self.ending { node::last_token(self.cell.node(), self.incarnation) } else { node::token(&self.member()) }
    }

    /// Starts a child called `name`. It ends before this actor does, and before it restarts.
    pub fn spawn<C: Actor>(&self, name: &str, props: Props<C>) -> Result<ActorRef<C::Msg>, SpawnError<C>> {
        spawn::actor(&self.member(), Some(name), props)
    }

    /// As [`spawn`](Self::spawn), and waits until its `started` hook has returned `Ok`, also if that takes restarts. The actor is spawned by
    /// the call itself, and lives on if the future is dropped. A child whose
    /// `started` asks this actor waits for it in turn: that ask must not be awaited here.
    pub fn spawn_started<C: Actor>(&self, name: &str, props: Props<C>) -> Starting<C> {
        spawn_started::actor(&self.member(), name, props)
    }

    /// Starts a child that needs no name.
    pub fn spawn_unnamed<C: Actor>(&self, props: Props<C>) -> Result<ActorRef<C::Msg>, SpawnError<C>> {
        spawn::actor(&self.member(), None, props)
    }

    /// Stops a child for good, whatever its restart policy, and gives it, to wait for its exit elsewhere.
    pub fn stop_child(&self, name: &str) -> Result<AnyRef, ChildError> {
        child::stop_child(self.cell.node(), name)
    }

    /// Starts a child afresh: an actor after the message in hand, a supervisor with all its children. Counts as no failure.
    pub fn restart_child(&self, name: &str) -> Result<(), ChildError> {
        child::restart_child(self.cell.node(), name)
    }

    /// The live children in start order.
    pub fn children(&self) -> Vec<AnyRef> {
        self.cell.node().children().into_iter().map(|member| AnyRef { member }).collect()
    }

    /// Tells this actor `message` after `wait`, unless this incarnation has ended by then.
    pub fn send_after(&self, wait: Duration, message: A::Msg) -> TimerKey {
        let at = self.now() + wait;
        self.with_timers(|timers| timers.after(at, message))
    }

    /// Tells this actor what `message` makes, every `period`, until this incarnation ends. One that was busy does not get all that it
    /// missed.
    pub fn send_every(&self, period: Duration, message: impl FnMut() -> A::Msg + Send + 'static) -> TimerKey {
        let now = self.now();
        self.with_timers(|timers| timers.every(now, period, Box::new(message)))
    }

    /// Tells this actor what `message` makes whenever none has come for `wait`. Each incarnation begins without.
    pub fn set_receive_timeout(&self, wait: Duration, message: impl FnMut() -> A::Msg + Send + 'static) {
        self.with_timers(|timers| timers.set_receive_timeout(Some((wait, Box::new(message)))));
    }

    /// Takes the receive-timeout back.
    pub fn clear_receive_timeout(&self) {
        self.with_timers(|timers| timers.set_receive_timeout(None));
    }

    /// Takes a timer back. False if it has fired for the last time.
    pub fn cancel_timer(&self, key: TimerKey) -> bool {
        self.with_timers(|timers| timers.cancel(key))
    }

    fn with_timers<R>(&self, f: impl FnOnce(&mut Timers<A::Msg>) -> R) -> R {
        let answer = self.cell.with_timers(f);
        self.cell.mailbox().raise_silently(control::TIMERS);
        answer
    }

    /// Puts a message aside, to be handled later; usually the one in hand. It is not handled yet, and takes no room in the mailbox.
    /// After a restart it is back at the front by itself.
    pub fn stash(&self, message: A::Msg) -> Result<(), StashFull<A::Msg>> {
        self.cell.stash(message, self.cell.stash_capacity()).map_err(StashFull)
    }

    /// Brings back all that was put aside: it is handled next, in the order it came.
    pub fn unstash_all(&self) {
        self.cell.unstash();
    }

    /// How many messages are put aside.
    pub fn stashed(&self) -> usize {
        self.cell.stashed()
    }

    /// Lets `behaviour` handle the messages from the next one on, in place of [`Actor::handle`] or of what was given here before. It lasts
    /// until [`unbecome`](Self::unbecome), or until this incarnation ends: after a restart an actor is at its first behaviour.
    ///
    /// Together with [`stash`](Self::stash) it makes an actor that waits for something before it goes on. Each message costs an allocation
    /// meanwhile. Where the behaviours are few and the messages many, a `match` on the state is cheaper and as plain; an actor made
    /// by [`Props::from_fn`] does it that way.
    ///
    /// ```
    /// use pleach::{Actor, BoxError, Context};
    ///
    /// enum Msg { Opened, Line(String) }
    ///
    /// #[derive(Default)]
    /// struct File { written: Vec<String> }
    ///
    /// impl Actor for File {
    ///     type Msg = Msg;
    ///     type Error = BoxError;
    ///
    ///     async fn handle(&mut self, msg: Msg, cx: &mut Context<Self>) -> Result<(), BoxError> {
    ///         match msg {
    ///             Msg::Opened => {
    ///                 cx.become_with(|file, msg, cx| Box::pin(file.open(msg, cx)));
    ///                 cx.unstash_all();
    ///             }
    ///             line => cx.stash(line)?,
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// impl File {
    ///     async fn open(&mut self, msg: Msg, _cx: &mut Context<Self>) -> Result<(), BoxError> {
    ///         if let Msg::Line(line) = msg {
    ///             self.written.push(line);
    ///         }
    ///         Ok(())
    ///     }
    /// }
    /// # drop((Msg::Line(String::new()), File::default()));
    /// ```
    #[doc(alias = "become")]
    pub fn become_with<F>(&self, behaviour: F)
    where
        F: for<'a> Fn(&'a mut A, A::Msg, &'a mut Self) -> BoxFuture<'a, Result<(), A::Error>> + Send + Sync + 'static,
    {
        drop(self.cell.set_behaviour(Some(Arc::new(Behaviour::<A>(Box::new(behaviour))))));
    }

    /// Goes back to the first behaviour, [`Actor::handle`], from the next message on.
    pub fn unbecome(&self) {
        drop(self.cell.set_behaviour(None));
    }

    /// What handles messages in place of [`Actor::handle`].
    pub(crate) fn behaviour(&self) -> Option<Arc<Behaviour<A>>> {
        self.cell.behaviour().and_then(|behaviour| behaviour.downcast().ok())
    }

    /// Runs `future` beside this actor, as a child task, and tells the actor what `message` makes of its output. Dropped when this
    /// incarnation ends. A panic in it is on record and does not fail the actor.
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
            // If the actor takes no more input, nobody is there to hear.
            drop(me.send(message).await);
        };
        task::launch(&self.member(), None, task::TaskKind::Pipe, pipe).map_err(|refused| refused.why)
    }

    /// Ends this actor after the message in hand.
    pub fn stop(&self) {
        self.cell.raise(control::STOP);
    }

    /// Adds metadata to every later failure of this incarnation, panics included: what only the running code knows, such as an endpoint or a tenant. A
    /// key that is there already gets the new value. False, and no change, once there are [`METADATA_MAX`](crate::METADATA_MAX)
    /// keys. A restart begins without any; [`AnnotatedError`](crate::AnnotatedError) annotates a single error.
    pub fn annotate(&self, key: impl Into<String>, value: impl Into<String>) -> bool {
        self.cell.node().annotate(self.incarnation, key.into(), value.into())
    }

    /// Puts a failure on record and tells the parent of it as [`Signal::Failure`](crate::Signal::Failure), while this actor goes on: no
    /// strategy decides about it, and nothing restarts.
    pub fn notify_failure(&self, error: impl Into<BoxError>) -> FailureInfo {
        let failure = self.recorded(error.into());
        if let Some(parent) = self.cell.node().parent().filter(|parent| parent.wants_signals()) {
            parent.notify(Signal::Failure(failure.clone()));
        }
        failure
    }

    /// Hands a failure past this actor's own supervisor, as if the supervisor's strategy had chosen
    /// [`Escalate`](crate::SupervisorDirective::Escalate): to the supervisor's sink if there is one, else to the strategy above
    /// it. This actor goes on until what is decided there reaches it.
    pub fn escalate(&self, error: impl Into<BoxError>) -> FailureInfo {
        let failure = self.recorded(error.into());
        if let Some(parent) = self.cell.node().parent()
            && let Some((next, failure)) = supervision::escalate(parent, &failure, false)
        {
            supervision::propagate(next, failure);
        }
        failure
    }

    /// A failure of this incarnation, told on the hub.
    fn recorded(&self, error: BoxError) -> FailureInfo {
        let failure = self.cell.node().failure(self.incarnation, Reason::Error(error));
        self.cell.node().events().failure(&failure);
        failure
    }

    /// Puts something into this actor's own control lane.
    pub fn try_send_system(&self, message: SystemMessage) {
        // The actor lives while its own code runs, so nothing can come back.
        drop(self.me().try_send_system(message));
    }

    /// Asks to hear [`Signal::Terminated`](crate::Signal::Terminated) when `other` ends, or at once if it has.
    pub fn watch(&self, other: &AnyRef) {
        node::watch(&other.member, &self.member());
    }

    /// Takes a [`watch`](Self::watch) back: not even news already on its way arrives.
    pub fn unwatch(&self, other: &AnyRef) {
        node::unwatch(other.member.node(), self.cell.node());
        self.cell.mailbox().remove_terminated(other.id());
    }

    /// Whose end this actor is to hear of: what it [watches](Self::watch) and what has not ended yet, by the age of their ids.
    pub fn watching(&self) -> Vec<AnyRef> {
        self.cell.node().watching().into_iter().map(|member| AnyRef { member }).collect()
    }

    /// Who watches this actor.
    pub fn watchers(&self) -> Vec<AnyRef> {
        self.cell.node().watchers().into_iter().map(|member| AnyRef { member }).collect()
    }

    pub(crate) fn member(&self) -> Arc<dyn Member> {
        Arc::clone(&self.cell) as Arc<dyn Member>
    }

    pub(crate) fn cell(&self) -> &Arc<Cell<A::Msg>> {
        &self.cell
    }

    pub(crate) fn next_incarnation(&mut self) {
        self.incarnation += 1;
        self.ending = false;
    }

    /// From here on tokens are fresh: a cancel that ended the incarnation does not reach its last hook.
    pub(crate) fn begin_ending(&mut self) {
        self.ending = true;
    }
}

/// What an actor does with a message, as a value.
pub(crate) struct Behaviour<A: Actor>(Box<Handle<A>>);

type Handle<A> = dyn for<'a> Fn(&'a mut A, <A as Actor>::Msg, &'a mut Context<A>) -> BoxFuture<'a, Result<(), <A as Actor>::Error>>
    + Send
    + Sync;

impl<A: Actor> Behaviour<A> {
    pub(crate) fn handle<'a>(
        &self,
        actor: &'a mut A,
        message: A::Msg,
        cx: &'a mut Context<A>,
    ) -> BoxFuture<'a, Result<(), A::Error>> {
        (self.0)(actor, message, cx)
    }
}

/// The stash is full. The message comes back: handle it, or give the actor a larger `Props::stash_capacity`.
pub struct StashFull<M>(pub M);

impl<M> fmt::Display for StashFull<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the stash is full: bring messages back first, or give the actor a larger `Props::stash_capacity`")
    }
}

impl<M> fmt::Debug for StashFull<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StashFull(..)")
    }
}

impl<M> core::error::Error for StashFull<M> {}
