//! `RunRef`: a run in the tree, reached through its control actor.
//!
//! The control actor is a child of the run's scope. It ends with the run.

use crate::control::Command;
use crate::control::inbox::Inbox;
use crate::control::remote::{RunControlError, RunRemote, json};
use crate::control::run_control::RunControl;
use crate::control::view::RunView;
use crate::log::message::SIGNAL;
use crate::store::message_kind::ANSWER;
use pleach_core::{Actor, ActorPath, ActorRef, Context, LookupError, Mailbox, Name, Props, Reply, RestartPolicy, RootContext};
use serde::Serialize;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

/// The name of the control actor, below the path of the run.
pub(crate) const CONTROL: &str = "control";

/// The mailbox capacity of the control actor.
const MAILBOX_MAX: usize = 64;

/// The messages of the control actor of a run. [`RunRef`] has a method for each.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunMessage {
    /// Pauses the run: no further node starts.
    Pause(Reply<Result<(), RunControlError>>),
    /// Lets a paused run continue with its next nodes.
    Resume(Reply<Result<(), RunControlError>>),
    /// Cancels the run permanently, with a cause.
    Cancel {
        /// The cause that the run reports.
        reason: String,
        /// Answered when the command was accepted.
        reply: Reply<Result<(), RunControlError>>,
    },
    /// Sends a signal to the run.
    Signal {
        /// The name that a node waits for.
        name: String,
        /// Ignores the signal if one with this text was sent before.
        dedup: Option<String>,
        /// The payload of the signal, as JSON.
        payload: Vec<u8>,
        /// Answered when the signal was accepted.
        reply: Reply<Result<(), RunControlError>>,
    },
    /// Answers an interrupt of a node.
    Answer {
        /// The key of the interrupt to answer.
        key: String,
        /// The value of the answer, as JSON.
        value: Vec<u8>,
        /// Answered when the answer was accepted.
        reply: Reply<Result<(), RunControlError>>,
    },
    /// Queries the current position of the run.
    View(Reply<Result<RunView, RunControlError>>),
}

/// A handle to a run in the tree: in a scope, or driven by a worker.
///
/// Get it from [`RunFuture::control`](crate::RunFuture::control) or by path with
/// [`find`](Self::find). Dropping it does not affect the run.
///
/// For a stored run, a message is durable once the call has returned `Ok`, and the current or the
/// next driver takes it exactly once. For an in-memory run, messages are lost when the run ends.
///
/// # Errors
/// All methods that send return a [`RunControlError`]: [`Gone`](RunControlError::Gone) if the run
/// has left the tree, [`Ended`](RunControlError::Ended) if a stored run has ended,
/// [`Full`](RunControlError::Full) if the inbox of an in-memory run is full,
/// [`Json`](RunControlError::Json) if the payload cannot be serialised,
/// [`Store`](RunControlError::Store) if the store failed.
///
/// # Cancel safety
/// If a sending future is dropped, the message may or may not have been delivered. Use
/// [`signal_once`](Self::signal_once) to repeat a signal safely.
///
/// # Examples
///
/// ```
/// use pleach::prelude::*;
/// use std::future::IntoFuture;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let system = ActorSystem::new("shop")?;
/// let runs = system.scope("runs")?;
/// let graph = Graph::<u32>::new("adding")
///     .add_node("wait", |cx: NodeContext, sum: u32| async move {
///         Ok::<_, String>(sum + cx.signal::<u32>("more").await)
///     })
///     .add_edge("wait", END)
///     .set_entry("wait")
///     .compile()?;
///
/// let run = graph.run(40).id("sum").in_scope(&runs).into_future();
/// let control = run.control().expect("a run in a scope has a control actor").clone();
/// control.signal("more", &2).await?;
/// assert_eq!(run.await?, 42);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRef {
    actor: ActorRef<RunMessage>,
}

impl RunRef {
    pub(crate) fn new(actor: ActorRef<RunMessage>) -> Self {
        Self { actor }
    }

    /// Finds the run at `path`.
    ///
    /// # Errors
    /// Returns a [`LookupError`] if no run is at this path.
    pub fn find(root: &RootContext, path: &ActorPath) -> Result<Self, LookupError> {
        let name = Name::new(CONTROL).map_err(|_| LookupError::NotFound(path.clone()))?;
        root.lookup(&path.push_child(name)).map(Self::new)
    }

    /// Returns the address of the control actor, for sending [`RunMessage`]s directly.
    pub fn actor(&self) -> &ActorRef<RunMessage> {
        &self.actor
    }

    /// Pauses the run: no further node starts. Nodes that are running finish.
    ///
    /// A stored run then ends with [`RunFault::Paused`](crate::RunFault::Paused) and leaves the
    /// tree; to continue it, send [`RunRemote::resume`] and resume or claim it again. An in-memory
    /// run stays where it is until [`resume`](Self::resume).
    pub async fn pause(&self) -> Result<(), RunControlError> {
        self.ask(RunMessage::Pause).await
    }

    /// Lets a paused run continue. Has no effect on a run that is not paused.
    pub async fn resume(&self) -> Result<(), RunControlError> {
        self.ask(RunMessage::Resume).await
    }

    /// Cancels the run permanently, with `reason` as the cause. Its nodes are cancelled.
    ///
    /// The status of a stored run becomes [`Cancelled`](crate::store::RunStatus::Cancelled).
    pub async fn cancel(&self, reason: impl Into<String>) -> Result<(), RunControlError> {
        let reason = reason.into();
        self.ask(|reply| RunMessage::Cancel { reason, reply }).await
    }

    /// Sends a signal to the run.
    ///
    /// It goes to a node that waits for this name, or to the next node that does. See
    /// [`NodeContext::signal`](crate::NodeContext::signal).
    pub async fn signal(&self, name: impl Into<String>, payload: &(impl Serialize + Sync)) -> Result<(), RunControlError> {
        let (name, payload) = (name.into(), json(payload)?);
        self.ask(|reply| RunMessage::Signal { name, dedup: None, payload, reply }).await
    }

    /// Sends a signal, unless a signal with the same `dedup` text was sent to this run before.
    ///
    /// For callers that may have to repeat a call, for example after a timeout. A duplicate returns
    /// `Ok`.
    pub async fn signal_once(
        &self,
        name: impl Into<String>,
        dedup: impl Into<String>,
        payload: &(impl Serialize + Sync),
    ) -> Result<(), RunControlError> {
        let (name, dedup, payload) = (name.into(), Some(dedup.into()), json(payload)?);
        self.ask(|reply| RunMessage::Signal { name, dedup, payload, reply }).await
    }

    /// Answers the interrupt with this key.
    ///
    /// A node that cannot decode the value rejects it and keeps waiting; see
    /// [`RunEvent::MessageRejected`](crate::RunEvent::MessageRejected).
    pub async fn resume_with(&self, key: impl Into<String>, value: &(impl Serialize + Sync)) -> Result<(), RunControlError> {
        let (key, value) = (key.into(), json(value)?);
        self.ask(|reply| RunMessage::Answer { key, value, reply }).await
    }

    /// Returns the current position of the run.
    ///
    /// For a stored run, the view shows durable data only.
    pub async fn view(&self) -> Result<RunView, RunControlError> {
        self.ask(RunMessage::View).await
    }

    async fn ask<T: Send + 'static>(
        &self,
        message: impl FnOnce(Reply<Result<T, RunControlError>>) -> RunMessage,
    ) -> Result<T, RunControlError> {
        self.actor.ask(message).await.map_err(RunControlError::Gone)?
    }
}

/// The control actor of a run.
pub(crate) struct RunActor {
    run_control: Arc<RunControl>,
    inbox: MessageTarget,
}

/// Where the control actor delivers messages.
#[derive(Clone)]
pub(crate) enum MessageTarget {
    /// To the inbox in the store.
    Stored(RunRemote),
    /// To the inbox in memory.
    InMemory(Arc<Inbox>),
}

/// Returns the recipe for the control actor of a run. It is not restarted.
pub(crate) fn control(run_control: Arc<RunControl>, inbox: MessageTarget) -> Props<RunActor> {
    let props = Props::new(move || RunActor { run_control: Arc::clone(&run_control), inbox: inbox.clone() });
    props.mailbox(Mailbox::bounded(MAILBOX_MAX)).restart(RestartPolicy::Temporary)
}

impl RunActor {
    async fn command(&self, command: Command) -> Result<(), RunControlError> {
        match &self.inbox {
            MessageTarget::Stored(remote) => self.run_control.note_posted(remote.command(command).await?),
            MessageTarget::InMemory(_) => self.run_control.queue_command(command),
        }
        Ok(())
    }

    async fn deliver(&self, what: &str, name: &str, dedup: Option<String>, payload: Vec<u8>) -> Result<(), RunControlError> {
        match &self.inbox {
            MessageTarget::Stored(remote) => self.run_control.note_posted(remote.send(what, name, dedup, payload).await?),
            MessageTarget::InMemory(inbox) => inbox.send(format!("{what}{name}"), dedup, payload)?,
        }
        Ok(())
    }
}

impl Actor for RunActor {
    type Msg = RunMessage;
    type Error = Infallible;

    async fn handle(&mut self, message: RunMessage, _cx: &mut Context<Self>) -> Result<(), Infallible> {
        if matches!(self.inbox, MessageTarget::Stored(_)) {
            self.run_control.opened().await;
        }
        match message {
            RunMessage::Pause(reply) => reply.send(self.command(Command::Pause).await),
            RunMessage::Resume(reply) => reply.send(self.command(Command::Resume).await),
            RunMessage::Cancel { reason, reply } => reply.send(self.command(Command::Cancel(reason)).await),
            RunMessage::Signal { name, dedup, payload, reply } => {
                reply.send(self.deliver(SIGNAL, &name, dedup, payload).await);
            }
            RunMessage::Answer { key, value, reply } => reply.send(self.deliver(ANSWER, &key, None, value).await),
            RunMessage::View(reply) => match &self.inbox {
                MessageTarget::Stored(remote) => reply.send(remote.view().await),
                MessageTarget::InMemory(_) => self.run_control.queue_query(reply),
            },
        }
        Ok(())
    }
}

impl fmt::Display for RunRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.actor.path())
    }
}
