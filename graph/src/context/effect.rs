//! `Effect`: work of a node that must not run twice.
//!
//! Its result is recorded before the node continues. A later attempt, or another process after a
//! crash, gets the recorded result.

use crate::context::NodeContext;
use crate::context::visit_writer::VisitWriter;
use crate::error::EffectError;
use crate::log::codec::stored_json;
use crate::log::visit::{EffectGuard, Namespace, RecordedValue, VisitRecordBody};
use crate::store::Kind;
use pleach_core::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::future::{Future, IntoFuture, pending};
use std::marker::PhantomData;

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

impl NodeContext {
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
