//! `Delivery`: one message on its way to a stored run, and the confirmation that the run took it.
//!
//! A message is delivered once it is durable in the inbox. It is **confirmed** once the run has
//! taken it, and **refused** if the run could not use it. Both are read from the store, so the
//! sender and the driver can be different processes.

use crate::control::remote::RunControlError;
use crate::store::message_kind::{ANSWER, PAUSE};
use crate::store::{REFUSED_MAX, RunInfo, Store, StoreError};
use crate::util::runtime;
use pleach_core::{BoxFuture, Runtime};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The first and the longest wait between two reads of the store.
const READ_WAIT: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// A message that is being sent to a stored run. Returned by the methods of
/// [`RunRemote`](crate::RunRemote) that send.
///
/// Await it to store the message in the inbox of the run. Await
/// [`confirmed`](Self::confirmed) instead to learn whether the run takes or refuses it.
///
/// # Examples
///
/// The node asks for a `bool`. A text is refused, and the sender learns why.
///
/// ```
/// use pleach::prelude::*;
/// use pleach::durable::{RunControlError, RunRemote};
/// use pleach::worker::Worker;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = Graph::<u32>::new("press")
///     .add_node("ask", |cx: NodeContext, n: u32| async move {
///         let approved: bool = cx.interrupt("approve", "publish?").await;
///         Ok::<_, String>(if approved { n + 1 } else { n })
///     })
///     .add_edge("ask", END)
///     .set_entry("ask")
///     .compile()?;
/// let store = MemoryStore::new();
/// let worker = Worker::new(&store).graph(&graph).start()?;
/// graph.run(1).id("news").checkpoint(&store).enqueue().await?;
///
/// let remote = RunRemote::new(&store, "news");
/// let soon = Duration::from_secs(10);
/// let refused = remote.resume_with("approve", "banana").confirmed(soon).await.unwrap_err();
/// assert!(matches!(refused, RunControlError::Refused { .. }), "{refused}");
/// assert_eq!(remote.view().await?.refused.len(), 1);
///
/// remote.resume_with("approve", &true).confirmed(soon).await?;
/// # drop(worker);
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
/// If the future is dropped, the message may or may not have been stored. A stored message stays.
#[must_use = "a message is sent when it is awaited"]
pub struct Delivery {
    store: Arc<dyn Store>,
    run: Arc<str>,
    /// The name of the message, as the inbox has it.
    name: String,
    /// Stores the message, and returns its number.
    sending: BoxFuture<'static, Result<u64, RunControlError>>,
    runtime: Option<Arc<dyn Runtime>>,
}

/// What became of a message so far.
enum MessageState {
    Waiting,
    Taken,
    Refused(String),
    /// The run has refused so many messages since that the store no longer lists all of them.
    Unknown,
}

impl Delivery {
    pub(super) fn new(
        store: Arc<dyn Store>,
        run: Arc<str>,
        name: String,
        sending: BoxFuture<'static, Result<u64, RunControlError>>,
    ) -> Self {
        Self { store, run, name, sending, runtime: None }
    }

    /// Sets the runtime whose clock [`confirmed`](Self::confirmed) uses.
    ///
    /// Default: the runtime of the actor or task that awaits it, else the current Tokio runtime.
    pub fn runtime(mut self, runtime: Arc<dyn Runtime>) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Sends the message and waits until the run has taken it, at most `within`.
    ///
    /// - An answer or a signal is confirmed once a node has received it and that is durable.
    /// - A pause is confirmed once no driver executes the run, a cancel once the run has ended.
    ///
    /// The run needs a driver, such as a worker, that takes the message meanwhile.
    ///
    /// # Errors
    /// - The errors of sending; see [`RunRemote`](crate::RunRemote).
    /// - [`Refused`](RunControlError::Refused): the run could not use the message. An answer of the
    ///   wrong type is one example; the run keeps waiting for a better one.
    /// - [`Ended`](RunControlError::Ended): the run ended before it took the message.
    /// - [`Unconfirmed`](RunControlError::Unconfirmed): the run has not taken the message in time.
    ///   It stays in the inbox.
    /// - [`NoRuntime`](RunControlError::NoRuntime): nothing was sent, because no runtime was found.
    pub async fn confirmed(self, within: Duration) -> Result<(), RunControlError> {
        let Self { store, run, name, sending, runtime } = self;
        let Some(runtime) = runtime.or_else(runtime::find) else { return Err(RunControlError::NoRuntime) };
        let until = runtime.now() + within;
        let number = sending.await?;
        let mut wait = READ_WAIT.0;
        loop {
            let state = message_state(&*store, &run, &name, number).await;
            let is_over = runtime.now() >= until;
            match state {
                Ok(MessageState::Taken) => return Ok(()),
                Ok(MessageState::Refused(reason)) => {
                    return Err(RunControlError::Refused { run: run.to_string(), name, reason });
                }
                Ok(MessageState::Waiting) if !is_over => {}
                Ok(MessageState::Waiting | MessageState::Unknown) => return Err(unconfirmed(&*store, &run, name, within).await),
                Err(RunControlError::Store(error)) if error.is_temporary() && !is_over => {}
                Err(error) => return Err(error),
            }
            runtime.sleep_until((runtime.now() + wait).min(until)).await;
            wait = (wait * 2).min(READ_WAIT.1);
        }
    }
}

async fn unconfirmed(store: &dyn Store, run: &str, name: String, waited: Duration) -> RunControlError {
    let view = super::view::read_view(store, run).await;
    let waits = view.map(|view| view.waits().map(|wait| wait.key.clone()).collect()).unwrap_or_default();
    RunControlError::Unconfirmed { run: run.to_string(), name, waited, waits }
}

/// Reads what became of the message with this number.
async fn message_state(store: &dyn Store, run: &str, name: &str, number: u64) -> Result<MessageState, RunControlError> {
    // Before the inbox: a run that had ended by then takes nothing more. In the other order, it
    // could take the message and end in between.
    let info = store.head(run).await?;
    if store.is_untaken(run, number).await? {
        return match info.status {
            status if status.has_ended() => Err(RunControlError::from(StoreError::Ended { run: run.to_string(), status })),
            // The message stays in the inbox while the pause is in force.
            _ if name == PAUSE && is_idle(&info) => Ok(MessageState::Taken),
            _ => Ok(MessageState::Waiting),
        };
    }
    let refused = store.refused(run).await?;
    if let Some(found) = refused.iter().find(|refused| refused.number == number) {
        return Ok(MessageState::Refused(found.reason.clone()));
    }
    let is_unlisted = refused.len() >= REFUSED_MAX && refused.first().is_some_and(|first| first.number > number);
    Ok(if is_unlisted { MessageState::Unknown } else { MessageState::Taken })
}

/// Returns whether no driver executes the run. The next one reads the inbox before any node runs.
fn is_idle(info: &RunInfo) -> bool {
    info.owner.is_none()
}

impl Future for Delivery {
    type Output = Result<(), RunControlError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.sending.as_mut().poll(cx).map(|sent| sent.map(drop))
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").field("run", &self.run).field("name", &self.name).finish_non_exhaustive()
    }
}

/// Describes a message by its name: `the answer to "approve"`.
pub(super) struct Described<'a>(pub(super) &'a str);

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.split_once('/') {
            Some((_, key)) if self.0.starts_with(ANSWER) => write!(f, "the answer to {key:?}"),
            Some(("command", verb)) => write!(f, "the command {verb:?}"),
            Some((_, name)) => write!(f, "the signal {name:?}"),
            None => write!(f, "the message {:?}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{GraphVersion, MemoryStore, NewMessage, NewRun, Row, Tags, Wake};
    use crate::util::work_count::take_counted;

    /// Returns the entries that one look at a message visits, with this many messages around it.
    fn visited_with(messages: u64) -> u64 {
        let store = MemoryStore::new();
        pleach_core::block_on(async {
            let version = GraphVersion { fingerprint: "print".into(), schema: 1 };
            let (id, graph, wake, tags) = ("r".to_string(), "graph".to_string(), Wake::Now, Tags::default());
            let new = NewRun { id, graph, version, instance: 7, from: None, lease: None, wake, deadline: None, tags };
            store.create(new, vec![Row { sequence: 1, sum: 0, header: Vec::new(), body: Vec::new() }]).await.unwrap();
            for _ in 0..messages {
                store.send_message("r", NewMessage::seal("r", "signal/go", None, Vec::new())).await.unwrap();
            }
            take_counted();
            let state = message_state(&store, "r", "signal/go", messages / 2).await;
            assert!(matches!(state, Ok(MessageState::Waiting)));
            take_counted()
        })
    }

    #[test]
    fn o9_cost_of_a_look_at_a_message_does_not_grow_with_the_inbox() {
        let (few, many) = (visited_with(10), visited_with(1_000));
        assert!(many <= few, "{few} entries with 10 messages, {many} with 1,000");
    }
}
