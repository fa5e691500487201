//! Appends records to the log of a run: checks, numbers and queues them for the next commit.
//!
//! A record passes four steps:
//! 1. [`pack`](RunLog::pack) compresses the body and computes its checksum, without the lock.
//! 2. [`add`](RunLog::add) checks the record against the frontier and queues it, under the lock.
//! 3. `number` gives it a sequence number and a header, under the lock: both depend on all earlier
//!    records. Only the lists of the frontier are copied here.
//! 4. [`NumberedRecord::seal`] encodes the header and computes the checksum of the row, without the
//!    lock: the committer seals the records of a batch.

use crate::log::failure::with_place;
use crate::log::{LogState, NEVER, NewRecord, NumberedRecord, PackedRecord, RunLog};
use crate::store::{Header, Kind, RunStatus, StoreError};

impl RunLog {
    /// Appends a record and returns its sequence number. [`poll_durable`](Self::poll_durable) tells
    /// when it is durable.
    ///
    /// A node on another thread may not know yet that the run has failed. Its record is dropped and
    /// never becomes durable ([`NEVER`]).
    pub(crate) fn submit(&self, record: NewRecord) -> Result<u64, StoreError> {
        let sequence = self.add(self.pack(record)?);
        self.wake_driver();
        Ok(sequence)
    }

    /// Prepares a record for [`add`](Self::add). Does not take the lock.
    pub(crate) fn pack(&self, record: NewRecord) -> Result<PackedRecord, StoreError> {
        record.pack(self.options.body_bytes_max)
    }

    /// Appends a packed record without waking the engine. For callers that hold a lock: they call
    /// [`wake_driver`](Self::wake_driver) after it.
    pub(crate) fn add(&self, mut packed: PackedRecord) -> u64 {
        let record = &mut packed.record;
        let takes = std::mem::take(&mut record.takes);
        let signal = record.signal.take().map(|message| (record.path.clone(), message));
        let mut state = self.lock();
        if state.is_detached {
            // The run is undone from memory.
            if packed.record.undo.is_some() {
                return self.number(&mut state, packed, None).sequence;
            }
            state.head += 1;
            return state.head;
        }
        if state.has_ended && !packed.record.is_of_undo() {
            return NEVER;
        }
        // A finished visit may not add records: its token belongs to another visit now.
        if packed.record.is_of_visit() && !state.frontier.is_at(&packed.record.path, packed.record.parent) {
            return NEVER;
        }
        let failure = packed.failure.take();
        let numbered = self.number(&mut state, packed, None);
        let sequence = numbered.sequence;
        if let Some(failure) = failure {
            state.next.failure = Some(with_place(failure, sequence, &numbered.header));
        }
        if let Some((path, message)) = signal {
            state.signals.add(path, sequence, message);
        }
        state.next.records.push_back((numbered, takes));
        sequence
    }

    /// Numbers a record and applies it to the frontier. For records that are valid only together,
    /// `whole_at` is the sequence number of the last one, which lists the frontier of all.
    pub(super) fn number(&self, state: &mut LogState, packed: PackedRecord, whole_at: Option<u64>) -> NumberedRecord {
        let NewRecord { kind, path, parent, node, next, attempt, is_visit, iteration, undo, status, keys_of, .. } =
            packed.record;
        let sequence = state.head + 1;
        let visits = state.visits + u64::from(is_visit);
        let (undo, undo_before) = if undo.is_some() { (sequence, state.undo) } else { (state.undo, 0) };
        let mut header = Header {
            graph: self.graph.clone(),
            fingerprint: self.version.fingerprint.clone(),
            schema: self.version.schema,
            epoch: self.epoch,
            kind,
            parent,
            path,
            node,
            next,
            attempt,
            visits,
            iteration: if iteration == visits { 0 } else { iteration },
            at: self.now(),
            undo,
            undo_before,
            keys_of,
            frontier: None,
            base: Some(whole_at.unwrap_or(state.base)),
        };
        let mut frontier = std::mem::take(&mut state.frontier);
        frontier.apply(sequence, &header);
        if header.next.is_some() || kind == Kind::Attempt {
            state.signals.return_finished(&header.path, &frontier);
        }
        // List the whole frontier only if that is cheaper than reading the records since the last
        // list.
        let is_listed = match whole_at {
            Some(last) => sequence == last,
            // A run that is being undone starts from the record of its failure, so that record
            // lists it.
            None => kind == Kind::End || (!header.is_of_undo() && sequence - state.base >= frontier.width() as u64),
        };
        if is_listed {
            (header.frontier, header.base) = (Some(frontier.list()), None);
        }
        state.frontier = frontier;
        state.advance(sequence, &header, status, whole_at);
        let numbered = NumberedRecord { sequence, header, body: packed.body };
        if undo == sequence && self.options.is_best_effort {
            state.unwritten.insert(sequence, numbered.clone());
        }
        numbered
    }
}

impl LogState {
    /// Advances the state past a numbered record. `status` is the status of the run after it.
    fn advance(&mut self, sequence: u64, header: &Header, status: Option<RunStatus>, whole_at: Option<u64>) {
        self.head = sequence;
        if header.undo == sequence {
            self.undos.push(sequence, header.undo_before);
        }
        if whole_at == Some(sequence) {
            self.undos.rewound(sequence, header.undo);
        }
        self.undo = header.undo;
        self.visits = header.visits;
        self.has_ended |= header.kind == Kind::End;
        if header.frontier.is_some() {
            self.base = sequence;
        }
        if status.is_some() {
            self.next.status = status;
        }
    }
}
