//! What a node can use while it runs.
//!
//! [`NodeContext`] is the view of one node. It leads to the context of its graph and its run
//! (`run_context`), to effects (`effect`), to durable waits (`wait`) and to events (`events`).

pub(crate) mod cancelled_tasks;
pub(crate) mod effect;
pub(crate) mod events;
pub(crate) mod run_context;
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

/// What a node is given besides the state, if it asks for it. It is owned, so that a node may keep it across awaits.
pub struct NodeContext {
    pub(crate) graph_cx: Arc<GraphContext>,
    pub(crate) node: u32,
    pub(crate) attempt: u32,
    pub(crate) iteration: u64,
    pub(crate) token: TokenId,
    pub(crate) branch: BranchPath,
    pub(crate) details: OnceLock<Box<NodeDetails>>,
}

/// What few nodes have.
#[derive(Default)]
pub(crate) struct NodeDetails {
    pub(crate) deadline: Option<Instant>,
    /// The type that the undo of the node takes. Without an undo, what the node records is dropped.
    pub(crate) undo_takes: Option<UndoTakes>,
    /// In place of the run's: of code that runs after the run was ended, and of a node with a cancel grace.
    pub(crate) fresh: Option<CancelToken>,
    /// Of an undo: the record that it undoes; 0 in a run that is not stored.
    pub(crate) undoes: Option<u64>,
    /// Of an undo: the effects of the visit whose outcome is not known.
    pub(crate) unknown: Vec<UnknownEffect>,
    /// What was written down during this visit; made when it is asked for, where nobody else keeps it.
    pub(crate) records: OnceLock<Arc<VisitRecords>>,
    /// The id of the node, where it is not among those of the graph.
    pub(crate) name: Option<Arc<str>>,
}

impl NodeContext {
    /// The id of the run: the one it was given, else one made up for it.
    pub fn run_id(&self) -> &str {
        self.graph_cx.run().id()
    }

    /// The id of this node; in a subgraph, `subgraph/node`.
    pub fn node(&self) -> Arc<str> {
        let other = self.details.get().and_then(|details| details.name.clone());
        other.unwrap_or_else(|| self.graph_cx.name(self.node))
    }

    /// Which attempt at this visit it is, from 1 on.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// How many visits led here, one after the other, this one included: what [`max_iterations`](crate::RunOptions::max_iterations)
    /// limits. A branch goes on from the count at its fan-out, and what follows a join from that of the longest branch.
    pub fn iteration(&self) -> u64 {
        self.iteration
    }

    /// In which branch of which fan-out this node runs.
    pub fn branch(&self) -> &BranchPath {
        &self.branch
    }

    /// A key for what the node does outside: the same for every attempt at this visit, and for no other visit of any run. The
    /// undo of a visit has another one.
    pub fn idempotency_key(&self) -> String {
        let is_undo = self.undoes().is_some();
        self.graph_cx.run().keys(is_undo).of_visit(self.graph_cx.run().key_token(self.token, is_undo))
    }

    /// The token of the run, to hand on to what the node starts. The node itself is dropped at its await when it is cancelled, or at the
    /// end of its [cancel grace](crate::Policy::cancel_grace). The token of a node with a grace is cancelled with its branch, too.
    ///
    /// # Panics
    /// If the run has no runtime to make one on; see [`RunFault::NoRuntime`](crate::RunFault::NoRuntime).
    pub fn token(&self) -> CancelToken {
        if let Some(fresh) = self.details.get().and_then(|details| details.fresh.as_ref()) {
            return fresh.clone();
        }
        match self.graph_cx.run().token() {
            Ok(token) => token.clone(),
            Err(fault) => panic!("no token for the run: {fault}"),
        }
    }

    /// When the node will be cut off: by its own timeout, or by the deadline of the run, which an undo does not have.
    pub fn deadline(&self) -> Option<Instant> {
        if self.undoes().is_some() {
            return None;
        }
        let own = self.details.get().and_then(|details| details.deadline);
        own.into_iter().chain(self.graph_cx.run().deadline()).min()
    }

    /// What the run was [given](crate::RunOptions::extension) of this type: a client, an address of an actor.
    pub fn extension<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.graph_cx.run().extension()
    }

    /// Says something to whoever listens to the run: progress, a word of an answer. It costs next to nothing if nobody does.
    pub fn emit(&self, value: impl Any + Send + Sync) {
        if let Some(listener) = self.graph_cx.run().listener() {
            listener(self.visit(), InnerEvent::Emitted(Emission::new(value)));
        }
    }

    /// Records what the undo of this node will be given, if the run fails after this node was committed. The last one of the visit counts, in
    /// whatever attempt it was.
    ///
    /// Record it before the effects that it undoes: it becomes durable with the next of them, or with the attempt if that fails. A node without
    /// an undo records nothing. A payload of a type that the undo does not take ([`EffectError::UndoType`]), or that does not come back from JSON as
    /// it was ([`EffectError::Unstorable`]), fails the node: before its next effect begins, or else at its end.
    pub fn record_undo<P: Any + Serialize>(&self, payload: P) {
        let Some(details) = self.details.get() else { return };
        let Some(takes) = details.undo_takes else { return };
        let payload = if TypeId::of::<P>() == takes.type_id {
            let read = |json: &RawValue| (takes.read)(json).map(|back| *back.downcast::<P>().expect("its type was compared"));
            stored_json(&payload, None, read)
                .map(UndoPayload::of)
                .map_err(|why| EffectError::Unstorable { key: "record_undo".into(), why })
        } else {
            let (given, takes) = (std::any::type_name::<P>().to_string(), takes.name.to_string());
            Err(EffectError::UndoType { given, takes })
        };
        if let Some(mut records) = details.records.get().and_then(|records| records.lock_for(self.attempt)) {
            records.undo = Some(RecordedUndo { payload, is_written: false });
        }
    }

    /// Of an undo: the effects of the visit that began and whose outcome is not known, since they were cut off by a crash, a failure elsewhere, or
    /// a `select!`. Each may have happened. Empty for a node.
    pub fn unknown_effects(&self) -> &[UnknownEffect] {
        self.details.get().map_or(&[], |details| &details.unknown)
    }

    /// Whether this node has an undo.
    pub(crate) fn has_undo(&self) -> bool {
        self.details.get().is_some_and(|details| details.undo_takes.is_some())
    }

    /// The record that this is the undo of, if it is one.
    pub(crate) fn undoes(&self) -> Option<u64> {
        self.details.get()?.undoes
    }

    pub(crate) fn visit(&self) -> Visit {
        let (attempt, iteration) = (self.attempt, self.iteration);
        Visit { node: self.node(), attempt, iteration, branch: self.branch.clone() }
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
