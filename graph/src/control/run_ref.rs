//! `RunRef`: a run in the tree, reached through its control actor.

use crate::control::Command;
use crate::control::inbox::Inbox;
use crate::control::remote::{RunRemote, TellError, json};
use crate::control::run_control::RunControl;
use crate::control::view::RunView;
use crate::log::message::SIGNAL;
use crate::store::message_kind::ANSWER;
use pleach_core::{Actor, ActorPath, ActorRef, Context, LookupError, Mailbox, Name, Props, Reply, RestartPolicy, RootContext};
use serde::Serialize;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

/// The name of that actor, below the path of the run.
pub(crate) const CONTROL: &str = "control";

/// How many messages wait for it.
const MAILBOX_MAX: usize = 64;

/// What the actor beside a run is told. [`RunRef`] says the same as methods.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunMessage {
    /// Let no further node start.
    Pause(Reply<Result<(), TellError>>),
    /// Go on.
    Resume(Reply<Result<(), TellError>>),
    /// End for good.
    Cancel {
        /// Why.
        why: String,
        /// Told once the run was told.
        reply: Reply<Result<(), TellError>>,
    },
    /// Here is a signal.
    Signal {
        /// Its name.
        name: String,
        /// If a signal with this text has come before, this one is none.
        dedup: Option<String>,
        /// What it says, as JSON.
        payload: Vec<u8>,
        /// Told once the run was told.
        reply: Reply<Result<(), TellError>>,
    },
    /// Here is the answer to an interrupt.
    Answer {
        /// The key of the interrupt.
        key: String,
        /// The answer, as JSON.
        value: Vec<u8>,
        /// Told once the run was told.
        reply: Reply<Result<(), TellError>>,
    },
    /// Where does it stand?
    Look(Reply<Result<RunView, TellError>>),
}

/// A run that stands in the tree, within a scope or with a worker. It is found by the path of the run, and dropping it does nothing to the run.
///
/// Of a stored run, whatever a call said is durable once it has returned, and is taken once, by this driver or the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRef {
    actor: ActorRef<RunMessage>,
}

impl RunRef {
    pub(crate) fn new(actor: ActorRef<RunMessage>) -> Self {
        Self { actor }
    }

    /// The run that stands at `path`.
    pub fn find(root: &RootContext, path: &ActorPath) -> Result<Self, LookupError> {
        let name = Name::new(CONTROL).map_err(|_| LookupError::NotFound(path.clone()))?;
        root.lookup(&path.push_child(name)).map(Self::new)
    }

    /// The actor, to be told by messages.
    pub fn actor(&self) -> &ActorRef<RunMessage> {
        &self.actor
    }

    /// Lets no further node start; what runs is finished. A stored run is then given up, with [`RunFault::Paused`](crate::RunFault::Paused), and
    /// goes on once it is told to resume through its store; one that is not stored stays where it is.
    pub async fn pause(&self) -> Result<(), TellError> {
        self.ask(RunMessage::Pause).await
    }

    /// Lets it go on.
    pub async fn resume(&self) -> Result<(), TellError> {
        self.ask(RunMessage::Resume).await
    }

    /// Ends the run for good. Its nodes are cut off; a stored one has the status
    /// [`Cancelled`](crate::store::RunStatus::Cancelled) from then on.
    pub async fn cancel(&self, why: impl Into<String>) -> Result<(), TellError> {
        let why = why.into();
        self.ask(|reply| RunMessage::Cancel { why, reply }).await
    }

    /// Gives the run a signal, for a node that waits or will wait for one of this name.
    pub async fn signal(&self, name: impl Into<String>, payload: &(impl Serialize + Sync)) -> Result<(), TellError> {
        let (name, payload) = (name.into(), json(payload)?);
        self.ask(|reply| RunMessage::Signal { name, dedup: None, payload, reply }).await
    }

    /// As [`signal`](Self::signal), but a second one with the same `dedup` text is none: for callers that may have to repeat themselves.
    pub async fn signal_once(
        &self,
        name: impl Into<String>,
        dedup: impl Into<String>,
        payload: &(impl Serialize + Sync),
    ) -> Result<(), TellError> {
        let (name, dedup, payload) = (name.into(), Some(dedup.into()), json(payload)?);
        self.ask(|reply| RunMessage::Signal { name, dedup, payload, reply }).await
    }

    /// Answers an interrupt.
    pub async fn resume_with(&self, key: impl Into<String>, value: &(impl Serialize + Sync)) -> Result<(), TellError> {
        let (key, value) = (key.into(), json(value)?);
        self.ask(|reply| RunMessage::Answer { key, value, reply }).await
    }

    /// Where the run stands.
    pub async fn look(&self) -> Result<RunView, TellError> {
        self.ask(RunMessage::Look).await
    }

    async fn ask<T: Send + 'static>(
        &self,
        message: impl FnOnce(Reply<Result<T, TellError>>) -> RunMessage,
    ) -> Result<T, TellError> {
        self.actor.ask(message).await.map_err(TellError::Gone)?
    }
}

/// The actor beside the driver of a run.
pub(crate) struct RunActor {
    run_control: Arc<RunControl>,
    inbox: MessageTarget,
}

/// Where what a run is told goes.
#[derive(Clone)]
pub(crate) enum MessageTarget {
    Stored(RunRemote),
    InMemory(Arc<Inbox>),
}

/// What makes the actor for a run.
pub(crate) fn control(run_control: Arc<RunControl>, inbox: MessageTarget) -> Props<RunActor> {
    let props = Props::new(move || RunActor { run_control: Arc::clone(&run_control), inbox: inbox.clone() });
    props.mailbox(Mailbox::bounded(MAILBOX_MAX)).restart(RestartPolicy::Temporary)
}

impl RunActor {
    async fn command(&self, command: Command) -> Result<(), TellError> {
        match &self.inbox {
            MessageTarget::Stored(remote) => self.run_control.point_to(remote.command(command).await?),
            MessageTarget::InMemory(_) => self.run_control.tell(command),
        }
        Ok(())
    }

    async fn deliver(&self, what: &str, name: &str, dedup: Option<String>, payload: Vec<u8>) -> Result<(), TellError> {
        match &self.inbox {
            MessageTarget::Stored(remote) => self.run_control.point_to(remote.post(what, name, dedup, payload).await?),
            MessageTarget::InMemory(inbox) => inbox.hand_over(format!("{what}{name}"), dedup, payload)?,
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
            RunMessage::Cancel { why, reply } => reply.send(self.command(Command::Cancel(why)).await),
            RunMessage::Signal { name, dedup, payload, reply } => {
                reply.send(self.deliver(SIGNAL, &name, dedup, payload).await);
            }
            RunMessage::Answer { key, value, reply } => reply.send(self.deliver(ANSWER, &key, None, value).await),
            RunMessage::Look(reply) => match &self.inbox {
                MessageTarget::Stored(remote) => reply.send(remote.look().await),
                MessageTarget::InMemory(_) => self.run_control.ask(reply),
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
