//! [`ActorId`] and [`ActorPath`]: the identity and the location of a member of a tree.
//!
//! A path starts at the root. Parsing the text of a path gives the same path.

use crate::base::sync::Arc;
use crate::ids::name::{Name, NameError, shorten};
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::str::FromStr;

/// The identity of one member of a tree, unique in the process. Ids of two systems are never equal.
///
/// The number counts up within a tree and is never reused. An actor keeps its id when it restarts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActorId {
    // Compared first: within one tree ids sort by age, the same in every process.
    number: u64,
    tree: usize,
}

impl ActorId {
    /// Creates the `number`th id of the tree with the number `tree`. Every tree of a process has a
    /// different number.
    #[inline]
    pub(crate) fn new(tree: usize, number: u64) -> Self {
        Self { number, tree }
    }

    /// Returns the number within the tree, for logs and metrics. Two systems use the same numbers.
    pub fn get(self) -> u64 {
        self.number
    }
}

impl fmt::Debug for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.number)
    }
}

impl fmt::Display for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The location of a member, from the root down: `/user/workers/budget`.
///
/// A path may name the machine it is on (`//node-7/user/workers`); a path without one is local.
/// Cloning copies an `Arc` and the machine name.
///
/// # Examples
///
/// ```
/// use pleach::actor::ActorPath;
///
/// let path: ActorPath = "/user/workers/budget".parse().unwrap();
/// assert_eq!(path.parent().unwrap(), "/user/workers");
/// assert_eq!(*path.last().unwrap(), "budget");
/// ```
#[derive(Clone, Default)]
pub struct ActorPath {
    node: Option<Name>,
    /// The segments of this path and possibly more: paths of one branch share the slice.
    steps: Arc<[Name]>,
    /// How many of the segments belong to this path.
    depth: usize,
}

impl ActorPath {
    /// Returns the path of the root, `/`.
    pub fn root() -> Self {
        Self::default()
    }

    pub(crate) fn from_segments(steps: Arc<[Name]>) -> Self {
        Self { node: None, depth: steps.len(), steps }
    }

    /// Returns the path of a child with this name.
    #[must_use]
    pub fn push_child(&self, name: Name) -> Self {
        let steps: Arc<[Name]> = self.segments().iter().cloned().chain([name]).collect();
        Self { node: self.node.clone(), depth: steps.len(), steps }
    }

    /// Returns the path of the parent, or `None` at the root.
    pub fn parent(&self) -> Option<Self> {
        let depth = self.depth.checked_sub(1)?;
        Some(Self { node: self.node.clone(), steps: Arc::clone(&self.steps), depth })
    }

    /// Returns the last segment, or `None` at the root.
    pub fn last(&self) -> Option<&Name> {
        self.segments().last()
    }

    /// Returns the segments, from the root down.
    pub fn segments(&self) -> &[Name] {
        &self.steps[..self.depth]
    }

    /// Returns the machine that this path names, or `None` for a local path.
    pub fn node(&self) -> Option<&Name> {
        self.node.as_ref()
    }

    /// Returns the same path on the machine with the name `node`.
    #[must_use]
    pub fn on_node(mut self, node: Name) -> Self {
        self.node = Some(node);
        self
    }
}

impl PartialEq for ActorPath {
    fn eq(&self, other: &Self) -> bool {
        self.node == other.node && self.segments() == other.segments()
    }
}

impl Eq for ActorPath {}

impl PartialOrd for ActorPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ActorPath {
    fn cmp(&self, other: &Self) -> Ordering {
        (&self.node, self.segments()).cmp(&(&other.node, other.segments()))
    }
}

impl Hash for ActorPath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.node, self.segments()).hash(state);
    }
}

impl PartialEq<str> for ActorPath {
    fn eq(&self, text: &str) -> bool {
        text.parse::<Self>().is_ok_and(|path| path == *self)
    }
}

impl PartialEq<&str> for ActorPath {
    fn eq(&self, text: &&str) -> bool {
        *self == **text
    }
}

impl fmt::Display for ActorPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(node) = &self.node {
            write!(f, "//{node}")?;
        }
        if self.depth == 0 {
            return f.write_str("/");
        }
        self.segments().iter().try_for_each(|step| write!(f, "/{step}"))
    }
}

impl fmt::Debug for ActorPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The error for a text that is not a valid path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathError {
    /// The text does not start with `/`.
    NotFromRoot(String),
    /// One segment is not a valid name.
    Segment(NameError),
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFromRoot(text) => write!(f, "invalid path {text:?}: a path must start with `/`"),
            Self::Segment(error) => write!(f, "invalid path segment: {error}"),
        }
    }
}

impl core::error::Error for PathError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::NotFromRoot(_) => None,
            Self::Segment(error) => Some(error),
        }
    }
}

impl FromStr for ActorPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let parse = |step: &str| Name::parse(step).map_err(PathError::Segment);
        let (node, local) = match text.strip_prefix("//") {
            Some(rest) => {
                let (node, local) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
                (Some(parse(node)?), local)
            }
            None => (None, text),
        };
        let steps = local.strip_prefix('/').ok_or_else(|| PathError::NotFromRoot(shorten(text)))?;
        if steps.is_empty() {
            return Ok(Self { node, ..Self::default() });
        }
        let steps = steps.split('/').map(parse).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { node, depth: steps.len(), steps: steps.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::name::{NAME_LEN_MAX, NameFault};
    use alloc::format;
    use alloc::string::ToString;

    fn path(text: &str) -> ActorPath {
        text.parse().unwrap()
    }

    #[test]
    fn a19_a_path_parses_back_from_its_text() {
        for text in ["/", "/user", "/user/workers/budget", "/user/$42", "//node-7/user/a", "//node-7/", "/user/a name 多"] {
            assert_eq!(path(text).to_string(), text);
            assert_eq!(path(&path(text).to_string()), path(text));
        }
        for text in ["/$+5", "/$007", "/$00", "/$-1", "/$ 5", "/$", "/$99999999999999999999"] {
            let refused = text.parse::<ActorPath>();
            assert!(
                matches!(&refused, Err(PathError::Segment(error)) if error.reason == NameFault::Reserved),
                "{text}: {refused:?}"
            );
        }
        for text in ["user", "/user//a", "/$x"] {
            assert!(text.parse::<ActorPath>().is_err(), "{text}");
        }
        assert_eq!(path("/$0").to_string(), "/$0");
        let long = "x".repeat(NAME_LEN_MAX);
        assert_eq!(path(&format!("/{long}")).last().unwrap().to_string(), long);
    }

    #[test]
    fn a19_push_child_parent_and_last_walk_the_path() {
        let workers = ActorPath::root().push_child(Name::new("user").unwrap()).push_child(Name::new("workers").unwrap());
        assert_eq!(workers, path("/user/workers"));
        assert_eq!(*workers.last().unwrap(), "workers");
        assert_eq!(workers, "/user/workers");
        assert!(workers != "/user/workers/" && workers < path("/user/workshop"));
        assert_eq!(workers.parent(), Some(path("/user")));
        assert_eq!(path("/user").parent(), Some(ActorPath::root()));
        assert_eq!(ActorPath::root().parent(), None);
        // The parent path shares the slice; a child of it gets its own.
        let user = workers.parent().unwrap();
        assert_eq!((user.segments().len(), user.last()), (1, path("/user").last()));
        assert_eq!(user.push_child(Name::new("other").unwrap()), path("/user/other"));
        assert!(user < workers && user.cmp(&path("/user")).is_eq() && user != workers);
        let all = std::collections::HashSet::from([user, path("/user"), workers.parent().unwrap(), workers]);
        assert_eq!(all.len(), 2);
        assert_eq!(ActorPath::root().last(), None);
    }
}
