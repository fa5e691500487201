//! Reports about stored runs as JSON: one set of builders for the `pleach` command and the console.
//!
//! | module | builds |
//! |---|---|
//! | [`info`], [`show`], [`list`], [`groups`] | rows of runs, one run, pages and counts of runs |
//! | [`history`], [`state`], [`preview`] | records, states and their differences, what would run again |
//! | [`why`] | why a run is where it is, and what to do |
//! | [`check`] | which runs a new program would not serve |
//! | [`store`] | [`NamedStore`]: an open store, and the text by which commands name it |
//! | [`command`], [`explanation`], [`escape`], [`text`], [`times`] | command lines, sentences, texts and times |
//!
//! `docs/cli.md` lists the fields of each object. Rules:
//! 1. Every object has a `version`. Fields are only added.
//! 2. Values of the program are never parsed, so every digit survives; see [`Values`].
//! 3. A builder only reads.

pub mod check;
pub mod command;
pub mod escape;
pub mod explanation;
pub mod groups;
pub mod history;
pub mod info;
pub mod list;
pub mod preview;
pub mod show;
pub mod state;
pub mod store;
pub mod text;
pub mod times;
pub mod why;

pub use explanation::Explanation;
pub use store::NamedStore;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// The version of the JSON objects. A change that breaks a reader raises it.
pub const JSON_VERSION: u32 = 1;

/// The largest value in bytes that the console includes in an answer: 64 KiB.
pub const VALUE_BYTES_MAX: usize = 64 << 10;

/// The field `version` of every object.
#[derive(Clone, Copy, Debug)]
pub struct Version;

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(JSON_VERSION)
    }
}

/// How values of the program, such as states and questions, are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// As JSON inside the object, as it is stored. The command writes them so.
    Inline,
    /// As a string with the JSON text, or as `{"left_out": BYTES}` above this many bytes. The
    /// console writes them so, because a browser would round large numbers.
    Text(usize),
}

/// A value of the program, to be written as [`Values`] says.
#[derive(Clone, Copy, Debug)]
pub struct ProgramValue<'a> {
    json: &'a str,
    how: Values,
}

impl<'a> ProgramValue<'a> {
    /// Wraps the JSON text of a value.
    pub fn new(json: &'a str, how: Values) -> Self {
        Self { json, how }
    }
}

impl Serialize for ProgramValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.how {
            // A text that is not JSON cannot be stored.
            Values::Inline => serde_json::from_str::<&RawValue>(self.json).ok().serialize(serializer),
            Values::Text(bytes_max) if self.json.len() <= bytes_max => serializer.serialize_str(self.json),
            Values::Text(_) => LeftOut { left_out: self.json.len() }.serialize(serializer),
        }
    }
}

/// Stands for a value that is too large to be included.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LeftOut {
    /// The size of the value in bytes.
    pub left_out: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: Values = Values::Text(VALUE_BYTES_MAX);

    #[test]
    fn k5_values_are_written_inline_or_as_text_with_every_digit() {
        let json = r#"{"n":9223372036854775807,"x":0.1,"y":1e400}"#;
        let written = |json: &str, how| serde_json::to_string(&ProgramValue::new(json, how)).unwrap();
        assert_eq!(written(json, Values::Inline), json);
        assert_eq!(written(json, TEXT), format!("{json:?}"));
        let large = format!("{:?}", "x".repeat(VALUE_BYTES_MAX));
        assert_eq!(written(&large, Values::Inline), large);
        assert_eq!(written(&large, TEXT), format!("{{\"left_out\":{}}}", large.len()));
    }
}
