//! `RunSnapshot`: a run as it stood after one of its records, with everything needed to continue from there.

use crate::log::codec::StoredUndo;
use crate::log::frontier::Frontier;
use crate::log::last_step::LastStep;
use crate::log::open::LogPosition;
use crate::log::visit::VisitRecordBody;
use crate::log::{codec, open};
use crate::store::{Fork, GraphVersion, Header, LiveToken, Place, Record, RunInfo, Store, StoreError};
use std::collections::{HashMap, HashSet};

/// A run as it stood after one of its records, with all that going on from there takes.
pub(crate) struct RunSnapshot {
    pub(super) run: String,
    /// The record.
    pub(super) at: u64,
    pub(super) frontier: Frontier,
    pub(super) records: HashMap<u64, Record>,
    pub(super) visits: u64,
    /// What can be undone, the first first.
    pub(super) undos: Vec<(Record, StoredUndo)>,
    /// Whether what can be undone is written anew too, since the nodes that it is about have other names now.
    pub(super) moves_undos: bool,
    /// How it failed, if it is being undone and goes on with that, and the nodes that were undone since.
    pub(super) undoing: Option<(Record, Vec<String>)>,
    /// Which version of the graph wrote it.
    pub(super) version: GraphVersion,
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
    pub(super) fn own_undo(&self, note: u64) -> Option<u64> {
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

    pub(super) fn record(&self, sequence: u64) -> Result<&Record, StoreError> {
        self.records.get(&sequence).ok_or_else(|| self.damaged(sequence, "it is not there"))
    }

    pub(super) fn damaged(&self, sequence: u64, why: &'static str) -> StoreError {
        StoreError::Damaged { run: self.run.clone(), sequence, why }
    }
}

/// The chain of undos that begins here, the first first.
pub(super) async fn undos_from(store: &dyn Store, run: &str, mut undo: u64) -> Result<Vec<(Record, StoredUndo)>, StoreError> {
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
    /// A token that no record placed: it is there for its visit records. It is known by what opened its fan-out or subgraph.
    pub(super) fn is_implied(&self) -> bool {
        self.path.last().is_some_and(|last| last.sequence == self.id.sequence)
    }

    /// Its visit begins anew. Whether the token is still needed.
    pub(super) fn forget_notes(&mut self) -> bool {
        self.notes.clear();
        !self.is_implied()
    }
}

pub(super) fn has_state(token: &LiveToken) -> bool {
    !token.is_implied() && !matches!(token.at, Place::Failed(_))
}

/// The subgraph that a node is in, as the run knows it; nothing if it is in none.
pub(crate) fn graph_of(node: &str) -> &str {
    node.rsplit_once('/').map_or("", |(inside, _)| inside)
}
