//! Answers `rows`: a window of the tree as a list of rows, with some branches open.
//!
//! An open member is followed by its children; a child that is open too is followed by its own.
//! Positions are computed from the number of children of the open members, and from the place of
//! each open member among its siblings, so the cost does not depend on the rows outside of the
//! window. The rows themselves are read from the tree: if members start or end meanwhile, a window
//! may begin some rows earlier or later, but its rows follow each other in the tree.

use crate::inspect::SnapshotError;
use crate::inspect::protocol::{Failure, Row, Rows, RowsRequest};
use crate::inspect::serve::{Inspected, not_found};
use pleach_core::{ActorPath, AnyRef};
use std::collections::{BTreeMap, BTreeSet};

/// How many rows an answer has at most, and by default.
const COUNT_MAX: usize = 1_000;
const COUNT_DEFAULT: usize = 60;

/// How many branches may be open.
const OPEN_MAX: usize = 1_000;

/// How many looks at the children of one member are taken before other tasks run.
const LOOKS_PER_STEP: usize = 64;

impl Inspected {
    pub(super) async fn rows(&self, request: RowsRequest) -> Result<Rows, Failure> {
        let RowsRequest { path, open, first, count } = request;
        if open.len() > OPEN_MAX {
            return Err(Failure::new("bad_request", format!("at most {OPEN_MAX} branches can be open, not {}", open.len())));
        }
        let path = path.unwrap_or_default();
        let start = self.root.lookup_any(&path).ok_or_else(|| not_found(&SnapshotError::NotFound(path.clone())))?;
        let branch = self.branch(start, path, &open.into_iter().collect()).await;
        let count = count.unwrap_or(COUNT_DEFAULT).min(COUNT_MAX);
        let first = first.min(branch.rows.saturating_sub(count as u64));
        let mut window = Window { skip: first, left: count, rows: Vec::new() };
        window.add_branch(&branch, 0);
        Ok(Rows { rows: window.rows, first, total: branch.rows })
    }

    /// Finds the open members at and below `start`.
    async fn branch(&self, start: AnyRef, start_path: ActorPath, open: &BTreeSet<ActorPath>) -> Branch {
        let mut branches = BTreeMap::from([(start_path.clone(), Branch::closed(start))]);
        // Parents come before their children, and only the children of an open member are seen.
        let below = open.iter().filter(|one| one.segments().starts_with(start_path.segments()));
        for open in below {
            let parent = open.parent().filter(|_| *open != start_path);
            if parent.is_some_and(|parent| !branches.get(&parent).is_some_and(|parent| parent.is_open)) {
                continue;
            }
            let known =
                if *open == start_path { branches.remove(open) } else { self.root.lookup_any(open).map(Branch::closed) };
            let Some(mut branch) = known else { continue };
            while !branch.member.index_children(LOOKS_PER_STEP) {
                tokio::task::yield_now().await;
            }
            branch.open();
            branches.insert(open.clone(), branch);
        }
        // The deepest first, so that each one is complete when its parent gets it.
        let mut paths: Vec<ActorPath> = branches.keys().cloned().collect();
        paths.sort_by_key(|path| std::cmp::Reverse(path.segments().len()));
        for path in paths.iter().filter(|one| **one != start_path) {
            let Some(branch) = branches.remove(path) else { continue };
            let index = branch.member.index_in_parent();
            let parent = path.parent().and_then(|parent| branches.get_mut(&parent));
            if let (Some(parent), Some(index)) = (parent, index) {
                parent.add(index, branch);
            }
        }
        branches.into_values().next().expect("the start is always there")
    }
}

/// A member of the list, with its open children.
struct Branch {
    member: AnyRef,
    is_open: bool,
    children: u64,
    /// The open children, by their number among all children.
    open: BTreeMap<u64, Branch>,
    /// How many rows it has, with itself.
    rows: u64,
}

impl Branch {
    fn closed(member: AnyRef) -> Self {
        Self { member, is_open: false, children: 0, open: BTreeMap::new(), rows: 1 }
    }

    fn open(&mut self) {
        self.is_open = true;
        self.children = self.member.children_count();
        self.rows = 1 + self.children;
    }

    fn add(&mut self, index: u64, child: Branch) {
        // A child that came after the count was taken.
        self.children = self.children.max(index + 1);
        if self.open.insert(index, child).is_none() {
            self.rows = 1 + self.children + self.open.values().map(|child| child.rows - 1).sum::<u64>();
        }
    }
}

/// The rows of an answer.
struct Window {
    /// How many rows are still before the window.
    skip: u64,
    left: usize,
    rows: Vec<Row>,
}

impl Window {
    fn add_branch(&mut self, branch: &Branch, depth: u32) {
        self.add(&branch.member, depth, branch.is_open);
        if !branch.is_open || self.left == 0 {
            return;
        }
        let Some(first) = self.skip_children(branch) else { return };
        for child in branch.member.children_from(first) {
            if self.left == 0 {
                return;
            }
            match branch.open.values().find(|open| open.member == child) {
                Some(open) => self.add_branch(open, depth + 1),
                None => {
                    // The member that the window was to begin in has just ended.
                    self.skip = 0;
                    self.add(&child, depth + 1, false);
                }
            }
        }
    }

    /// Passes over children that are wholly before the window. Returns the number of the next one.
    fn skip_children(&mut self, branch: &Branch) -> Option<u64> {
        let mut next = 0;
        for (index, open) in &branch.open {
            let between = index.saturating_sub(next);
            if self.skip < between {
                break;
            }
            if self.skip < between + open.rows {
                self.skip -= between;
                return Some(*index);
            }
            self.skip -= between + open.rows;
            next = index + 1;
        }
        let left = branch.children.saturating_sub(next);
        if self.skip >= left && self.skip > 0 {
            self.skip -= left;
            return None;
        }
        Some(next + std::mem::take(&mut self.skip))
    }

    fn add(&mut self, member: &AnyRef, depth: u32, is_open: bool) {
        if self.skip > 0 {
            self.skip -= 1;
        } else if self.left > 0 {
            self.left -= 1;
            let mut member = member.info();
            member.depth = depth;
            self.rows.push(Row { depth, member, is_open });
        }
    }
}
