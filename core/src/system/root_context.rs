//! `RootContext`: a tree as seen from outside: what can be done in it by whoever is no part of it and does not own it.

use crate::actor::actor_ref::ActorRef;
use crate::actor::props::Props;
use crate::actor::spawn::SpawnError;
use crate::actor::{Actor, spawn};
use crate::base::catch;
use crate::base::reason::Reason;
use crate::events::cause::Cause;
use crate::events::counts::Counts;
use crate::events::event::Event;
use crate::events::failure::FailureInfo;
use crate::events::hub::{FailureEventHub, Listening};
use crate::events::signal::Terminated;
use crate::ids::path::ActorPath;
use crate::mailbox::send_error::SendError;
use crate::scope::member::ScopeMember;
use crate::tree::any_ref::AnyRef;
use crate::tree::member::{Member, StopMode};
use crate::tree::node;
use crate::tree::node::Running;
use crate::tree::supervision::escalate::EscalationSink;
use crate::tree::supervision::unhandled::Escalations;
use crate::tree::supervision::unhandled::RootHandler;
use crate::tree::token::CancelToken;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;

/// A handle on a system that owns nothing: spawn, look up, watch and count from outside any actor.
#[derive(Clone)]
pub struct RootContext {
    root: Arc<ScopeMember>,
    user: Arc<ScopeMember>,
}

impl RootContext {
    pub(crate) fn new(root: Arc<ScopeMember>, user: Arc<ScopeMember>) -> Self {
        Self { root, user }
    }

    /// Starts an actor at `/user/name`.
    pub fn spawn<A: Actor>(&self, name: &str, props: Props<A>) -> Result<ActorRef<A::Msg>, SpawnError<A>> {
        let user: Arc<dyn Member> = Arc::clone(&self.user) as Arc<dyn Member>;
        spawn::actor(&user, Some(name), props)
    }

    /// Starts an actor that needs no name below `/user`.
    pub fn spawn_unnamed<A: Actor>(&self, props: Props<A>) -> Result<ActorRef<A::Msg>, SpawnError<A>> {
        let user: Arc<dyn Member> = Arc::clone(&self.user) as Arc<dyn Member>;
        spawn::actor(&user, None, props)
    }

    /// Whatever stands at `path` now.
    pub fn lookup_any(&self, path: &ActorPath) -> Option<AnyRef> {
        let mut member: Arc<dyn Member> = Arc::clone(&self.root) as Arc<dyn Member>;
        if path.node().is_some() {
            return None;
        }
        for step in path.steps() {
            member = member.node().child(step)?;
        }
        Some(AnyRef { member })
    }

    /// The actor at `path`, if there is one and it understands `M`.
    pub fn lookup<M: Send + 'static>(&self, path: &ActorPath) -> Result<ActorRef<M>, LookupError> {
        let found = self.lookup_any(path).ok_or_else(|| LookupError::NotFound(path.clone()))?;
        found.actor().ok_or_else(|| LookupError::WrongType { path: path.clone(), asked: core::any::type_name::<M>() })
    }

    /// Tells the actor at `path` something, if there is one and it understands `M`; a message that does not get there comes back.
    pub fn dispatch<M: Send + 'static>(&self, path: &ActorPath, message: M) -> Result<(), DispatchError<M>> {
        match self.lookup(path) {
            Ok(actor) => actor.tell(message).map_err(DispatchError::Send),
            Err(why) => Err(DispatchError::Lookup { why, message }),
        }
    }

    /// Hears of the end of `other`, or at once if it has ended; a restart is no end. Dropping the future takes the watch back.
    pub fn watch(&self, other: &AnyRef) -> impl Future<Output = Terminated> + Send + use<> {
        let (id, path, exited) = (other.id(), other.path(), other.exited());
        async move { Terminated { id, path, exit: exited.await } }
    }

    /// What became of every message there ever was.
    pub fn counts(&self) -> Counts {
        self.root.node().counts_below()
    }

    /// How many failures are on record.
    pub fn failures(&self) -> usize {
        self.root.node().events().failures()
    }

    /// Hears every event from now on, in the thread in which it happens: be quick, or hand it on. A listener that panics harms
    /// nobody. It listens until the handle is told to stop; dropping the handle changes nothing.
    pub fn on_event(&self, listener: impl Fn(&Event) + Send + Sync + 'static) -> Listening {
        self.hub().listen(listener)
    }

    /// Where this system tells what happens in it: subscribe there to hear of it in a task of your own.
    pub fn hub(&self) -> FailureEventHub {
        FailureEventHub::of(&self.root.node().tree().events)
    }

    /// How many failures came up to the root unhandled.
    pub fn unhandled(&self) -> usize {
        self.root.node().tree().unhandled.count()
    }

    /// Takes the failures that came up to the root and that no root handler took: the first 256 since the last time, and how many
    /// more there were.
    pub fn take_escalations(&self) -> Escalations {
        self.root.node().tree().unhandled.take()
    }

    /// Sets the handler of failures that come up to the root, from now on, in place of the one there was; see
    /// [`SystemBuilder::on_root_failure`](crate::SystemBuilder::on_root_failure). Failures that were kept before stay for
    /// [`take_escalations`](Self::take_escalations).
    pub fn set_on_root_failure(&self, handler: impl Fn(&FailureInfo, &RootContext) + Send + Sync + 'static) {
        self.root.node().tree().unhandled.handle_with(self.guard_handler(handler));
    }

    /// Sets the sink of supervisors that neither have nor inherit one, from now on; see
    /// [`SystemBuilder::escalate_to`](crate::SystemBuilder::escalate_to). [`ParentGuardianSink`](crate::ParentGuardianSink) is the
    /// default again.
    pub fn set_escalation_sink(&self, sink: impl EscalationSink) {
        self.root.node().tree().set_sink(Arc::new(sink));
    }

    /// Gives `sink` what neither the root's sink nor its handler takes, before it is kept.
    pub(crate) fn escalate_outside(&self, sink: impl EscalationSink) {
        self.root.node().tree().unhandled.give_outside(Arc::new(sink));
    }

    /// Wraps a root handler so that it gets a `RootContext` made for the call, and a panic in it is recorded. It holds the tree weakly.
    fn guard_handler(&self, handler: impl Fn(&FailureInfo, &RootContext) + Send + Sync + 'static) -> RootHandler {
        let (root, user) = (Arc::downgrade(&self.root), Arc::downgrade(&self.user));
        Arc::new(move |failure| {
            // The failed member holds the root. The user guardian may have ended with the system's owner: the root, which is
            // cancelled then, stands in for it and refuses everything as well.
            let Some(root) = root.upgrade() else { return false };
            let user = user.upgrade().unwrap_or_else(|| Arc::clone(&root));
            let context = Self::new(root, user);
            let outcome = catch::catch(|| handler(failure, &context));
            outcome.map_err(|reason| context.root.node().events().failure(&context.failure(reason))).is_ok()
        })
    }

    /// A failure of the root itself.
    pub(crate) fn failure(&self, reason: Reason) -> FailureInfo {
        self.root.node().failure(0, reason)
    }

    /// Everything that runs, in start order.
    pub fn running(&self) -> Vec<Running> {
        self.root.node().running()
    }

    /// Begins to shut down without waiting: starts nothing more, and ends everything youngest first, after what it has.
    pub fn begin_shutdown(&self) {
        Arc::clone(&self.root).stop_by(StopMode::Close);
    }

    /// A token that is cancelled as soon as this system begins to end; see [`System::shutdown_token`](crate::System::shutdown_token).
    pub fn shutdown_token(&self) -> CancelToken {
        self.root.node().closing_token()
    }

    /// Cancels everything at once, without waiting.
    pub fn kill(&self) {
        node::cancel(&(Arc::clone(&self.root) as Arc<dyn Member>), &Cause::Cancelled);
    }
}

impl fmt::Debug for RootContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RootContext").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

/// Why a lookup gave no actor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LookupError {
    /// Nothing stands there now.
    NotFound(ActorPath),
    /// Something stands there, and it is no actor with this message type.
    WrongType {
        /// Where.
        path: ActorPath,
        /// The message type that was asked for.
        asked: &'static str,
    },
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(path) => write!(f, "nothing stands at {path} now: check the path, or start it first"),
            Self::WrongType { path, asked } => write!(f, "what stands at {path} is no actor that understands {asked}"),
        }
    }
}

impl core::error::Error for LookupError {}

/// Why a message did not get to a path. It comes back.
pub enum DispatchError<M> {
    /// No actor that understands it stands there.
    Lookup {
        /// Why not.
        why: LookupError,
        /// The message.
        message: M,
    },
    /// The actor there did not accept it.
    Send(SendError<M>),
}

impl<M> fmt::Display for DispatchError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lookup { why, .. } => write!(f, "{why}"),
            Self::Send(error) => write!(f, "{error}"),
        }
    }
}

impl<M> fmt::Debug for DispatchError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lookup { why, .. } => f.debug_struct("Lookup").field("why", why).finish_non_exhaustive(),
            Self::Send(error) => f.debug_tuple("Send").field(error).finish(),
        }
    }
}

impl<M> core::error::Error for DispatchError<M> {}
