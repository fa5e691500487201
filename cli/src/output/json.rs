//! [`JsonText`]: JSON as text. Numbers are never parsed, so every digit of a state survives.

use crate::failure::{Failure, Status};
use jaq_core::load::{Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Vars, data, unwrap_valr};
use jaq_json::{Val, read};
use pleach_console::report::text::indented;
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The options of JSON output.
#[derive(Clone, Debug, Default)]
pub struct JsonOptions {
    /// The fields to keep, in this order. Empty: all.
    pub fields: Vec<String>,
    /// A filter in the jq language.
    pub jq: Option<String>,
}

/// A JSON document as text.
pub struct JsonText(String);

/// The top level of a document: its keys, with values that are not parsed.
type Object = BTreeMap<String, Box<RawValue>>;

impl JsonText {
    pub fn of(value: &impl Serialize) -> Result<Self, Failure> {
        serde_json::to_string(value)
            .map(Self)
            .map_err(|error| Failure::new(Status::Failed, format_args!("cannot write JSON: {error}")))
    }

    /// Keeps only the chosen fields of the document, or of the items below the key `items`.
    pub fn select(self, items: Option<&str>, options: &JsonOptions) -> Result<Self, Failure> {
        if options.fields.is_empty() {
            return Ok(self);
        }
        let parse = |text: &str| serde_json::from_str::<Object>(text);
        let wrong = |error: serde_json::Error| Failure::new(Status::Failed, format_args!("cannot select fields: {error}"));
        let mut object = parse(&self.0).map_err(wrong)?;
        let Some(key) = items else { return Ok(Self(chosen(&object, &options.fields)?)) };
        let list: Vec<Box<RawValue>> =
            object.get(key).map_or(Ok(Vec::new()), |list| serde_json::from_str(list.get())).map_err(wrong)?;
        let mut kept = Vec::with_capacity(list.len());
        for item in list {
            kept.push(chosen(&parse(item.get()).map_err(wrong)?, &options.fields)?);
        }
        let kept = RawValue::from_string(format!("[{}]", kept.join(","))).map_err(wrong)?;
        object.insert(key.to_string(), kept);
        Self::of(&object)
    }

    /// Applies the filter, and returns the text to write: indented for people, or on one line.
    pub fn finish(self, indent: bool, options: &JsonOptions) -> Result<String, Failure> {
        let outputs = match &options.jq {
            None => vec![self.0],
            Some(filter) => filtered(filter, &self.0)?,
        };
        let mut text = String::new();
        for output in outputs {
            let output = escaped(&output);
            text.push_str(&if indent { indented(&output) } else { output });
            text.push('\n');
        }
        Ok(text)
    }
}

/// Returns an object with the chosen fields. An unknown field is an error that lists the known
/// ones.
fn chosen(object: &Object, fields: &[String]) -> Result<String, Failure> {
    let mut text = String::from("{");
    for (at, field) in fields.iter().enumerate() {
        let value = object.get(field).ok_or_else(|| {
            let known: Vec<&str> = object.keys().map(String::as_str).collect();
            Failure::usage(format_args!("unknown field {field:?}; the fields are: {}", known.join(", ")))
        })?;
        let separator = if at == 0 { "" } else { "," };
        let key = serde_json::to_string(field).unwrap_or_default();
        let _ = write!(text, "{separator}{key}:{}", value.get());
    }
    text.push('}');
    Ok(text)
}

/// Runs a filter in the jq language. A result that is a string is written without quotes.
fn filtered(filter: &str, input: &str) -> Result<Vec<String>, Failure> {
    let wrong = |what: &str| {
        Failure::usage(format_args!("{what} in the filter {filter:?}"))
            .advice("write it in the jq language, such as '.runs[].id'")
    };
    let failed = |what: String| Failure::new(Status::Failed, format_args!("the filter {filter:?} failed: {what}"));
    let input = read::parse_single(input.as_bytes()).map_err(|error| failed(format!("{error:?}")))?;
    let definitions = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    let functions = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    let arena = Arena::default();
    let modules =
        Loader::new(definitions).load(&arena, File { code: filter, path: () }).map_err(|_| wrong("there is a syntax error"))?;
    let compiled = Compiler::default().with_funs(functions).compile(modules).map_err(|_| wrong("there is an unknown name"))?;
    let context = Ctx::<data::JustLut<Val>>::new(&compiled.lut, Vars::new([]));
    let mut outputs = Vec::new();
    for output in compiled.id.run((context, input)).map(unwrap_valr) {
        outputs.push(match output.map_err(|error| failed(error.to_string()))? {
            Val::TStr(text) | Val::BStr(text) => String::from_utf8_lossy(&text).into_owned(),
            other => other.to_string(),
        });
    }
    Ok(outputs)
}

/// Escapes the control characters that JSON allows in strings but terminals execute.
fn escaped(json: &str) -> String {
    let is_plain = |character: char| !matches!(character, '\u{7f}'..='\u{9f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            // Only in the output of a filter, which may be a bare string.
            '\0'..='\u{1f}' if !matches!(character, '\n' | '\t') => drop(write!(text, "\\u{:04x}", character as u32)),
            character if is_plain(character) => text.push(character),
            character => drop(write!(text, "\\u{:04x}", character as u32)),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(fields: &[&str], jq: Option<&str>) -> JsonOptions {
        JsonOptions { fields: fields.iter().map(ToString::to_string).collect(), jq: jq.map(str::to_string) }
    }

    #[test]
    fn numbers_keep_every_digit() {
        let json = r#"{"runs":[{"id":"a","state":{"n":9223372036854775807123,"x":0.10}}],"version":1}"#;
        let text = |options: &JsonOptions| {
            JsonText(json.into()).select(Some("runs"), options).and_then(|text| text.finish(false, options)).unwrap()
        };
        assert_eq!(
            text(&options(&["state"], None)),
            "{\"runs\":[{\"state\":{\"n\":9223372036854775807123,\"x\":0.10}}],\"version\":1}\n"
        );
        assert_eq!(text(&options(&[], Some(".runs[].state.n"))), "9223372036854775807123\n");
        assert_eq!(text(&options(&[], Some(".runs[].id"))), "a\n", "a string has no quotes");
    }

    #[test]
    fn wrong_field_or_filter_is_a_usage_error() {
        let failed = |options: &JsonOptions| {
            let text = JsonText("{\"id\":1}".into()).select(None, options).and_then(|text| text.finish(false, options));
            text.unwrap_err()
        };
        let error = failed(&options(&["name"], None));
        assert_eq!((error.status, error.text.as_str()), (Status::Usage, "unknown field \"name\"; the fields are: id"));
        assert_eq!(failed(&options(&[], Some(".["))).status, Status::Usage);
        assert_eq!(failed(&options(&[], Some("nosuch"))).status, Status::Usage);
        assert_eq!(failed(&options(&[], Some(".id.x"))).status, Status::Failed);
    }

    #[test]
    fn output_is_harmless() {
        assert_eq!(escaped("\"\u{9b}31m\u{7f}\u{202e}\""), "\"\\u009b31m\\u007f\\u202e\"");
    }
}
