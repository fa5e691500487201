//! `LastStep`: finds the last completed node, for a replay, and the current position of its token.
//!
//! A rewind, migration or replay writes every token again under a new path. On the way back to the
//! last step, paths are translated: the token at each prefix of a path is at the same place before
//! and after.

use crate::log::frontier::Frontier;
use crate::log::open;
use crate::store::{Fork, Header, Kind, LiveToken, PlacedBy, Store, StoreError};
use std::collections::HashMap;

/// The number of headers that are read at a time.
const HEADERS_AT_A_TIME: u64 = 64;

/// The last completed node of a run.
pub(crate) struct LastStep {
    pub(super) sequence: u64,
    pub(super) path: Vec<Fork>,
    /// The outermost path that moved with the step or because of it, such as by a join.
    pub(super) moved_path: Vec<Fork>,
    /// The current path of that token.
    current_path: Vec<Fork>,
}

/// A record that rewrote all tokens: the frontier before and after it.
struct FrontierRewrite {
    before: Frontier,
    after: Frontier,
}

impl LastStep {
    /// Finds the last completed node up to `head`. Returns `None` if none was completed since the
    /// run was created.
    pub(crate) async fn find(store: &dyn Store, run: &str, head: u64) -> Result<Option<Self>, StoreError> {
        let (mut last, mut later, mut moved) = (head, None::<(u64, Header)>, Vec::<Vec<Fork>>::new());
        let mut rewrites: Vec<FrontierRewrite> = Vec::new();
        while last > 0 {
            let first = last.saturating_sub(HEADERS_AT_A_TIME - 1).max(1);
            let first = first.max(store.head(run).await?.oldest.min(last));
            let headers = open::headers(store, run, first, last).await?;
            last = first - 1;
            for (sequence, header) in headers.into_iter().rev() {
                // Only a record that raises the number of visits completes a node.
                if let Some((of, step)) = later.take()
                    && step.visits > header.visits
                    && matches!(step.kind, Kind::Step | Kind::Arrive)
                {
                    return Ok(Self::of(of, step.path, moved, &rewrites));
                }
                if header.kind == Kind::Rewind && header.next.is_some() {
                    let rewrite = FrontierRewrite::read(store, run, sequence, &header).await?;
                    moved = moved.iter().filter_map(|path| translate(path, &rewrite.after, &rewrite.before)).collect();
                    rewrites.push(rewrite);
                    last = header.parent;
                    break;
                }
                if header.next.is_some() {
                    moved.push(header.path.clone());
                }
                later = Some((sequence, header));
            }
        }
        Ok(None)
    }

    /// Creates the step `sequence` at `path`; the paths in `moved` moved after it.
    fn of(sequence: u64, path: Vec<Fork>, moved: Vec<Vec<Fork>>, rewrites: &[FrontierRewrite]) -> Option<Self> {
        let around = moved.into_iter().filter(|moved| path.starts_with(moved)).min_by_key(Vec::len);
        let moved_path = around.unwrap_or_else(|| path.clone());
        let rewrite = |path: Vec<Fork>, rewrite: &FrontierRewrite| translate(&path, &rewrite.before, &rewrite.after);
        let current_path = rewrites.iter().rev().try_fold(moved_path.clone(), rewrite)?;
        Some(Self { sequence, path, moved_path, current_path })
    }

    /// Returns the record that placed the token of the step, in the frontier before the step.
    pub(super) fn placed_by(&self, before: &Frontier) -> u64 {
        placed_by(before, &self.path).unwrap_or(0)
    }

    /// Returns the frontier from which the step is replayed: the old tokens where the step ran, the
    /// current tokens elsewhere.
    pub(super) fn frontier(&self, before: &Frontier, now: Frontier) -> Frontier {
        let to: HashMap<u64, u64> =
            self.moved_path.iter().zip(&self.current_path).map(|(old, new)| (old.sequence, new.sequence)).collect();
        let moved = |sequence: u64| to.get(&sequence).copied().unwrap_or(sequence);
        let translate_path = |path: &[Fork]| -> Vec<Fork> {
            path.iter().map(|fork| Fork { sequence: moved(fork.sequence), branch: fork.branch }).collect()
        };
        let back = before.tokens().filter(|token| token.path.starts_with(&self.moved_path)).map(|token| LiveToken {
            id: PlacedBy { sequence: moved(token.id.sequence), branch: token.id.branch },
            path: translate_path(&token.path),
            row: moved(token.row),
            ..token.clone()
        });
        let elsewhere = now.tokens().filter(|token| !token.path.starts_with(&self.current_path)).cloned();
        let mut tokens: Vec<LiveToken> = elsewhere.chain(back).collect();
        // The effects of the node are dropped, and so is everything that ran inside it.
        let path = translate_path(&self.path);
        tokens.retain(|token| !(token.path.len() > path.len() && token.path.starts_with(&path)));
        tokens.retain_mut(|token| token.path != path || token.drop_visit_records());
        Frontier::of(tokens).without_undos()
    }
}

impl FrontierRewrite {
    /// Reads the rewrite to which the record `sequence` belongs.
    async fn read(store: &dyn Store, run: &str, sequence: u64, header: &Header) -> Result<Self, StoreError> {
        // The last record of a rewrite lists the whole frontier.
        let whole = header.base.filter(|_| header.frontier.is_none()).unwrap_or(sequence);
        let after = open::position(store, run, whole).await?.frontier;
        let before = open::position(store, run, header.parent).await?.frontier;
        Ok(Self { before, after })
    }
}

/// Translates a path of `from` to a path of `to`. Returns `None` if a part of it exists only in
/// `from`.
fn translate(path: &[Fork], from: &Frontier, to: &Frontier) -> Option<Vec<Fork>> {
    let mut found: Vec<Fork> = Vec::with_capacity(path.len());
    for (depth, Fork { sequence, branch }) in path.iter().copied().enumerate() {
        let (old, new) = (&path[..depth], &*found);
        let sequence = if placed_by(from, old)? == sequence {
            placed_by(to, new)?
        } else {
            // The inside of a subgraph, after a failed attempt.
            let row = from.get(old)?.visit_records.iter().position(|row| *row == sequence)?;
            *to.get(new)?.visit_records.get(row)?
        };
        found.push(Fork { sequence, branch });
    }
    Some(found)
}

/// Returns the record that placed the token at a path. A token that has not moved is implied by the
/// record that opened its fan-out or subgraph.
fn placed_by(frontier: &Frontier, path: &[Fork]) -> Option<u64> {
    let implied = || path.last().map(|last| last.sequence);
    frontier.get(path).map(|token| token.id.sequence).or_else(implied)
}
