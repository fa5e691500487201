//! `Effect`: work of a node that must not run twice.
//!
//! The result is recorded before the node continues. A later attempt, or another process after a
//! crash, gets the recorded result. One effect goes through these steps:
//!
//! | step | done by | left when |
//! |---|---|---|
//! | key taken | `VisitWriter::take_key` | the key is free in this attempt |
//! | begun | `VisitWriter::begin` | a recorded result exists (done), or the work must run |
//! | start recorded | `VisitWriter::record_start` | the start record is durable, if one is needed |
//! | lease checked | `VisitWriter::lease` | this driver holds the run for certain |
//! | running | `work` | it returns `Ok` (recorded) or `Err` (not recorded) |
//! | recorded | `VisitWriter::write` | the result is durable; the node continues |

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

/// An effect that has not run yet. Created by [`NodeContext::effect`]; await it to run it.
///
/// # Cancel safety
/// Dropping the future before it completes, as `select!` does, frees the key. A later call with
/// this key runs `work` again with the same idempotency key, or returns the recorded result. If
/// `work` had started and the effect is [`once`](Self::once), the node fails with
/// [`EffectUnknown`](EffectError::EffectUnknown) instead.
///
/// # Examples
///
/// The second attempt of this node gets the recorded result; the work runs only once.
///
/// ```
/// use pleach::prelude::*;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let calls = Arc::new(AtomicU32::new(0));
/// let counter = Arc::clone(&calls);
/// let charge = move |cx: NodeContext, cents: u32| {
///     let counter = Arc::clone(&counter);
///     async move {
///         let charged: u32 = cx
///             .effect("charge", move |_key| async move {
///                 counter.fetch_add(1, Ordering::Relaxed);
///                 Ok::<_, String>(cents)
///             })
///             .once()
///             .await?;
///         if cx.attempt() == 1 { Err("the network failed".to_string()) } else { Ok(charged) }
///     }
/// };
/// let graph = Graph::<u32>::new("charging")
///     .add_node("charge", charge)
///     .policy("charge", Policy::new().retry(Retry::times(2)))
///     .add_edge("charge", END)
///     .set_entry("charge")
///     .compile()?;
///
/// assert_eq!(graph.run(500).await?, 500);
/// assert_eq!(calls.load(Ordering::Relaxed), 1);
/// # Ok(())
/// # }
/// ```
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
    /// Runs `work` once per visit and records its result.
    ///
    /// `work` gets an idempotency key. The key is the same for every attempt of this effect and
    /// differs from the key of every other effect. Pass it to the external system that `work`
    /// calls.
    ///
    /// - `Ok` is recorded before the node continues. A retry, or another process after a crash,
    ///   gets the recorded result without a call of `work`.
    /// - `Err` is returned and not recorded. The next attempt calls `work` again with the same key.
    /// - If `work` is interrupted, for example by a crash, the next attempt calls it again with the
    ///   same key. Use [`once`](Effect::once) for work that must not be repeated.
    ///
    /// In an in-memory run, results are recorded in memory, for the attempts of one visit.
    ///
    /// # Stored runs
    /// Before `work` is called, a stored run checks that this driver still holds the lease. If the
    /// lease may have expired, by the clock of the runtime or of the machine, the driver renews it
    /// first. If another driver holds the run, `work` is not called. Two cases remain in which two
    /// drivers call `work`: the process is suspended between this check and the external call, or
    /// another driver [takes over](crate::Resume::take_over) the run before the lease expires. Use
    /// the key, or [`once`](Effect::once), if that matters.
    ///
    /// If the node has an undo, a start record is written first. So the undo also runs for an
    /// effect that a crash interrupted, and finds it in
    /// [`unknown_effects`](NodeContext::unknown_effects).
    ///
    /// An undo can use effects too. They are recorded in the same way.
    ///
    /// # Errors
    /// The node fails with an [`EffectError`] if
    /// - the key is already in use in this attempt, contains a NUL character or is too long,
    /// - the result changes when it is written to JSON and read back, such as `Some(None)`,
    ///   `Some(())` or a NaN. In this case the effect has already happened.
    ///
    /// See [`Effect`] for cancel safety and an example.
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
    /// Calls `work` at most once. Default: an interrupted effect is repeated.
    ///
    /// A start record is written before `work` is called. Only the driver that holds the lease can
    /// write it.
    ///
    /// # Errors
    /// If the effect was started and no result was recorded, the node fails with
    /// [`EffectUnknown`](EffectError::EffectUnknown).
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }

    /// Also compares the result, by `PartialEq`, with the value read back from its JSON. Default:
    /// only the serialised structure is compared.
    ///
    /// # Errors
    /// If they differ, the node fails with [`Unstorable`](EffectError::Unstorable). The effect has
    /// already happened then.
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
        Box::pin(self.run())
    }
}

impl<F, Fut, T, E> Effect<F, T, E>
where
    F: FnOnce(String) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    T: Serialize + DeserializeOwned,
{
    async fn run(self) -> Result<T, E> {
        let Self { writer, key, work, once, equal, .. } = self;
        if let Err(error) = writer.check_key(&key) {
            return writer.fail(error).await;
        }
        // Check this first: an effect without a usable undo must not start.
        if let Some(reason) = writer.records.unusable_undo() {
            return writer.fail(reason).await;
        }
        let Some(key_guard) = writer.take_key(Namespace::Effect, &key) else {
            return writer.fail(EffectError::UsedTwice { key }).await;
        };
        let (idempotency_key, start_record) = match writer.begin(&key, once) {
            Some(Ok(EffectBegin::Recorded(RecordedValue { json, recorded_by }))) => {
                let value = match serde_json::from_str(&json) {
                    Ok(value) => value,
                    Err(error) => return writer.fail(EffectError::Unstorable { key, reason: error.to_string() }).await,
                };
                let _delivering = writer.durable_value(recorded_by).await;
                key_guard.deliver();
                return Ok(value);
            }
            Some(Ok(EffectBegin::Work { idempotency_key, start_record })) => (idempotency_key, start_record),
            Some(Err(error)) => return writer.fail(error).await,
            None => return pending().await,
        };
        let Some(_running) = RunningEffect::new(&writer) else { return pending().await };
        writer.record_start(&key, once, &idempotency_key, start_record).await;
        writer.lease().await;
        if !writer.start(&key, once) {
            return pending().await;
        }
        let value = match work(idempotency_key).await {
            Ok(value) => value,
            Err(error) => {
                // An error means that the effect did not happen.
                if let Some(mut records) = writer.records.lock_for(writer.attempt) {
                    records.mark_not_done(&key);
                }
                key_guard.deliver();
                return Err(error);
            }
        };
        let json = match stored_json(&value, equal, |json| serde_json::from_str(json.get())) {
            Ok(json) => json,
            Err(reason) => return writer.fail(EffectError::Unstorable { key, reason }).await,
        };
        writer.write(Kind::Effect, VisitRecordBody { key, value: Some(json), ..VisitRecordBody::default() }).await;
        key_guard.deliver();
        Ok(value)
    }
}

impl VisitWriter {
    /// Begins an effect. Returns its recorded result, or the idempotency key for the work. Returns
    /// `None` if the attempt was abandoned.
    fn begin(&self, key: &str, once: bool) -> Option<Result<EffectBegin, EffectError>> {
        let idempotency_key = self.effect_key(key);
        let mut records = self.records.lock_for(self.attempt)?;
        let key_state = records.key_state(Namespace::Effect, key);
        if let Some(known) = key_state.known() {
            return Some(Ok(EffectBegin::Recorded(known)));
        }
        // An effect that was started before keeps its key, even if its records were rewritten
        // since.
        let idempotency_key = key_state.begun_with.clone().unwrap_or(idempotency_key);
        if key_state.is_started && once {
            return Some(Err(EffectError::EffectUnknown { key: key.to_string(), idempotency_key }));
        }
        // Needed after a crash: the log must show that the effect may have happened.
        let is_needed = once || (self.has_undo && self.log().is_some());
        // An earlier call may have been dropped while its start record was being written.
        let is_submitted = if once { key_state.begun_with.is_some() } else { key_state.is_begun };
        let start_record = match (is_needed, is_submitted) {
            (false, _) => StartRecord::Unneeded,
            (true, true) => StartRecord::Submitted(key_state.begun_by),
            (true, false) => StartRecord::ToWrite,
        };
        records.begin_effect(key);
        Some(Ok(EffectBegin::Work { idempotency_key, start_record }))
    }

    /// Writes the start record of an effect, if it needs one, and waits until it is durable.
    async fn record_start(&self, key: &str, once: bool, idempotency_key: &str, start_record: StartRecord) {
        match start_record {
            StartRecord::Unneeded => {}
            StartRecord::Submitted(sequence) => self.durable(sequence).await,
            StartRecord::ToWrite => {
                self.lease().await;
                let begun_with = once.then(|| idempotency_key.to_string());
                let body = VisitRecordBody { key: key.to_string(), begun_with, repeats: !once, ..VisitRecordBody::default() };
                self.write(Kind::Started, body).await;
            }
        }
    }

    /// Marks the work as called. Returns false if the attempt was abandoned; then the work must not
    /// be called.
    fn start(&self, key: &str, once: bool) -> bool {
        let Some(mut records) = self.records.lock_for(self.attempt) else { return false };
        records.key_state(Namespace::Effect, key).is_started |= once;
        true
    }

    /// Returns the idempotency key of an effect of this visit.
    fn effect_key(&self, key: &str) -> String {
        let run = self.graph_cx.run();
        run.keys(self.is_undo).of_effect(run.key_token(self.token, self.is_undo), key)
    }
}

/// The result of [`VisitWriter::begin`].
enum EffectBegin {
    /// The result is already recorded.
    Recorded(RecordedValue),
    /// The work must run with this idempotency key, after the start record is durable.
    Work { idempotency_key: String, start_record: StartRecord },
}

/// The record that an effect starts. The work is called when it is durable.
enum StartRecord {
    /// No start record is needed.
    Unneeded,
    /// The record has to be written.
    ToWrite,
    /// The record with this sequence number was submitted before.
    Submitted(u64),
}

/// Keeps a node from counting as parked while one of its effects runs.
struct RunningEffect<'a>(&'a VisitWriter, Option<EffectGuard<'a>>);

impl<'a> RunningEffect<'a> {
    fn new(writer: &'a VisitWriter) -> Option<Self> {
        writer.records.run_effect(writer.attempt).map(|running| Self(writer, Some(running)))
    }
}

impl Drop for RunningEffect<'_> {
    fn drop(&mut self) {
        self.1 = None;
        self.0.wake_driver_if_parked();
    }
}

impl<F, T, E> fmt::Debug for Effect<F, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Effect").field("key", &self.key).field("once", &self.once).finish_non_exhaustive()
    }
}
