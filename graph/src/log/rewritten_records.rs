//! `RewrittenRecords`: the new records of a rewrite, and the map from old to new sequence numbers.

use crate::log::codec::StoredUndo;
use crate::log::frontier::{undo_path, undone_at};
use crate::log::undo_payload::UndoPayload;
use crate::log::visit::VisitRecordBody;
use crate::log::{NewRecord, codec};
use crate::store::{Fork, Header, Kind, Record};
use std::collections::HashMap;

/// The records of a rewrite, in their new order.
pub(super) struct RewrittenRecords {
    /// The sequence number of the first new record.
    pub(super) first: u64,
    pub(super) records: Vec<NewRecord>,
    /// The new sequence number of each old record of a live token.
    pub(super) to: HashMap<u64, u64>,
    /// The new sequence numbers of records that can be undone, if they are rewritten.
    pub(super) undos_to: HashMap<u64, u64>,
}

impl RewrittenRecords {
    pub(super) fn push(&mut self, old: u64, record: NewRecord) {
        self.to.insert(old, self.first + self.records.len() as u64);
        self.records.push(record);
    }

    /// Translates a path. Tokens above are rewritten first, so their new numbers are known.
    pub(super) fn path(&self, path: &[Fork]) -> Option<Vec<Fork>> {
        if let Some(undone) = undone_at(path) {
            return Some(undo_path(self.undos_to.get(&undone).copied().unwrap_or(undone)));
        }
        path.iter().map(|fork| Some(Fork { sequence: *self.to.get(&fork.sequence)?, branch: fork.branch })).collect()
    }
}

/// Returns a visit record for a fork. The new run did not do this work, must not undo it, and has
/// another inbox.
pub(super) fn copied_visit_record(record: &Record) -> Result<Vec<u8>, serde_json::Error> {
    let body: VisitRecordBody = serde_json::from_slice(&record.body)?;
    Ok(VisitRecordBody { copied: true, undo: None, fault: None, undone_by: None, message: None, ..body }.bytes())
}

/// Returns a visit record for a rewind. A node that failed permanently runs again and keeps its
/// undo payload; in a run that is being undone, it keeps the record that undoes its visit.
pub(super) fn rewound_visit_record(record: &Record, undone_by: Option<u64>) -> Result<Vec<u8>, serde_json::Error> {
    let body: VisitRecordBody = serde_json::from_slice(&record.body)?;
    let stored_undo = codec::undo_in(&record.body)?;
    if stored_undo.is_none() && body.undone_by == undone_by {
        return Ok(record.body.clone());
    }
    let undo = stored_undo.map(|StoredUndo { payload, .. }| payload).or(body.undo);
    Ok(VisitRecordBody { undo, fault: None, undone_by, ..body }.bytes())
}

/// Returns the record of an undo payload, written again. It does not belong to a token.
pub(super) fn undo_record(record: &Record, undo: &StoredUndo) -> NewRecord {
    let Header { path, node, parent, .. } = &record.header;
    let (body, undo) = (b"{}".to_vec(), Some(UndoPayload { json: undo.payload.clone(), unknown: undo.unknown.clone() }));
    let iteration = record.header.iterations();
    NewRecord { parent: *parent, iteration, body, undo, ..NewRecord::new(Kind::Rewind, path.clone(), node.clone()) }
}
