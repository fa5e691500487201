//! The forms of a record before it is a [`Row`]: [`NewRecord`] as its writer makes it,
//! [`PackedRecord`] with a packed body, [`NumberedRecord`] with its place in the log.

use crate::log::failure::failure_in;
use crate::log::message::Message;
use crate::log::undo_payload::UndoPayload;
use crate::log::{codec, frontier};
use crate::store::{Fork, Header, Kind, PackedBody, Place, Row, RunFailure, RunStatus, StoreError};

/// The size limit of a record of a failure, if the limit for states is lower.
const FAILURE_BYTES_MAX: usize = 1 << 20;

/// A record to append.
pub(crate) struct NewRecord {
    pub(crate) kind: Kind,
    pub(crate) path: Vec<Fork>,
    pub(crate) parent: u64,
    pub(crate) node: String,
    pub(crate) next: Option<Place>,
    pub(crate) attempt: u32,
    /// True if this record completes a visit of a node.
    pub(crate) is_visit: bool,
    /// The number of visits of this token, one after the other; 0 if it equals the number of visits
    /// of the run.
    pub(crate) iteration: u64,
    pub(crate) body: Vec<u8>,
    /// The undo payload, if this record can be undone.
    pub(crate) undo: Option<UndoPayload>,
    /// The status of the run after this record.
    pub(crate) status: Option<RunStatus>,
    /// The messages that this record removes from the inbox.
    pub(crate) takes: Vec<u64>,
    /// The signal that this record takes. Its message is removed from the inbox after the node got
    /// it.
    pub(crate) signal: Option<Message>,
    /// The record whose idempotency keys this one keeps; 0 for new keys.
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

    /// Compresses and checksums the body. Slow, so it is done before the lock of the log is taken.
    pub(super) fn pack(mut self, body_bytes_max: usize) -> Result<PackedRecord, StoreError> {
        let mut body = std::mem::take(&mut self.body);
        if let Some(payload) = &self.undo {
            codec::add_undo(&mut body, payload);
        }
        let failure = match self.kind {
            Kind::Attempt | Kind::End => failure_in(self.kind, self.next.as_ref(), &self.node, self.attempt, &body),
            _ => None,
        };
        // The limit is for states. The record of a failure must always fit.
        let is_failure = matches!(self.kind, Kind::Attempt | Kind::Undo | Kind::End);
        let limit = if is_failure { body_bytes_max.max(FAILURE_BYTES_MAX) } else { body_bytes_max };
        Ok(PackedRecord { record: self, body: PackedBody::pack(body, limit)?, failure })
    }

    /// Returns true for a record of an undo: its end, or a visit record on its path.
    pub(super) fn is_of_undo(&self) -> bool {
        self.kind == Kind::Undo || frontier::undone_at(&self.path).is_some()
    }

    /// Returns true if a node writes this record during its visit.
    pub(super) fn is_of_visit(&self) -> bool {
        let is_visit_record = matches!(self.kind, Kind::Effect | Kind::Started | Kind::Wait | Kind::Wake);
        is_visit_record && !self.node.is_empty() && !self.is_of_undo()
    }
}

/// A record whose body is ready to be stored.
pub(crate) struct PackedRecord {
    pub(super) record: NewRecord,
    pub(super) body: PackedBody,
    /// The failure in the body, for the run's own row.
    pub(super) failure: Option<RunFailure>,
}

/// A record with its sequence number and its header, which is not encoded yet.
#[derive(Clone)]
pub(super) struct NumberedRecord {
    pub(super) sequence: u64,
    pub(super) header: Header,
    pub(super) body: PackedBody,
}

impl NumberedRecord {
    /// Encodes the header and computes the checksum of the row. Call it without the lock of the
    /// log.
    pub(super) fn seal(self, run: &str) -> Result<Row, StoreError> {
        Row::seal_packed(run, self.sequence, &self.header, self.body)
    }
}
