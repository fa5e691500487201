//! How records are added to the log of a run: checked, numbered, and queued for the next commit.

use crate::log::{LogState, NEVER, NewRecord, PackedRecord, RunLog};
use crate::store::{Header, Kind, Row, StoreError};

impl RunLog {
    /// Adds an entry to the log, and gives its sequence. It is durable when [`poll_durable`](Self::poll_durable) says so.
    ///
    /// A node on another thread may not have noticed yet that the run has failed: what it submits is dropped, and never becomes durable.
    pub(crate) fn submit(&self, entry: NewRecord) -> Result<u64, StoreError> {
        let added = self.add(self.pack(entry)?);
        self.wake_driver();
        added
    }

    /// Prepares an entry to be [added](Self::add).
    pub(crate) fn pack(&self, entry: NewRecord) -> Result<PackedRecord, StoreError> {
        entry.pack(self.options.body_bytes_max)
    }

    /// Adds an entry as [`submit`](Self::submit) does, and wakes nobody: the caller holds a lock, and calls [`wake_driver`](Self::wake_driver) after it.
    pub(crate) fn add(&self, mut packed: PackedRecord) -> Result<u64, StoreError> {
        let entry = &mut packed.entry;
        let takes = std::mem::take(&mut entry.takes);
        let signal = entry.signal.take().map(|message| (entry.path.clone(), message));
        let mut state = self.lock();
        if state.is_lost {
            // What can be undone is, from memory.
            if packed.entry.undo.is_some() {
                return self.seal(&mut state, packed, None).map(|(sequence, _)| sequence);
            }
            state.head += 1;
            return Ok(state.head);
        }
        if state.has_ended && !packed.entry.is_of_undo() {
            return Ok(NEVER);
        }
        // Nor may a visit that is over say anything: its line of control stands at another visit now.
        if packed.entry.is_of_visit() && !state.frontier.is_at(&packed.entry.path, packed.entry.parent) {
            return Ok(NEVER);
        }
        let (sequence, row) = self.seal(&mut state, packed, None)?;
        if let Some((path, message)) = signal {
            state.signals.note(path, sequence, message);
        }
        state.next.rows.push_back((row, takes));
        Ok(sequence)
    }

    /// Numbers an entry. Of several that make sense only together, `whole_at` is the sequence of the last: it has the frontier of them all.
    pub(super) fn seal(
        &self,
        state: &mut LogState,
        packed: PackedRecord,
        whole_at: Option<u64>,
    ) -> Result<(u64, Row), StoreError> {
        let NewRecord { kind, path, parent, node, next, attempt, is_visit, iteration, undo, status, keys_of, .. } =
            packed.entry;
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
            state.signals.moved(&header.path, &frontier);
        }
        // As long as it is cheaper to read what followed it than to write it again, an earlier list will do.
        let is_listed = match whole_at {
            Some(last) => sequence == last,
            // A run that is undone goes back to the record of its failure, to know why.
            None => kind == Kind::End || (!header.is_of_undo() && sequence - state.base >= frontier.width() as u64),
        };
        if is_listed {
            (header.frontier, header.base) = (Some(frontier.list()), None);
        }
        let sealed = Row::seal_packed(&self.run, sequence, &header, packed.body);
        state.frontier = frontier;
        let row = sealed?;
        state.head = sequence;
        if undo == sequence {
            state.undos.push(sequence, undo_before);
            if self.options.is_best_effort {
                state.unwritten.insert(sequence, row.clone());
            }
        }
        if whole_at == Some(sequence) {
            state.undos.rewound(sequence, undo);
        }
        state.undo = undo;
        state.visits = header.visits;
        state.has_ended |= kind == Kind::End;
        if header.frontier.is_some() {
            state.base = sequence;
        }
        if let Some(status) = status {
            state.next.status = Some(status);
        }
        Ok((sequence, row))
    }
}
