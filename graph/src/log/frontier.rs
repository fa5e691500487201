//! `Frontier`: the live tokens of a run, and how each record moves one of them.
//!
//! A token is identified by its path: the branches of fan-outs and the subgraphs in which it runs.
//!
//! Invariants:
//! 1. At most one token is at a path. So a record needs only its path and the next place of the
//!    token.
//! 2. A branch that has done nothing yet has no token. It is **implied** by the token at its
//!    fan-out, one level above.
//! 3. When a token moves, all tokens below it are removed.

use crate::store::{Fork, Header, Kind, LiveToken, Place, PlacedBy};
use std::collections::BTreeMap;
use std::ops::Bound;

/// The branch number that marks the undo of a record. No fan-out has so many branches.
const UNDO: u32 = u32::MAX;

/// Returns the path of the undo of a record. It is separate from the paths of the run and has only
/// visit records.
pub(crate) fn undo_path(record: u64) -> Vec<Fork> {
    vec![Fork { sequence: record, branch: UNDO }]
}

/// Returns the record that is undone at this path, if it is the path of an undo.
pub(crate) fn undone_at(path: &[Fork]) -> Option<u64> {
    match path {
        [Fork { sequence, branch: UNDO }] => Some(*sequence),
        _ => None,
    }
}

/// The live tokens of a run, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frontier {
    tokens: BTreeMap<Vec<Fork>, LiveToken>,
    /// The number of visit records of all tokens.
    visit_records: usize,
}

impl Frontier {
    pub(crate) fn of(tokens: Vec<LiveToken>) -> Self {
        let visit_records = tokens.iter().map(|token| token.visit_records.len()).sum();
        Self { tokens: tokens.into_iter().map(|token| (token.path.clone(), token)).collect(), visit_records }
    }

    pub(crate) fn tokens(&self) -> impl Iterator<Item = &LiveToken> {
        self.tokens.values()
    }

    /// Returns the token at a path.
    pub(crate) fn get(&self, path: &[Fork]) -> Option<&LiveToken> {
        self.tokens.get(path)
    }

    /// Returns true if the token at a path is still the token that the record `placed` put there.
    pub(crate) fn is_at(&self, path: &[Fork], placed: u64) -> bool {
        match (self.tokens.get(path), path.split_last()) {
            (Some(token), _) => token.id.sequence == placed,
            (None, Some((last, above))) => last.sequence == placed && self.has_opened(above, placed),
            (None, None) => false,
        }
    }

    /// Returns true if the fan-out or subgraph that the record `opened` opened at a path is still
    /// open.
    fn has_opened(&self, path: &[Fork], opened: u64) -> bool {
        match self.tokens.get(path) {
            Some(token) => token.id.sequence == opened || token.visit_records.contains(&opened),
            None => self.is_at(path, opened),
        }
    }

    /// Returns a copy of all tokens, in path order.
    pub(crate) fn list(&self) -> Vec<LiveToken> {
        self.tokens().cloned().collect()
    }

    /// Returns the size of the frontier: tokens and visit records.
    pub(crate) fn width(&self) -> usize {
        self.tokens.len() + self.visit_records
    }

    /// Returns the records that a resume must read.
    pub(crate) fn rows(&self) -> impl Iterator<Item = u64> {
        self.tokens().flat_map(|token| token.visit_records.iter().copied().chain((token.row > 0).then_some(token.row)))
    }

    /// Applies a record.
    pub(crate) fn apply(&mut self, sequence: u64, header: &Header) {
        match (&header.frontier, &header.next) {
            (Some(all), _) => *self = Self::of(all.clone()),
            (None, Some(to)) => self.place(sequence, &header.path, to.clone()),
            (None, None) if header.is_visit_record() => self.add_visit_record(sequence, header),
            // A failed undo can be repeated, so it keeps its visit records.
            (None, None) if header.kind == Kind::Undo && header.undo != header.parent => self.remove(&undo_path(header.parent)),
            _ => {}
        }
    }

    fn place(&mut self, sequence: u64, path: &[Fork], at: Place) {
        self.drop_below(path);
        let id = PlacedBy { sequence, branch: path.last().map_or(0, |fork| fork.branch) };
        let token = LiveToken { id, path: path.to_vec(), at, row: sequence, visit_records: Vec::new() };
        if let Some(before) = self.tokens.insert(path.to_vec(), token) {
            self.visit_records -= before.visit_records.len();
        }
    }

    fn add_visit_record(&mut self, sequence: u64, header: &Header) {
        if header.kind == Kind::Attempt {
            // The task of an abandoned attempt may be dropped after its fan-out was joined. The
            // record keeps its undo, but no token remains to add it to.
            if !self.is_at(&header.path, header.parent) {
                return;
            }
            self.drop_below(&header.path);
        }
        let implied = self.implied(&header.path, &header.node);
        self.tokens.entry(header.path.clone()).or_insert(implied).visit_records.push(sequence);
        self.visit_records += 1;
    }

    /// Returns the token of a branch or subgraph that has not moved yet. Its state is made from the
    /// state of the fan-out, or of the node that runs the subgraph.
    fn implied(&self, path: &[Fork], node: &str) -> LiveToken {
        let (Fork { sequence, branch }, above) =
            path.split_last().map_or((Fork { sequence: 0, branch: 0 }, path), |(last, above)| (*last, above));
        let is_fork = self.tokens.get(above).is_some_and(|token| matches!(token.at, Place::Fork(_)));
        let is_branch = is_fork && undone_at(path).is_none();
        let row = if is_branch { sequence } else { 0 };
        let id = PlacedBy { sequence, branch };
        LiveToken { id, path: path.to_vec(), at: Place::Node(node.to_string()), row, visit_records: Vec::new() }
    }

    /// Removes all tokens below a path: branches and the inside of subgraphs.
    fn drop_below(&mut self, path: &[Fork]) {
        let below: Vec<Vec<Fork>> = self.below(path).map(|token| token.path.clone()).collect();
        below.iter().for_each(|path| self.remove(path));
    }

    /// Returns the tokens below a path. They follow the path in map order without a gap, so no
    /// other token is visited.
    pub(crate) fn below<'a>(&'a self, path: &'a [Fork]) -> impl Iterator<Item = &'a LiveToken> + 'a {
        let after = (Bound::Excluded(path), Bound::Unbounded);
        let tokens = self.tokens.range::<[Fork], _>(after).map(|(_, token)| token);
        tokens.inspect(|_| crate::util::work_count::count(1)).take_while(move |token| token.path.starts_with(path))
    }

    fn remove(&mut self, path: &[Fork]) {
        self.visit_records -= self.tokens.remove(path).map_or(0, |token| token.visit_records.len());
    }

    /// Removes tokens that only hold visit records of a finished visit. Earlier versions listed
    /// them.
    pub(crate) fn without_strays(mut self) -> Self {
        let is_implied = |token: &&LiveToken| token.is_implied() && undone_at(&token.path).is_none();
        let implied: Vec<Vec<Fork>> = self.tokens().filter(is_implied).map(|token| token.path.clone()).collect();
        // In map order, so that a stray token is removed before the tokens below it are checked.
        for path in implied {
            if path.split_last().is_some_and(|(last, above)| !self.has_opened(above, last.sequence)) {
                self.remove(&path);
            }
        }
        self
    }

    /// Removes the tokens of undos.
    pub(crate) fn without_undos(self) -> Self {
        Self::of(self.tokens.into_values().filter(|token| undone_at(&token.path).is_none()).collect())
    }
}

impl Header {
    /// Returns true for a visit record: an effect, a failed attempt or a wait of a node that is not
    /// done.
    pub(crate) fn is_visit_record(&self) -> bool {
        let of_a_node = matches!(self.kind, Kind::Effect | Kind::Started | Kind::Attempt | Kind::Wait | Kind::Wake);
        of_a_node && !self.node.is_empty() && self.next.is_none()
    }

    /// Returns true for a record of an undo: its end, or a visit record on its path.
    pub(crate) fn is_of_undo(&self) -> bool {
        self.kind == Kind::Undo || undone_at(&self.path).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::work_count;

    #[test]
    fn c3_move_visits_only_the_tokens_below() {
        let fork = |sequence, branch| Fork { sequence, branch };
        let mut frontier = Frontier::default();
        frontier.place(1, &[], Place::Fork("start".into()));
        for branch in 0..16_000 {
            frontier.place(2 + u64::from(branch), &[fork(1, branch)], Place::Node("item".into()));
        }
        // Branch 7 has a nested fan-out, with a subgraph in one of its branches.
        frontier.place(20_000, &[fork(1, 7)], Place::Fork("item".into()));
        frontier.place(20_001, &[fork(1, 7), fork(20_000, 0)], Place::Node("a".into()));
        frontier.place(20_002, &[fork(1, 7), fork(20_000, 1)], Place::Node("sub".into()));
        frontier.place(20_003, &[fork(1, 7), fork(20_000, 1), fork(20_002, 1)], Place::Node("sub/b".into()));
        assert_eq!(frontier.below(&[fork(1, 7)]).count(), 3);
        work_count::take_counted();
        frontier.place(20_004, &[fork(1, 7)], Place::Join("end".into()));
        assert!(work_count::take_counted() <= 4);
        assert_eq!(frontier.width(), 16_001);
        frontier.place(20_005, &[fork(1, 3)], Place::Join("end".into()));
        assert!(work_count::take_counted() <= 1);
        frontier.place(20_006, &[], Place::End);
        assert_eq!(frontier.width(), 1);
    }

    #[test]
    fn c5_attempt_recorded_after_the_join_leaves_no_token() {
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
        // While the fan-out is open, a branch that has not moved can fail, and so can a node of a
        // subgraph in such a branch.
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
        // The last path is below the one before it.
        let paths = [vec![fork(1, 0), fork(1, 0)], vec![fork(1, 1)], vec![fork(1, 2)], vec![fork(1, 2), fork(1, 2)]];
        for path in paths {
            let stray = LiveToken { visit_records: vec![5], ..joined.implied(&path, "item") };
            listed.push(stray);
        }
        assert_eq!(Frontier::of(listed).without_strays(), joined);
    }
}
