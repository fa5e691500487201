//! `Name`: one step of a path.
//!
//! A name of up to 22 bytes is stored in place, a longer one behind an `Arc`, and a name that nobody gave is made from the id (`$42`) and costs nothing.

use crate::ids::path::ActorId;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::hash::{Hash, Hasher};

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
    Made(u64),
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
        Self::numbered(id.get())
    }

    /// `$number`.
    pub(crate) fn numbered(number: u64) -> Self {
        Self(Text::Made(number))
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

    /// The number of the id behind a name that nobody gave, `None` for a name a user chose.
    pub(crate) fn made_from(&self) -> Option<u64> {
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

    pub(crate) fn parse(text: &str) -> Result<Self, NameError> {
        // Only as it is written: a number in another form is no id, and no name either.
        let written = |id: &&str| id.bytes().all(|byte| byte.is_ascii_digit()) && (*id == "0" || !id.starts_with('0'));
        match text.strip_prefix('$').filter(written).map(str::parse) {
            Some(Ok(id)) => Ok(Self::numbered(id)),
            _ => Self::new(text),
        }
    }
}

/// What an error shows of a name: enough to find it, never all of an overlong one.
pub(crate) fn shorten(text: &str) -> String {
    text.chars().take(40).collect()
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.made_from() {
            Some(number) => write!(f, "${number}"),
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
        let key = |name: &Self| name.made_from().map_or((1, 0), |number| (0, number));
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

#[cfg(test)]
mod tests {
    use super::*;

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
    }

    #[test]
    fn a_name_stays_within_24_bytes() {
        assert_eq!(size_of::<Name>(), 24);
        let edge = "x".repeat(INLINE_LEN_MAX);
        assert_eq!(Name::new(&edge).unwrap().given(), Some(edge.as_str()));
    }
}
