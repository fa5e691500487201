//! `RewrittenRecords`: records that are written again, with the new paths, visit records and undos
//! that they name.

use crate::log::codec::StoredUndo;
use crate::log::frontier::{undo_path, undone_at};
use crate::log::undo_payload::UndoPayload;
use crate::log::visit::VisitRecordBody;
use crate::log::{NewRecord, codec};
use crate::store::{Fork, Header, Kind, Record};
use std::collections::HashMap;

/// Rows on their way to new places.
pub(super) struct RewrittenRecords {
    pub(super) first: u64,
    pub(super) entries: Vec<NewRecord>,
    /// Where each old row of a live token went.
    pub(super) to: HashMap<u64, u64>,
    /// Where what can be undone went, unless it stays.
    pub(super) undos_to: HashMap<u64, u64>,
}

impl RewrittenRecords {
    pub(super) fn push(&mut self, old: u64, entry: NewRecord) {
        self.to.insert(old, self.first + self.entries.len() as u64);
        self.entries.push(entry);
    }

    /// A path by its new records. Those above come first, so they have moved.
    pub(super) fn path(&self, path: &[Fork]) -> Option<Vec<Fork>> {
        if let Some(undone) = undone_at(path) {
            return Some(undo_path(self.undos_to.get(&undone).copied().unwrap_or(undone)));
        }
        path.iter().map(|fork| Some(Fork { sequence: *self.to.get(&fork.sequence)?, branch: fork.branch })).collect()
    }
}

/// A note as the run that is forked has it: it was not this run that did it, and what undoes it is not for this run to do. The messages in its
/// inbox are others.
pub(super) fn copied_note(record: &Record) -> Result<Vec<u8>, serde_json::Error> {
    let note: VisitRecordBody = serde_json::from_slice(&record.body)?;
    Ok(VisitRecordBody { copied: true, undo: None, fault: None, undone_by: None, message: None, ..note }.bytes())
}

/// A note of a run that goes on from here. A node that failed for good is run again, and keeps what it recorded to be undone by; in a run that is
/// being undone, the record that is for its visit.
pub(super) fn moved_note(record: &Record, undone_by: Option<u64>) -> Result<Vec<u8>, serde_json::Error> {
    let note: VisitRecordBody = serde_json::from_slice(&record.body)?;
    let kept = codec::undo_in(&record.body)?;
    if kept.is_none() && note.undone_by == undone_by {
        return Ok(record.body.clone());
    }
    let undo = kept.map(|StoredUndo { payload, .. }| payload).or(note.undo);
    Ok(VisitRecordBody { undo, fault: None, undone_by, ..note }.bytes())
}

/// What undoes a node, written down again. It is about no line of control.
pub(super) fn undo_entry(record: &Record, undo: &StoredUndo) -> NewRecord {
    let Header { path, node, parent, .. } = &record.header;
    let (body, undo) = (b"{}".to_vec(), Some(UndoPayload { json: undo.payload.clone(), unknown: undo.unknown.clone() }));
    let iteration = record.header.iterations();
    NewRecord { parent: *parent, iteration, body, undo, ..NewRecord::new(Kind::Rewind, path.clone(), node.clone()) }
}
