//! Finds the node that was done last, for a replay, and the current position of its token.
//!
//! A rewind, migration or replay writes every token again under a new path. On the way back to the
//! last step, paths are translated: the token at each prefix of a path is at the same place before
//! and after.

use crate::log::frontier::Frontier;
use crate::log::open;
use crate::store::{Fork, Header, Kind, LiveToken, Store, StoreError};
use std::collections::HashMap;

/// How many headers are looked at at a time, on the way back to the last step.
const HEADERS_AT_A_TIME: u64 = 64;

/// The last node that was done.
pub(super) struct LastStep {
    pub(super) sequence: u64,
    path: Vec<Fork>,
    /// The outermost line of control that moved with it, or because of it: a join may have followed.
    since: Vec<Fork>,
    /// Where that line of control stands now.
    now: Vec<Fork>,
}

/// A record with which every line of control was written anew: as it was before, and as it is there.
struct FrontierRewrite {
    before: Frontier,
    after: Frontier,
}

impl LastStep {
    /// The last one up to this head; `None` if there is none since the run was made.
    pub(super) async fn find(store: &dyn Store, run: &str, head: u64) -> Result<Option<Self>, StoreError> {
        let (mut last, mut later, mut moved) = (head, None::<(u64, Header)>, Vec::<Vec<Fork>>::new());
        let mut written_anew: Vec<FrontierRewrite> = Vec::new();
        while last > 0 {
            let first = last.saturating_sub(HEADERS_AT_A_TIME - 1).max(1);
            let first = first.max(store.head(run).await?.oldest.min(last));
            let headers = open::headers(store, run, first, last).await?;
            last = first - 1;
            for (sequence, header) in headers.into_iter().rev() {
                // Only a record after which more visits are over is of a node.
                if let Some((of, step)) = later.take()
                    && step.visits > header.visits
                    && matches!(step.kind, Kind::Step | Kind::Arrive)
                {
                    return Ok(Self::of(of, step.path, moved, &written_anew));
                }
                if header.kind == Kind::Rewind && header.next.is_some() {
                    let anew = FrontierRewrite::read(store, run, sequence, &header).await?;
                    moved = moved.iter().filter_map(|path| translate(path, &anew.after, &anew.before)).collect();
                    written_anew.push(anew);
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

    /// The step `sequence` at this path, after which these lines of control moved.
    fn of(sequence: u64, path: Vec<Fork>, moved: Vec<Vec<Fork>>, written_anew: &[FrontierRewrite]) -> Option<Self> {
        let around = moved.into_iter().filter(|moved| path.starts_with(moved)).min_by_key(Vec::len);
        let since = around.unwrap_or_else(|| path.clone());
        let anew = |path: Vec<Fork>, anew: &FrontierRewrite| translate(&path, &anew.before, &anew.after);
        let now = written_anew.iter().rev().try_fold(since.clone(), anew)?;
        Some(Self { sequence, path, since, now })
    }

    /// The lines of control with which the step is replayed: where it ran, those from before the step; elsewhere, those of now.
    pub(super) fn frontier(&self, before: &Frontier, now: Frontier) -> Frontier {
        let to: HashMap<u64, u64> = self.since.iter().zip(&self.now).map(|(old, new)| (old.sequence, new.sequence)).collect();
        let moved = |sequence: u64| to.get(&sequence).copied().unwrap_or(sequence);
        let moved_path = |path: &[Fork]| -> Vec<Fork> {
            path.iter().map(|fork| Fork { sequence: moved(fork.sequence), branch: fork.branch }).collect()
        };
        let back = before.tokens().filter(|token| token.path.starts_with(&self.since)).map(|token| LiveToken {
            id: Fork { sequence: moved(token.id.sequence), branch: token.id.branch },
            path: moved_path(&token.path),
            row: moved(token.row),
            ..token.clone()
        });
        let elsewhere = now.tokens().filter(|token| !token.path.starts_with(&self.now)).cloned();
        let mut tokens: Vec<LiveToken> = elsewhere.chain(back).collect();
        // Effects of the node are not kept, nor is what ran inside of it.
        let path = moved_path(&self.path);
        tokens.retain(|token| !(token.path.len() > path.len() && token.path.starts_with(&path)));
        tokens.retain_mut(|token| token.path != path || token.forget_notes());
        Frontier::of(tokens).without_undos()
    }
}

impl FrontierRewrite {
    /// What the record `sequence`, which is one of those, wrote anew.
    async fn read(store: &dyn Store, run: &str, sequence: u64, header: &Header) -> Result<Self, StoreError> {
        // The last of them has the whole frontier.
        let whole = header.base.filter(|_| header.frontier.is_none()).unwrap_or(sequence);
        let after = open::position(store, run, whole).await?.frontier;
        let before = open::position(store, run, header.parent).await?.frontier;
        Ok(Self { before, after })
    }
}

/// A path among the tokens of `from`, as it is among those of `to`. `None` if something on the way is only in `from`.
fn translate(path: &[Fork], from: &Frontier, to: &Frontier) -> Option<Vec<Fork>> {
    let mut found: Vec<Fork> = Vec::with_capacity(path.len());
    for (depth, Fork { sequence, branch }) in path.iter().copied().enumerate() {
        let (old, new) = (&path[..depth], &*found);
        let sequence = if placed_by(from, old)? == sequence {
            placed_by(to, new)?
        } else {
            // The inside of a subgraph, after an attempt at it that failed.
            let note = from.get(old)?.notes.iter().position(|note| *note == sequence)?;
            *to.get(new)?.notes.get(note)?
        };
        found.push(Fork { sequence, branch });
    }
    Some(found)
}

/// The record that placed the token at a path. One that has not moved yet is implied by what opened its fan-out or subgraph.
fn placed_by(frontier: &Frontier, path: &[Fork]) -> Option<u64> {
    let implied = || path.last().map(|last| last.sequence);
    frontier.get(path).map(|token| token.id.sequence).or_else(implied)
}
