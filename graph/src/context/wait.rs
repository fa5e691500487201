//! Durable waits of a node: for the answer to an interrupt, for a signal, for a time. The run can
//! pause meanwhile and continue in another process.

use crate::context::NodeContext;
use crate::context::visit_writer::{KeyGuard, VisitWriter};
use crate::control::{Inbox, InboxWait, TakenMessage};
use crate::error::EffectError;
use crate::log::NEVER;
use crate::log::message::{Message, answer_name, signal_name};
use crate::log::visit::{Namespace, OpenWait, RecordedValue, VisitRecordBody, WaitGuard};
use crate::store::{Kind, TEXT_BYTES_MAX, Timestamp};
use pleach_core::{BoxFuture, Instant};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use std::future::{pending, poll_fn};
use std::task::Poll;
use std::time::{Duration, SystemTime};

impl NodeContext {
    /// Asks somebody outside, and waits for the answer: `let approved: bool = cx.interrupt("approve", &draft).await`.
    ///
    /// The question is written down. When no branch of the run can go on, a stored run ends with [`Paused`](crate::RunFault::Paused), and is
    /// gone on with by [`resume_with`](crate::Resume::resume_with), or by whoever posts an answer to it. The node then runs again from its
    /// beginning; its effects are not repeated, and here it is given the answer. An answer that is no `T` is refused, and the node goes on waiting.
    ///
    /// A node that waits here is taken to do nothing else meanwhile, but for effects that are under way.
    pub fn interrupt<T>(&self, key: impl Into<String>, question: &(impl Serialize + ?Sized)) -> BoxFuture<'static, T>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let (writer, key, question) = (self.writer(), key.into(), to_raw_value(question).map_err(|error| error.to_string()));
        Box::pin(async move {
            let question = match question {
                Ok(question) => question,
                Err(why) => return writer.fail(EffectError::Unstorable { key, why }).await,
            };
            writer.interrupt(key, question).await
        })
    }

    /// Waits for a signal of this name, and gives what it says. Each signal is given out once; those that come before somebody waits are kept.
    ///
    /// It may be dropped at any time, as by `select!`: a signal that was taken and not given out is given to whoever asks next.
    pub fn signal<T>(&self, name: impl Into<String>) -> BoxFuture<'static, T>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let (writer, name) = (self.writer(), name.into());
        Box::pin(async move { writer.signal(name).await })
    }

    /// Waits until a time of day, by the store's clock ([`now`](Self::now)). The first deadline counts: whoever comes this way again, by a retry or
    /// after a crash, waits for that one, whatever `at` says then.
    pub fn sleep_until(&self, key: impl Into<String>, at: SystemTime) -> BoxFuture<'static, ()> {
        let (writer, key) = (self.writer(), key.into());
        Box::pin(async move { writer.sleep(key, at.into()).await })
    }

    /// Waits this long, from when it was first asked for; as [`sleep_until`](Self::sleep_until).
    pub fn sleep(&self, key: impl Into<String>, time: Duration) -> BoxFuture<'static, ()> {
        let at = Timestamp::from(self.now()).after(time);
        let (writer, key) = (self.writer(), key.into());
        Box::pin(async move { writer.sleep(key, at).await })
    }

    /// The time of day by the clock of the store that keeps the run; if none does, that of the machine, or of the simulation.
    pub fn now(&self) -> SystemTime {
        let run = self.graph_cx.run();
        let stored = run.log().map(|log| Duration::from_millis(log.now().as_millis().max(0) as u64));
        let since_1970 = stored.or_else(|| run.runtime().ok()?.time_of_day());
        since_1970.map_or_else(SystemTime::now, |time| SystemTime::UNIX_EPOCH + time)
    }
}

impl VisitWriter {
    /// Fails for a key that no answer or signal could name, or that is too long to be kept.
    pub(crate) fn check_key(&self, key: &str) -> Result<(), EffectError> {
        let refused = |why: &str| EffectError::InvalidKey { key: key.chars().take(80).collect(), why: why.to_string() };
        if key.contains('\0') {
            return Err(refused("it contains a NUL; use printable text"));
        }
        if key.len() > TEXT_BYTES_MAX {
            return Err(refused(&format!("it has {} bytes, and {TEXT_BYTES_MAX} at most are allowed", key.len())));
        }
        Ok(())
    }

    async fn interrupt<T: DeserializeOwned>(self, key: String, question: Box<RawValue>) -> T {
        if let Err(error) = self.check_key(&key) {
            return self.fail(error).await;
        }
        let Some(using) = self.take_key(Namespace::Wait, &key) else {
            return self.fail(EffectError::UsedTwice { key }).await;
        };
        let message = answer_name(&key);
        match self.receive(using, Some(question), &message, || None).await {
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
            let Some(using) = next.and_then(|next| self.take_key(next, &name)) else { return pending().await };
            // A wait before this one may have taken a signal and been dropped: that signal comes first.
            let recorded = || self.next_signal(&name).filter(|next| self.known(*next, &name).is_some());
            match self.receive(using, None, &message, recorded).await {
                Ok(signal) => return signal,
                Err(recorded) => next = Some(recorded),
            }
        }
    }

    /// Which wait for a signal of this name is next. `None` if the attempt was cut off.
    fn next_signal(&self, name: &str) -> Option<Namespace> {
        self.records.lock_for(self.attempt).map(|records| Namespace::Signal(records.next_signal(name)))
    }

    /// Whether another attempt has begun, or the visit is over.
    fn is_cut_off(&self) -> bool {
        self.records.lock_for(self.attempt).is_none()
    }

    /// What is recorded for a key.
    fn known(&self, namespace: Namespace, key: &str) -> Option<RecordedValue> {
        self.records.lock_for(self.attempt)?.kept(namespace, key).known()
    }

    /// Waits for a message, and gives what it says; what is recorded already is given at once. `Err` if another wait is to be gone on with instead,
    /// for which something was recorded meanwhile.
    async fn receive<T: DeserializeOwned>(
        &self,
        using: KeyGuard<'_>,
        question: Option<Box<RawValue>>,
        message: &str,
        recorded: impl Fn() -> Option<Namespace>,
    ) -> Result<T, Namespace> {
        let (namespace, key) = (using.namespace(), using.key().to_string());
        if let Some(RecordedValue { json, recorded_by }) = self.known(namespace, &key) {
            return match serde_json::from_str(&json) {
                Ok(answer) => {
                    // The message of a signal is taken once the node has it: no earlier than the log says what became of it.
                    let _delivering = self.durable_value(recorded_by).await;
                    using.deliver();
                    Ok(answer)
                }
                Err(error) => self.fail(EffectError::Unstorable { key, why: error.to_string() }).await,
            };
        }
        let Some(inbox) = self.inbox() else { return self.fail(EffectError::Unanswerable { key }).await };
        // From here on the node waits: what is written with it says so.
        let asked = question.as_ref().map(|question| question.get().into());
        let open = OpenWait { key: key.clone(), due: None, question: asked, message: Some(message.to_string()) };
        let awaited = inbox.await_letter(message, &self.records);
        let Some(waits) = self.wait(open) else { return pending().await };
        let Some(is_noted) =
            self.records.lock_for(self.attempt).map(|mut records| records.kept(namespace, &key).wait.is_some())
        else {
            return pending().await;
        };
        if !is_noted {
            let body = VisitRecordBody { value: question, ..VisitRecordBody::of_wait(namespace, &key) };
            match self.submit(Kind::Wait, body, None) {
                Ok(sequence) => {
                    awaited.asks_after(sequence);
                    self.durable(sequence).await;
                }
                Err(error) => return self.fail(error).await,
            }
        }
        let bytes_max = self.log().map_or(usize::MAX, |log| log.options.body_bytes_max.saturating_sub(NOTE_BYTES));
        let found = poll_fn(|cx| match recorded() {
            Some(recorded) => Poll::Ready(Err(Some(recorded))),
            // The message is for the attempt that is under way, which may read it otherwise.
            None if self.is_cut_off() => Poll::Ready(Err(None)),
            None => next_readable(inbox, &awaited, bytes_max, cx.waker()).map(Ok),
        });
        let found = found.await;
        drop((waits, awaited));
        let ((message, in_hand), json, answer) = match found {
            Ok(found) => found,
            Err(Some(recorded)) => return Err(recorded),
            Err(None) => return pending().await,
        };
        let body = VisitRecordBody { value: Some(json), ..VisitRecordBody::of_wait(namespace, &key) };
        let woken = self.submit(Kind::Wake, body, Some(&message));
        if let Ok(NEVER) = woken {
            inbox.give_back(message);
        }
        let sequence = match woken {
            Ok(sequence) => sequence,
            Err(error) => {
                drop(in_hand);
                return self.fail(error).await;
            }
        };
        let delivering = self.deliver_after(sequence);
        drop(in_hand);
        self.durable(sequence).await;
        using.deliver();
        drop(delivering);
        Ok(answer)
    }

    /// The node waits from now on, and the run is told. `None` if it was cut off.
    fn wait(&self, open: OpenWait) -> Option<WaitGuard<'_>> {
        let waiting = self.records.wait(self.attempt, open)?;
        self.tell_if_parked();
        Some(waiting)
    }

    async fn sleep(self, key: String, at: Timestamp) {
        if let Err(error) = self.check_key(&key) {
            return self.fail(error).await;
        }
        let Some(using) = self.take_key(Namespace::Wait, &key) else {
            return self.fail(EffectError::UsedTwice { key }).await;
        };
        let Some((known, until)) = self.records.lock_for(self.attempt).map(|mut records| {
            let kept = records.kept(Namespace::Wait, &key);
            (kept.wait.flatten(), kept.until)
        }) else {
            return pending().await;
        };
        let due = known.unwrap_or(at);
        // The store's clock may have been set since it was first asked for.
        let until = match until.filter(|_| self.log().is_none()).map_or_else(|| self.wake_up(due), Ok) {
            Ok(until) => until,
            Err(fault) => return self.fail(fault).await,
        };
        let runtime = match self.graph_cx.run().runtime() {
            Ok(runtime) => runtime,
            Err(fault) => return self.fail(fault).await,
        };
        if let Some(mut records) = self.records.lock_for(self.attempt) {
            records.kept(Namespace::Wait, &key).until = Some(until);
        }
        // A time that is over is written down as well: a later attempt might name another.
        let is_over = runtime.now() >= until;
        let open = OpenWait { key: key.clone(), due: Some(due), question: None, message: None };
        let waits = if is_over { None } else { self.wait(open) };
        if !is_over && waits.is_none() {
            return pending().await;
        }
        if known.is_none() {
            let body = VisitRecordBody { key, due: Some(due), ..VisitRecordBody::default() };
            let sequence = match self.submit(Kind::Wait, body, None) {
                Ok(sequence) => sequence,
                Err(error) => return self.fail(error).await,
            };
            // The node goes on as soon as that is written, whatever else it waits for.
            let _delivering = if is_over { self.deliver_after(sequence) } else { None };
            self.durable(sequence).await;
        }
        match self.graph_cx.run().log() {
            _ if is_over => {}
            Some(log) => log.sleep_until(due).await,
            None => runtime.sleep_until(until).await,
        }
        using.deliver();
    }

    /// When it is that time, by the clock of the runtime.
    fn wake_up(&self, due: Timestamp) -> Result<Instant, crate::error::RunFault> {
        let run = self.graph_cx.run();
        match run.log() {
            Some(log) => Ok(log.instant_of(due)),
            None => {
                let runtime = run.runtime()?;
                let now =
                    runtime.time_of_day().map_or_else(|| SystemTime::now().into(), |time| Timestamp::default().after(time));
                Ok(runtime.now() + due.since(now))
            }
        }
    }
}

/// What a record of a message has besides the message, at most: its key, and some text around it.
const NOTE_BYTES: usize = 8 * TEXT_BYTES_MAX;

/// The next message of this name that says what it should, and can be recorded; the others are refused.
fn next_readable<'a, T: DeserializeOwned>(
    inbox: &Inbox,
    awaited: &InboxWait<'a>,
    bytes_max: usize,
    waker: &std::task::Waker,
) -> Poll<((Message, TakenMessage<'a>), Box<RawValue>, T)> {
    while let Some((message, in_hand)) = awaited.take(waker) {
        if message.payload.len() > bytes_max {
            let why = format!("it has {} bytes, and {bytes_max} at most can be recorded", message.payload.len());
            inbox.refuse(message, why);
            continue;
        }
        let read = serde_json::from_slice::<T>(&message.payload)
            .and_then(|answer| Ok((serde_json::from_slice::<Box<RawValue>>(&message.payload)?, answer)));
        match read {
            Ok((json, answer)) => return Poll::Ready(((message, in_hand), json, answer)),
            Err(error) => inbox.refuse(message, error.to_string()),
        }
    }
    Poll::Pending
}
