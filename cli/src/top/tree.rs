//! [`Tree`]: the part of the tree that was opened, read in pages of children.
//!
//! Only pages with a visible row are asked for again. A branch keeps at most [`PAGES_MAX`] pages:
//! beyond that a filter or a jump finds a member faster.

use super::feed::PAGE_LEN;
use super::rows::{RowKey, Selection};
use super::wish::PageWish;
use pleach::actor::ActorPath;
use pleach::inspect::{Cursor, MemberInfo, Snapshot};
use std::collections::{BTreeSet, HashMap};

/// How many pages of one member's children are kept.
const PAGES_MAX: usize = 100;

/// How many pages one round asks for.
const WISHES_MAX: usize = 16;

#[derive(Debug)]
pub struct Tree {
    open: BTreeSet<ActorPath>,
    branches: HashMap<ActorPath, Branch>,
    pub selection: Selection,
    /// The rows as they are shown.
    pub rows: Vec<TreeRow>,
    /// A member to select as soon as it is read.
    wanted: Option<ActorPath>,
}

/// The children of a member, as far as they were read.
#[derive(Debug, Default)]
struct Branch {
    pages: Vec<Page>,
}

#[derive(Debug)]
struct Page {
    cursor: Option<Cursor>,
    members: Vec<MemberInfo>,
    next: Option<Cursor>,
}

/// A row of the tree.
#[derive(Clone, Debug)]
pub struct TreeRow {
    pub level: usize,
    pub what: TreeItem,
    /// The page that has it: the member whose children they are, and the number.
    page: (ActorPath, usize),
}

#[derive(Clone, Debug)]
pub enum TreeItem {
    Member {
        member: Box<MemberInfo>,
        is_open: bool,
    },
    /// Further children that are not read yet. `true`: there are too many to read them all.
    More(bool),
}

impl TreeRow {
    fn key(&self) -> RowKey {
        match &self.what {
            TreeItem::Member { member, .. } => RowKey::Member(member.id),
            TreeItem::More(_) => RowKey::More(self.page.0.clone(), self.page.1),
        }
    }

    pub fn member(&self) -> Option<&MemberInfo> {
        match &self.what {
            TreeItem::Member { member, .. } => Some(member),
            TreeItem::More(_) => None,
        }
    }
}

impl Default for Tree {
    fn default() -> Self {
        let user: Option<ActorPath> = "/user".parse().ok();
        let open = [Some(ActorPath::root()), user].into_iter().flatten().collect();
        Self { open, branches: HashMap::new(), selection: Selection::default(), rows: Vec::new(), wanted: None }
    }
}

impl Tree {
    /// Returns the keys of all rows.
    pub fn keys(&self) -> Vec<RowKey> {
        self.rows.iter().map(TreeRow::key).collect()
    }

    pub fn selected(&self) -> Option<&TreeRow> {
        self.rows.get(self.selection.index)
    }

    /// Returns the pages to ask for: those with a row among the visible ones.
    pub fn wishes(&self, height: usize) -> Vec<PageWish> {
        let mut wishes: Vec<PageWish> = Vec::new();
        let visible = self.rows.iter().skip(self.selection.first).take(height);
        let pages = visible.filter(|row| !matches!(row.what, TreeItem::More(true))).map(|row| row.page.clone());
        // An open branch without rows is not read yet.
        let unread = self.open.iter().filter(|path| !self.branches.contains_key(*path)).map(|path| (path.clone(), 0));
        for (path, index) in pages.chain(unread) {
            let is_known = wishes.iter().any(|wish| wish.path == path && wish.index == index);
            if !is_known && wishes.len() < WISHES_MAX {
                wishes.push(PageWish { cursor: self.cursor(&path, index), path, index });
            }
        }
        wishes
    }

    fn cursor(&self, path: &ActorPath, index: usize) -> Option<Cursor> {
        let pages = &self.branches.get(path)?.pages;
        match pages.get(index) {
            Some(page) => page.cursor.clone(),
            None => pages.last()?.next.clone(),
        }
    }

    /// Takes the answers to wishes. `None`: the member has ended.
    pub fn apply(&mut self, answers: Vec<(PageWish, Option<Snapshot>)>) {
        for (wish, answer) in answers {
            let Some(snapshot) = answer else {
                self.branches.remove(&wish.path);
                if self.open.len() > 1 {
                    self.open.remove(&wish.path);
                }
                continue;
            };
            let branch = self.branches.entry(wish.path).or_default();
            // The member itself is the first of the first page.
            let members: Vec<_> = snapshot.members.into_iter().filter(|member| member.depth > 0).collect();
            let page = Page { cursor: wish.cursor, members, next: snapshot.next };
            if page.next.is_none() {
                branch.pages.truncate(wish.index + 1);
            }
            let read = branch.pages.len();
            if let Some(old) = branch.pages.get_mut(wish.index) {
                *old = page;
            } else if read == wish.index {
                branch.pages.push(page);
            }
        }
        self.rebuild();
    }

    /// Opens or closes the selected branch. Returns whether there was one.
    pub fn toggle(&mut self) -> bool {
        match self.selected().and_then(TreeRow::member).map(|member| (member.path.clone(), member.children)) {
            Some((path, _)) if self.open.contains(&path) => self.close(&path),
            Some((path, 1..)) => drop(self.open.insert(path)),
            _ => return false,
        }
        self.rebuild();
        true
    }

    /// Opens the selected branch, or selects its first child.
    pub fn go_in(&mut self) {
        let is_open = matches!(self.selected(), Some(TreeRow { what: TreeItem::Member { is_open: true, .. }, .. }));
        if is_open {
            self.move_by(1);
        } else {
            self.toggle();
        }
    }

    /// Closes the selected branch, or selects the member above it.
    pub fn go_out(&mut self) {
        let Some(row) = self.selected() else { return };
        if matches!(row.what, TreeItem::Member { is_open: true, .. }) {
            self.toggle();
            return;
        }
        let level = row.level;
        let above = (0..self.selection.index).rev().find(|at| self.rows[*at].level < level);
        self.selection.select(above.unwrap_or(0), &self.keys());
    }

    /// Opens everything above a member and selects it as soon as it is read.
    pub fn reveal(&mut self, wanted: ActorPath) {
        let mut above = wanted.parent();
        while let Some(path) = above {
            above = path.parent();
            self.open.insert(path);
        }
        self.wanted = Some(wanted);
        self.rebuild();
    }

    pub fn move_by(&mut self, by: isize) {
        self.wanted = None;
        self.selection.move_by(by, &self.keys());
    }

    /// Forgets everything that was read: another process answers.
    pub fn forget(&mut self) {
        self.branches.clear();
        self.rows.clear();
    }

    fn close(&mut self, path: &ActorPath) {
        self.open.remove(path);
        self.branches.remove(path);
    }

    fn rebuild(&mut self) {
        let mut rows = Vec::new();
        self.add_rows(&ActorPath::root(), 0, &mut rows);
        self.rows = rows;
        let keys = self.keys();
        self.selection.settle(&keys);
        let is_wanted = |row: &TreeRow| row.member().is_some_and(|member| Some(&member.path) == self.wanted.as_ref());
        if let Some(found) = self.rows.iter().position(is_wanted) {
            self.wanted = None;
            self.selection.select(found, &keys);
        }
    }

    fn add_rows(&self, path: &ActorPath, level: usize, rows: &mut Vec<TreeRow>) {
        let Some(branch) = self.branches.get(path) else { return };
        for (index, page) in branch.pages.iter().enumerate() {
            for member in &page.members {
                let is_open = member.children > 0 && self.open.contains(&member.path);
                let item = TreeItem::Member { member: Box::new(member.clone()), is_open };
                rows.push(TreeRow { level, what: item, page: (path.clone(), index) });
                if is_open {
                    self.add_rows(&member.path, level + 1, rows);
                }
            }
        }
        if branch.pages.last().is_some_and(|page| page.next.is_some()) {
            let is_end = branch.pages.len() >= PAGES_MAX;
            rows.push(TreeRow { level, what: TreeItem::More(is_end), page: (path.clone(), branch.pages.len()) });
        }
    }

    /// Returns how many children are read of the most that are kept.
    pub fn kept_max() -> usize {
        PAGES_MAX * PAGE_LEN
    }
}
