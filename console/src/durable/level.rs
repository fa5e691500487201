//! One level of a JSON text: its kind, its entries, and the way to a value by a pointer.
//!
//! Nothing is decoded but keys, so every digit of a number survives: 2^63-1, 0.1, 1e400. The cost is
//! the size of the text for each step of the pointer.

use crate::failure::Failure;
use crate::redact::Redaction;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::fmt;

/// The most entries of one answer.
pub(super) const ENTRIES_MAX: usize = 200;

/// The largest value in bytes that an entry includes.
const ENTRY_BYTES_MAX: usize = 256;

/// One level of a value: the answer of the view `value`.
#[derive(Debug, Serialize)]
pub(super) struct Level {
    kind: &'static str,
    bytes: usize,
    /// The JSON text, if it is not too large.
    text: Option<String>,
    /// The entries of an object or array, from `first` on.
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<Vec<Entry>>,
    first: u64,
    total: Option<usize>,
}

#[derive(Debug, Serialize)]
struct Entry {
    key: String,
    kind: &'static str,
    bytes: usize,
    text: Option<String>,
}

/// The largest keys and texts of the entries of one answer in bytes. Further entries are on the next
/// page.
const ENTRIES_BYTES_MAX: usize = 256 << 10;

/// The longest pointer in bytes: each step costs the size of the value.
const POINTER_BYTES_MAX: usize = 64 << 10;

/// The longest key in bytes that an entry includes whole.
const KEY_BYTES_MAX: usize = 32 << 10;

/// The members of an object or array, in the order of the text. A key that occurs twice is listed
/// twice.
#[derive(Default)]
struct Members<'a>(Vec<(Key<'a>, &'a RawValue)>);

/// The key of a member.
enum Key<'a> {
    /// A JSON string.
    Name(&'a str),
    Index(usize),
}

impl Key<'_> {
    /// Returns the text of the key. Half of a surrogate pair has no text: such a key is shown as it
    /// is written.
    fn text(&self) -> String {
        match self {
            Self::Name(json) => serde_json::from_str(json).unwrap_or_else(|_| json.trim_matches('"').to_string()),
            Self::Index(index) => index.to_string(),
        }
    }
}

impl Level {
    /// Returns the level at a pointer (RFC 6901), with entries from `first` on.
    pub(super) fn at(json: &str, pointer: &str, first: u64, text_max: usize) -> Result<Self, Failure> {
        let json = find(json, pointer)?;
        let kind = kind_of(json);
        let members = if matches!(kind, "object" | "array") { Some(members(json)?.0) } else { None };
        let entry = |(key, value): (Key<'_>, &RawValue)| {
            let (text, mut key) = (value.get(), key.text());
            if key.len() > KEY_BYTES_MAX {
                let end = (0..=KEY_BYTES_MAX).rev().find(|end| key.is_char_boundary(*end)).unwrap_or_default();
                key.truncate(end);
                key.push('…');
            }
            let (kind, bytes) = (kind_of(text), text.len());
            Entry { key, kind, bytes, text: (bytes <= ENTRY_BYTES_MAX).then(|| text.to_string()) }
        };
        let total = members.as_ref().map(Vec::len);
        let skipped = usize::try_from(first).unwrap_or(usize::MAX);
        let mut left = ENTRIES_BYTES_MAX;
        let has_room = |entry: &Entry| {
            let bytes = entry.key.len() + entry.text.as_ref().map_or(0, String::len);
            let has_room = left > 0;
            left = left.saturating_sub(bytes);
            has_room
        };
        let entries =
            members.map(|all| all.into_iter().skip(skipped).take(ENTRIES_MAX).map(entry).take_while(has_room).collect());
        let text = (json.len() <= text_max).then(|| json.to_string());
        Ok(Self { kind, bytes: json.len(), text, entries, first, total })
    }

    /// Hides what is secret because of where it stands in the whole value: by a key on the way, a
    /// label beside it, or the argument before it.
    pub(super) fn redacted(mut self, rules: &Redaction, json: &str, pointer: &str) -> Result<Self, Failure> {
        let place = rules.place_at(json, pointer);
        self.text = self.text.map(|text| rules.text_at(place, &text));
        let (part, first) = (find(json, pointer)?, usize::try_from(self.first).unwrap_or(usize::MAX));
        for (entry, place) in self.entries.iter_mut().flatten().zip(rules.entry_places(part, place).skip(first)) {
            entry.text = entry.text.take().map(|text| rules.text_at(place, &text));
        }
        Ok(self)
    }
}

/// Returns the text of the value at a pointer.
pub(super) fn find<'a>(json: &'a str, pointer: &str) -> Result<&'a str, Failure> {
    let mut found: &RawValue = serde_json::from_str(json).map_err(not_json)?;
    if pointer.is_empty() {
        return Ok(found.get());
    }
    if pointer.len() > POINTER_BYTES_MAX {
        let bytes = pointer.len();
        return Err(Failure::new("bad_request", format_args!("the pointer has {bytes} bytes; at most {POINTER_BYTES_MAX}"))
            .advice("download the value"));
    }
    let steps = pointer.strip_prefix('/').ok_or_else(|| missing(pointer))?;
    for step in steps.split('/') {
        let key = step.replace("~1", "/").replace("~0", "~");
        let Members(members) = match kind_of(found.get()) {
            "object" | "array" => members(found.get())?,
            _ => Members::default(),
        };
        // Of a key that occurs twice, the last value counts.
        found = members.into_iter().rev().find(|(known, _)| known.text() == key).ok_or_else(|| missing(pointer))?.1;
    }
    Ok(found.get())
}

/// Returns the kind of a JSON text without spaces before it.
pub(super) fn kind_of(json: &str) -> &'static str {
    match json.as_bytes().first() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "bool",
        Some(b'n') => "null",
        _ => "number",
    }
}

fn members(json: &str) -> Result<Members<'_>, Failure> {
    serde_json::from_str(json).map_err(not_json)
}

fn not_json(error: serde_json::Error) -> Failure {
    Failure::new("damaged", format_args!("the stored value is not JSON: {error}"))
}

fn missing(pointer: &str) -> Failure {
    Failure::new("not_found", format_args!("the value has nothing at {pointer:?}"))
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;

        impl<'de> Visitor<'de> for Read {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object or array")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some((key, value)) = map.next_entry::<&RawValue, &RawValue>()? {
                    all.push((Key::Name(key.get()), value));
                }
                Ok(Members(all))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(value) = array.next_element()? {
                    all.push((Key::Index(all.len()), value));
                }
                Ok(Members(all))
            }
        }

        deserializer.deserialize_any(Read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"n": 9223372036854775807, "x": 0.1, "huge": 1e400, "a/b": [1, [true, null]], "~": "t"}"#;

    #[test]
    fn k5_numbers_keep_every_digit() {
        for (pointer, kind, text) in [
            ("/n", "number", "9223372036854775807"),
            ("/x", "number", "0.1"),
            ("/huge", "number", "1e400"),
            ("/a~1b/1/0", "bool", "true"),
            ("/~0", "string", "\"t\""),
        ] {
            let level = Level::at(JSON, pointer, 0, 100).unwrap();
            assert_eq!((level.kind, level.text.as_deref()), (kind, Some(text)), "{pointer}");
        }
        assert_eq!(Level::at(JSON, "/none", 0, 9).unwrap_err().code, "not_found");
        assert_eq!(Level::at(JSON, "/n/0", 0, 9).unwrap_err().code, "not_found");
        assert_eq!(Level::at("{", "", 0, 9).unwrap_err().code, "damaged");
    }

    #[test]
    fn k5_large_levels_are_returned_in_parts() {
        let items: Vec<String> = (0..1_000).map(|n| n.to_string()).collect();
        let json = format!("{{\"items\":[{}]}}", items.join(","));
        let level = Level::at(&json, "/items", 900, 100).unwrap();
        assert_eq!((level.total, level.text, level.bytes), (Some(1_000), None, json.len() - 10));
        let entries = level.entries.unwrap();
        assert_eq!((entries.len(), entries[0].key.as_str(), entries[0].text.as_deref()), (100, "900", Some("900")));
        let outer = Level::at(&json, "", 0, 100).unwrap().entries.unwrap();
        assert_eq!((outer[0].kind, outer[0].text.as_deref()), ("array", None), "too large for an entry");
    }

    #[test]
    fn k5_order_and_repeated_keys_are_kept() {
        let level = Level::at(r#"{"b":1,"a":2,"b":3}"#, "", 0, 100).unwrap();
        let keys: Vec<String> = level.entries.unwrap().into_iter().map(|entry| entry.key).collect();
        assert_eq!(keys, ["b", "a", "b"]);
        assert_eq!(find(r#"{"b":1,"a":2,"b":3}"#, "/b").unwrap(), "3");
    }
}
