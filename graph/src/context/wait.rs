//! Durable waits of a node for messages: the answer to an interrupt, or a signal.
//!
//! A wait has up to two records: `Wait` when it begins and `Wake` with the message that ended it.
//! The run can pause between them and continue in another process.
//!
//! | state of a wait | entered by | left by |
//! |---|---|---|
//! | unknown | the first call in the visit | `Wait` record submitted |
//! | open | `VisitWriter::wait` | a message taken from the inbox |
//! | taken | `next_readable` | `Wake` record submitted |
//! | recorded | `Wake` record durable | value returned to the node |

use crate::context::NodeContext;
use crate::context::visit_writer::{KeyGuard, VisitWriter};
use crate::control::{Inbox, InboxWait, TakenMessage};
use crate::error::EffectError;
use crate::log::NEVER;
use crate::log::message::{Message, answer_name, signal_name};
use crate::log::visit::{Namespace, OpenWait, RecordedValue, VisitRecordBody, WaitGuard};
use crate::store::{Kind, RefusalCause, TEXT_BYTES_MAX};
use pleach_core::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use std::future::{pending, poll_fn};
use std::task::Poll;

impl NodeContext {
    /// Asks a question outside the run and waits for the answer.
    ///
    /// The question is recorded. When no branch of the run can continue, a stored run ends with
    /// [`Paused`](crate::RunFault::Paused). It continues when it is resumed with
    /// [`resume_with`](crate::Resume::resume_with), or when an answer was posted with
    /// [`RunRemote::resume_with`](crate::RunRemote::resume_with). The node then runs again from its
    /// start: its effects are not repeated, and this call returns the answer.
    ///
    /// While a node waits here, the engine assumes that it does nothing else except running
    /// effects.
    ///
    /// # Errors
    /// - An answer that cannot be decoded as `T` is rejected with
    ///   [`RunEvent::MessageRejected`](crate::RunEvent::MessageRejected); the node keeps waiting.
    /// - The node fails with an [`EffectError`] if the key is already in use in this attempt, if
    ///   the key or the question cannot be stored, or if the run is neither stored nor in a scope,
    ///   so that no answer can arrive.
    ///
    /// # Cancel safety
    /// Dropping the future frees the key. An answer that was already taken goes to the next call
    /// with this key.
    ///
    /// # Examples
    ///
    /// ```
    /// use pleach::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let publish = |cx: NodeContext, draft: String| async move {
    ///     let approved: bool = cx.interrupt("approve", &draft).await;
    ///     if approved { Ok(draft) } else { Err("not approved") }
    /// };
    /// let graph = Graph::<String>::new("press")
    ///     .add_node("publish", publish)
    ///     .add_edge("publish", END)
    ///     .set_entry("publish")
    ///     .compile()?;
    ///
    /// let store = MemoryStore::new();
    /// let paused = graph.run("news".into()).id("article").checkpoint(&store).await.unwrap_err();
    /// assert!(matches!(paused.fault(), RunFault::Paused { keys, .. } if *keys == ["approve"]));
    ///
    /// let text = graph.resume("article").resume_with("approve", &true).checkpoint(&store).await?;
    /// assert_eq!(text, "news");
    /// # Ok(())
    /// # }
    /// ```
    pub fn interrupt<T>(&self, key: impl Into<String>, question: &(impl Serialize + ?Sized)) -> BoxFuture<'static, T>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let (writer, key, question) = (self.writer(), key.into(), to_raw_value(question).map_err(|error| error.to_string()));
        Box::pin(async move {
            let question = match question {
                Ok(question) => question,
                Err(reason) => return writer.fail(EffectError::Unstorable { key, reason }).await,
            };
            writer.interrupt(key, question).await
        })
    }

    /// Waits for a signal with this name and returns its payload.
    ///
    /// Each signal is delivered once, oldest first. Signals that arrive early are stored until a
    /// node waits for them. Any number of calls can wait for one name; the oldest call gets the
    /// next signal.
    ///
    /// # Errors
    /// - A signal that cannot be decoded as `T` is rejected with
    ///   [`RunEvent::MessageRejected`](crate::RunEvent::MessageRejected); the node keeps waiting.
    /// - The node fails with an [`EffectError`] if the name is invalid, or if the run is neither
    ///   stored nor in a scope, so that no signal can arrive.
    ///
    /// # Cancel safety
    /// The future can be dropped at any time, as `select!` does. A signal that was taken and not
    /// returned goes to the next call.
    pub fn signal<T>(&self, name: impl Into<String>) -> BoxFuture<'static, T>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let (writer, name) = (self.writer(), name.into());
        Box::pin(async move { writer.signal(name).await })
    }
}

impl VisitWriter {
    /// Rejects keys that no message can name: with a NUL character, or too long to store.
    pub(crate) fn check_key(&self, key: &str) -> Result<(), EffectError> {
        let invalid =
            |reason: &str| EffectError::InvalidKey { key: key.chars().take(80).collect(), reason: reason.to_string() };
        if key.contains('\0') {
            return Err(invalid("it contains a NUL character; use printable text"));
        }
        if key.len() > TEXT_BYTES_MAX {
            return Err(invalid(&format!("it has {} bytes; the limit is {TEXT_BYTES_MAX}", key.len())));
        }
        Ok(())
    }

    async fn interrupt<T: DeserializeOwned>(self, key: String, question: Box<RawValue>) -> T {
        if let Err(error) = self.check_key(&key) {
            return self.fail(error).await;
        }
        let Some(key_guard) = self.take_key(Namespace::Wait, &key) else {
            return self.fail(EffectError::UsedTwice { key }).await;
        };
        let message = answer_name(&key);
        match self.receive(key_guard, Some(question), &message, || None).await {
            Ok(answer) => answer,
            Err(_) => pending().await,
        }
    }

    async fn signal<T: DeserializeOwned>(self, name: String) -> T {
        if let Err(error) = self.check_key(&name) {
            return self.fail(error).await;
        }
        let message = signal_name(&name);
        let mut next = self.next_signal(&name);
        loop {
            let Some(key_guard) = next.and_then(|next| self.take_key(next, &name)) else { return pending().await };
            // An earlier wait may have been dropped after it took a signal. That signal comes
            // first.
            let recorded = || self.next_signal(&name).filter(|next| self.known(*next, &name).is_some());
            match self.receive(key_guard, None, &message, recorded).await {
                Ok(signal) => return signal,
                Err(recorded) => next = Some(recorded),
            }
        }
    }

    /// Returns the next wait for signals of this name. Returns `None` if the attempt was abandoned.
    fn next_signal(&self, name: &str) -> Option<Namespace> {
        self.records.lock_for(self.attempt).map(|records| Namespace::Signal(records.next_signal(name)))
    }

    /// Returns true if another attempt has begun or the visit is over.
    fn is_abandoned(&self) -> bool {
        self.records.lock_for(self.attempt).is_none()
    }

    /// Returns the value that is recorded for a key.
    fn known(&self, namespace: Namespace, key: &str) -> Option<RecordedValue> {
        self.records.lock_for(self.attempt)?.key_state(namespace, key).known()
    }

    /// Waits for a message and returns its decoded payload; returns a recorded value immediately.
    ///
    /// `recorded` names another wait for the same signal that got a value meanwhile; then this call
    /// ends with `Err`, and the caller continues with that wait.
    async fn receive<T: DeserializeOwned>(
        &self,
        key_guard: KeyGuard<'_>,
        question: Option<Box<RawValue>>,
        message: &str,
        recorded: impl Fn() -> Option<Namespace>,
    ) -> Result<T, Namespace> {
        let (namespace, key) = (key_guard.namespace(), key_guard.key().to_string());
        if let Some(value) = self.known(namespace, &key) {
            return Ok(self.deliver_recorded(key_guard, value).await);
        }
        let Some(inbox) = self.inbox() else { return self.fail(EffectError::Unanswerable { key }).await };
        // From here on the node waits, and its records show it.
        let question_json = question.as_ref().map(|question| question.get().into());
        let open = OpenWait { key: key.clone(), due: None, question: question_json, message: Some(message.to_string()) };
        let inbox_wait = inbox.wait_for(message, &self.records);
        let Some(wait_guard) = self.wait(open) else { return pending().await };
        self.record_wait(namespace, &key, question, &inbox_wait).await;
        let ending = self.end_of_wait(namespace, &key, &inbox_wait);
        let bytes_max = self.log().map_or(usize::MAX, |log| log.options.body_bytes_max.saturating_sub(WAKE_OVERHEAD_BYTES));
        let found = poll_fn(|cx| match recorded() {
            Some(recorded) => Poll::Ready(Err(Some(recorded))),
            // A message now belongs to the current attempt, which may decode it differently.
            None if self.is_abandoned() => Poll::Ready(Err(None)),
            None => next_readable(inbox, &inbox_wait, ending.wait, bytes_max, cx.waker()).map(Ok),
        });
        let found = found.await;
        drop((wait_guard, inbox_wait));
        let ((message, taken), json, answer) = match found {
            Ok(found) => found,
            Err(Some(recorded)) => return Err(recorded),
            Err(None) => return pending().await,
        };
        let body = VisitRecordBody { value: Some(json), ..VisitRecordBody::of_wait(namespace, &key) };
        let message_name = message.name.clone();
        let submitted = self.submit(Kind::Wake, body, Some(&message));
        if let Ok(NEVER) = submitted {
            inbox.put_back(message);
        }
        let sequence = match submitted {
            Ok(sequence) => sequence,
            Err(error) => {
                drop(taken);
                return self.fail(error).await;
            }
        };
        let delivering = self.deliver_after(sequence);
        drop(taken);
        self.durable(sequence).await;
        key_guard.deliver();
        drop(delivering);
        ending.received(&message_name);
        Ok(answer)
    }

    /// Returns a recorded value to the node, once its record is durable.
    async fn deliver_recorded<T: DeserializeOwned>(&self, key_guard: KeyGuard<'_>, value: RecordedValue) -> T {
        let RecordedValue { json, recorded_by } = value;
        match serde_json::from_str(&json) {
            Ok(answer) => {
                // Deliver after the record is durable: delivering a signal removes its message from
                // the inbox.
                let _delivering = self.durable_value(recorded_by).await;
                key_guard.deliver();
                answer
            }
            Err(error) => {
                let key = key_guard.key().to_string();
                self.fail(EffectError::Unstorable { key, reason: error.to_string() }).await
            }
        }
    }

    /// Records that the node waits, unless that is recorded already, and waits until it is durable.
    async fn record_wait(&self, namespace: Namespace, key: &str, question: Option<Box<RawValue>>, inbox_wait: &InboxWait<'_>) {
        let is_recorded =
            self.records.lock_for(self.attempt).map(|mut records| records.key_state(namespace, key).wait.is_some());
        match is_recorded {
            Some(true) => return,
            Some(false) => {}
            None => return pending().await,
        }
        let body = VisitRecordBody { value: question, ..VisitRecordBody::of_wait(namespace, key) };
        match self.submit(Kind::Wait, body, None) {
            Ok(sequence) => {
                inbox_wait.take_after(sequence);
                self.durable(sequence).await;
            }
            Err(error) => self.fail(error).await,
        }
    }

    /// Returns the guard that withdraws the health report of this wait when it ends.
    fn end_of_wait(&self, namespace: Namespace, key: &str, inbox_wait: &InboxWait<'_>) -> WaitEnd<'_> {
        let records = self.records.lock_for(self.attempt);
        let row = records.map_or(0, |mut records| records.key_state(namespace, key).wait_row);
        let wait = if row == 0 { inbox_wait.number() } else { row };
        if let Some(refusals) = self.graph_cx.run().known_refusals() {
            refusals.wait_again(wait);
        }
        WaitEnd { writer: self, wait }
    }

    /// Opens a wait and reports it to the engine. Returns `None` if the attempt was abandoned.
    pub(super) fn wait(&self, open: OpenWait) -> Option<WaitGuard<'_>> {
        let waiting = self.records.wait(self.attempt, open)?;
        self.wake_driver_if_parked();
        Some(waiting)
    }
}

/// A wait that may refuse messages. Dropping it withdraws its report until the node waits again.
struct WaitEnd<'a> {
    writer: &'a VisitWriter,
    /// The record of the wait, or its number in an in-memory run.
    wait: u64,
}

impl WaitEnd<'_> {
    /// Ends the wait with a message that the node received.
    fn received(self, message: &str) {
        if let Some(refusals) = self.writer.graph_cx.run().known_refusals() {
            refusals.wait_ended(self.wait);
            refusals.received(message);
        }
    }
}

impl Drop for WaitEnd<'_> {
    fn drop(&mut self) {
        let run = self.writer.graph_cx.run();
        // First the inbox: the engine may be about to report what is still there.
        if let Some(inbox) = run.inbox() {
            inbox.wait_ended(self.wait);
        }
        if let Some(refusals) = run.known_refusals() {
            refusals.wait_dropped(self.wait);
        }
    }
}

/// The largest size of a `Wake` record without its payload: the key and the JSON around it.
const WAKE_OVERHEAD_BYTES: usize = 8 * TEXT_BYTES_MAX;

/// Takes the next message of this name that can be decoded and recorded. Rejects the others.
fn next_readable<'a, T: DeserializeOwned>(
    inbox: &Inbox,
    awaited: &InboxWait<'a>,
    wait: u64,
    bytes_max: usize,
    waker: &std::task::Waker,
) -> Poll<((Message, TakenMessage<'a>), Box<RawValue>, T)> {
    while let Some((message, taken)) = awaited.take(waker) {
        if message.payload.len() > bytes_max {
            let reason = format!("it has {} bytes; at most {bytes_max} can be recorded", message.payload.len());
            let cause = RefusalCause::TooLarge { bytes: message.payload.len() as u64, bytes_max: bytes_max as u64 };
            inbox.reject(message, reason, cause, wait);
            continue;
        }
        let read = serde_json::from_slice::<T>(&message.payload)
            .and_then(|answer| Ok((serde_json::from_slice::<Box<RawValue>>(&message.payload)?, answer)));
        match read {
            Ok((json, answer)) => return Poll::Ready(((message, taken), json, answer)),
            Err(error) => inbox.reject(message, error.to_string(), RefusalCause::of_decoding::<T>(&error), wait),
        }
    }
    Poll::Pending
}
