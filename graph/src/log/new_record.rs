//! `NewRecord`: a record before it is added to the log. It has no sequence number yet.

use crate::log::message::Message;
use crate::log::undo_payload::UndoPayload;
use crate::log::{codec, frontier};
use crate::store::{Fork, Kind, PackedBody, Place, RunStatus, StoreError};

/// The most bytes of a record that says how something failed, where states have a lower limit.
const FAILURE_BYTES_MAX: usize = 1 << 20;

/// Something to be written down.
pub(crate) struct NewRecord {
    pub(crate) kind: Kind,
    pub(crate) path: Vec<Fork>,
    pub(crate) parent: u64,
    pub(crate) node: String,
    pub(crate) next: Option<Place>,
    pub(crate) attempt: u32,
    /// Whether a visit of a node is over with it.
    pub(crate) is_visit: bool,
    /// How many visits led to it on its line of control; 0 if as many as the whole run has had.
    pub(crate) iteration: u64,
    pub(crate) body: Vec<u8>,
    /// What an undo of it is given.
    pub(crate) undo: Option<UndoPayload>,
    /// The status from now on.
    pub(crate) status: Option<RunStatus>,
    /// Messages that is taken with it.
    pub(crate) takes: Vec<u64>,
    /// A signal that a wait took with it: its message is taken once the node was given it.
    pub(crate) signal: Option<Message>,
    /// The record whose idempotency keys go on with it; 0 if it has its own.
    pub(crate) keys_of: u64,
}

impl NewRecord {
    pub(crate) fn new(kind: Kind, path: Vec<Fork>, node: impl Into<String>) -> Self {
        Self {
            kind,
            path,
            parent: 0,
            node: node.into(),
            next: None,
            attempt: 0,
            is_visit: false,
            iteration: 0,
            body: Vec::new(),
            undo: None,
            status: None,
            takes: Vec::new(),
            signal: None,
            keys_of: 0,
        }
    }

    /// Compresses and checksums the body. This takes time, so it is done before the log's lock is taken.
    pub(super) fn pack(mut self, body_bytes_max: usize) -> Result<PackedRecord, StoreError> {
        let mut body = std::mem::take(&mut self.body);
        if let Some(payload) = &self.undo {
            codec::add_undo(&mut body, payload);
        }
        // The limit is for states. That something failed can always be written down.
        let is_failure = matches!(self.kind, Kind::Attempt | Kind::Undo | Kind::End);
        let limit = if is_failure { body_bytes_max.max(FAILURE_BYTES_MAX) } else { body_bytes_max };
        Ok(PackedRecord { entry: self, body: PackedBody::pack(body, limit)? })
    }

    /// Whether it is about an undo: that it is over, or what happens on its way.
    pub(super) fn is_of_undo(&self) -> bool {
        self.kind == Kind::Undo || frontier::undone_at(&self.path).is_some()
    }

    /// Whether a node says it about the visit that it is at.
    pub(super) fn is_of_visit(&self) -> bool {
        let is_note = matches!(self.kind, Kind::Effect | Kind::Started | Kind::Wait | Kind::Wake);
        is_note && !self.node.is_empty() && !self.is_of_undo()
    }
}

/// An entry whose body is ready to be stored.
pub(crate) struct PackedRecord {
    pub(super) entry: NewRecord,
    pub(super) body: PackedBody,
}
