//! `RunRemote`: a stored run, reached through its store from any process.

use crate::control::delivery::{Delivery, Described};
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
use std::time::Duration;

/// A handle to a stored run, for any process that can reach its store.
///
/// It needs neither the graph nor a running driver. Once a call has returned `Ok`, its message is
/// durable, and the current or the next driver takes it exactly once. A driver that is executing a
/// node notices a message with its next commit, or within about a second.
///
/// # Errors
/// All methods that send return a [`Delivery`]. Awaited, it fails with a [`RunControlError`]:
/// [`Ended`](RunControlError::Ended) if the run has ended, [`Json`](RunControlError::Json) if the
/// payload cannot be serialised, [`Store`](RunControlError::Store) if the store failed, has no such
/// run, or has a full inbox for it.
///
/// # Cancel safety
/// If a sending future is dropped, the message may or may not have been posted. Use
/// [`signal_once`](Self::signal_once) to repeat a signal safely.
///
/// # Examples
///
/// ```
/// use pleach::prelude::*;
/// use pleach::durable::RunRemote;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = Graph::<u32>::new("adding")
///     .add_node("wait", |cx: NodeContext, sum: u32| async move {
///         Ok::<_, String>(sum + cx.signal::<u32>("more").await)
///     })
///     .add_edge("wait", END)
///     .set_entry("wait")
///     .compile()?;
/// let store = MemoryStore::new();
/// graph.run(40).id("sum").checkpoint(&store).enqueue().await?;
///
/// // In any process that can open the store.
/// let remote = RunRemote::new(&store, "sum");
/// remote.signal_once("more", "request-1", &2).await?;
/// remote.signal_once("more", "request-1", &2).await?; // a repeated call, has no effect
///
/// assert_eq!(graph.resume("sum").checkpoint(&store).await?, 42);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RunRemote {
    store: Arc<dyn Store>,
    run: Arc<str>,
}

impl RunRemote {
    /// Creates a handle to the run with this id. Does not access the store: a missing run is
    /// reported by the first call.
    pub fn new(store: &(impl Store + Clone), run: impl Into<Arc<str>>) -> Self {
        Self::of(Arc::new(store.clone()), run.into())
    }

    pub(crate) fn of(store: Arc<dyn Store>, run: Arc<str>) -> Self {
        Self { store, run }
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns the id of the run.
    pub fn id(&self) -> &str {
        &self.run
    }

    /// Pauses the run: no further node starts.
    ///
    /// Nodes that are running finish and are committed. Then the driver releases the run, which
    /// ends there with [`RunFault::Paused`](crate::RunFault::Paused). It can be claimed again after
    /// [`resume`](Self::resume).
    pub fn pause(&self) -> Delivery {
        self.deliver_command(Command::Pause)
    }

    /// Lets a paused run continue. Has no effect on a run that is not paused.
    pub fn resume(&self) -> Delivery {
        self.deliver_command(Command::Resume)
    }

    /// Cancels the run permanently, with `reason` as the cause.
    ///
    /// Its nodes are cancelled, and its status becomes [`RunStatus::Cancelled`]. If several cancels
    /// are sent, the first one counts.
    pub fn cancel(&self, reason: impl Into<String>) -> Delivery {
        self.deliver_command(Command::Cancel(reason.into()))
    }

    /// Sends a signal to the run.
    ///
    /// It goes to a node that waits for this name, or to the next node that does. See
    /// [`NodeContext::signal`](crate::NodeContext::signal).
    pub fn signal(&self, name: &str, payload: &(impl Serialize + Sync + ?Sized)) -> Delivery {
        self.deliver(SIGNAL, name, None, json(payload))
    }

    /// Sends a signal, unless a signal with the same `dedup` text was sent to this run before.
    ///
    /// For callers that may have to repeat a call, for example after a timeout. A duplicate returns
    /// `Ok`.
    pub fn signal_once(&self, name: &str, dedup: &str, payload: &(impl Serialize + Sync + ?Sized)) -> Delivery {
        self.deliver(SIGNAL, name, Some(dedup.to_string()), json(payload))
    }

    /// Answers the interrupt with this key.
    ///
    /// A node that cannot decode the value refuses it and keeps waiting.
    /// [`confirmed`](Delivery::confirmed) reports that, and so do [`RunView::refused`] and
    /// [`RunEvent::MessageRejected`](crate::RunEvent::MessageRejected).
    pub fn resume_with(&self, key: &str, value: &(impl Serialize + Sync + ?Sized)) -> Delivery {
        self.deliver(ANSWER, key, None, json(value))
    }

    /// Reads the current position of the run from the store.
    ///
    /// The view shows durable data only. It does not need a driver and does not change the run.
    pub async fn view(&self) -> Result<RunView, RunControlError> {
        view::read_view(&*self.store, &self.run).await.map_err(RunControlError::from)
    }

    fn deliver_command(&self, command: Command) -> Delivery {
        let (remote, name) = (self.clone(), command.name().to_string());
        let sending = Box::pin(async move { remote.command(command).await });
        Delivery::new(Arc::clone(&self.store), Arc::clone(&self.run), name, sending)
    }

    fn deliver(
        &self,
        what: &'static str,
        name: &str,
        dedup: Option<String>,
        payload: Result<Vec<u8>, RunControlError>,
    ) -> Delivery {
        let (remote, key) = (self.clone(), name.to_string());
        let sending = Box::pin(async move { remote.send(what, &key, dedup, payload?).await });
        Delivery::new(Arc::clone(&self.store), Arc::clone(&self.run), format!("{what}{name}"), sending)
    }

    /// Posts a command and returns its number in the inbox.
    pub(super) async fn command(&self, command: Command) -> Result<u64, RunControlError> {
        let message = NewMessage::seal(&self.run, command.name(), None, command.payload());
        Ok(self.store.send_message(&self.run, message).await?)
    }

    /// Posts a message named `what` + `name` and returns its number in the inbox.
    pub(super) async fn send(
        &self,
        what: &str,
        name: &str,
        dedup: Option<String>,
        payload: Vec<u8>,
    ) -> Result<u64, RunControlError> {
        let message = NewMessage::seal(&self.run, format!("{what}{name}"), dedup, payload);
        Ok(self.store.send_message(&self.run, message).await?)
    }
}

pub(super) fn json(value: &(impl Serialize + ?Sized)) -> Result<Vec<u8>, RunControlError> {
    serde_json::to_vec(value).map_err(RunControlError::Json)
}

impl fmt::Debug for RunRemote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunRemote({:?})", self.run)
    }
}

/// The error of a message that was not delivered to a run, or that the run did not take.
///
/// The run is unchanged. One exception: after [`StoreError::Unavailable`] inside
/// [`Store`](Self::Store), the message may have been posted.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunControlError {
    /// The run has ended and takes no messages.
    Ended {
        /// The id of the run.
        run: String,
        /// The final status of the run.
        status: RunStatus,
    },
    /// The run has left the tree or is about to. A stored run can still be reached through
    /// [`RunRemote`].
    Gone(AskError),
    /// The inbox of the in-memory run is full.
    Full {
        /// The capacity of the inbox, in messages.
        limit: usize,
    },
    /// The run refused the message, and says why. It keeps waiting for another one.
    Refused {
        /// The id of the run.
        run: String,
        /// The name of the message: `answer/KEY`, `signal/NAME` or `command/VERB`.
        name: String,
        /// Why the run refused it.
        reason: String,
    },
    /// The run has not taken the message in time. The message stays in the inbox.
    Unconfirmed {
        /// The id of the run.
        run: String,
        /// The name of the message: `answer/KEY`, `signal/NAME` or `command/VERB`.
        name: String,
        /// How long the sender waited.
        waited: Duration,
        /// The keys and names that the run waits for.
        waits: Vec<String>,
    },
    /// A confirmation needs a clock, and no runtime was found. Nothing was sent.
    NoRuntime,
    /// The payload could not be serialised as JSON.
    Json(serde_json::Error),
    /// The store rejected the message or failed.
    Store(StoreError),
}

impl From<StoreError> for RunControlError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Ended { run, status } => Self::Ended { run, status },
            error => Self::Store(error),
        }
    }
}

impl fmt::Display for RunControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended { run, status } => write!(f, "run {run:?} has ended ({status}); the message was not delivered"),
            Self::Gone(reason) => {
                write!(f, "the run has left the tree ({reason}); if it is stored, send the message with `RunRemote`")
            }
            Self::Full { limit } => {
                write!(f, "the inbox of the in-memory run is full ({limit} messages); try again when the run has taken some")
            }
            Self::Refused { run, name, reason } => {
                write!(f, "run {run:?} rejected {}: {reason}", Described(name))?;
                f.write_str(if name.starts_with("command/") { "" } else { "; the run keeps waiting" })
            }
            Self::Unconfirmed { run, name, waited, waits } => {
                write!(f, "run {run:?} has not taken {} within {waited:?}; it stays in the inbox", Described(name))?;
                match waits.is_empty() {
                    true => f.write_str("; check that a worker drives the run"),
                    false => write!(f, "; the run waits for: {}", waits.join(", ")),
                }
            }
            Self::NoRuntime => f.write_str(
                "nothing was sent: a confirmation needs a clock, and no runtime was found; await it inside Tokio or an actor",
            ),
            Self::Json(error) => write!(f, "the payload cannot be serialised as JSON, so nothing was sent: {error}"),
            Self::Store(error) => write!(f, "{error}"),
        }
    }
}

impl Error for RunControlError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Gone(error) => Some(error),
            Self::Json(error) => Some(error),
            Self::Store(error) => Some(error),
            Self::Ended { .. } | Self::Full { .. } | Self::Refused { .. } | Self::Unconfirmed { .. } | Self::NoRuntime => None,
        }
    }
}
