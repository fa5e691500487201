//! [`Name`]: one segment of a path.
//!
//! A name of up to 22 bytes is stored inline, a longer one behind an `Arc`. The name of an unnamed
//! member is generated from its id (`$42`) and stored as a number.

use crate::base::sync::Arc;
use crate::ids::path::ActorId;
use alloc::string::String;
use core::fmt;
use core::hash::{Hash, Hasher};

/// The maximum length of a name, in bytes.
pub const NAME_LEN_MAX: usize = 128;

const INLINE_LEN_MAX: usize = 22;

/// The bytes that are valid at any position of a name: ASCII letters, digits, `-` and `_`.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        plain[byte] = (byte as u8).is_ascii_alphanumeric() || byte == b'-' as usize || byte == b'_' as usize;
        byte += 1;
    }
    plain
};

/// One segment of a path: a name that a user chose, or a generated one such as `$42`.
#[derive(Clone)]
pub struct Name(Text);

#[derive(Clone)]
enum Text {
    Generated(u64),
    Short { len: u8, bytes: [u8; INLINE_LEN_MAX] },
    Long(Arc<str>),
}

impl Name {
    /// Checks `text` and creates a name from it.
    ///
    /// # Errors
    /// Returns a [`NameError`] if `text`
    /// - is empty or only white space,
    /// - is longer than [`NAME_LEN_MAX`] bytes,
    /// - starts with `$` (reserved for generated names), or is `.` or `..`,
    /// - contains `/` or a control character, or starts or ends with white space.
    ///
    /// # Examples
    ///
    /// ```
    /// use pleach::actor::{Name, NameFault};
    ///
    /// assert_eq!(Name::new("billing").unwrap().to_string(), "billing");
    /// assert_eq!(Name::new("a/b").unwrap_err().reason, NameFault::Character);
    /// ```
    pub fn new(text: &str) -> Result<Self, NameError> {
        Self::check(text)?;
        Ok(Self::unchecked(text))
    }

    /// Like [`new`](Self::new), but only checks. Callers build the name later, in its final
    /// location.
    pub(crate) fn check(text: &str) -> Result<(), NameError> {
        // Nearly every name consists of plain bytes and is checked in one pass.
        let plain = text.bytes().fold(true, |plain, byte| plain & PLAIN[usize::from(byte)]);
        if plain && !text.is_empty() && text.len() <= NAME_LEN_MAX { Ok(()) } else { Self::check_slow(text) }
    }

    #[cold]
    fn check_slow(text: &str) -> Result<(), NameError> {
        let fault = |reason| Err(NameError { name: shorten(text), reason });
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

    /// Returns the name of a root. It is not a segment of any path.
    pub(crate) fn root() -> Self {
        Self::unchecked("")
    }

    pub(crate) fn generated(id: ActorId) -> Self {
        Self::generated_from(id.get())
    }

    /// Returns the name `$number`.
    pub(crate) fn generated_from(number: u64) -> Self {
        Self(Text::Generated(number))
    }

    /// Creates a name from text that was checked before.
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

    /// Returns the number of a generated name, or `None` for a name that a user chose.
    pub(crate) fn generated_number(&self) -> Option<u64> {
        match self.0 {
            Text::Generated(id) => Some(id),
            _ => None,
        }
    }

    /// Returns the text of a name that a user chose, or `None` for a generated one.
    pub(crate) fn given(&self) -> Option<&str> {
        self.given_bytes().and_then(|bytes| core::str::from_utf8(bytes).ok())
    }

    /// Like [`given`](Self::given), without checking that the bytes are UTF-8. This is faster for
    /// comparisons.
    pub(crate) fn given_bytes(&self) -> Option<&[u8]> {
        match &self.0 {
            Text::Generated(_) => None,
            Text::Short { len, bytes } => Some(&bytes[..usize::from(*len)]),
            Text::Long(text) => Some(text.as_bytes()),
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Self, NameError> {
        // Only the canonical form of a number is an id. Any other form, such as `$007`, is neither
        // an id nor a valid name.
        let written = |id: &&str| id.bytes().all(|byte| byte.is_ascii_digit()) && (*id == "0" || !id.starts_with('0'));
        match text.strip_prefix('$').filter(written).map(str::parse) {
            Some(Ok(id)) => Ok(Self::generated_from(id)),
            _ => Self::new(text),
        }
    }
}

/// Returns the first 40 characters of a text, for error messages.
pub(crate) fn shorten(text: &str) -> String {
    text.chars().take(40).collect()
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.generated_number() {
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
        self.generated_number() == other.generated_number() && self.given_bytes() == other.given_bytes()
    }
}

impl Eq for Name {}

/// Generated names come first, in the order of their ids.
impl Ord for Name {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        let key = |name: &Self| name.generated_number().map_or((1, 0), |number| (0, number));
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
        self.generated_number().hash(state);
        self.given_bytes().hash(state);
    }
}

/// What is wrong with a rejected name; part of [`NameError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameFault {
    /// The name is empty or only white space.
    Blank,
    /// The name has more than [`NAME_LEN_MAX`] bytes.
    TooLong,
    /// The name starts with `$`, which is reserved for generated names, or it is `.` or `..`.
    Reserved,
    /// The name contains `/` or a control character, or starts or ends with white space.
    Character,
}

/// The error for a text that is not a valid name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameError {
    /// The rejected text, cut after 40 characters.
    pub name: String,
    /// What is wrong with the name.
    pub reason: NameFault,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match self.reason {
            NameFault::Blank => write!(f, "invalid name {name:?}: it is blank; use at least one visible character"),
            NameFault::TooLong => write!(f, "invalid name {name:?}…: it is too long; use at most {NAME_LEN_MAX} bytes"),
            NameFault::Reserved => write!(f, "invalid name {name:?}: it is reserved; do not start with `$` or use `.` or `..`"),
            NameFault::Character => {
                write!(f, "invalid name {name:?}: remove `/`, control characters, and white space at either end")
            }
        }
    }
}

impl core::error::Error for NameError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_names_report_what_is_wrong() {
        let reason = |text: &str| Name::new(text).unwrap_err().reason;
        assert_eq!(reason(""), NameFault::Blank);
        assert_eq!(reason(" \t"), NameFault::Blank);
        assert_eq!(reason(&"x".repeat(NAME_LEN_MAX + 1)), NameFault::TooLong);
        assert_eq!(reason("$1"), NameFault::Reserved);
        assert_eq!(reason(".."), NameFault::Reserved);
        assert_eq!(reason("a/b"), NameFault::Character);
        assert_eq!(reason("a\nb"), NameFault::Character);
        assert_eq!(reason(" a"), NameFault::Character);
    }

    #[test]
    fn a_name_stays_within_24_bytes() {
        assert_eq!(size_of::<Name>(), 24);
        let edge = "x".repeat(INLINE_LEN_MAX);
        assert_eq!(Name::new(&edge).unwrap().given(), Some(edge.as_str()));
    }
}
