//! Tokens: the lines of control of a run, and how they are told apart.
//!
//! A token's id is the sequence of the commit that placed it, and its branch. So it is new for each turn of a loop and for each
//! fork, and the same for every attempt at one node: which is what an idempotency key must be.

use crate::store::Fork;
use std::fmt;
use std::sync::Arc;

/// Which token: the commit that placed it, and which of those that this commit placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TokenId {
    pub(crate) sequence: u64,
    pub(crate) branch: u32,
}

impl TokenId {
    /// A key for effects outside, the same for every attempt at one visit of one run, and for no other; another for its undo.
    pub(crate) fn key(self, run: &str, is_undo: bool) -> String {
        let mut hash = Fnv::new();
        hash.write(run.as_bytes());
        hash.write(&[0xff, u8::from(is_undo)]);
        hash.write(&self.sequence.to_le_bytes());
        hash.write(&self.branch.to_le_bytes());
        hash.text()
    }
}

impl TokenId {
    /// A key for one effect of a visit.
    pub(crate) fn effect_key(self, run: &str, is_undo: bool, effect: &str) -> String {
        let mut hash = Fnv::new();
        hash.write(self.key(run, is_undo).as_bytes());
        hash.write(effect.as_bytes());
        hash.text()
    }
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

/// FNV-1a with 128 bits: a hash that is the same on every machine and in every version.
pub(crate) struct Fnv(u128);

impl Fnv {
    pub(crate) fn new() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }

    pub(crate) fn text(&self) -> String {
        format!("{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a() {
        let of = |text: &str| {
            let mut hash = Fnv::new();
            hash.write(text.as_bytes());
            hash.text()
        };
        assert_eq!(of(""), "6c62272e07bb014262b821756295c58d");
        assert_eq!(of("foobar"), "343e1662793c64bf6f0d3597ba446f18");
    }

    #[test]
    fn keys_differ_by_run_sequence_and_branch() {
        let id = |sequence, branch| TokenId { sequence, branch };
        let key = |run, id: TokenId| id.key(run, false);
        let keys = [key("a", id(1, 0)), key("b", id(1, 0)), key("a", id(2, 0)), key("a", id(1, 1)), id(1, 0).key("a", true)];
        for (at, key) in keys.iter().enumerate() {
            assert_eq!(keys.iter().position(|other| other == key), Some(at));
        }
    }

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
