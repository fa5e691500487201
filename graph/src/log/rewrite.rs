//! Continues a run from a snapshot: writes its frontier again, at the end of its log or as the
//! start of a new run.
//!
//! Invariants:
//! 1. Nothing is deleted and nothing is shared. Each live token gets a new record with its state,
//!    and so does each of its visit records.
//! 2. A token is identified by the record that placed it. So every token gets a new id, and with it
//!    new idempotency keys, unless a migration keeps the old keys.
//! 3. Paths name the records that opened fan-outs and subgraphs, so they are rewritten as well.
//! 4. All records land in one commit, and the last of them lists the whole frontier. A run never
//!    stops in the middle of them.

use crate::error::StoredFault;
use crate::lease::Moment;
use crate::log::frontier::{Frontier, undone_at};
use crate::log::open::{CommitExtras, OpenedRun};
use crate::log::pruning::UndoChain;
use crate::log::rewritten_records::{RewrittenRecords, copied_visit_record, rewound_visit_record, undo_record};
use crate::log::signals::RecordedSignals;
use crate::log::snapshot::RunSnapshot;
use crate::log::{LogOptions, LogState, NewRecord, RunLog, open};
use crate::store::{Claim, Commit, GraphVersion, Header, Kind, Origin, Place, Record, Row, RunStatus, StoreError, Tags, Wake};
use pleach_core::Runtime;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl RunSnapshot {
    /// Returns the records of the rewritten frontier, numbered from `first`.
    fn new_records(&self, first: u64, kind: Kind, parent: u64) -> Result<Vec<NewRecord>, StoreError> {
        let undos: Vec<_> = self.undos.iter().filter(|_| self.rewrites_undos && kind == Kind::Rewind).collect();
        let undos_to = undos.iter().zip(first..).map(|((record, _), new)| (record.sequence, new)).collect();
        let records = undos.into_iter().map(|(record, undo)| undo_record(record, undo)).collect();
        let mut rewritten = RewrittenRecords { first, records, to: HashMap::new(), undos_to };
        for token in self.frontier.tokens() {
            let path =
                rewritten.path(&token.path).ok_or_else(|| self.damaged(token.row, "no live record opened its fan-out"))?;
            if !token.is_implied() {
                let Record { header, body, .. } = self.record(token.row)?;
                let new = NewRecord {
                    parent,
                    next: Some(token.at.clone()),
                    body: body.clone(),
                    ..NewRecord::new(kind, path.clone(), "")
                };
                let keys_of = self.keys_of(token.row, header);
                let (node, attempt, iteration) = (header.node.clone(), header.attempt, header.iterations());
                rewritten.push(token.row, NewRecord { node, attempt, iteration, keys_of, ..new });
            }
            for sequence in &token.visit_records {
                let record = self.record(*sequence)?;
                let undone_by = self.own_undo(*sequence).filter(|_| self.is_undoing());
                let undone_by = undone_by.map(|undo| rewritten.undos_to.get(&undo).copied().unwrap_or(undo));
                let body =
                    if kind == Kind::Start { copied_visit_record(record) } else { rewound_visit_record(record, undone_by) };
                let body = body.map_err(|_| self.damaged(*sequence, "this visit record cannot be decoded"))?;
                let header = &record.header;
                let parent = undone_at(&path).unwrap_or_else(|| rewritten.to.get(&header.parent).copied().unwrap_or(0));
                let new = NewRecord { parent, body, ..NewRecord::new(header.kind, path.clone(), header.node.clone()) };
                // The last failed attempt identifies the inside of a subgraph.
                let keys_of = self.keys_of(*sequence, header);
                rewritten
                    .push(*sequence, NewRecord { attempt: header.attempt, iteration: header.iterations(), keys_of, ..new });
            }
        }
        Ok(rewritten.records)
    }

    /// Returns the record whose idempotency keys a rewritten record keeps; 0 for new keys.
    fn keys_of(&self, sequence: u64, header: &Header) -> u64 {
        match (self.keeps_keys, header.keys_of) {
            (false, _) => 0,
            (true, 0) => sequence,
            (true, before) => before,
        }
    }

    /// Appends the snapshot to the log of its run, which this driver has claimed, for a graph of
    /// this version.
    pub(crate) async fn rewind(
        self,
        options: LogOptions,
        runtime: Arc<dyn Runtime>,
        claim: (Claim, Moment),
        version: GraphVersion,
        extras: CommitExtras,
    ) -> Result<OpenedRun, StoreError> {
        let (head, is_migrated) = (claim.0.run.head, claim.0.run.version != version);
        let mut records = self.new_records(head + 1, Kind::Rewind, self.at)?;
        let undos: Vec<u64> = self.undos.iter().filter(|_| !self.rewrites_undos).map(|(record, _)| record.sequence).collect();
        let status = match (&self.undoing, self.root().map(|root| &root.at)) {
            (None, Some(Place::End)) => RunStatus::Finished,
            _ => RunStatus::Running,
        };
        if let Some((failure, since)) = &self.undoing {
            let mut fault: StoredFault = serde_json::from_slice(&failure.body)
                .map_err(|_| self.damaged(failure.sequence, "the failure of the run cannot be decoded"))?;
            fault.undone.extend(since.iter().cloned());
            records
                .push(NewRecord { body: fault.bytes(), ..NewRecord::new(Kind::End, Vec::new(), failure.header.node.clone()) });
        }
        let (visits, undo) = (self.visits, undos.last().copied().unwrap_or(0));
        let state =
            LogState { visits, undo, undos: UndoChain::known(undos), status, ..LogState::new(head, Frontier::default()) };
        let new_version = is_migrated.then(|| version.clone());
        let mut opened = open::hold(options, runtime, claim, version, state);
        let log = Arc::clone(&opened.log);
        let rows = log.seal_whole(records)?;
        let commit = Commit {
            status: Some(status),
            wake: status.is_live().then_some(Wake::Now),
            version: new_version,
            deadline: log.lock().deadline.take(),
            takes: extras.takes,
            release: extras.releases,
            ..Commit::new(log.held(), rows.clone())
        };
        let last_message = log.options.store.commit(commit).await?.last_message;
        let last = head + rows.len() as u64;
        log.durable.store(last, Ordering::Release);
        log.restore_from(rows)?;
        opened.failed_at = self.undoing.is_some().then_some(last);
        (opened.info.status, opened.info.last_message) = (status, opened.info.last_message.max(last_message));
        Ok(opened)
    }

    /// Creates a new run from the snapshot, held by `owner`. Without one, any worker can claim it.
    /// The new run does not undo work of the original run.
    pub(crate) async fn fork(
        mut self,
        options: LogOptions,
        runtime: Arc<dyn Runtime>,
        run: Arc<str>,
        graph: (String, GraphVersion),
        owner: Option<String>,
        tags: Tags,
    ) -> Result<OpenedRun, StoreError> {
        self.frontier = self.frontier.without_undos();
        // Sequence numbers of the original run mean nothing in the new run.
        self.keeps_keys = false;
        let log = open::blank(options, runtime, run, graph, tags);
        log.lock().visits = self.visits;
        let rows = log.seal_whole(self.new_records(1, Kind::Start, 0)?)?;
        let from = Origin { run: self.run, sequence: self.at };
        let opened = open::create_with(log, rows.clone(), Some(from), owner).await?;
        opened.log.restore_from(rows)?;
        Ok(opened)
    }
}

impl RunLog {
    /// Numbers and seals records that are valid only together.
    fn seal_whole(&self, records: Vec<NewRecord>) -> Result<Vec<Row>, StoreError> {
        let packed: Result<Vec<_>, StoreError> =
            records.into_iter().map(|record| record.pack(self.options.body_bytes_max)).collect();
        let packed = packed?;
        let mut state = self.lock();
        let last = state.head + packed.len() as u64;
        let numbered: Vec<_> = packed.into_iter().map(|packed| self.number(&mut state, packed, Some(last))).collect();
        drop(state);
        numbered.into_iter().map(|numbered| numbered.seal(&self.run)).collect()
    }

    /// Stores the new records where lanes look for restored records.
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
