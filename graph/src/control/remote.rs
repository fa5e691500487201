//! `RunRemote`: a stored run, reached through its store from any process.

use crate::control::view::RunView;
use crate::control::{Command, view};
use crate::log::message::SIGNAL;
use crate::store::message_kind::ANSWER;
use crate::store::{NewMessage, RunStatus, Store, StoreError};
use pleach_core::AskError;
use serde::Serialize;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// A run in a store, to be told things and looked at from anywhere: no graph is needed for it, and nobody need be driving the run.
///
/// Once a call has returned, what it said is durable. Whoever drives the run, now or later, takes it once. A run that is in the middle of a node hears
/// of it with its next commit, or within a second.
#[derive(Clone)]
pub struct RunRemote {
    store: Arc<dyn Store>,
    run: Arc<str>,
}

impl RunRemote {
    /// The run of this id in a store. Whether there is one turns out when it is told something.
    pub fn new(store: &(impl Store + Clone), run: impl Into<Arc<str>>) -> Self {
        Self::of(Arc::new(store.clone()), run.into())
    }

    pub(crate) fn of(store: Arc<dyn Store>, run: Arc<str>) -> Self {
        Self { store, run }
    }

    /// The id of the run.
    pub fn id(&self) -> &str {
        &self.run
    }

    /// Lets no further node start. What runs is finished and committed; then the run is given up and waits until it is told to
    /// [resume](Self::resume).
    pub async fn pause(&self) -> Result<(), TellError> {
        self.command(Command::Pause).await.map(drop)
    }

    /// Lets a paused run go on.
    pub async fn resume(&self) -> Result<(), TellError> {
        self.command(Command::Resume).await.map(drop)
    }

    /// Ends the run for good: its nodes are cut off, and its status is [`RunStatus::Cancelled`].
    pub async fn cancel(&self, why: impl Into<String>) -> Result<(), TellError> {
        self.command(Command::Cancel(why.into())).await.map(drop)
    }

    /// Gives the run a signal, for a node that waits or will wait for one of this name.
    pub async fn signal(&self, name: &str, payload: &(impl Serialize + Sync)) -> Result<(), TellError> {
        self.post(SIGNAL, name, None, json(payload)?).await.map(drop)
    }

    /// As [`signal`](Self::signal), but a second one with the same `dedup` text is none: for callers that may have to repeat themselves.
    pub async fn signal_once(&self, name: &str, dedup: &str, payload: &(impl Serialize + Sync)) -> Result<(), TellError> {
        self.post(SIGNAL, name, Some(dedup.to_string()), json(payload)?).await.map(drop)
    }

    /// Answers an interrupt. If the value does not decode as what the node asks for, the node refuses it.
    pub async fn resume_with(&self, key: &str, value: &(impl Serialize + Sync)) -> Result<(), TellError> {
        self.post(ANSWER, key, None, json(value)?).await.map(drop)
    }

    /// Where the run stands.
    pub async fn look(&self) -> Result<RunView, TellError> {
        view::look(&*self.store, &self.run).await.map_err(TellError::from)
    }

    pub(super) async fn command(&self, command: Command) -> Result<u64, TellError> {
        let post = NewMessage::seal(&self.run, command.name(), None, command.payload());
        Ok(self.store.post(&self.run, post).await?)
    }

    /// Posts it, and gives its number.
    pub(super) async fn post(&self, what: &str, name: &str, dedup: Option<String>, payload: Vec<u8>) -> Result<u64, TellError> {
        let post = NewMessage::seal(&self.run, format!("{what}{name}"), dedup, payload);
        Ok(self.store.post(&self.run, post).await?)
    }
}

pub(super) fn json(value: &impl Serialize) -> Result<Vec<u8>, TellError> {
    serde_json::to_vec(value).map_err(TellError::Json)
}

impl fmt::Debug for RunRemote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunRemote({:?})", self.run)
    }
}

/// Why a run was not told. Nothing has changed, unless the store cannot say.
#[derive(Debug)]
#[non_exhaustive]
pub enum TellError {
    /// The run has ended.
    Ended {
        /// The run.
        run: String,
        /// How.
        status: RunStatus,
    },
    /// The run has left the tree, or is about to: one that is stored can still be told through its store.
    Gone(AskError),
    /// The run is not stored, and has as many messages waiting as it may.
    Full {
        /// How many that is.
        limit: usize,
    },
    /// The payload has no form as JSON.
    Json(serde_json::Error),
    /// The store did not take it.
    Store(StoreError),
}

impl From<StoreError> for TellError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Ended { run, status } => Self::Ended { run, status },
            error => Self::Store(error),
        }
    }
}

impl fmt::Display for TellError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended { run, status } => write!(f, "run {run:?} has ended ({status}), and is told nothing any more"),
            Self::Gone(why) => {
                write!(f, "the run does not stand there any more ({why}): tell it through its store, if it has one")
            }
            Self::Full { limit } => write!(f, "{limit} messages wait to be taken by the run: try again later"),
            Self::Json(error) => write!(f, "what the run was to be told has no form as JSON: {error}"),
            Self::Store(error) => write!(f, "{error}"),
        }
    }
}

impl Error for TellError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Gone(error) => Some(error),
            Self::Json(error) => Some(error),
            Self::Store(error) => Some(error),
            Self::Ended { .. } | Self::Full { .. } => None,
        }
    }
}
