//! `ActorId`, `Name` and `ActorPath`: who something in the tree is, and where.
//!
//! A name of up to 22 bytes is stored in place, a longer one behind an `Arc`, and a name that nobody gave is made from the id
//! (`$42`) and costs nothing. A path goes from the root, and its text parses back to the same path.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::str::FromStr;

/// The identity of one thing in the tree. Ids count up within a system and are never reused, not even after a restart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActorId(pub(crate) u64);

impl ActorId {
    /// The id as a number, for logs and metrics.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl fmt::Display for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The longest name in bytes.
pub const NAME_LEN_MAX: usize = 128;

const INLINE_LEN_MAX: usize = 22;

/// The bytes of which most names are made, and which stand in any place of one: letters, digits, `-` and `_`.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        plain[byte] = (byte as u8).is_ascii_alphanumeric() || byte == b'-' as usize || byte == b'_' as usize;
        byte += 1;
    }
    plain
};

/// One step of a path: a name given by a user, or one made from the id of whatever was not named.
#[derive(Clone)]
pub struct Name(Text);

#[derive(Clone)]
enum Text {
    Made(ActorId),
    Short { len: u8, bytes: [u8; INLINE_LEN_MAX] },
    Long(Arc<str>),
}

impl Name {
    /// Checks a name a user gives: not blank, at most [`NAME_LEN_MAX`] bytes, no `/`, no control characters, no space at either
    /// end, and neither `.`, `..` nor a first `$`, which is kept for names that nobody gave.
    pub fn new(text: &str) -> Result<Self, NameError> {
        Self::check(text)?;
        Ok(Self::unchecked(text))
    }

    /// As [`new`](Self::new), for whoever makes the name later, where it stays.
    pub(crate) fn check(text: &str) -> Result<(), NameError> {
        // Nearly every name is of this kind, and is checked in one pass over its bytes.
        let plain = text.bytes().fold(true, |plain, byte| plain & PLAIN[usize::from(byte)]);
        if plain && !text.is_empty() && text.len() <= NAME_LEN_MAX { Ok(()) } else { Self::check_closely(text) }
    }

    #[cold]
    fn check_closely(text: &str) -> Result<(), NameError> {
        let fault = |why| Err(NameError { name: shorten(text), why });
        if text.trim().is_empty() {
            return fault(NameFault::Blank);
        }
        if text.len() > NAME_LEN_MAX {
            return fault(NameFault::TooLong);
        }
        if text.starts_with('$') || text == "." || text == ".." {
            return fault(NameFault::Reserved);
        }
        if text.contains('/') || text.chars().any(char::is_control) || text.trim() != text {
            return fault(NameFault::Character);
        }
        Ok(())
    }

    /// The name of a root, which is no step of any path.
    pub(crate) fn root() -> Self {
        Self::unchecked("")
    }

    pub(crate) fn made(id: ActorId) -> Self {
        Self(Text::Made(id))
    }

    /// A name that has been checked.
    #[inline]
    pub(crate) fn unchecked(text: &str) -> Self {
        let len = text.len();
        if len > INLINE_LEN_MAX {
            return Self(Text::Long(text.into()));
        }
        let mut bytes = [0; INLINE_LEN_MAX];
        bytes[..len].copy_from_slice(text.as_bytes());
        Self(Text::Short { len: len as u8, bytes })
    }

    pub(crate) fn is_root(&self) -> bool {
        matches!(self.0, Text::Short { len: 0, .. })
    }

    /// The id behind a name that nobody gave, `None` for a name a user chose.
    pub(crate) fn made_from(&self) -> Option<ActorId> {
        match self.0 {
            Text::Made(id) => Some(id),
            _ => None,
        }
    }

    /// The text of a name a user chose, `None` for one made from an id.
    pub(crate) fn given(&self) -> Option<&str> {
        self.given_bytes().and_then(|bytes| core::str::from_utf8(bytes).ok())
    }

    /// As [`given`](Self::given), for whoever only compares: reading the bytes as text takes a pass over them.
    pub(crate) fn given_bytes(&self) -> Option<&[u8]> {
        match &self.0 {
            Text::Made(_) => None,
            Text::Short { len, bytes } => Some(&bytes[..usize::from(*len)]),
            Text::Long(text) => Some(text.as_bytes()),
        }
    }

    fn parse(text: &str) -> Result<Self, NameError> {
        // Only as it is written: a number in another form is no id, and no name either.
        let written = |id: &&str| id.bytes().all(|byte| byte.is_ascii_digit()) && (*id == "0" || !id.starts_with('0'));
        match text.strip_prefix('$').filter(written).map(str::parse) {
            Some(Ok(id)) => Ok(Self::made(ActorId(id))),
            _ => Self::new(text),
        }
    }
}

/// What an error shows of a name: enough to find it, never all of an overlong one.
fn shorten(text: &str) -> String {
    text.chars().take(40).collect()
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.made_from() {
            Some(id) => write!(f, "${}", id.0),
            None => f.write_str(self.given().unwrap_or_default()),
        }
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.made_from() == other.made_from() && self.given_bytes() == other.given_bytes()
    }
}

impl Eq for Name {}

/// Names that nobody gave come first, in the order of their ids.
impl Ord for Name {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        let key = |name: &Self| name.made_from().map_or((1, ActorId(0)), |id| (0, id));
        key(self).cmp(&key(other)).then_with(|| self.given_bytes().cmp(&other.given_bytes()))
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, text: &str) -> bool {
        Self::parse(text).is_ok_and(|name| name == *self)
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, text: &&str) -> bool {
        *self == **text
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.made_from().hash(state);
        self.given_bytes().hash(state);
    }
}

/// Why a name was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameFault {
    /// It is empty or only white space.
    Blank,
    /// It has more than [`NAME_LEN_MAX`] bytes.
    TooLong,
    /// It begins with `$`, which is kept for names that nobody gave, or it is `.` or `..`.
    Reserved,
    /// It contains `/` or a control character, or begins or ends with a space.
    Character,
}

/// A name that cannot stand in a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameError {
    /// The name, cut after 40 characters.
    pub name: String,
    /// What is wrong with it.
    pub why: NameFault,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match self.why {
            NameFault::Blank => write!(f, "the name {name:?} is blank: give it at least one visible character"),
            NameFault::TooLong => write!(f, "the name {name:?}… is too long: use at most {NAME_LEN_MAX} bytes"),
            NameFault::Reserved => write!(f, "the name {name:?} is reserved: do not begin with `$`, nor use `.` or `..`"),
            NameFault::Character => {
                write!(f, "the name {name:?} has a `/`, a control character or a space at one end: leave them out")
            }
        }
    }
}

impl core::error::Error for NameError {}

/// Where something stands in the tree, from the root down: `/user/crew/budget`.
///
/// A path may name the machine it is on (`//node-7/user/crew`); a path without one is local. Cloning is cheap.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ActorPath {
    node: Option<Name>,
    steps: Arc<[Name]>,
}

impl ActorPath {
    /// The root, `/`.
    pub fn root() -> Self {
        Self::default()
    }

    pub(crate) fn from_steps(steps: Arc<[Name]>) -> Self {
        Self { node: None, steps }
    }

    /// The path of a child called `name`.
    #[must_use]
    pub fn push_child(&self, name: Name) -> Self {
        let steps = self.steps.iter().cloned().chain([name]).collect();
        Self { node: self.node.clone(), steps }
    }

    /// The path one step up, `None` at the root.
    pub fn parent(&self) -> Option<Self> {
        let (_, above) = self.steps.split_last()?;
        Some(Self { node: self.node.clone(), steps: above.into() })
    }

    /// The last step, `None` at the root.
    pub fn last(&self) -> Option<&Name> {
        self.steps.last()
    }

    /// The steps from the root down.
    pub fn steps(&self) -> &[Name] {
        &self.steps
    }

    /// The machine this path is on, `None` for a local one.
    pub fn node(&self) -> Option<&Name> {
        self.node.as_ref()
    }

    /// The same path on the machine called `node`.
    #[must_use]
    pub fn on_node(mut self, node: Name) -> Self {
        self.node = Some(node);
        self
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
        if self.steps.is_empty() {
            return f.write_str("/");
        }
        self.steps.iter().try_for_each(|step| write!(f, "/{step}"))
    }
}

impl fmt::Debug for ActorPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathError {
    /// It does not begin with `/`.
    NotFromRoot(String),
    /// One of its steps is no name.
    Step(NameError),
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFromRoot(text) => write!(f, "the path {text:?} does not begin at the root: begin it with `/`"),
            Self::Step(error) => write!(f, "a step of the path cannot stand: {error}"),
        }
    }
}

impl core::error::Error for PathError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::NotFromRoot(_) => None,
            Self::Step(error) => Some(error),
        }
    }
}

impl FromStr for ActorPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let parse = |step: &str| Name::parse(step).map_err(PathError::Step);
        let (node, local) = match text.strip_prefix("//") {
            Some(rest) => {
                let (node, local) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
                (Some(parse(node)?), local)
            }
            None => (None, text),
        };
        let steps = local.strip_prefix('/').ok_or_else(|| PathError::NotFromRoot(shorten(text)))?;
        if steps.is_empty() {
            return Ok(Self { node, steps: Arc::default() });
        }
        let steps = steps.split('/').map(parse).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { node, steps: steps.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;

    fn path(text: &str) -> ActorPath {
        text.parse().unwrap()
    }

    #[test]
    fn a19_a_path_parses_back_from_its_text() {
        for text in ["/", "/user", "/user/crew/budget", "/user/$42", "//node-7/user/a", "//node-7/", "/user/a name 多"] {
            assert_eq!(path(text).to_string(), text);
            assert_eq!(path(&path(text).to_string()), path(text));
        }
        for text in ["/$+5", "/$007", "/$00", "/$-1", "/$ 5", "/$", "/$99999999999999999999"] {
            let refused = text.parse::<ActorPath>();
            assert!(matches!(&refused, Err(PathError::Step(error)) if error.why == NameFault::Reserved), "{text}: {refused:?}");
        }
        assert_eq!(path("/$0").to_string(), "/$0");
        let long = "x".repeat(NAME_LEN_MAX);
        assert_eq!(path(&format!("/{long}")).last().unwrap().to_string(), long);
    }

    #[test]
    fn a19_push_child_parent_and_last_walk_the_path() {
        let crew = ActorPath::root().push_child(Name::new("user").unwrap()).push_child(Name::new("crew").unwrap());
        assert_eq!(crew, path("/user/crew"));
        assert_eq!(*crew.last().unwrap(), "crew");
        assert_eq!(crew, "/user/crew");
        assert!(crew != "/user/crew/" && crew < path("/user/cruise"));
        assert_eq!(crew.parent(), Some(path("/user")));
        assert_eq!(path("/user").parent(), Some(ActorPath::root()));
        assert_eq!(ActorPath::root().parent(), None);
        assert_eq!(ActorPath::root().last(), None);
    }

    #[test]
    fn bad_names_are_refused_with_what_is_wrong() {
        let why = |text: &str| Name::new(text).unwrap_err().why;
        assert_eq!(why(""), NameFault::Blank);
        assert_eq!(why(" \t"), NameFault::Blank);
        assert_eq!(why(&"x".repeat(NAME_LEN_MAX + 1)), NameFault::TooLong);
        assert_eq!(why("$1"), NameFault::Reserved);
        assert_eq!(why(".."), NameFault::Reserved);
        assert_eq!(why("a/b"), NameFault::Character);
        assert_eq!(why("a\nb"), NameFault::Character);
        assert_eq!(why(" a"), NameFault::Character);
        assert!("user".parse::<ActorPath>().is_err());
        assert!("/user//a".parse::<ActorPath>().is_err());
        assert!("/$x".parse::<ActorPath>().is_err());
    }

    #[test]
    fn a_name_stays_within_24_bytes() {
        assert_eq!(size_of::<Name>(), 24);
        let edge = "x".repeat(INLINE_LEN_MAX);
        assert_eq!(Name::new(&edge).unwrap().given(), Some(edge.as_str()));
    }
}
