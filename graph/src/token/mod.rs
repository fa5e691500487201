//! Tokens: the positions of control in a run, and how they are identified.
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

/// Which token: the commit that placed it, and which of those that this commit placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TokenId {
    pub(crate) sequence: u64,
    pub(crate) branch: u32,
}

/// Where a token stands among the branches of the fan-outs around it: the outermost first, nothing outside of any.
#[derive(Clone, Default)]
pub struct BranchPath {
    fan_out: Option<Arc<FanOutAt>>,
    branch: u32,
}

/// One fan-out of a run: where it stands, and the commit that opened it. Its branches share it.
pub(crate) struct FanOutAt {
    outer: BranchPath,
    fork: u64,
}

impl BranchPath {
    /// The fan-out that the commit `fork` opened at this path.
    pub(crate) fn fan_out(&self, fork: u64) -> Arc<FanOutAt> {
        Arc::new(FanOutAt { outer: self.clone(), fork })
    }

    pub(crate) fn branch_of(fan_out: &Arc<FanOutAt>, branch: u32) -> Self {
        Self { fan_out: Some(Arc::clone(fan_out)), branch }
    }

    /// The path as records have it.
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

    /// The numbers of the branches, the outermost first; empty outside of any fan-out.
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

/// Two paths are equal when their branches are, and belong to the same fan-outs.
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

/// A loop and not recursion: fan-outs may be nested deeply.
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
    fn a_path_lists_branches_from_the_outside() {
        let inside = |path: &BranchPath, fork, branch| BranchPath::branch_of(&path.fan_out(fork), branch);
        let root = BranchPath::default();
        let deep = inside(&inside(&root, 3, 1), 7, 4);
        assert_eq!(deep.branches(), [1, 4]);
        assert!(deep == inside(&inside(&root, 3, 1), 7, 4) && deep != inside(&inside(&root, 4, 1), 7, 4) && deep != root);
        assert!(BranchPath::default().branches().is_empty());
    }
}
