//! The context of a node: what its code can use while it runs.
//!
//! [`NodeContext`] belongs to one attempt of one node. It gives access to:
//! - the ids and limits of the attempt (this file),
//! - the graph and the run (`run_context`),
//! - effects, which are recorded and not repeated (`effect`),
//! - durable waits: interrupts and signals (`wait`), sleeps (`sleep`),
//! - the tags of the run (`tags`),
//! - the undo of the node (`undo`) and the events of the run (`events`).
//!
//! `visit_writer` writes the records of a visit. `cancelled_tasks` counts the tasks of a run that
//! were cancelled and still exist.
//!
//! Invariants:
//! 1. A context is owned. It stays usable after its attempt has ended, but then it records nothing.
//! 2. A plain node pays for nothing here: [`NodeDetails`] is allocated on first use.
//! 3. No waker is called under a lock of this room.

pub(crate) mod cancelled_tasks;
pub(crate) mod effect;
mod event_fields;
pub(crate) mod events;
pub(crate) mod run_context;
mod sleep;
#[cfg(feature = "spans")]
pub(crate) mod spans;
mod tags;
pub(crate) mod undo;
pub(crate) mod visit_writer;
mod wait;

use crate::context::events::{Emission, InnerEvent, Visit};
use crate::context::run_context::GraphContext;
use crate::context::undo::UndoTakes;
use crate::error::{EffectError, UnknownEffect};
use crate::log::codec::stored_json;
use crate::log::undo_payload::UndoPayload;
use crate::log::visit::{RecordedUndo, VisitRecords};
use crate::token::{BranchPath, TokenId};
use pleach_core::{CancelToken, Instant};
use serde::Serialize;
use serde_json::value::RawValue;
use std::any::{Any, TypeId};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The context of one attempt of a node.
///
/// A node that takes a context as its first argument gets one for each attempt. It is owned, so the
/// node can keep it across awaits and move it into the futures that it creates.
///
/// | method | use |
/// |---|---|
/// | [`effect`](Self::effect) | Runs work that must not run twice and records its result. |
/// | [`interrupt`](Self::interrupt) | Asks a question outside the run and waits for the answer. |
/// | [`signal`](Self::signal) | Waits for a named signal. |
/// | [`sleep`](Self::sleep) | Waits for a time that survives restarts. |
/// | [`record_undo`](Self::record_undo) | Records the payload for the undo of the node. |
/// | [`set_tag`](Self::set_tag) | Sets a tag by which the run is found. |
/// | [`emit`](Self::emit) | Sends a value to the hooks or the stream of the run. |
///
/// # Examples
///
/// An order is charged, approved and shipped. The run pauses at the interrupt and continues when it
/// is resumed with an answer. The charge is not repeated.
///
/// ```
/// use pleach::prelude::*;
/// use pleach::durable::RunRemote;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let order = |cx: NodeContext, cents: u32| async move {
///     // Charges at most once. The key is the same for each attempt.
///     let receipt: String = cx
///         .effect("charge", move |key| async move {
///             Ok::<_, String>(format!("{cents} cents, {key}"))
///         })
///         .once()
///         .await?;
///     // Survives a restart of the process: the first deadline is recorded.
///     cx.sleep("settle", Duration::from_millis(5)).await;
///     let discount: u32 = cx.signal("discount").await;
///     let approved: bool = cx.interrupt("approve", &receipt).await;
///     if approved { Ok(cents - discount) } else { Err("not approved".to_string()) }
/// };
/// let graph = Graph::<u32>::new("order")
///     .add_node("order", order)
///     .add_edge("order", END)
///     .set_entry("order")
///     .compile()?;
///
/// let store = MemoryStore::new();
/// let remote: RunRemote = graph.run(500).id("order-7").checkpoint(&store).enqueue().await?;
/// remote.signal("discount", &50).await?;
/// let paused = graph.resume("order-7").checkpoint(&store).await.unwrap_err();
/// assert!(matches!(paused.fault(), RunFault::Paused { keys, .. } if *keys == ["approve"]));
///
/// let total = graph.resume("order-7").resume_with("approve", &true).checkpoint(&store).await?;
/// assert_eq!(total, 450);
/// # Ok(())
/// # }
/// ```
pub struct NodeContext {
    pub(crate) graph_cx: Arc<GraphContext>,
    pub(crate) node: u32,
    pub(crate) attempt: u32,
    pub(crate) iteration: u64,
    pub(crate) token: TokenId,
    pub(crate) branch: BranchPath,
    pub(crate) details: OnceLock<Box<NodeDetails>>,
}

/// The rarely used parts of a [`NodeContext`].
#[derive(Default)]
pub(crate) struct NodeDetails {
    /// The deadline of the attempt, from the node's own timeout.
    pub(crate) deadline: Option<Instant>,
    /// The type that the undo of the node takes. Without an undo, recorded payloads are dropped.
    pub(crate) undo_takes: Option<UndoTakes>,
    /// A cancel token that replaces the token of the run: for code that runs after the run has
    /// ended, and for a node with a cancel grace.
    pub(crate) fresh: Option<CancelToken>,
    /// For an undo: the record that it undoes; 0 in an in-memory run.
    pub(crate) undoes: Option<u64>,
    /// For an undo: the effects of the visit with an unknown outcome.
    pub(crate) unknown: Vec<UnknownEffect>,
    /// The records of this visit. Created on first use if the engine has not set them.
    pub(crate) records: OnceLock<Arc<VisitRecords>>,
    /// The id of the node, if the graph has no node with this number.
    pub(crate) name: Option<Arc<str>>,
}

impl NodeContext {
    /// Returns the id of the run.
    ///
    /// This is the id set with [`RunOptions::id`](crate::RunOptions::id). Default: a random id of
    /// the form `run-0123456789abcdef`.
    pub fn run_id(&self) -> &str {
        self.graph_cx.run().id()
    }

    /// Returns the id of this node. For a node inside a subgraph: `subgraph/node`.
    pub fn node(&self) -> Arc<str> {
        let other = self.details.get().and_then(|details| details.name.clone());
        other.unwrap_or_else(|| self.graph_cx.name(self.node))
    }

    /// Returns the number of the current attempt in this visit, starting at 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Returns the number of consecutive visits that led here, including this one.
    ///
    /// [`max_iterations`](crate::RunOptions::max_iterations) limits this number. A branch continues
    /// from the number at its fan-out. After a join, the run continues from the number of its
    /// longest branch.
    pub fn iteration(&self) -> u64 {
        self.iteration
    }

    /// Returns the branches of the fan-outs in which this node runs, outermost first.
    pub fn branch(&self) -> &BranchPath {
        &self.branch
    }

    /// Returns a key for calls to external systems.
    ///
    /// The key is the same for all attempts of this visit and differs from the key of every other
    /// visit of every run. The undo of a visit has a different key.
    pub fn idempotency_key(&self) -> String {
        let is_undo = self.undoes().is_some();
        self.graph_cx.run().keys(is_undo).of_visit(self.graph_cx.run().key_token(self.token, is_undo))
    }

    /// Returns the cancel token of the run, for work that the node starts.
    ///
    /// The future of a cancelled node is dropped at its current await, or at the end of its [cancel
    /// grace](crate::Policy::cancel_grace). A node with a grace has its own token, which is also
    /// cancelled together with its branch.
    ///
    /// # Panics
    /// Panics if the run has no runtime; see [`RunFault::NoRuntime`](crate::RunFault::NoRuntime).
    pub fn token(&self) -> CancelToken {
        if let Some(fresh) = self.details.get().and_then(|details| details.fresh.as_ref()) {
            return fresh.clone();
        }
        match self.graph_cx.run().token() {
            Ok(token) => token.clone(),
            Err(fault) => panic!("cannot create the cancel token of run {:?}: {fault}", self.run_id()),
        }
    }

    /// Returns the time at which the attempt is cancelled.
    ///
    /// This is the earlier of the node's own timeout and the deadline of the run. Returns `None`
    /// without either, and for an undo.
    pub fn deadline(&self) -> Option<Instant> {
        if self.undoes().is_some() {
            return None;
        }
        let own = self.details.get().and_then(|details| details.deadline);
        own.into_iter().chain(self.graph_cx.run().deadline()).min()
    }

    /// Returns the extension of type `T` of this run, such as a client or an actor address.
    ///
    /// Extensions are set with [`RunOptions::extension`](crate::RunOptions::extension). If several
    /// have this type, the last one is returned.
    pub fn extension<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.graph_cx.run().extension()
    }

    /// Sends a value to the hooks or the stream of the run, such as progress or a part of an
    /// answer.
    ///
    /// Listeners receive it as [`RunEvent::Emitted`](crate::RunEvent::Emitted). Without a listener
    /// the value is dropped. Emitted values are not stored.
    pub fn emit(&self, value: impl Any + Send + Sync) {
        if let Some(listener) = self.graph_cx.run().listener() {
            listener(self.visit(), InnerEvent::Emitted(Emission::new(value)));
        }
    }

    /// Records the payload for the undo of this node.
    ///
    /// The undo runs if the run fails after this node was committed. If a visit records several
    /// payloads, the last one counts, in any attempt.
    ///
    /// Call this before the effects that the undo reverts. The payload becomes durable with the
    /// next effect, or with the failed attempt. Without an undo, this call does nothing.
    ///
    /// # Errors
    /// The node fails before its next effect begins, or at its end, with
    /// - [`EffectError::UndoType`] if the undo takes another type,
    /// - [`EffectError::Unstorable`] if the payload changes when it is written to JSON and read
    ///   back.
    pub fn record_undo<P: Any + Serialize>(&self, payload: P) {
        let Some(details) = self.details.get() else { return };
        let Some(takes) = details.undo_takes else { return };
        let payload = if TypeId::of::<P>() == takes.type_id {
            let read =
                |json: &RawValue| (takes.read)(json).map(|back| *back.downcast::<P>().expect("the type was compared before"));
            stored_json(&payload, None, read)
                .map(UndoPayload::of)
                .map_err(|reason| EffectError::Unstorable { key: "record_undo".into(), reason })
        } else {
            let (given, takes) = (std::any::type_name::<P>().to_string(), takes.name.to_string());
            Err(EffectError::UndoType { given, takes })
        };
        if let Some(mut records) = details.records.get().and_then(|records| records.lock_for(self.attempt)) {
            records.undo = Some(RecordedUndo { payload, is_written: false });
        }
    }

    /// Returns the effects of the undone visit that started and whose outcome is unknown.
    ///
    /// Each of them may have happened: it was interrupted by a crash, by a failure elsewhere, or by
    /// a `select!`. Outside an undo the list is empty.
    pub fn unknown_effects(&self) -> &[UnknownEffect] {
        self.details.get().map_or(&[], |details| &details.unknown)
    }

    /// Returns true if this node has an undo.
    pub(crate) fn has_undo(&self) -> bool {
        self.details.get().is_some_and(|details| details.undo_takes.is_some())
    }

    /// Returns the record that this context undoes, if it belongs to an undo.
    pub(crate) fn undoes(&self) -> Option<u64> {
        self.details.get()?.undoes
    }

    pub(crate) fn visit(&self) -> Visit {
        let (attempt, iteration) = (self.attempt, self.iteration);
        let run = self.graph_cx.run().known_id();
        Visit { run, node: self.node(), attempt, iteration, branch: self.branch.clone() }
    }
}

impl fmt::Debug for NodeContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attempt, iteration, branch, .. } = self;
        f.debug_struct("NodeContext")
            .field("node", &self.node())
            .field("attempt", attempt)
            .field("iteration", iteration)
            .field("branch", branch)
            .finish_non_exhaustive()
    }
}
