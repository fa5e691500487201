//! [`Tags`]: the key and value pairs by which runs are found.
//!
//! Invariant: a value of this type is within the limits, and no text in it is empty or contains a
//! NUL. So a store need not check it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

/// The largest number of tags of one run.
pub const TAGS_MAX: usize = 16;

/// The largest size of a tag's key in bytes.
pub const TAG_KEY_BYTES_MAX: usize = 64;

/// The largest size of a tag's value in bytes.
pub const TAG_VALUE_BYTES_MAX: usize = 256;

/// The tags of a run: up to 16 keys, each with one value.
///
/// # Examples
/// ```
/// use pleach::store::{TagError, Tags};
///
/// let mut tags = Tags::default();
/// tags.set("customer", "42")?;
/// tags.set("customer", "43")?; // replaces the value
/// assert_eq!(tags.get("customer"), Some("43"));
/// assert!(matches!(tags.set("", "x"), Err(TagError::Key { .. })));
/// # Ok::<_, TagError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct Tags(BTreeMap<String, String>);

impl Tags {
    /// Sets the value of a key. Returns whether this changed the tags.
    ///
    /// # Errors
    /// [`TagError`] if the key or the value is not valid, or if the tags are full. The tags are
    /// unchanged then.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<String>) -> Result<bool, TagError> {
        let (key, value) = (key.into(), value.into());
        check(&key, &value)?;
        if self.0.len() >= TAGS_MAX && !self.0.contains_key(&key) {
            return Err(TagError::Full { key, limit: TAGS_MAX });
        }
        let is_same = self.0.get(&key) == Some(&value);
        self.0.insert(key, value);
        Ok(!is_same)
    }

    /// Removes a key. Returns whether the tags had it.
    pub fn remove(&mut self, key: &str) -> bool {
        self.0.remove(key).is_some()
    }

    /// Returns the value of a key, if the tags have it.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Returns all keys with their values, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Returns the number of tags, at most 16.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no tags.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the stored form: a JSON object with sorted keys. `None` without tags.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(super) fn stored(&self) -> Option<String> {
        (!self.is_empty()).then(|| serde_json::to_string(&self.0).expect("strings can be serialised"))
    }

    /// Decodes the stored form. Returns `None` for a text that no version has written.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(super) fn of_stored(stored: Option<&str>) -> Option<Self> {
        let Some(stored) = stored else { return Some(Self::default()) };
        serde_json::from_str::<Self>(stored).ok().filter(|tags| !tags.is_empty())
    }
}

impl TryFrom<BTreeMap<String, String>> for Tags {
    type Error = TagError;

    fn try_from(pairs: BTreeMap<String, String>) -> Result<Self, TagError> {
        let mut tags = Self::default();
        for (key, value) in pairs {
            tags.set(key, value)?;
        }
        Ok(tags)
    }
}

impl From<Tags> for BTreeMap<String, String> {
    fn from(tags: Tags) -> Self {
        tags.0
    }
}

impl fmt::Display for Tags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (key, value)) in self.iter().enumerate() {
            write!(f, "{}{key}={value}", if number > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

fn check(key: &str, value: &str) -> Result<(), TagError> {
    let invalid_key = |reason| Err(TagError::Key { key: key.chars().take(80).collect(), reason });
    if key.is_empty() {
        return invalid_key("it is empty");
    }
    if key.contains('\0') {
        return invalid_key("it contains a NUL");
    }
    if key.len() > TAG_KEY_BYTES_MAX {
        return invalid_key("it is longer than 64 bytes");
    }
    let invalid_value = |reason| Err(TagError::Value { key: key.to_string(), size: value.len(), reason });
    if value.contains('\0') {
        return invalid_value("it contains a NUL");
    }
    if value.len() > TAG_VALUE_BYTES_MAX {
        return invalid_value("it is longer than 256 bytes");
    }
    Ok(())
}

/// A tag that a run cannot have. The tags of the run are unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TagError {
    /// The run already has the largest number of tags.
    Full {
        /// The key of the rejected tag.
        key: String,
        /// The largest number of tags.
        limit: usize,
    },
    /// The key of the tag is not valid.
    Key {
        /// The rejected key, shortened to 80 characters.
        key: String,
        /// Why the key is not valid.
        reason: &'static str,
    },
    /// The value of the tag is not valid.
    Value {
        /// The key of the rejected tag.
        key: String,
        /// The size of the value in bytes.
        size: usize,
        /// Why the value is not valid.
        reason: &'static str,
    },
}

impl fmt::Display for TagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { key, limit } => {
                write!(f, "tag {key:?} was rejected: the run already has {limit} tags; remove one first")
            }
            Self::Key { key, reason } => {
                write!(f, "the tag key {key:?} is not valid: {reason}; use 1 to {TAG_KEY_BYTES_MAX} bytes without a NUL")
            }
            Self::Value { key, size, reason } => write!(
                f,
                "the value of tag {key:?} ({size} bytes) is not valid: {reason}; use at most {TAG_VALUE_BYTES_MAX} bytes without a NUL"
            ),
        }
    }
}

impl Error for TagError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o7_tags_are_bounded_and_checked() {
        let mut tags = Tags::default();
        for number in 0..TAGS_MAX {
            assert_eq!(tags.set(format!("k{number}"), "v"), Ok(true));
        }
        assert_eq!(tags.set("k0", "v"), Ok(false), "an equal value changes nothing");
        assert_eq!(tags.set("one more", "v"), Err(TagError::Full { key: "one more".into(), limit: TAGS_MAX }));
        assert_eq!(tags.set("k3", "other"), Ok(true), "a known key can always change");
        assert!(tags.remove("k3") && !tags.remove("k3"));
        assert_eq!(tags.set("k".repeat(TAG_KEY_BYTES_MAX), "v".repeat(TAG_VALUE_BYTES_MAX)), Ok(true));
        for (key, value) in [("", "v"), ("a\0", "v"), (&*"k".repeat(65), "v"), ("k0", "\0"), ("k0", &*"v".repeat(257))] {
            assert!(tags.set(key, value).is_err(), "{key:?} {value:?}");
        }
        assert_eq!(tags.len(), TAGS_MAX);
    }
}
