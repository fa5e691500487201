//! [`Snapshot`]: a page of the members below a path, parents first.
//!
//! A page is bounded by depth, by count and by the places that it examines, and says where the next
//! page begins. The lock of a node is held for one member, or for a fixed number of places in the
//! table of its children; a parent with a million children is listed a page at a time.

use crate::base::sync::Arc;
use crate::ids::path::ActorPath;
use crate::inspect::cursor::Cursor;
use crate::inspect::info::MemberInfo;
use crate::tree::child;
use crate::tree::facts::MemberKind;
use crate::tree::member::Member;
use crate::tree::walk::{Step, Walk};
use alloc::vec::Vec;
use core::fmt;

/// The number of members in a page of a snapshot, unless the query sets another one.
pub const SNAPSHOT_LIMIT_DEFAULT: usize = 1_000;

/// The largest number of members in a page of a snapshot.
pub const SNAPSHOT_LIMIT_MAX: usize = 10_000;

/// The largest and default depth of a snapshot, in levels below its start.
pub const SNAPSHOT_DEPTH_MAX: u32 = 256;

/// How many steps a page takes at most. A filter, or many free places, may leave a page with fewer
/// members than its limit, or with none.
const STEPS_MAX: usize = 20_000;

/// Which members a [`Snapshot`] lists.
///
/// ```
/// use pleach::inspect::{MemberKind, SnapshotQuery};
///
/// let query = SnapshotQuery::at("/user/workers".parse()?).depth(1).limit(100).kinds([MemberKind::Actor]);
/// # let _ = query;
/// # Ok::<(), pleach::actor::PathError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a query is passed to `snapshot`"]
pub struct SnapshotQuery {
    path: ActorPath,
    depth: u32,
    limit: usize,
    cursor: Option<Cursor>,
    /// A bit for each kind.
    kinds: u32,
}

impl Default for SnapshotQuery {
    fn default() -> Self {
        Self {
            path: ActorPath::root(),
            depth: SNAPSHOT_DEPTH_MAX,
            limit: SNAPSHOT_LIMIT_DEFAULT,
            cursor: None,
            kinds: u32::MAX,
        }
    }
}

impl SnapshotQuery {
    /// Lists the whole system, from its root.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lists the member at `path` and everything below it.
    pub fn at(path: ActorPath) -> Self {
        Self { path, ..Self::default() }
    }

    /// Sets how many levels below the start are listed. 0 lists only the start. Default and
    /// maximum: 256.
    pub fn depth(mut self, levels: u32) -> Self {
        self.depth = levels.min(SNAPSHOT_DEPTH_MAX);
        self
    }

    /// Sets how many members a page has at most, from 1 to 10,000. Default: 1,000.
    pub fn limit(mut self, members: usize) -> Self {
        self.limit = members.clamp(1, SNAPSHOT_LIMIT_MAX);
        self
    }

    /// Continues after an earlier page, whose query had the same path and depth.
    pub fn after(mut self, cursor: Cursor) -> Self {
        self.cursor = Some(cursor);
        self
    }

    /// Lists only members of these kinds. Default: all kinds.
    pub fn kinds(mut self, kinds: impl IntoIterator<Item = MemberKind>) -> Self {
        self.kinds = kinds.into_iter().fold(0, |bits, kind| bits | 1 << kind as u32);
        self
    }

    /// Takes the snapshot below `root`.
    pub(crate) fn run(&self, root: &Arc<dyn Member>) -> Result<Snapshot, SnapshotError> {
        let start = child::descend(root, &self.path).ok_or_else(|| SnapshotError::NotFound(self.path.clone()))?;
        let now = root.node().runtime().now();
        let mut walk = match &self.cursor {
            None => Walk::new(start, self.depth as usize),
            Some(cursor) => Walk::resume(start, self.depth as usize, &cursor.0),
        };
        let mut members = Vec::new();
        for _ in 0..STEPS_MAX.max(self.limit) {
            match walk.step() {
                Step::Visit(member, depth) => {
                    if self.kinds == u32::MAX || self.kinds & 1 << member.facts().kind as u32 != 0 {
                        members.push(MemberInfo::of(&member, depth, now));
                    }
                }
                Step::Nothing => {}
                Step::End => return Ok(Snapshot { members, next: None }),
            }
            if members.len() >= self.limit {
                break;
            }
        }
        Ok(Snapshot { members, next: walk.position().map(Cursor) })
    }
}

/// A page of the members below a path, parents first. `Display` writes it as an indented tree.
///
/// Each member that exists from the first page to the last is listed exactly once. A member that
/// starts or ends meanwhile is listed at most once. Siblings are listed in the order of their
/// places in the table of their parent: start order, except that a new child may take the place of
/// one that has ended.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Snapshot {
    /// The members of this page. May be empty although more follow.
    pub members: Vec<MemberInfo>,
    /// Where the next page begins, or `None` if this is the last one.
    pub next: Option<Cursor>,
}

/// Why a snapshot was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotError {
    /// No live member has the path of the query.
    NotFound(ActorPath),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(path) => {
                write!(f, "no member found at {path}; it may have ended, list its parent to see its siblings")
            }
        }
    }
}

impl core::error::Error for SnapshotError {}
