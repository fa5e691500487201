//! `Effect`: something a node does outside, whose result is written down before the node goes on. It is not repeated by a later attempt, nor after
//! a crash.

use crate::context::NodeContext;
use crate::context::run_context::GraphContext;
use crate::control::Inbox;
use crate::error::EffectError;
use crate::log::codec::stored_json;
use crate::log::frontier::undo_path;
use crate::log::message::{Message, signal_name};
use crate::log::visit::polls::DeliveryGuard;
use crate::log::visit::{EffectGuard, Namespace, RecordedValue, VisitRecordBody, VisitRecords};
use crate::log::{NEVER, NewRecord, RunLog};
use crate::store::{Fork, Kind, StoreError};
use crate::token::TokenId;
use pleach_core::{BoxError, BoxFuture};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::future::{Future, IntoFuture, pending, poll_fn};
use std::marker::PhantomData;
use std::sync::Arc;

/// An effect on its way; from [`NodeContext::effect`]. Await it for its result.
#[must_use = "an effect happens when it is awaited"]
pub struct Effect<F, T, E> {
    writer: VisitWriter,
    key: String,
    work: F,
    once: bool,
    equal: Option<fn(&T, &T) -> bool>,
    result: PhantomData<fn() -> Result<T, E>>,
}

/// Where in a run something is done: what it takes to write it down.
pub(crate) struct VisitWriter {
    pub(crate) graph_cx: Arc<GraphContext>,
    pub(crate) records: Arc<VisitRecords>,
    token: TokenId,
    path: Vec<Fork>,
    /// The record that notes follow.
    parent: u64,
    node: Arc<str>,
    pub(crate) attempt: u32,
    is_undo: bool,
    /// Whether the node has an undo.
    has_undo: bool,
}

impl NodeContext {
    pub(crate) fn writer(&self) -> VisitWriter {
        let records = &self.details.get_or_init(Box::default).records;
        VisitWriter {
            graph_cx: Arc::clone(&self.graph_cx),
            records: Arc::clone(records.get_or_init(|| Arc::new(VisitRecords::of_attempt(self.attempt)))),
            token: self.token,
            path: self.undoes().map_or_else(|| self.branch.forks(), undo_path),
            parent: self.undoes().unwrap_or(self.token.sequence),
            node: self.node(),
            attempt: self.attempt,
            is_undo: self.undoes().is_some(),
            has_undo: self.has_undo(),
        }
    }

    /// Does something outside that is not to be repeated: `cx.effect("charge", |key| bank.charge(key, cents)).await?`.
    ///
    /// `work` is given a key of its own: the same for every attempt at this effect, and for no other. Its `Ok` is written down before the node
    /// goes on; whoever comes this way again, by a retry or after a crash, is given that result, and `work` is not called. An `Err` is not written
    /// down. If it is cut off in between, it is called again with the same key, unless it is to happen [`once`](Effect::once) at most.
    /// In a stored run, if the node has an undo, a record that the effect begins is written first. So the undo is called also for an effect that
    /// was cut off by a crash, and [told](NodeContext::unknown_effects) that its outcome is unknown.
    ///
    /// Immediately before `work` is called, a stored run checks that this driver still holds it. If its lease may have ended, by the clock of
    /// the runtime or by the time of day, the lease is renewed first; if another driver has the run, `work` is not called. A window remains:
    /// between this check and the moment at which `work` acts outside, in which the process may be stopped; and a
    /// [`take_over`](crate::Resume::take_over) before the lease has ended. So let `work` use its key where it acts, or make it
    /// [`once`](Effect::once).
    ///
    /// The same key twice in one attempt fails the node, as [`EffectError`] says; an effect that was dropped before it was done, as by `select!`, may be
    /// called again. A result that does not come back from JSON as it was (`Some(None)`, `Some(())`, a float that is not a number) fails the
    /// node after the effect has happened. Effects of an undo are written down like those of a node.
    pub fn effect<F, Fut, T, E>(&self, key: impl Into<String>, work: F) -> Effect<F, T, E>
    where
        F: FnOnce(String) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        T: Serialize + DeserializeOwned,
    {
        Effect { writer: self.writer(), key: key.into(), work, once: false, equal: None, result: PhantomData }
    }
}

impl<F, T, E> Effect<F, T, E> {
    /// Calls `work` once at most, whatever happens: a record that it begins is written first, which only the driver that holds the run can
    /// write. If it began and is not known to have ended well, the node fails with
    /// [`EffectUnknown`](EffectError::EffectUnknown).
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }

    /// Compares the result with what is read back from its JSON, by `PartialEq`, besides what its `Serialize` says. A result that differs fails the
    /// node, after the effect has happened.
    pub fn compare_result(mut self) -> Self
    where
        T: PartialEq,
    {
        self.equal = Some(|result, back| result == back);
        self
    }
}

impl<F, Fut, T, E> IntoFuture for Effect<F, T, E>
where
    F: FnOnce(String) -> Fut + Send + 'static,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    T: Serialize + DeserializeOwned + Send + Sync + 'static,
    E: Send + 'static,
{
    type Output = Result<T, E>;
    type IntoFuture = BoxFuture<'static, Result<T, E>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.happen())
    }
}

impl<F, Fut, T, E> Effect<F, T, E>
where
    F: FnOnce(String) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    T: Serialize + DeserializeOwned,
{
    async fn happen(self) -> Result<T, E> {
        let Self { writer, key, work, once, equal, .. } = self;
        if let Err(error) = writer.check_key(&key) {
            return writer.fail(error).await;
        }
        // Before anything happens that could not be undone.
        if let Some(why) = writer.records.unusable_undo() {
            return writer.fail(why).await;
        }
        let Some(using) = writer.take_key(Namespace::Effect, &key) else {
            return writer.fail(EffectError::UsedTwice { key }).await;
        };
        let (idempotency_key, note) = match writer.begin(&key, once) {
            Some(Ok(EffectBegin::Recorded(RecordedValue { json, recorded_by }))) => {
                let value = match serde_json::from_str(&json) {
                    Ok(value) => value,
                    Err(error) => return writer.fail(EffectError::Unstorable { key, why: error.to_string() }).await,
                };
                let _delivering = writer.durable_value(recorded_by).await;
                using.deliver();
                return Ok(value);
            }
            Some(Ok(EffectBegin::Work { idempotency_key, note })) => (idempotency_key, note),
            Some(Err(error)) => return writer.fail(error).await,
            None => return pending().await,
        };
        let Some(_running) = RunningEffect::new(&writer) else { return pending().await };
        match note {
            StartRecord::None => {}
            StartRecord::Submitted(sequence) => writer.durable(sequence).await,
            StartRecord::ToWrite => {
                writer.lease().await;
                let begun_with = once.then(|| idempotency_key.clone());
                let body = VisitRecordBody { key: key.clone(), begun_with, repeats: !once, ..VisitRecordBody::default() };
                writer.write(Kind::Started, body).await;
            }
        }
        writer.lease().await;
        if !writer.start(&key, once) {
            return pending().await;
        }
        let value = match work(idempotency_key).await {
            Ok(value) => value,
            Err(error) => {
                // It says that it did not happen.
                if let Some(mut records) = writer.records.lock_for(writer.attempt) {
                    records.say_not_done(&key);
                }
                using.deliver();
                return Err(error);
            }
        };
        let json = match stored_json(&value, equal, |json| serde_json::from_str(json.get())) {
            Ok(json) => json,
            Err(why) => return writer.fail(EffectError::Unstorable { key, why }).await,
        };
        writer.write(Kind::Effect, VisitRecordBody { key, value: Some(json), ..VisitRecordBody::default() }).await;
        using.deliver();
        Ok(value)
    }
}

impl VisitWriter {
    /// Takes a key for this attempt, until it is let go or delivered. `None` if it is taken, or the attempt was cut off.
    pub(crate) fn take_key(&self, namespace: Namespace, key: &str) -> Option<KeyGuard<'_>> {
        let mut records = self.records.lock_for(self.attempt)?;
        let kept = records.kept(namespace, key);
        let is_free = !std::mem::replace(&mut kept.is_used, true);
        is_free.then(|| KeyGuard { writer: self, namespace, key: key.to_string(), is_delivered: false })
    }

    /// Begins an effect: its result if that was recorded, else the idempotency key to do it with. `None` if the attempt was cut off.
    fn begin(&self, key: &str, once: bool) -> Option<Result<EffectBegin, EffectError>> {
        let idempotency_key = self.effect_key(key);
        let mut records = self.records.lock_for(self.attempt)?;
        let kept = records.kept(Namespace::Effect, key);
        if let Some(known) = kept.known() {
            return Some(Ok(EffectBegin::Recorded(known)));
        }
        // One that has begun keeps the key that it was begun with, whatever was written anew since.
        let idempotency_key = kept.begun_with.clone().unwrap_or(idempotency_key);
        if kept.is_started && once {
            return Some(Err(EffectError::EffectUnknown { key: key.to_string(), idempotency_key }));
        }
        // If the visit is cut off by a failure after a crash, the log must say that the effect may have happened.
        let is_noted = once || (self.has_undo && self.log().is_some());
        // An earlier call may have been dropped while its note was being written.
        let is_submitted = if once { kept.begun_with.is_some() } else { kept.is_begun };
        let note = match (is_noted, is_submitted) {
            (false, _) => StartRecord::None,
            (true, true) => StartRecord::Submitted(kept.begun_by),
            (true, false) => StartRecord::ToWrite,
        };
        records.begin_effect(key);
        Some(Ok(EffectBegin::Work { idempotency_key, note }))
    }

    /// The work of an effect is called next. Whether it may be: the attempt was not cut off.
    fn start(&self, key: &str, once: bool) -> bool {
        let Some(mut records) = self.records.lock_for(self.attempt) else { return false };
        records.kept(Namespace::Effect, key).is_started |= once;
        true
    }

    /// The idempotency key of one effect of this visit.
    fn effect_key(&self, key: &str) -> String {
        let run = self.graph_cx.run();
        run.keys(self.is_undo).of_effect(run.key_token(self.token, self.is_undo), key)
    }

    pub(crate) fn log(&self) -> Option<&Arc<RunLog>> {
        self.graph_cx.run().log()
    }

    /// Where answers and signals come; an undo has nobody to ask.
    pub(crate) fn inbox(&self) -> Option<&Inbox> {
        self.graph_cx.run().inbox().filter(|_| !self.is_undo)
    }

    /// Writes a note, in the log if the run is stored, and waits until it is durable. It counts from when it is submitted: an attempt that is cut
    /// off while it waits would hide from the next what will be in the log.
    pub(crate) async fn write(&self, kind: Kind, body: VisitRecordBody) {
        match self.submit(kind, body, None) {
            Ok(sequence) => self.durable(sequence).await,
            Err(error) => self.fail(error).await,
        }
    }

    /// Writes a note, and the letter that is taken with it. Its sequence, which is to become durable. A signal is only noted: its message is taken
    /// once the node was given it.
    ///
    /// An attempt that was cut off writes nothing, and the sequence is [`NEVER`]: the next attempt may be at the same effect or wait. That is decided
    /// together with adding the note to the log, so the notes' lock is held meanwhile.
    pub(crate) fn submit(&self, kind: Kind, mut body: VisitRecordBody, message: Option<&Message>) -> Result<u64, StoreError> {
        let Some(mut records) = self.records.lock_for(self.attempt) else { return Ok(NEVER) };
        let Some(log) = self.log() else {
            records.note(kind, body, 0);
            return Ok(0);
        };
        let mut entry = NewRecord::new(kind, self.path.clone(), &*self.node);
        (entry.parent, entry.attempt) = (self.parent, self.attempt);
        body.undo = records.undo_to_write();
        drop(records);
        // Number 0 is for what a resume brought along.
        match message.filter(|message| message.number > 0) {
            Some(signal) if body.signal.is_some() => {
                (body.message, entry.signal) = (Some(signal.number), Some(signal.clone()));
            }
            answer => entry.takes = answer.map(|answer| answer.number).into_iter().collect(),
        }
        entry.body = body.bytes();
        let packed = log.pack(entry);
        let mut records = self.records.lock();
        let added = match packed {
            Ok(packed) if records.is_at(self.attempt) => log.add(packed),
            Ok(_) => Ok(NEVER),
            Err(error) => Err(error),
        };
        match (&added, records.undo.as_mut().filter(|_| body.undo.is_some())) {
            (Ok(sequence), _) if *sequence != NEVER => records.note(kind, body, *sequence),
            (_, Some(unwritten)) => unwritten.is_written = false,
            (_, None) => {}
        }
        drop(records);
        log.wake_driver();
        added
    }

    /// Waits until this driver holds the run for certain: another one may have done what comes next.
    pub(crate) async fn lease(&self) {
        if let Some(log) = self.log() {
            poll_fn(|cx| log.poll_lease(cx)).await;
        }
    }

    pub(crate) async fn durable(&self, sequence: u64) {
        if let Some(log) = self.log() {
            poll_fn(|cx| log.poll_durable(sequence, cx)).await;
        }
    }

    /// The node goes on once this record is durable: until then it is not parked, whatever else it waits for.
    pub(crate) fn deliver_after(&self, sequence: u64) -> Option<DeliveryGuard<'_>> {
        self.records.deliver_after(self.attempt, sequence)
    }

    /// Waits until the record of a value is durable, and gives what is to be kept until the value is delivered.
    pub(crate) async fn durable_value(&self, sequence: u64) -> Option<DeliveryGuard<'_>> {
        let delivering = self.deliver_after(sequence);
        self.durable(sequence).await;
        delivering
    }

    /// Fails the node: it stays pending here, and the engine drops it. An attempt that was cut off fails nobody.
    pub(crate) async fn fail<T>(&self, error: impl Into<BoxError>) -> T {
        if self.records.lock_for(self.attempt).is_some() {
            self.graph_cx.run().break_node(self.token, error.into());
        }
        pending().await
    }

    /// Wakes the run if this node does nothing but wait now: on another thread, nobody else would.
    pub(crate) fn tell_if_parked(&self) {
        if let Some(log) = self.log().filter(|_| self.records.is_parked()) {
            log.wake_driver();
        }
    }
}

/// How an effect begins.
enum EffectBegin {
    /// Its result is known.
    Recorded(RecordedValue),
    /// It is to be done, with this idempotency key, once it is noted.
    Work { idempotency_key: String, note: StartRecord },
}

/// The note that an effect begins. The work is called when it is durable.
enum StartRecord {
    None,
    ToWrite,
    /// It is the record of this sequence.
    Submitted(u64),
}

/// A key that is used in this attempt. Dropped before anything was delivered, it can be used again: what was recorded for it meanwhile waits for
/// whoever asks next.
pub(crate) struct KeyGuard<'a> {
    writer: &'a VisitWriter,
    namespace: Namespace,
    key: String,
    is_delivered: bool,
}

impl KeyGuard<'_> {
    pub(crate) fn namespace(&self) -> Namespace {
        self.namespace
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// The node has what it asked for.
    pub(crate) fn deliver(mut self) {
        self.is_delivered = true;
        let records = self.writer.records.lock_for(self.writer.attempt);
        let signal = records.and_then(|mut records| records.deliver(self.namespace, &self.key));
        if let (Some(number), Some(log)) = (signal, self.writer.log()) {
            log.give_out_signal(number);
        }
    }
}

impl Drop for KeyGuard<'_> {
    fn drop(&mut self) {
        if self.is_delivered {
            return;
        }
        let has_value = match self.writer.records.lock_for(self.writer.attempt) {
            Some(mut records) => {
                let kept = records.kept(self.namespace, &self.key);
                kept.is_used = false;
                kept.value.is_some()
            }
            None => false,
        };
        // Another wait for a signal of this name may go on with it.
        if let Some(inbox) = self.writer.inbox().filter(|_| has_value) {
            inbox.wake_all(&signal_name(&self.key));
        }
    }
}

/// While it lives, its node does more than wait.
struct RunningEffect<'a>(&'a VisitWriter, Option<EffectGuard<'a>>);

impl<'a> RunningEffect<'a> {
    fn new(writer: &'a VisitWriter) -> Option<Self> {
        writer.records.run_effect(writer.attempt).map(|running| Self(writer, Some(running)))
    }
}

impl Drop for RunningEffect<'_> {
    fn drop(&mut self) {
        self.1 = None;
        self.0.tell_if_parked();
    }
}

impl<F, T, E> fmt::Debug for Effect<F, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Effect").field("key", &self.key).field("once", &self.once).finish_non_exhaustive()
    }
}
