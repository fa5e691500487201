//! `Effect`: something a node does outside, whose result is written down before the node goes on. It is not repeated by a later attempt, nor after
//! a crash.

use crate::context::NodeContext;
use crate::journal::frontier::undo_path;
use crate::journal::notes::{EffectRunning, Namespace, NoteBody, Notes};
use crate::journal::{Entry, Journal};
use crate::letters::Letters;
use crate::shared::Shared;
use crate::store::{Fork, Kind, StoreError};
use crate::token::TokenId;
use pleach_core::{BoxError, BoxFuture};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::to_raw_value;
use std::fmt;
use std::future::{Future, IntoFuture, pending, poll_fn};
use std::marker::PhantomData;
use std::sync::Arc;

/// An effect or a wait could not be done as asked. It fails the node that asked, as its [`source`](std::error::Error::source).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EffectError {
    /// The same key twice in one attempt: nothing could tell the two apart.
    UsedTwice {
        /// The key.
        key: String,
    },
    /// An effect that may happen once at most was cut off, and nobody knows whether it happened: see, and then record it by hand.
    EffectUnknown {
        /// Its key.
        key: String,
        /// The idempotency key that it was begun with.
        idempotency_key: String,
    },
    /// A result, question or answer cannot be written as JSON and read again.
    Unstorable {
        /// The key.
        key: String,
        /// Why.
        why: String,
    },
    /// Nobody could answer: the run is neither stored nor within a scope, or it is being undone.
    Unanswerable {
        /// The key.
        key: String,
    },
}

impl fmt::Display for EffectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UsedTwice { key } => {
                write!(f, "the key {key:?} is used twice in one attempt: give each effect and wait its own")
            }
            Self::EffectUnknown { key, idempotency_key } => write!(
                f,
                "the effect {key:?} was cut off, and may or may not have happened: look for {idempotency_key:?} where it happens"
            ),
            Self::Unstorable { key, why } => write!(f, "what belongs to {key:?} cannot be stored: {why}"),
            Self::Unanswerable { key } => {
                write!(f, "nobody can answer {key:?}: run it with `checkpoint`, or `within` a scope; an undo asks nobody")
            }
        }
    }
}

impl std::error::Error for EffectError {}

/// An effect on its way; from [`NodeContext::effect`]. Await it for its result.
#[must_use = "an effect happens when it is awaited"]
pub struct Effect<F, T, E> {
    scene: Scene,
    key: String,
    work: F,
    once: bool,
    result: PhantomData<fn() -> Result<T, E>>,
}

/// Where in a run something is done: what it takes to write it down.
pub(crate) struct Scene {
    pub(crate) shared: Arc<Shared>,
    pub(crate) notes: Arc<Notes>,
    token: TokenId,
    path: Vec<Fork>,
    /// The record that notes follow.
    parent: u64,
    node: Arc<str>,
    pub(crate) attempt: u32,
    is_undo: bool,
}

impl NodeContext {
    pub(crate) fn scene(&self) -> Scene {
        let notes = &self.rare.get_or_init(Box::default).notes;
        Scene {
            shared: Arc::clone(&self.shared),
            notes: Arc::clone(notes.get_or_init(|| Arc::new(Notes::of_attempt(self.attempt)))),
            token: self.token,
            path: self.undoes().map_or_else(|| self.branch.forks(), undo_path),
            parent: self.undoes().unwrap_or(self.token.sequence),
            node: self.node(),
            attempt: self.attempt,
            is_undo: self.undoes().is_some(),
        }
    }

    /// Does something outside that is not to be repeated: `cx.effect("charge", |key| bank.charge(key, cents)).await?`.
    ///
    /// `work` is given a key of its own: the same for every attempt at this effect, and for no other. Its `Ok` is written down before the node
    /// goes on; whoever comes this way again, by a retry or after a crash, is given that result, and `work` is not called. An `Err` is not written
    /// down. If it is cut off in between, it is called again with the same key, unless it is to happen [`once`](Effect::once) at most.
    ///
    /// The same key twice in one attempt fails the node, as [`EffectError`] says. Effects of an undo are written down like those of a node.
    pub fn effect<F, Fut, T, E>(&self, key: impl Into<String>, work: F) -> Effect<F, T, E>
    where
        F: FnOnce(String) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        T: Serialize + DeserializeOwned,
    {
        Effect { scene: self.scene(), key: key.into(), work, once: false, result: PhantomData }
    }
}

impl<F, T, E> Effect<F, T, E> {
    /// Calls `work` once at most, whatever happens. If it began and is not known to have ended well, the node fails with
    /// [`EffectUnknown`](EffectError::EffectUnknown).
    pub fn once(mut self) -> Self {
        self.once = true;
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
        let Self { scene, key, work, once, .. } = self;
        let recorded = match scene.begin(&key, once) {
            Ok(recorded) => recorded,
            Err(error) => return scene.fail(error).await,
        };
        if let Some(recorded) = recorded {
            return match serde_json::from_str(&recorded) {
                Ok(value) => Ok(value),
                Err(error) => scene.fail(EffectError::Unstorable { key, why: error.to_string() }).await,
            };
        }
        let Some(_running) = Running::new(&scene) else { return pending().await };
        if once {
            scene.write(Kind::Started, NoteBody { key: key.clone(), ..NoteBody::default() }).await;
        }
        let value = match work(scene.effect_key(&key)).await {
            Ok(value) => value,
            Err(error) => {
                // It says that it did not happen.
                scene.notes.lock().kept(Namespace::Effect, &key).is_cut_off = false;
                return Err(error);
            }
        };
        let json = match to_raw_value(&value).and_then(|json| serde_json::from_str::<T>(json.get()).map(|_| json)) {
            Ok(json) => json,
            Err(error) => return scene.fail(EffectError::Unstorable { key, why: error.to_string() }).await,
        };
        scene.write(Kind::Effect, NoteBody { key, value: Some(json), ..NoteBody::default() }).await;
        Ok(value)
    }
}

impl Scene {
    /// Takes a key for this attempt. The result, if it was recorded.
    fn begin(&self, key: &str, once: bool) -> Result<Option<String>, EffectError> {
        // One that was cut off goes no further, whatever the error.
        let Some(mut notes) = self.notes.lock_for(self.attempt) else {
            return Err(EffectError::UsedTwice { key: key.to_string() });
        };
        let kept = notes.kept(Namespace::Effect, key);
        if std::mem::replace(&mut kept.is_used, true) {
            return Err(EffectError::UsedTwice { key: key.to_string() });
        }
        if let Some(value) = &kept.value {
            return Ok(Some(value.get().to_string()));
        }
        if kept.is_started && once {
            let (key, idempotency_key) = (key.to_string(), self.effect_key(key));
            return Err(EffectError::EffectUnknown { key, idempotency_key });
        }
        kept.is_started |= once;
        kept.is_cut_off = true;
        Ok(None)
    }

    /// The idempotency key of one effect of this visit.
    fn effect_key(&self, key: &str) -> String {
        self.token.effect_key(self.shared.run().id(), self.is_undo, key)
    }

    pub(crate) fn journal(&self) -> Option<&Arc<Journal>> {
        self.shared.run().journal()
    }

    /// Where answers and signals come; an undo has nobody to ask.
    pub(crate) fn letters(&self) -> Option<&Letters> {
        self.shared.run().letters().filter(|_| !self.is_undo)
    }

    /// Writes a note, in the log if the run is stored, and waits until it is durable. It counts from when it is submitted: an attempt that is cut
    /// off while it waits would hide from the next what will be in the log.
    pub(crate) async fn write(&self, kind: Kind, body: NoteBody) {
        match self.submit(kind, body, None) {
            Ok(sequence) => self.durable(sequence).await,
            Err(error) => self.fail(error).await,
        }
    }

    /// Writes a note, and the letter that is taken with it. Its sequence, which is to become durable.
    pub(crate) fn submit(&self, kind: Kind, mut body: NoteBody, take: Option<u64>) -> Result<u64, StoreError> {
        let Some(journal) = self.journal() else {
            self.notes.lock().note(kind, body);
            return Ok(0);
        };
        let mut entry = Entry::new(kind, self.path.clone(), &*self.node);
        (entry.parent, entry.attempt) = (self.parent, self.attempt);
        body.undo = self.notes.lock().undo_to_write();
        (entry.body, entry.takes) = (body.bytes(), take.filter(|number| *number > 0).into_iter().collect());
        let submitted = journal.submit(entry);
        let mut notes = self.notes.lock();
        match (&submitted, notes.undo.as_mut().filter(|_| body.undo.is_some())) {
            (Ok(_), _) => notes.note(kind, body),
            (Err(_), Some(unwritten)) => unwritten.is_written = false,
            (Err(_), None) => {}
        }
        submitted
    }

    pub(crate) async fn durable(&self, sequence: u64) {
        if let Some(journal) = self.journal() {
            poll_fn(|cx| journal.poll_durable(sequence, cx)).await;
        }
    }

    /// Fails the node: it stays pending here, and the engine drops it. An attempt that was cut off fails nobody.
    pub(crate) async fn fail<T>(&self, error: impl Into<BoxError>) -> T {
        if self.notes.lock_for(self.attempt).is_some() {
            self.shared.run().break_node(self.token, error.into());
        }
        pending().await
    }

    /// Wakes the run if this node does nothing but wait now: on another thread, nobody else would.
    pub(crate) fn tell_if_parked(&self) {
        if let Some(journal) = self.journal().filter(|_| self.notes.is_parked()) {
            journal.wake_driver();
        }
    }
}

/// While it lives, its node does more than wait.
struct Running<'a>(&'a Scene, Option<EffectRunning<'a>>);

impl<'a> Running<'a> {
    fn new(scene: &'a Scene) -> Option<Self> {
        scene.notes.run_effect(scene.attempt).map(|running| Self(scene, Some(running)))
    }
}

impl Drop for Running<'_> {
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
