//! Tokens: the positions of control in a run, and their ids.
//!
//! The id of a token is the sequence of the commit that placed it, and its branch. So each turn of
//! a loop and each branch has a new id, and all attempts at one node share one id. Idempotency keys
//! rely on this.

mod keys;
mod wait_view;

pub(crate) use keys::{Fnv, KeyMaker};
pub use wait_view::WaitView;

use crate::store::Fork;
use std::fmt;
use std::sync::Arc;

/// The id of a token: the commit that placed it, and its number among the tokens of that commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TokenId {
    pub(crate) sequence: u64,
    pub(crate) branch: u32,
}

/// The position of a token among nested fan-outs: one branch number per fan-out, the outermost
/// first.
///
/// The path of a token outside of any fan-out is empty. Two paths are equal if they have the same
/// branches of the same fan-outs.
#[derive(Clone, Default)]
pub struct BranchPath {
    fan_out: Option<Arc<FanOutAt>>,
    branch: u32,
}

/// One fan-out of a run: its own path, and the commit that opened it. Its branches share it.
pub(crate) struct FanOutAt {
    outer: BranchPath,
    fork: u64,
}

impl BranchPath {
    /// Returns the fan-out that the commit `fork` opened at this path.
    pub(crate) fn fan_out(&self, fork: u64) -> Arc<FanOutAt> {
        Arc::new(FanOutAt { outer: self.clone(), fork })
    }

    pub(crate) fn branch_of(fan_out: &Arc<FanOutAt>, branch: u32) -> Self {
        Self { fan_out: Some(Arc::clone(fan_out)), branch }
    }

    /// Returns the path in the form of a record.
    pub(crate) fn forks(&self) -> Vec<Fork> {
        let mut forks = Vec::new();
        let mut at = self;
        while let Some(fan_out) = &at.fan_out {
            forks.push(Fork { sequence: fan_out.fork, branch: at.branch });
            at = &fan_out.outer;
        }
        forks.reverse();
        forks
    }

    /// Returns the branch numbers, the outermost first; empty outside of any fan-out.
    pub fn branches(&self) -> Vec<usize> {
        let mut branches = Vec::new();
        let mut at = self;
        while let Some(fan_out) = &at.fan_out {
            branches.push(at.branch as usize);
            at = &fan_out.outer;
        }
        branches.reverse();
        branches
    }
}

/// Compares the branches, and the fan-outs that they belong to.
impl PartialEq for BranchPath {
    fn eq(&self, other: &Self) -> bool {
        let (mut a, mut b) = (self, other);
        while let (Some(one), Some(two)) = (&a.fan_out, &b.fan_out) {
            if (one.fork, a.branch) != (two.fork, b.branch) {
                return false;
            }
            (a, b) = (&one.outer, &two.outer);
        }
        a.fan_out.is_none() && b.fan_out.is_none()
    }
}

impl Eq for BranchPath {}

/// Uses a loop instead of recursion, because fan-outs can be nested deeply.
impl Drop for FanOutAt {
    fn drop(&mut self) {
        let mut fan_out = self.outer.fan_out.take();
        while let Some(mut last) = fan_out.and_then(Arc::into_inner) {
            fan_out = last.outer.fan_out.take();
        }
    }
}

impl fmt::Debug for BranchPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.branches()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_lists_branches_from_the_outside() {
        let inside = |path: &BranchPath, fork, branch| BranchPath::branch_of(&path.fan_out(fork), branch);
        let root = BranchPath::default();
        let deep = inside(&inside(&root, 3, 1), 7, 4);
        assert_eq!(deep.branches(), [1, 4]);
        assert!(deep == inside(&inside(&root, 3, 1), 7, 4) && deep != inside(&inside(&root, 4, 1), 7, 4) && deep != root);
        assert!(BranchPath::default().branches().is_empty());
    }
}
