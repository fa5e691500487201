//! `Frontier`: where all lines of control of a run stand, and how each record moves one of them.
//!
//! A line of control is known by its path: in which branches of which fan-outs, and inside which subgraphs, it runs; at any time there is one
//! token at a path. So a record needs to say no more than its path, and where the token goes. A branch that has done nothing yet has no token of
//! its own: it is implied by the token at the fan-out, one level above.

use crate::store::{Fork, Header, Kind, LiveToken, Place, PlacedBy};
use std::collections::BTreeMap;
use std::ops::Bound;

/// The undo of a record, as a branch of it: no fan-out is so wide.
const UNDO: u32 = u32::MAX;

/// The line of control that the undo of a record is. It stands apart from those of the run, with nothing but its visit records.
pub(crate) fn undo_path(record: u64) -> Vec<Fork> {
    vec![Fork { sequence: record, branch: UNDO }]
}

/// The record whose undo is this line of control, if it is one.
pub(crate) fn undone_at(path: &[Fork]) -> Option<u64> {
    match path {
        [Fork { sequence, branch: UNDO }] => Some(*sequence),
        _ => None,
    }
}

/// The live tokens of a run, by their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frontier {
    tokens: BTreeMap<Vec<Fork>, LiveToken>,
    notes: usize,
}

impl Frontier {
    pub(crate) fn of(tokens: Vec<LiveToken>) -> Self {
        let notes = tokens.iter().map(|token| token.notes.len()).sum();
        Self { tokens: tokens.into_iter().map(|token| (token.path.clone(), token)).collect(), notes }
    }

    pub(crate) fn tokens(&self) -> impl Iterator<Item = &LiveToken> {
        self.tokens.values()
    }

    /// The token at a path.
    pub(crate) fn get(&self, path: &[Fork]) -> Option<&LiveToken> {
        self.tokens.get(path)
    }

    /// Whether the line of control at a path is still the one that the record `placed` put there.
    pub(crate) fn is_at(&self, path: &[Fork], placed: u64) -> bool {
        match (self.tokens.get(path), path.split_last()) {
            (Some(token), _) => token.id.sequence == placed,
            (None, Some((last, above))) => last.sequence == placed && self.has_opened(above, placed),
            (None, None) => false,
        }
    }

    /// Whether what the record `opened` opened at a path, a fan-out or the inside of a subgraph, is still open.
    fn has_opened(&self, path: &[Fork], opened: u64) -> bool {
        match self.tokens.get(path) {
            Some(token) => token.id.sequence == opened || token.notes.contains(&opened),
            None => self.is_at(path, opened),
        }
    }

    pub(crate) fn list(&self) -> Vec<LiveToken> {
        self.tokens().cloned().collect()
    }

    /// How much there is to say of it.
    pub(crate) fn width(&self) -> usize {
        self.tokens.len() + self.notes
    }

    /// The records that going on takes.
    pub(crate) fn rows(&self) -> impl Iterator<Item = u64> {
        self.tokens().flat_map(|token| token.notes.iter().copied().chain((token.row > 0).then_some(token.row)))
    }

    /// What a record changes.
    pub(crate) fn apply(&mut self, sequence: u64, header: &Header) {
        match (&header.frontier, &header.next) {
            (Some(all), _) => *self = Self::of(all.clone()),
            (None, Some(to)) => self.place(sequence, &header.path, to.clone()),
            (None, None) if header.is_note() => self.note(sequence, header),
            // One that failed can be tried again, and keeps its visit records.
            (None, None) if header.kind == Kind::Undo && header.undo != header.parent => self.remove(&undo_path(header.parent)),
            _ => {}
        }
    }

    fn place(&mut self, sequence: u64, path: &[Fork], at: Place) {
        self.drop_below(path);
        let id = PlacedBy { sequence, branch: path.last().map_or(0, |fork| fork.branch) };
        let token = LiveToken { id, path: path.to_vec(), at, row: sequence, notes: Vec::new() };
        if let Some(before) = self.tokens.insert(path.to_vec(), token) {
            self.notes -= before.notes.len();
        }
    }

    fn note(&mut self, sequence: u64, header: &Header) {
        if header.kind == Kind::Attempt {
            // A task that was cut off may be dropped after its fan-out was joined. The record keeps its undo, and no line of control is left to note it at.
            if !self.is_at(&header.path, header.parent) {
                return;
            }
            self.drop_below(&header.path);
        }
        let implied = self.implied(&header.path, &header.node);
        self.tokens.entry(header.path.clone()).or_insert(implied).notes.push(sequence);
        self.notes += 1;
    }

    /// The token of a line of control that has not moved yet. Its state is made from that of the fan-out; inside a subgraph, from
    /// that of the node which the subgraph is.
    fn implied(&self, path: &[Fork], node: &str) -> LiveToken {
        let (id, above) = path.split_last().map_or((Fork { sequence: 0, branch: 0 }, path), |(last, above)| (*last, above));
        let is_fork = self.tokens.get(above).is_some_and(|token| matches!(token.at, Place::Fork(_)));
        let is_branch = is_fork && undone_at(path).is_none();
        let row = if is_branch { id.sequence } else { 0 };
        LiveToken { id, path: path.to_vec(), at: Place::Node(node.to_string()), row, notes: Vec::new() }
    }

    /// A token that moves on leaves nothing behind: no branches, and no inside of a subgraph.
    fn drop_below(&mut self, path: &[Fork]) {
        let gone: Vec<Vec<Fork>> = self.below(path).map(|token| token.path.clone()).collect();
        gone.iter().for_each(|path| self.remove(path));
    }

    /// The tokens below a path. In the order of the map they follow it without a gap, so no other token is visited.
    pub(crate) fn below<'a>(&'a self, path: &'a [Fork]) -> impl Iterator<Item = &'a LiveToken> + 'a {
        let after = (Bound::Excluded(path), Bound::Unbounded);
        let tokens = self.tokens.range::<[Fork], _>(after).map(|(_, token)| token);
        tokens.inspect(|_| crate::util::work_count::visit(1)).take_while(move |token| token.path.starts_with(path))
    }

    fn remove(&mut self, path: &[Fork]) {
        self.notes -= self.tokens.remove(path).map_or(0, |token| token.notes.len());
    }

    /// Leaves out tokens that are there only for visit records of a line of control that is over: earlier versions listed them.
    pub(crate) fn without_strays(mut self) -> Self {
        let is_implied = |token: &&LiveToken| token.is_implied() && undone_at(&token.path).is_none();
        let implied: Vec<Vec<Fork>> = self.tokens().filter(is_implied).map(|token| token.path.clone()).collect();
        // In the order of the map, so that a stray is gone when those below it are judged.
        for path in implied {
            if path.split_last().is_some_and(|(last, above)| !self.has_opened(above, last.sequence)) {
                self.remove(&path);
            }
        }
        self
    }

    /// Leaves out what belongs to undos.
    pub(crate) fn without_undos(self) -> Self {
        Self::of(self.tokens.into_values().filter(|token| undone_at(&token.path).is_none()).collect())
    }
}

impl Header {
    /// Whether it is about a node that is not done: an effect, a failed attempt, a wait.
    pub(crate) fn is_note(&self) -> bool {
        let of_a_node = matches!(self.kind, Kind::Effect | Kind::Started | Kind::Attempt | Kind::Wait | Kind::Wake);
        of_a_node && !self.node.is_empty() && self.next.is_none()
    }

    /// Whether it is about an undo: that it is over, or what happens on its way.
    pub(crate) fn is_of_undo(&self) -> bool {
        self.kind == Kind::Undo || undone_at(&self.path).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::work_count;

    #[test]
    fn c3_a_move_visits_no_token_but_those_below_it() {
        let fork = |sequence, branch| Fork { sequence, branch };
        let mut frontier = Frontier::default();
        frontier.place(1, &[], Place::Fork("start".into()));
        for branch in 0..16_000 {
            frontier.place(2 + u64::from(branch), &[fork(1, branch)], Place::Node("item".into()));
        }
        // Branch 7 has a fan-out of its own, with a subgraph in one of its branches.
        frontier.place(20_000, &[fork(1, 7)], Place::Fork("item".into()));
        frontier.place(20_001, &[fork(1, 7), fork(20_000, 0)], Place::Node("a".into()));
        frontier.place(20_002, &[fork(1, 7), fork(20_000, 1)], Place::Node("sub".into()));
        frontier.place(20_003, &[fork(1, 7), fork(20_000, 1), fork(20_002, 1)], Place::Node("sub/b".into()));
        assert_eq!(frontier.below(&[fork(1, 7)]).count(), 3);
        work_count::take_visited();
        frontier.place(20_004, &[fork(1, 7)], Place::Join("end".into()));
        assert!(work_count::take_visited() <= 4);
        assert_eq!(frontier.width(), 16_001);
        frontier.place(20_005, &[fork(1, 3)], Place::Join("end".into()));
        assert!(work_count::take_visited() <= 1);
        frontier.place(20_006, &[], Place::End);
        assert_eq!(frontier.width(), 1);
    }

    #[test]
    fn c5_attempt_noted_after_its_fan_out_is_joined_leaves_no_token() {
        let fork = |sequence, branch| Fork { sequence, branch };
        let attempt = |path: &[Fork], parent: u64, node: &str| Header {
            graph: "g".into(),
            fingerprint: String::new(),
            schema: 0,
            epoch: 1,
            kind: Kind::Attempt,
            parent,
            path: path.to_vec(),
            node: node.into(),
            next: None,
            attempt: 1,
            visits: 1,
            iteration: 0,
            at: crate::store::Timestamp::default(),
            undo: 0,
            undo_before: 0,
            keys_of: 0,
            frontier: None,
            base: Some(1),
        };
        let mut frontier = Frontier::default();
        frontier.place(1, &[], Place::Fork("start".into()));
        // While the fan-out is open, a branch that has not moved can fail, and so can a node inside a subgraph that is such a branch.
        frontier.apply(2, &attempt(&[fork(1, 0), fork(1, 0)], 1, "sub/charge"));
        frontier.apply(3, &attempt(&[fork(1, 1)], 1, "item"));
        assert_eq!(frontier.width(), 5);
        assert_eq!(frontier.clone().without_strays(), frontier);
        frontier.place(4, &[], Place::Node("after".into()));
        let joined = frontier.clone();
        frontier.apply(5, &attempt(&[fork(1, 0), fork(1, 0)], 1, "sub/charge"));
        frontier.apply(6, &attempt(&[fork(1, 1)], 1, "item"));
        frontier.apply(7, &attempt(&[], 1, "start"));
        assert_eq!(frontier, joined);
        // Records of earlier versions list such tokens.
        let mut listed = joined.list();
        // The last two: one below the other.
        let paths = [vec![fork(1, 0), fork(1, 0)], vec![fork(1, 1)], vec![fork(1, 2)], vec![fork(1, 2), fork(1, 2)]];
        for path in paths {
            let stray = LiveToken { notes: vec![5], ..joined.implied(&path, "item") };
            listed.push(stray);
        }
        assert_eq!(Frontier::of(listed).without_strays(), joined);
    }
}
