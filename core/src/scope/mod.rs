//! `Scope`: an owner of whatever is started in it. Dropping it cancels all of that; waiting for it waits for all of it.

pub(crate) mod blocking;
pub(crate) mod producer;
pub(crate) mod supervisor;

use crate::actor::actor_ref::ActorRef;
use crate::actor::props::Props;
use crate::actor::spawn::SpawnError;
use crate::actor::spawn_started::Starting;
use crate::actor::{Actor, spawn, spawn_started};
use crate::events::cause::{Cause, Exit};
use crate::events::failure::FailureInfo;
use crate::ids::name::Name;
use crate::ids::path::{ActorId, ActorPath};
use crate::scope::producer::{Produced, Producer};
use crate::scope::supervisor::Supervisor;
use crate::tree::adopt;
use crate::tree::adopt::Refusal;
use crate::tree::any_ref::{AnyRef, Exited};
use crate::tree::member::{Member, StopMode};
use crate::tree::node::{Node, NodeParent};
use crate::tree::supervision::restart_together::Progress;
use crate::tree::supervision::strategy::SupervisorStrategy;
use crate::tree::supervision::{ChildAction, FailedChild, FailureStep};
use crate::tree::task::{LaunchError, Outcome, Task, TaskKind};
use crate::tree::token::CancelToken;
use crate::tree::wait_all::{WaitAll, WaitError, outcome};
use crate::tree::{Tree, node, supervision, task, waits};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;
use core::time::Duration;

/// An owner of tasks, actors, producers and further scopes. Cancelling it, or dropping it, reaches all of them.
///
/// A task that fails cancels the scope, and [`wait_all`](Self::wait_all) returns that failure; an actor that fails follows its
/// supervision first (restart, three times in five seconds) and cancels the scope only when that gives up.
pub struct Scope {
    member: Arc<ScopeMember>,
    /// Of the tasks launched through this handle.
    cancel_grace: Option<Duration>,
}

/// What stands in the tree for a scope, a supervisor or a guardian: a node with children and no task.
pub(crate) struct ScopeMember {
    node: Node,
    role: Role,
}

/// What a failure of a child means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Everything in it is cancelled.
    Scope,
    /// Nothing else happens.
    IsolatedScope,
    /// Its children are stopped, and the failure goes up.
    Supervisor,
    /// The failure ends here: it is on record, and everything else goes on.
    Top,
}

impl ScopeMember {
    /// Takes no more children and plans the end of those there are. False if there are none, or if they end like this already: making the
    /// plan again for every call would cost as much as all children.
    fn plan_stop(&self, how: StopMode) -> bool {
        let begins = !self.node.is_stopping_by(how) && self.node.note_stop(how);
        if begins {
            self.node.announce_closing();
            self.node.plan_stop(how);
        }
        begins
    }

    pub(crate) fn top(tree: &Arc<Tree>) -> Arc<Self> {
        let node = Node::new(NodeParent::Root(Arc::clone(tree)), tree.next_id(), Name::root());
        Arc::new(Self { node, role: Role::Top })
    }

    pub(crate) fn below(parent: &Arc<dyn Member>, name: Option<&str>, role: Role) -> Result<Arc<Self>, Refusal> {
        let member = Arc::new(Self { node: adopt::new_node(parent.node().tree(), parent, name)?, role });
        adopt::adopt(parent, Arc::clone(&member) as Arc<dyn Member>)?;
        Ok(member)
    }

    fn as_member(self: &Arc<Self>) -> Arc<dyn Member> {
        Arc::clone(self) as Arc<dyn Member>
    }

    /// Leaves the tree if nothing is left to wait for.
    fn exit_if_childless(self: &Arc<Self>) {
        if !self.node.has_children()
            && let Some(exit) = self.exit_when_childless()
        {
            node::leave(&self.as_member(), &exit);
        }
    }
}

impl Member for ScopeMember {
    fn node(&self) -> &Node {
        &self.node
    }

    fn stop_by(self: Arc<Self>, how: StopMode) {
        if self.plan_stop(how) {
            self.node.stop_next_child();
        }
        self.finish_stop();
    }

    fn begin_stop(self: Arc<Self>, how: StopMode) -> bool {
        let begins = self.plan_stop(how);
        if !begins && self.node.has_children() {
            // Its children are ending already. Siblings that end after it wait for that from now on.
            waits::break_cycles_of(vec![self]);
        }
        begins
    }

    fn finish_stop(self: Arc<Self>) {
        self.exit_if_childless();
    }

    fn on_cancel(self: Arc<Self>) {
        self.node.refuse_children();
        self.exit_if_childless();
    }

    fn exit_when_childless(&self) -> Option<Exit> {
        if let Some(failure) = self.node.first_failure().filter(|_| self.role != Role::Top) {
            return Some(Exit::Failed(failure));
        }
        if let Some(cause) = self.node.cause() {
            return Some(Exit::Cancelled(cause));
        }
        self.node.noted_stop().map(StopMode::exit)
    }

    fn child_failed(self: Arc<Self>, failure: FailureInfo) -> FailureStep {
        match self.role {
            Role::Top => {
                self.node.record_failure(&failure);
                self.node.tree().unhandled(failure);
                FailureStep::default()
            }
            // One that has failed and is stopping needs no second verdict, however many of its children fail meanwhile.
            Role::Supervisor if self.node.is_failing() => FailureStep::default(),
            Role::Supervisor => supervision::settle(self, FailedChild::Supervisor, failure),
            Role::Scope | Role::IsolatedScope => {
                Arc::clone(&self).carry_out(ChildAction::Stop, failure.clone());
                // What failed in a scope cannot be started again by whoever is above: it is theirs to fail.
                let above = self.node.parent().filter(|_| self.role == Role::Scope);
                let next = above.map(|above| (Arc::clone(above), failure.handed_to(above)));
                FailureStep { next, handed_up: None }
            }
        }
    }

    fn carry_out(self: Arc<Self>, verdict: ChildAction, failure: FailureInfo) {
        match verdict {
            ChildAction::Stop | ChildAction::Escalate { .. } => {}
            ChildAction::Restart(wait) => return supervision::restart_supervisor(&self.as_member(), wait),
            ChildAction::Resume | ChildAction::Wait(_) => return,
        }
        self.node.record_failure(&failure);
        match self.role {
            Role::Top | Role::IsolatedScope => {}
            Role::Scope => node::cancel(&self.as_member(), &Cause::Failed(failure)),
            Role::Supervisor => self.stop_by(StopMode::Stop),
        }
    }

    fn halt(self: Arc<Self>) -> Progress {
        if self.role == Role::Supervisor {
            return supervision::halt(&self.node);
        }
        self.stop_by(StopMode::Stop);
        Progress::ByItself
    }

    fn start_again(self: Arc<Self>) -> Progress {
        supervision::start(&self.node)
    }

    fn waits_for(&self) -> Vec<Arc<dyn Member>> {
        if self.waits_for_children() { self.node.children() } else { supervision::waits_for(&self.node).into_iter().collect() }
    }

    fn waits_for_children(&self) -> bool {
        // One that has brought its children down waits for whoever has it rest.
        self.node.known_supervision(|guardian| guardian.rests()) != Some(true)
    }

    fn restarts_children(&self) -> bool {
        self.role == Role::Supervisor
    }

    fn survives_child_failures(&self) -> bool {
        matches!(self.role, Role::Top | Role::IsolatedScope)
    }

    fn restart(self: Arc<Self>) -> bool {
        let restarts = self.role == Role::Supervisor;
        if restarts {
            supervision::restart_supervisor(&self.as_member(), Duration::ZERO);
        }
        restarts
    }
}

impl Scope {
    /// A scope below `token`: cancelled with it. It stands at the top of a tree of its own.
    pub fn under(token: &CancelToken) -> Self {
        let tree = token.tree();
        let id = tree.next_id();
        let node = Node::new(NodeParent::Root(Arc::clone(tree)), id, Name::made(id));
        let member = Arc::new(ScopeMember { node, role: Role::Scope });
        let dynamic: Arc<dyn Member> = Arc::clone(&member) as Arc<dyn Member>;
        match token.attach(&dynamic) {
            Ok(place) => member.node.hang_below(token.clone(), place),
            Err(cause) => node::cancel(&dynamic, &cause),
        }
        Self { member, cancel_grace: None }
    }

    pub(crate) fn below(parent: &Arc<dyn Member>, name: Option<&str>) -> Result<Self, Refusal> {
        ScopeMember::below(parent, name, Role::Scope).map(|member| Self { member, cancel_grace: None })
    }

    /// A scope within this one. If it fails, so does this one.
    pub fn scope(&self, name: &str) -> Result<Scope, Refusal> {
        Self::below(&self.member.as_member(), Some(name))
    }

    /// A scope within this one whose failures stay in it: tasks that fail cancel nothing.
    pub fn isolated_scope(&self, name: &str) -> Result<Scope, Refusal> {
        let member = ScopeMember::below(&self.member.as_member(), Some(name), Role::IsolatedScope)?;
        Ok(Self { member, cancel_grace: None })
    }

    /// A supervisor within this scope.
    pub fn supervisor(&self, name: &str, strategy: impl SupervisorStrategy) -> Result<Supervisor, Refusal> {
        Supervisor::below(&self.member.as_member(), name, strategy)
    }

    /// Runs a future as a child. A scope that is shutting down refuses and hands the future back.
    ///
    /// The future may return `()` or a `Result`; an `Err` or a panic is a failure and cancels the scope.
    pub fn launch<F>(&self, future: F) -> Result<Task, LaunchError<F>>
    where
        F: Future<Output: Outcome> + Send + 'static,
    {
        self.task().launch(future)
    }

    /// Gives every task that is launched in this scope from now on a [cancel grace](Launch::cancel_grace) of `grace`. Scopes and actors
    /// within it have their own.
    #[must_use]
    pub fn with_cancel_grace(mut self, grace: Duration) -> Self {
        self.cancel_grace = Some(grace);
        self
    }

    /// A task to be given a name or kept apart before it is launched.
    pub fn task(&self) -> Launch<'_> {
        Launch { scope: self, name: None, isolated: false, cancel_grace: self.cancel_grace }
    }

    /// Runs a producer as a child, and gives the receiver of what it sends. At most `capacity` items (at least one) wait between
    /// them. The channel closes when the producer returns, fails or is cancelled.
    pub fn produce<T, F>(&self, capacity: usize, producer: impl FnOnce(Producer<T>) -> F) -> Result<Produced<T>, LaunchError<F>>
    where
        T: Send + 'static,
        F: Future<Output: Outcome> + Send + 'static,
    {
        producer::produce(&self.member.as_member(), capacity, producer)
    }

    /// Starts an actor called `name` as a child.
    ///
    /// ```
    /// use pleach::{BoxError, CancelToken, Dispatcher, Props, Scope};
    ///
    /// let sim = Dispatcher::seeded(1);
    /// let scope = Scope::under(&CancelToken::root(sim.runtime()));
    /// let adder = scope.spawn("adder", Props::from_fn(|| 0, |sum: &mut u32, n: u32| {
    ///     *sum += n;
    ///     Ok::<(), BoxError>(())
    /// })).unwrap();
    /// adder.tell(1).unwrap();
    /// ```
    pub fn spawn<A: Actor>(&self, name: &str, props: Props<A>) -> Result<ActorRef<A::Msg>, SpawnError<A>> {
        spawn::actor(&self.member.as_member(), Some(name), props)
    }

    /// Starts an actor that needs no name.
    pub fn spawn_unnamed<A: Actor>(&self, props: Props<A>) -> Result<ActorRef<A::Msg>, SpawnError<A>> {
        spawn::actor(&self.member.as_member(), None, props)
    }

    /// As [`spawn`](Self::spawn), by its earlier name.
    pub fn actor<A: Actor>(&self, name: &str, props: Props<A>) -> Result<ActorRef<A::Msg>, SpawnError<A>> {
        spawn::actor(&self.member.as_member(), Some(name), props)
    }

    /// As [`spawn`](Self::spawn), and waits until its `started` hook has returned `Ok`, also if that takes restarts. The actor is spawned by
    /// the call itself, and lives on if the future is dropped.
    pub fn spawn_started<A: Actor>(&self, name: &str, props: Props<A>) -> Starting<A> {
        spawn_started::actor(&self.any().member, name, props)
    }

    /// The token of this scope: cancelled with it or when it has ended, and the other way round.
    pub fn token(&self) -> CancelToken {
        node::token(&self.member.as_member())
    }

    /// Cancels everything in the scope, and the scope takes nothing more. The first cause wins.
    pub fn cancel(&self, cause: impl Into<Cause>) {
        node::cancel(&self.member.as_member(), &cause.into());
    }

    /// Ends the children one after the other, the youngest first, each after what it has in hand.
    pub fn stop(&self) {
        Arc::clone(&self.member).stop_by(StopMode::Stop);
    }

    /// Takes nothing more, and ends when all children have ended of themselves: actors after what is in their mailboxes.
    pub fn close(&self) {
        Arc::clone(&self.member).stop_by(StopMode::Close);
    }

    /// Waits until every child has ended and every `on_done` of theirs has run. Any number of callers.
    ///
    /// Gives the first failure that cancelled the scope, if there was one. Awaited from inside a child it is an error and not a
    /// deadlock.
    pub fn wait_all(&self) -> WaitAll {
        WaitAll::of(self.member.as_member(), None)
    }

    /// As [`wait_all`](Self::wait_all), but answers after `wait` at the latest, with what is still running.
    pub fn wait_all_for(&self, wait: Duration) -> WaitAll {
        WaitAll::of(self.member.as_member(), Some(wait))
    }

    /// Answers at once: `Ok` only when there are no children.
    pub fn try_wait_all(&self) -> Result<(), WaitError> {
        if self.member.node.has_children() {
            return Err(WaitError::StillRunning(self.member.node.running()));
        }
        outcome(&self.member.node)
    }

    /// Runs `f` with the exit of the scope, once: when it ends, or at once if it has.
    pub fn on_done(&self, f: impl FnOnce(&Exit) + Send + 'static) {
        self.member.node.on_done(Box::new(f));
    }

    /// Waits for the scope itself to end, which it does after a cancel, stop or close, when its last child has.
    pub fn exited(&self) -> Exited {
        self.any().exited()
    }

    /// Who it is.
    pub fn id(&self) -> ActorId {
        self.member.node.id()
    }

    /// Where it stands in the tree.
    pub fn path(&self) -> ActorPath {
        self.member.node.path()
    }

    /// The live children in start order.
    pub fn children(&self) -> Vec<AnyRef> {
        self.member.node.children().into_iter().map(|member| AnyRef { member }).collect()
    }

    /// The scope as something in the tree.
    pub fn any(&self) -> AnyRef {
        AnyRef { member: self.member.as_member() }
    }
}

impl<A: Actor> crate::actor::context::Context<A> {
    /// A scope among the children of this actor. It is an owner: dropping it cancels what it holds.
    pub fn scope(&self, name: &str) -> Result<Scope, Refusal> {
        Scope::below(&self.member(), Some(name))
    }
}

#[cfg(feature = "std")]
impl Scope {
    /// As [`wait_all_for`](Self::wait_all_for), from a plain thread: it answers in time even when every worker of the runtime is stuck
    /// inside a poll.
    pub fn blocking_wait_all_for(&self, wait: Duration) -> Result<(), WaitError> {
        crate::base::block_on::block_on_for(self.wait_all(), wait).unwrap_or_else(|| self.try_wait_all())
    }
}

/// Dropping the owner cancels what it owns, without waiting.
impl Drop for Scope {
    fn drop(&mut self) {
        node::cancel(&self.member.as_member(), &Cause::Dropped);
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope({})", self.path())
    }
}

/// A task about to be launched; from [`Scope::task`].
#[must_use = "a task is launched by `launch`"]
pub struct Launch<'a> {
    scope: &'a Scope,
    name: Option<&'a str>,
    isolated: bool,
    cancel_grace: Option<Duration>,
}

impl<'a> Launch<'a> {
    /// Gives the task a name in the tree.
    pub fn named(mut self, name: &'a str) -> Self {
        self.name = Some(name);
        self
    }

    /// A failure of this task does not cancel the scope; it is still on record.
    pub fn isolated(mut self) -> Self {
        self.isolated = true;
        self
    }

    /// Lets the task run on for `grace` after a cancel, to tidy up; then it is dropped. Without it a cancel drops the task at its next
    /// await.
    ///
    /// The task learns of the cancel by the token of its scope. Its exit is [`Exit::TidiedUp`] if it returned in time,
    /// [`Exit::Cancelled`] if it was dropped. A task that is cancelled before its first poll is dropped at once. After a shutdown's cancel the
    /// system waits for its own [`grace`](crate::SystemBuilder::grace): a longer one here is reported there.
    ///
    /// ```
    /// use pleach::{CancelToken, Dispatcher, Exit, Scope};
    /// use std::time::Duration;
    ///
    /// let dispatcher = Dispatcher::seeded(1);
    /// let scope = Scope::under(&CancelToken::root(dispatcher.runtime()));
    /// let token = scope.token();
    /// let task = scope.task().cancel_grace(Duration::from_secs(5)).launch(async move {
    ///     token.cancelled().await;
    ///     // Here it flushes, says goodbye, gives back what it holds.
    /// })?;
    /// dispatcher.drain_ready();
    /// scope.cancel("enough");
    /// dispatcher.drain_ready();
    /// assert!(matches!(task.any().exit(), Some(Exit::TidiedUp(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.cancel_grace = Some(grace);
        self
    }

    /// Launches it.
    pub fn launch<F>(self, future: F) -> Result<Task, LaunchError<F>>
    where
        F: Future<Output: Outcome> + Send + 'static,
    {
        let kind = if self.isolated { TaskKind::Isolated } else { TaskKind::Sibling };
        task::launch_with_grace(&self.scope.member.as_member(), self.name, kind, self.cancel_grace, future)
    }
}
