//! Continues a run from a snapshot: writes its frontier again, at the end of its log or as the start of a new run.
//!
//! 1. Nothing is deleted and nothing is shared. Each live token gets a new record with the state that it had, and so does each of its
//!    visit records.
//! 2. A token is known by the record that placed it. So every token gets a new id, and with it new idempotency keys.
//! 3. Paths name the records that opened fan-outs and subgraphs, so they are rewritten as well.
//! 4. All records land in one commit, and the last of them has the whole frontier. A run never stops in the middle of them.

use crate::error::StoredFault;
use crate::lease::Moment;
use crate::log::frontier::{Frontier, undone_at};
use crate::log::open::OpenedRun;
use crate::log::pruning::UndoChain;
use crate::log::rewritten_records::{RewrittenRecords, copied_note, moved_note, undo_entry};
use crate::log::signals::RecordedSignals;
use crate::log::snapshot::RunSnapshot;
use crate::log::{LogOptions, LogState, NewRecord, RunLog, open};
use crate::store::{Claim, Commit, GraphVersion, Header, Kind, Origin, Place, Record, Row, RunStatus, StoreError, Wake};
use pleach_core::Runtime;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl RunSnapshot {
    /// The rows that say it anew, from the sequence `first` on.
    fn entries(&self, first: u64, kind: Kind, parent: u64) -> Result<Vec<NewRecord>, StoreError> {
        let undos: Vec<_> = self.undos.iter().filter(|_| self.moves_undos && kind == Kind::Rewind).collect();
        let undos_to = undos.iter().zip(first..).map(|((record, _), new)| (record.sequence, new)).collect();
        let entries = undos.into_iter().map(|(record, undo)| undo_entry(record, undo)).collect();
        let mut moving = RewrittenRecords { first, entries, to: HashMap::new(), undos_to };
        for token in self.frontier.tokens() {
            let path = moving.path(&token.path).ok_or_else(|| self.damaged(token.row, "no live record opened its fan-out"))?;
            if !token.is_implied() {
                let Record { header, body, .. } = self.record(token.row)?;
                let entry = NewRecord {
                    parent,
                    next: Some(token.at.clone()),
                    body: body.clone(),
                    ..NewRecord::new(kind, path.clone(), "")
                };
                let keys_of = self.keys_of(token.row, header);
                let (node, attempt, iteration) = (header.node.clone(), header.attempt, header.iterations());
                moving.push(token.row, NewRecord { node, attempt, iteration, keys_of, ..entry });
            }
            for note in &token.notes {
                let record = self.record(*note)?;
                let undone_by = self.own_undo(*note).filter(|_| self.is_undoing());
                let undone_by = undone_by.map(|undo| moving.undos_to.get(&undo).copied().unwrap_or(undo));
                let body = if kind == Kind::Start { copied_note(record) } else { moved_note(record, undone_by) };
                let body = body.map_err(|_| self.damaged(*note, "it is a note, and cannot be read"))?;
                let header = &record.header;
                let parent = undone_at(&path).unwrap_or_else(|| moving.to.get(&header.parent).copied().unwrap_or(0));
                let entry = NewRecord { parent, body, ..NewRecord::new(header.kind, path.clone(), header.node.clone()) };
                // The last attempt that failed names what runs inside a subgraph.
                let keys_of = self.keys_of(*note, header);
                moving.push(*note, NewRecord { attempt: header.attempt, iteration: header.iterations(), keys_of, ..entry });
            }
        }
        Ok(moving.entries)
    }

    /// The record whose idempotency keys go on when this one is written anew; 0 if there are to be new ones.
    fn keys_of(&self, sequence: u64, header: &Header) -> u64 {
        match (self.keeps_keys, header.keys_of) {
            (false, _) => 0,
            (true, 0) => sequence,
            (true, before) => before,
        }
    }

    /// Writes it to the end of the log of the claimed run that it was taken of, as the graph of this version.
    pub(crate) async fn rewind(
        self,
        options: LogOptions,
        runtime: Arc<dyn Runtime>,
        claim: (Claim, Moment),
        version: GraphVersion,
    ) -> Result<OpenedRun, StoreError> {
        let (head, is_migrated) = (claim.0.run.head, claim.0.run.version != version);
        let mut entries = self.entries(head + 1, Kind::Rewind, self.at)?;
        let undos: Vec<u64> = self.undos.iter().filter(|_| !self.moves_undos).map(|(record, _)| record.sequence).collect();
        let status = match (&self.undoing, self.root().map(|root| &root.at)) {
            (None, Some(Place::End)) => RunStatus::Finished,
            _ => RunStatus::Running,
        };
        if let Some((failure, since)) = &self.undoing {
            let mut fault: StoredFault = serde_json::from_slice(&failure.body)
                .map_err(|_| self.damaged(failure.sequence, "it does not say how the run failed"))?;
            fault.undone.extend(since.iter().cloned());
            entries
                .push(NewRecord { body: fault.bytes(), ..NewRecord::new(Kind::End, Vec::new(), failure.header.node.clone()) });
        }
        let (visits, undo) = (self.visits, undos.last().copied().unwrap_or(0));
        let state =
            LogState { visits, undo, undos: UndoChain::known(undos), status, ..LogState::new(head, Frontier::default()) };
        let new_version = is_migrated.then(|| version.clone());
        let mut opened = open::hold(options, runtime, claim, version, state);
        let log = Arc::clone(&opened.log);
        let rows = log.seal_whole(entries)?;
        let commit = Commit {
            status: Some(status),
            wake: status.is_live().then_some(Wake::Now),
            version: new_version,
            deadline: log.lock().deadline.take(),
            ..Commit::new(log.held(), rows.clone())
        };
        let posted = log.options.store.commit(commit).await?.posted;
        let last = head + rows.len() as u64;
        log.durable.store(last, Ordering::Release);
        log.restore_from(rows)?;
        opened.failed_at = self.undoing.is_some().then_some(last);
        (opened.info.status, opened.info.posted) = (status, opened.info.posted.max(posted));
        Ok(opened)
    }

    /// Makes a new run of it, held by `owner`. What the first one did, the new one does not undo.
    pub(crate) async fn fork(
        mut self,
        options: LogOptions,
        runtime: Arc<dyn Runtime>,
        run: Arc<str>,
        graph: (String, GraphVersion),
        owner: String,
    ) -> Result<OpenedRun, StoreError> {
        self.frontier = self.frontier.without_undos();
        // Sequences of the first run mean nothing in the new one.
        self.keeps_keys = false;
        let log = open::blank(options, runtime, run, graph);
        log.lock().visits = self.visits;
        let rows = log.seal_whole(self.entries(1, Kind::Start, 0)?)?;
        let from = Origin { run: self.run, sequence: self.at };
        let opened = open::create_with(log, rows.clone(), Some(from), Some(owner)).await?;
        opened.log.restore_from(rows)?;
        Ok(opened)
    }
}

impl RunLog {
    /// Numbers entries that make sense only together.
    fn seal_whole(&self, entries: Vec<NewRecord>) -> Result<Vec<Row>, StoreError> {
        let packed: Result<Vec<_>, StoreError> =
            entries.into_iter().map(|entry| entry.pack(self.options.body_bytes_max)).collect();
        let packed = packed?;
        let mut state = self.lock();
        let last = state.head + packed.len() as u64;
        packed.into_iter().map(|packed| self.seal(&mut state, packed, Some(last)).map(|(_, row)| row)).collect()
    }

    /// Lets lanes find what was just written.
    fn restore_from(&self, rows: Vec<Row>) -> Result<(), StoreError> {
        let records: Result<HashMap<u64, Record>, StoreError> =
            rows.into_iter().map(|row| row.open(&self.run).map(|record| (record.sequence, record))).collect();
        let records = records?;
        let mut state = self.lock();
        state.signals = RecordedSignals::of(records.values());
        (state.keys_of, state.restored) = (open::keys_of(&records), records);
        Ok(())
    }
}
