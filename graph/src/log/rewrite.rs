//! How a run goes on from where it once stood: the frontier of that moment is written anew, at the end of its log or as the beginning of another.
//!
//! Nothing is deleted and nothing is shared: each live token gets a row of its own, with the state it had, and so does each of its notes. The new
//! rows have new sequences, and since a token is known by the record that placed it, every line of control gets a new id, and with it new keys.
//! Paths name the records that opened fan-outs and subgraphs, so they are rewritten as well. All rows land in one commit, and the last of them has
//! the whole frontier: a run never stands in the middle of them.

use crate::error::StoredFault;
use crate::lease::Moment;
use crate::log::codec::StoredUndo;
use crate::log::frontier::{Frontier, undone_at};
use crate::log::last_step::LastStep;
use crate::log::open::{LogPosition, OpenedRun};
use crate::log::pruning::UndoChain;
use crate::log::rewritten_records::{RewrittenRecords, copied_note, moved_note, undo_entry};
use crate::log::signals::RecordedSignals;
use crate::log::visit::VisitRecordBody;
use crate::log::{LogOptions, LogState, NewRecord, RunLog, codec, open};
use crate::store::{
    Claim, Commit, Fork, GraphVersion, Header, Kind, LiveToken, Origin, Place, Record, Row, RunInfo, RunStatus, Store,
    StoreError, Wake,
};
use pleach_core::Runtime;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A run as it stood after one of its records, with all that going on from there takes.
pub(crate) struct RunSnapshot {
    run: String,
    /// The record.
    at: u64,
    frontier: Frontier,
    records: HashMap<u64, Record>,
    visits: u64,
    /// What can be undone, the first first.
    undos: Vec<(Record, StoredUndo)>,
    /// Whether what can be undone is written anew too, since the nodes that it is about have other names now.
    moves_undos: bool,
    /// How it failed, if it is being undone and goes on with that, and the nodes that were undone since.
    undoing: Option<(Record, Vec<String>)>,
    /// Which version of the graph wrote it.
    version: GraphVersion,
    /// Whether its lines of control go on with the idempotency keys that they have: a migration changes nothing that the world outside knows.
    pub(crate) keeps_keys: bool,
}

/// A record that holds a state.
pub(crate) struct SnapshotState<'a> {
    /// The subgraph whose state it is, as `outer/inner`; empty for that of the run itself.
    pub(crate) inside: &'a str,
    pub(crate) record: &'a mut Record,
}

impl RunSnapshot {
    /// The run as it stood after the record `at`.
    pub(crate) async fn at(store: &dyn Store, run: &str, at: u64) -> Result<Self, StoreError> {
        let LogPosition { frontier, head, .. } = open::position(store, run, at).await?;
        let mut picture = Self::of(store, run, at, frontier.without_undos(), head).await?;
        picture.leave_out_own_undos_on_chain();
        Ok(picture)
    }

    /// The run as it stands.
    pub(crate) async fn at_head(store: &dyn Store, info: &RunInfo) -> Result<Self, StoreError> {
        let stands = open::position(store, &info.id, info.head).await?;
        let LogPosition { frontier, head, is_undoing, base, undone, .. } = stands;
        let is_undoing = is_undoing && open::is_undone_further(info.status);
        let frontier = if is_undoing { frontier } else { frontier.without_undos() };
        let mut picture = Self::of(store, &info.id, info.head, frontier, head).await?;
        if is_undoing {
            let failure = open::records(store, &info.id, vec![base]).await?.remove(&base);
            picture.undoing = failure.map(|failure| (failure, undone));
        } else {
            picture.leave_out_own_undos_on_chain();
        }
        Ok(picture)
    }

    /// The run as it stands after `head`, except that the last node which was done is not. `None` if there is none since the run was made.
    pub(crate) async fn before_last_step(store: &dyn Store, run: &str, head: u64) -> Result<Option<Self>, StoreError> {
        let Some(last) = LastStep::find(store, run, head).await? else { return Ok(None) };
        let at = last.sequence - 1;
        let before = open::position(store, run, at).await?;
        let now = open::position(store, run, head).await?;
        let frontier = last.frontier(&before.frontier, now.frontier);
        let mut picture = Self::of(store, run, at, frontier, before.head).await?;
        let left = undos_from(store, run, now.head.undo).await?;
        picture.leave_out_own_undos(&left.iter().map(|(record, _)| record.sequence).collect());
        Ok(Some(picture))
    }

    /// The record on the chain of undos that is for the visit of this note, if the visit failed for good.
    fn own_undo(&self, note: u64) -> Option<u64> {
        let body = &self.records.get(&note)?.body;
        if codec::undo_in(body).ok()?.is_some() {
            return Some(note);
        }
        serde_json::from_slice::<VisitRecordBody>(body).ok()?.undone_by
    }

    /// A node that failed for good is among those that can be undone by its own note. It is run again from here, and then it is among them once
    /// more: so its note does not count. What it recorded to be undone by stays recorded. But if it was undone, and so is not among those `left`,
    /// nothing of its visit is left either: its effects are done anew.
    fn leave_out_own_undos(&mut self, left: &HashSet<u64>) {
        let (mut own, mut undone) = (HashSet::new(), HashSet::new());
        for token in self.frontier.tokens() {
            for undo in token.notes.iter().filter_map(|note| self.own_undo(*note)) {
                own.insert(undo);
                if !left.contains(&undo) {
                    undone.insert(token.path.clone());
                }
            }
        }
        if !undone.is_empty() {
            let mut tokens = self.frontier.list();
            tokens.retain_mut(|token| !undone.contains(&token.path) || token.forget_notes());
            self.frontier = Frontier::of(tokens);
        }
        self.undos.retain(|(record, _)| !own.contains(&record.sequence));
        // The chain of those left may lead over one that is left out: then it is written anew.
        let left: HashSet<u64> = self.undos.iter().map(|(record, _)| record.sequence).chain([0]).collect();
        self.moves_undos |= !self.undos.iter().all(|(_, undo)| left.contains(&undo.before));
    }

    /// The same where all that can be undone is on the chain of the picture.
    fn leave_out_own_undos_on_chain(&mut self) {
        let left = self.undos.iter().map(|(record, _)| record.sequence).collect();
        self.leave_out_own_undos(&left);
    }

    /// The lines of control as they stood after the record `at`, which has this header.
    async fn of(store: &dyn Store, run: &str, at: u64, frontier: Frontier, header: Header) -> Result<Self, StoreError> {
        let Header { visits, undo, fingerprint, schema, .. } = header;
        let records = open::records(store, run, frontier.rows().collect()).await?;
        let undos = undos_from(store, run, undo).await?;
        Ok(Self {
            run: run.to_string(),
            at,
            frontier,
            records,
            visits,
            undos,
            moves_undos: false,
            undoing: None,
            version: GraphVersion { fingerprint, schema },
            keeps_keys: false,
        })
    }

    /// The record that it was taken after.
    pub(crate) fn sequence(&self) -> u64 {
        self.at
    }

    /// The version of the graph that wrote it, which may be another than the run has now.
    pub(crate) fn version(&self) -> &GraphVersion {
        &self.version
    }

    /// The token at a path.
    pub(crate) fn token_at(&self, path: &[Fork]) -> Option<&LiveToken> {
        self.frontier.get(path)
    }

    /// Whether it failed and goes on being undone.
    pub(crate) fn is_undoing(&self) -> bool {
        self.undoing.is_some()
    }

    pub(crate) fn tokens(&self) -> impl Iterator<Item = &LiveToken> {
        self.frontier.tokens()
    }

    /// The line of control of the run itself.
    pub(crate) fn root(&self) -> Option<&LiveToken> {
        self.frontier.get(&[])
    }

    /// Puts the line of control of the run somewhere else, as the only one. What was noted where it was does not count there.
    pub(crate) fn place_root(&mut self, at: Place) {
        let root = self.root().cloned().map(|root| LiveToken { at, notes: Vec::new(), ..root });
        self.frontier = Frontier::of(Vec::from_iter(root));
    }

    /// Every state in it, to be looked at or changed.
    pub(crate) fn for_each_state<E>(&mut self, mut visit: impl FnMut(SnapshotState<'_>) -> Result<(), E>) -> Result<(), E> {
        for token in self.frontier.tokens().filter(|token| has_state(token)) {
            if let Some(record) = self.records.get_mut(&token.row) {
                let node = record.header.node.clone();
                visit(SnapshotState { inside: graph_of(&node), record })?;
            }
        }
        Ok(())
    }

    /// The fingerprint of the graph that the place of a token was written by. A replay goes on with tokens of several.
    fn written_by(&self, token: &LiveToken) -> Option<&str> {
        let row = if token.is_implied() { *token.notes.first()? } else { token.row };
        self.records.get(&row).map(|record| &*record.header.fingerprint)
    }

    /// Calls nodes by other names, where they were not written by the graph of this fingerprint.
    pub(crate) fn rename(&mut self, fingerprint: &str, name_of: impl Fn(&str) -> Option<String>) {
        let rename = |name: &mut String| match name_of(name) {
            Some(new) => {
                *name = new;
                true
            }
            None => false,
        };
        let mut tokens = self.frontier.list();
        for token in tokens.iter_mut().filter(|token| self.written_by(token) != Some(fingerprint)) {
            match &mut token.at {
                Place::Node(name) | Place::Router(name) | Place::Fork(name) | Place::Join(name) | Place::Failed(name) => {
                    rename(name);
                }
                Place::End => {}
            }
        }
        self.frontier = Frontier::of(tokens);
        for record in self.records.values_mut().filter(|record| record.header.fingerprint != fingerprint) {
            rename(&mut record.header.node);
        }
        for (record, _) in self.undos.iter_mut().filter(|(record, _)| record.header.fingerprint != fingerprint) {
            self.moves_undos |= rename(&mut record.header.node);
        }
        for name in self.undoing.iter_mut().flat_map(|(_, undone)| undone) {
            rename(name);
        }
    }

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

    fn record(&self, sequence: u64) -> Result<&Record, StoreError> {
        self.records.get(&sequence).ok_or_else(|| self.damaged(sequence, "it is not there"))
    }

    fn damaged(&self, sequence: u64, why: &'static str) -> StoreError {
        StoreError::Damaged { run: self.run.clone(), sequence, why }
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

/// The chain of undos that begins here, the first first.
async fn undos_from(store: &dyn Store, run: &str, mut undo: u64) -> Result<Vec<(Record, StoredUndo)>, StoreError> {
    let mut undos = Vec::new();
    while undo > 0 {
        let (record, stored) = open::undo_at(store, run, undo).await?;
        undo = stored.before;
        undos.push((record, stored));
    }
    undos.reverse();
    Ok(undos)
}

impl LiveToken {
    /// A token that no record placed: it is there for its notes. It is known by what opened its fan-out or subgraph.
    pub(super) fn is_implied(&self) -> bool {
        self.path.last().is_some_and(|last| last.sequence == self.id.sequence)
    }

    /// Its visit begins anew. Whether the token is still needed.
    pub(super) fn forget_notes(&mut self) -> bool {
        self.notes.clear();
        !self.is_implied()
    }
}

fn has_state(token: &LiveToken) -> bool {
    !token.is_implied() && !matches!(token.at, Place::Failed(_))
}

/// The subgraph that a node is in, as the run knows it; nothing if it is in none.
pub(crate) fn graph_of(node: &str) -> &str {
    node.rsplit_once('/').map_or("", |(inside, _)| inside)
}
