//! [`JsonPatch`]: the difference of two JSON texts, as RFC 6902 describes it.
//!
//! Numbers are compared and copied as text, never as floats, so integers of any size and decimals
//! of any precision stay exact. Only values whose text differs are parsed, level by level.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

/// The deepest nesting that is compared. A deeper difference replaces the value at this depth.
const DEPTH_MAX: usize = 128;

/// A JSON patch (RFC 6902): the operations that turn one JSON value into another.
///
/// Numbers are exact: they are copied as text. Objects are compared by key; if a key occurs twice,
/// the last value counts. Arrays are compared by position after their equal starts and ends, so an
/// insertion in the middle of an array of different elements is not minimal.
///
/// Cost of [`between`](Self::between): the size of both texts for each level of nesting in which
/// they differ. The patch has at most one operation for each value of both texts.
///
/// ```
/// use pleach::durable::JsonPatch;
///
/// let patch = JsonPatch::between(r#"{"n": 9223372036854775807, "tags": ["a"]}"#, r#"{"n": 9223372036854775808, "tags": []}"#)?;
/// assert_eq!(
///     serde_json::to_string(&patch)?,
///     r#"[{"op":"replace","path":"/n","value":9223372036854775808},{"op":"remove","path":"/tags/0"}]"#
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JsonPatch {
    /// The operations, to be applied in order.
    pub operations: Vec<PatchOperation>,
}

/// One operation of a [`JsonPatch`]. A path is a JSON pointer (RFC 6901).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase", from = "AnyOperation")]
#[non_exhaustive]
pub enum PatchOperation {
    /// Adds a value to an object, or inserts it into an array.
    Add {
        /// Where the value is added; `-` as the last step means the end of an array.
        path: String,
        /// The JSON text of the value.
        value: Box<RawValue>,
    },
    /// Removes the value at a path.
    Remove {
        /// The path of the removed value.
        path: String,
    },
    /// Replaces the value at a path.
    Replace {
        /// The path of the replaced value; empty for the whole document.
        path: String,
        /// The JSON text of the new value.
        value: Box<RawValue>,
    },
    /// An operation that this version does not apply: `move`, `copy` or `test`.
    #[serde(skip_serializing)]
    Other {
        /// The name of the operation.
        name: String,
    },
}

/// The stored form of an operation. A tagged enum cannot contain a raw value when it is read.
#[derive(Deserialize)]
struct AnyOperation {
    op: String,
    path: String,
    #[serde(default, deserialize_with = "present")]
    value: Option<Box<RawValue>>,
}

/// Decodes a present `null` as a value.
fn present<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(value).map(Some)
}

impl From<AnyOperation> for PatchOperation {
    fn from(AnyOperation { op, path, value }: AnyOperation) -> Self {
        match (op.as_str(), value) {
            ("add", Some(value)) => Self::Add { path, value },
            ("replace", Some(value)) => Self::Replace { path, value },
            ("remove", _) => Self::Remove { path },
            _ => Self::Other { name: op },
        }
    }
}

/// Returns whether two JSON strings have the same text. One with half of a surrogate pair has none.
fn is_same_text(old: &str, new: &str) -> bool {
    let text = |json| serde_json::from_str::<String>(json).ok();
    text(old).is_some_and(|old| Some(old) == text(new))
}

impl JsonPatch {
    /// Returns the patch that turns the JSON text `before` into `after`. It is empty if both have
    /// the same values.
    ///
    /// # Errors
    /// One of the texts is not JSON.
    pub fn between(before: &str, after: &str) -> Result<Self, serde_json::Error> {
        let (before, after): (&RawValue, &RawValue) = (serde_json::from_str(before)?, serde_json::from_str(after)?);
        let mut patch = Self::default();
        patch.compare(before, after, &mut String::new(), 0)?;
        Ok(patch)
    }

    /// Returns whether the patch changes nothing.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Applies the patch to a JSON text. Keys of changed objects are sorted.
    ///
    /// # Errors
    /// [`PatchError`] if the text is not JSON, or an operation does not fit it.
    pub fn apply(&self, json: &str) -> Result<String, PatchError> {
        let mut document = JsonNode::Raw(serde_json::from_str(json).map_err(PatchError::Json)?);
        for operation in &self.operations {
            document.apply(operation)?;
        }
        let mut text = String::with_capacity(json.len());
        document.write(&mut text);
        Ok(text)
    }

    fn compare(
        &mut self,
        before: &RawValue,
        after: &RawValue,
        path: &mut String,
        depth: usize,
    ) -> Result<(), serde_json::Error> {
        let (old, new) = (before.get(), after.get());
        if old == new {
            return Ok(());
        }
        match (kind(old), kind(new)) {
            (b'{', b'{') if depth < DEPTH_MAX => self.compare_objects(old, new, path, depth),
            (b'[', b'[') if depth < DEPTH_MAX => self.compare_arrays(old, new, path, depth),
            (b'"', b'"') if is_same_text(old, new) => Ok(()),
            _ => {
                self.operations.push(PatchOperation::Replace { path: path.clone(), value: after.to_owned() });
                Ok(())
            }
        }
    }

    fn compare_objects(&mut self, old: &str, new: &str, path: &mut String, depth: usize) -> Result<(), serde_json::Error> {
        let members = |json| serde_json::from_str::<BTreeMap<String, &RawValue>>(json);
        let (Ok(old), Ok(new)) = (members(old), members(new)) else {
            // A key has half of a surrogate pair, so no path can name it.
            let value = RawValue::from_string(new.to_string())?;
            self.operations.push(PatchOperation::Replace { path: path.clone(), value });
            return Ok(());
        };
        let length = path.len();
        for key in old.keys().filter(|key| !new.contains_key(*key)) {
            push_step(path, key);
            self.operations.push(PatchOperation::Remove { path: path.clone() });
            path.truncate(length);
        }
        for (key, after) in new {
            push_step(path, &key);
            match old.get(&key) {
                Some(before) => self.compare(before, after, path, depth + 1)?,
                None => self.operations.push(PatchOperation::Add { path: path.clone(), value: after.to_owned() }),
            }
            path.truncate(length);
        }
        Ok(())
    }

    fn compare_arrays(&mut self, old: &str, new: &str, path: &mut String, depth: usize) -> Result<(), serde_json::Error> {
        let (old, new): (Vec<&RawValue>, Vec<&RawValue>) = (serde_json::from_str(old)?, serde_json::from_str(new)?);
        let is_equal = |(one, other): &(&&RawValue, &&RawValue)| one.get() == other.get();
        let start = old.iter().zip(&new).take_while(is_equal).count();
        let (old, new) = (&old[start..], &new[start..]);
        let end = old.iter().rev().zip(new.iter().rev()).take_while(is_equal).count();
        let (old, new) = (&old[..old.len() - end], &new[..new.len() - end]);
        let (both, length) = (old.len().min(new.len()), path.len());
        for at in 0..both {
            push_step(path, &(start + at).to_string());
            self.compare(old[at], new[at], path, depth + 1)?;
            path.truncate(length);
        }
        // From the end, so that each index is still valid when it is removed.
        for at in (both..old.len()).rev() {
            push_step(path, &(start + at).to_string());
            self.operations.push(PatchOperation::Remove { path: path.clone() });
            path.truncate(length);
        }
        for (at, value) in new.iter().enumerate().skip(both) {
            push_step(path, &(start + at).to_string());
            self.operations.push(PatchOperation::Add { path: path.clone(), value: (*value).to_owned() });
            path.truncate(length);
        }
        Ok(())
    }
}

/// Returns the first byte of a JSON value, which tells its kind.
fn kind(json: &str) -> u8 {
    json.as_bytes().first().copied().unwrap_or(b'n')
}

/// Appends a step to a JSON pointer.
fn push_step(path: &mut String, step: &str) {
    path.push('/');
    for part in step.chars() {
        match part {
            '~' => path.push_str("~0"),
            '/' => path.push_str("~1"),
            part => path.push(part),
        }
    }
}

/// A document during [`JsonPatch::apply`]. Only the values on the paths of operations are parsed.
enum JsonNode {
    Raw(Box<RawValue>),
    Array(Vec<JsonNode>),
    Object(BTreeMap<String, JsonNode>),
}

impl JsonNode {
    fn apply(&mut self, operation: &PatchOperation) -> Result<(), PatchError> {
        let (path, value) = match operation {
            PatchOperation::Add { path, value } | PatchOperation::Replace { path, value } => (path, Some(value)),
            PatchOperation::Remove { path } => (path, None),
            PatchOperation::Other { name } => return Err(PatchError::Unknown { operation: name.clone() }),
        };
        let misfit = || PatchError::Misfit { path: path.clone() };
        let Some((above, last)) = path.rsplit_once('/') else {
            let whole = value.filter(|_| path.is_empty()).ok_or_else(misfit)?;
            *self = Self::Raw(whole.clone());
            return Ok(());
        };
        let mut at = self;
        for step in above.split('/').skip(1) {
            at = at.step(&unescaped(step)).ok_or_else(misfit)?;
        }
        let (last, is_add) = (unescaped(last), matches!(operation, PatchOperation::Add { .. }));
        let value = value.map(|value| Self::Raw(value.clone()));
        match (at.parsed().ok_or_else(misfit)?, value) {
            (Self::Object(entries), Some(value)) if is_add || entries.contains_key(&last) => drop(entries.insert(last, value)),
            (Self::Object(entries), None) => drop(entries.remove(&last).ok_or_else(misfit)?),
            (Self::Array(items), Some(value)) if is_add => {
                let index = if last == "-" { Some(items.len()) } else { index(&last) };
                items.insert(index.filter(|index| *index <= items.len()).ok_or_else(misfit)?, value);
            }
            (Self::Array(items), value) => {
                let index = index(&last).filter(|index| *index < items.len()).ok_or_else(misfit)?;
                match value {
                    Some(value) => items[index] = value,
                    None => drop(items.remove(index)),
                }
            }
            _ => return Err(misfit()),
        }
        Ok(())
    }

    /// Parses one level of this value, if it is an array or an object.
    fn parsed(&mut self) -> Option<&mut Self> {
        if let Self::Raw(raw) = self {
            *self = match kind(raw.get()) {
                b'{' => {
                    let entries: BTreeMap<String, Box<RawValue>> = serde_json::from_str(raw.get()).ok()?;
                    Self::Object(entries.into_iter().map(|(key, value)| (key, Self::Raw(value))).collect())
                }
                b'[' => {
                    let items: Vec<Box<RawValue>> = serde_json::from_str(raw.get()).ok()?;
                    Self::Array(items.into_iter().map(Self::Raw).collect())
                }
                _ => return None,
            };
        }
        Some(self)
    }

    fn step(&mut self, step: &str) -> Option<&mut Self> {
        match self.parsed()? {
            Self::Object(entries) => entries.get_mut(step),
            Self::Array(items) => items.get_mut(index(step)?),
            Self::Raw(_) => None,
        }
    }

    fn write(&self, text: &mut String) {
        match self {
            Self::Raw(raw) => text.push_str(raw.get()),
            Self::Array(items) => {
                text.push('[');
                for (at, item) in items.iter().enumerate() {
                    text.push_str(if at == 0 { "" } else { "," });
                    item.write(text);
                }
                text.push(']');
            }
            Self::Object(entries) => {
                text.push('{');
                for (at, (key, value)) in entries.iter().enumerate() {
                    text.push_str(if at == 0 { "" } else { "," });
                    text.push_str(&serde_json::Value::from(key.as_str()).to_string());
                    text.push(':');
                    value.write(text);
                }
                text.push('}');
            }
        }
    }
}

fn unescaped(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// Parses an index of an array. RFC 6901 allows no leading zeros.
fn index(step: &str) -> Option<usize> {
    let is_plain = step == "0" || (!step.starts_with('0') && step.bytes().all(|byte| byte.is_ascii_digit()));
    if is_plain { step.parse().ok() } else { None }
}

/// A patch could not be applied to a JSON text.
#[derive(Debug)]
#[non_exhaustive]
pub enum PatchError {
    /// The text that should be changed is not JSON.
    Json(serde_json::Error),
    /// The text has no value at this path, or one of another kind.
    Misfit {
        /// The path of the operation that does not fit.
        path: String,
    },
    /// The patch has an operation that this version does not apply.
    Unknown {
        /// The name of the operation.
        operation: String,
    },
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "the text is not JSON: {error}"),
            Self::Misfit { path } => write!(f, "the patch does not fit the text at {path:?}; it was made for another value"),
            Self::Unknown { operation } => {
                write!(f, "the patch operation {operation:?} is not supported; use add, remove and replace")
            }
        }
    }
}

impl Error for PatchError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Json(error) => Some(error),
            _ => None,
        }
    }
}
