//! `RunSnapshot`: a run after one of its records, with everything needed to continue from there.
//!
//! Used by rewind, replay, fork and migration. `rewrite` writes a snapshot back to the store.

use crate::log::codec::StoredUndo;
use crate::log::frontier::Frontier;
use crate::log::last_step::LastStep;
use crate::log::open::LogPosition;
use crate::log::visit::VisitRecordBody;
use crate::log::{codec, open};
use crate::store::{Fork, GraphVersion, Header, LiveToken, Place, Record, RunInfo, Store, StoreError};
use std::collections::{HashMap, HashSet};

/// A run after one of its records.
pub(crate) struct RunSnapshot {
    pub(super) run: String,
    /// The record after which the snapshot was taken.
    pub(super) at: u64,
    pub(super) frontier: Frontier,
    pub(super) records: HashMap<u64, Record>,
    pub(super) visits: u64,
    /// The records that can be undone, oldest first.
    pub(super) undos: Vec<(Record, StoredUndo)>,
    /// True if these records are rewritten too, because nodes were renamed or the chain has a gap.
    pub(super) rewrites_undos: bool,
    /// For a run that is being undone: the record of its failure, and the nodes undone since.
    pub(super) undoing: Option<(Record, Vec<String>)>,
    /// The version of the graph that wrote the snapshot.
    pub(super) version: GraphVersion,
    /// True if tokens keep their idempotency keys. A migration keeps them: external systems must
    /// not notice it.
    pub(crate) keeps_keys: bool,
}

/// A record of the snapshot that holds a state.
pub(crate) struct SnapshotState<'a> {
    /// The subgraph that the state belongs to, as `outer/inner`; empty for the graph of the run.
    pub(crate) inside: &'a str,
    pub(crate) record: &'a mut Record,
}

impl RunSnapshot {
    /// Reads the run after the record `at`.
    pub(crate) async fn at(store: &dyn Store, run: &str, at: u64) -> Result<Self, StoreError> {
        let LogPosition { frontier, head, .. } = open::position(store, run, at).await?;
        let mut snapshot = Self::of(store, run, at, frontier.without_undos(), head).await?;
        snapshot.drop_own_undos_on_chain();
        Ok(snapshot)
    }

    /// Reads the run at its head.
    pub(crate) async fn at_head(store: &dyn Store, info: &RunInfo) -> Result<Self, StoreError> {
        let position = open::position(store, &info.id, info.head).await?;
        let LogPosition { frontier, head, is_undoing, base, undone, .. } = position;
        let is_undoing = is_undoing && open::continues_undo(info.status);
        let frontier = if is_undoing { frontier } else { frontier.without_undos() };
        let mut snapshot = Self::of(store, &info.id, info.head, frontier, head).await?;
        if is_undoing {
            let failure = open::records(store, &info.id, vec![base]).await?.remove(&base);
            snapshot.undoing = failure.map(|failure| (failure, undone));
        } else {
            snapshot.drop_own_undos_on_chain();
        }
        Ok(snapshot)
    }

    /// Reads the run at `head` without its last completed node. Returns `None` if no node was
    /// completed since the run was created.
    pub(crate) async fn before_last_step(store: &dyn Store, run: &str, head: u64) -> Result<Option<Self>, StoreError> {
        let Some(last) = LastStep::find(store, run, head).await? else { return Ok(None) };
        let at = last.sequence - 1;
        let before = open::position(store, run, at).await?;
        let now = open::position(store, run, head).await?;
        let frontier = last.frontier(&before.frontier, now.frontier);
        let mut snapshot = Self::of(store, run, at, frontier, before.head).await?;
        let left = undos_from(store, run, now.head.undo).await?;
        snapshot.drop_own_undos(&left.iter().map(|(record, _)| record.sequence).collect());
        Ok(Some(snapshot))
    }

    /// Returns the record that undoes the visit of this visit record, if the visit failed
    /// permanently.
    pub(super) fn own_undo(&self, note: u64) -> Option<u64> {
        let body = &self.records.get(&note)?.body;
        if codec::undo_in(body).ok()?.is_some() {
            return Some(note);
        }
        serde_json::from_slice::<VisitRecordBody>(body).ok()?.undone_by
    }

    /// Removes the undos of visits that failed permanently. Such a node runs again from here, and
    /// is added to the undo chain again when it completes or fails.
    ///
    /// Its recorded payload stays. But if the visit was already undone, so that its undo is not in
    /// `left`, its visit records are dropped too: its effects must run again.
    fn drop_own_undos(&mut self, left: &HashSet<u64>) {
        let (mut own, mut undone) = (HashSet::new(), HashSet::new());
        for token in self.frontier.tokens() {
            for undo in token.visit_records.iter().filter_map(|row| self.own_undo(*row)) {
                own.insert(undo);
                if !left.contains(&undo) {
                    undone.insert(token.path.clone());
                }
            }
        }
        if !undone.is_empty() {
            let mut tokens = self.frontier.list();
            tokens.retain_mut(|token| !undone.contains(&token.path) || token.drop_visit_records());
            self.frontier = Frontier::of(tokens);
        }
        self.undos.retain(|(record, _)| !own.contains(&record.sequence));
        // If the remaining chain has a gap, it is rewritten.
        let left: HashSet<u64> = self.undos.iter().map(|(record, _)| record.sequence).chain([0]).collect();
        self.rewrites_undos |= !self.undos.iter().all(|(_, undo)| left.contains(&undo.before));
    }

    /// Removes these undos if every undo is on the chain of the snapshot.
    fn drop_own_undos_on_chain(&mut self) {
        let left = self.undos.iter().map(|(record, _)| record.sequence).collect();
        self.drop_own_undos(&left);
    }

    /// Creates a snapshot with this frontier. `header` belongs to the record `at`.
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
            rewrites_undos: false,
            undoing: None,
            version: GraphVersion { fingerprint, schema },
            keeps_keys: false,
        })
    }

    /// Returns the record after which the snapshot was taken.
    pub(crate) fn sequence(&self) -> u64 {
        self.at
    }

    /// Returns the version of the graph that wrote the snapshot; the run may have another version
    /// now.
    pub(crate) fn version(&self) -> &GraphVersion {
        &self.version
    }

    /// Returns the live tokens of the snapshot.
    pub(crate) fn frontier(&self) -> &Frontier {
        &self.frontier
    }

    /// Returns the records of the live tokens.
    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    /// Returns the records that can be undone, oldest first.
    pub(crate) fn undos(&self) -> impl DoubleEndedIterator<Item = &Record> {
        self.undos.iter().map(|(record, _)| record)
    }

    /// Returns the token at a path.
    pub(crate) fn token_at(&self, path: &[Fork]) -> Option<&LiveToken> {
        self.frontier.get(path)
    }

    /// Returns true if the run has failed and its undo continues.
    pub(crate) fn is_undoing(&self) -> bool {
        self.undoing.is_some()
    }

    pub(crate) fn tokens(&self) -> impl Iterator<Item = &LiveToken> {
        self.frontier.tokens()
    }

    /// Returns the root token of the run.
    pub(crate) fn root(&self) -> Option<&LiveToken> {
        self.frontier.get(&[])
    }

    /// Moves the root token and removes all others. Visit records of its old place are dropped.
    pub(crate) fn place_root(&mut self, at: Place) {
        let root = self.root().cloned().map(|root| LiveToken { at, visit_records: Vec::new(), ..root });
        self.frontier = Frontier::of(Vec::from_iter(root));
    }

    /// Calls `visit` with every state of the snapshot, which it may change.
    pub(crate) fn for_each_state<E>(&mut self, mut visit: impl FnMut(SnapshotState<'_>) -> Result<(), E>) -> Result<(), E> {
        for token in self.frontier.tokens().filter(|token| has_state(token)) {
            if let Some(record) = self.records.get_mut(&token.row) {
                let node = record.header.node.clone();
                visit(SnapshotState { inside: graph_of(&node), record })?;
            }
        }
        Ok(())
    }

    /// Returns the fingerprint of the graph that placed a token. A replay can mix tokens of several
    /// versions.
    fn written_by(&self, token: &LiveToken) -> Option<&str> {
        let row = if token.is_implied() { *token.visit_records.first()? } else { token.row };
        self.records.get(&row).map(|record| &*record.header.fingerprint)
    }

    /// Renames nodes in everything that the graph of this fingerprint did not write.
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
            self.rewrites_undos |= rename(&mut record.header.node);
        }
        for name in self.undoing.iter_mut().flat_map(|(_, undone)| undone) {
            rename(name);
        }
    }

    pub(super) fn record(&self, sequence: u64) -> Result<&Record, StoreError> {
        self.records.get(&sequence).ok_or_else(|| self.damaged(sequence, "it is not there"))
    }

    pub(super) fn damaged(&self, sequence: u64, reason: &'static str) -> StoreError {
        StoreError::Damaged { run: self.run.clone(), sequence, reason }
    }
}

/// Reads the undo chain that ends at `undo`, oldest first.
pub(crate) async fn undos_from(store: &dyn Store, run: &str, mut undo: u64) -> Result<Vec<(Record, StoredUndo)>, StoreError> {
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
    /// Returns true if no record placed this token: it only holds visit records. Its id is the
    /// record that opened its fan-out or subgraph.
    pub(super) fn is_implied(&self) -> bool {
        self.path.last().is_some_and(|last| last.sequence == self.id.sequence)
    }

    /// Drops the visit records. Returns false if the token is not needed any more.
    pub(super) fn drop_visit_records(&mut self) -> bool {
        self.visit_records.clear();
        !self.is_implied()
    }
}

/// Returns true if the record of this token holds a state.
pub(super) fn has_state(token: &LiveToken) -> bool {
    !token.is_implied() && !matches!(token.at, Place::Failed(_))
}

/// Returns the subgraph that contains a node, by the node's full name; empty for the graph of the
/// run.
pub(crate) fn graph_of(node: &str) -> &str {
    node.rsplit_once('/').map_or("", |(inside, _)| inside)
}
