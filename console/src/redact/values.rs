//! Redaction of JSON values and JSON texts.

use super::json::{Edits, Kind, Node, Parsed, parse, quoted};
use super::place::{Items, Place};
use super::rules::Redaction;
use super::{LAYERS_MAX, MARK};
use crate::failure::Failure;
use crate::view::View;
use serde_json::{Map, Value};

/// In an object with one of these, the value of the label names what `value` and `text` contain.
pub(super) const LABELS: [&str; 2] = ["key", "name"];

/// In an object with one of these, a JSON pointer names what `value` contains.
pub(super) const POINTERS: [&str; 2] = ["path", "pointer"];

impl Redaction {
    /// Redacts the answer of a view.
    pub(crate) fn view(&self, view: &View, mut answer: Value) -> Value {
        if let (View::Diff(_), Value::Object(diff)) = (view, &mut answer) {
            self.difference(diff);
        }
        self.value(&mut answer);
        answer
    }

    /// Redacts every string of a value.
    pub(crate) fn value(&self, value: &mut Value) {
        self.value_in(value, Place::default(), 0);
    }

    /// Redacts a text: JSON by its keys, anything else by patterns.
    pub(crate) fn string(&self, text: &str) -> String {
        self.string_in(text, 0)
    }

    /// Redacts a failure.
    pub(crate) fn failure(&self, failure: Failure) -> Failure {
        Failure { text: self.string(&failure.text), advice: failure.advice.map(|advice| self.string(&advice)), ..failure }
    }

    /// Redacts the JSON text of a value at a place.
    pub(crate) fn text_at(&self, place: Place, text: &str) -> String {
        match parse(text) {
            Parsed::Json(node) => self.node_text(text, &node, place, 0),
            Parsed::Other | Parsed::TooDeep if place.is_secret => quoted(MARK),
            Parsed::Other | Parsed::TooDeep => self.string(text),
        }
    }

    fn value_in(&self, value: &mut Value, place: Place, layer: usize) {
        match value {
            _ if place.is_secret => hide(Some(value)),
            Value::String(text) => *text = self.string_in(text, layer),
            Value::Array(items) => {
                let mut places = Items::new(self, place, items.len());
                for item in items {
                    let place = places.next(item.as_str());
                    self.value_in(item, place, layer);
                }
            }
            Value::Object(object) => self.object(object, layer),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn object(&self, object: &mut Map<String, Value>, layer: usize) {
        let text = |name: &str| object.get(name).and_then(Value::as_str);
        let is_labelled = self.labels(&text);
        let is_pointed = self.points(&text);
        let old = std::mem::take(object);
        for (key, mut value) in old {
            let is_secret = self.is_secret(&key) || is_hidden(&key, is_labelled, is_pointed);
            self.value_in(&mut value, Place::member(is_secret), layer);
            object.insert(self.string_in(&key, layer), value);
        }
    }

    pub(super) fn labels<'a>(&self, text: &impl Fn(&str) -> Option<&'a str>) -> bool {
        LABELS.iter().any(|label| text(label).is_some_and(|named| self.is_secret(named)))
    }

    pub(super) fn points<'a>(&self, text: &impl Fn(&str) -> Option<&'a str>) -> bool {
        POINTERS.iter().any(|label| text(label).is_some_and(|pointer| self.is_secret_pointer(pointer)))
    }

    pub(super) fn string_in(&self, text: &str, layer: usize) -> String {
        let is_like_json = text.trim_start().starts_with(['{', '[', '"']);
        match if is_like_json { parse(text) } else { Parsed::Other } {
            Parsed::Json(_) if layer == LAYERS_MAX => MARK.to_string(),
            Parsed::Json(node) => {
                let span = node.span.clone();
                format!(
                    "{}{}{}",
                    &text[..span.start],
                    self.node_text(text, &node, Place::default(), layer + 1),
                    &text[span.end..]
                )
            }
            Parsed::TooDeep => MARK.to_string(),
            Parsed::Other => self.apply_texts(self.plain_text(&self.embedded_json(text, layer))),
        }
    }

    /// Redacts a part of a JSON text and returns that part.
    pub(super) fn node_text(&self, text: &str, node: &Node, place: Place, layer: usize) -> String {
        let mut edits = Edits::default();
        self.node(text, node, place, layer, &mut edits);
        edits.apply_in(text, node.span.clone())
    }

    fn node(&self, text: &str, node: &Node, place: Place, layer: usize, edits: &mut Edits) {
        if place.is_secret {
            if hides(node) {
                let part = &text[node.span.clone()];
                // As many lines as before, so that lines keep their numbers.
                edits.replace(&node.span, quoted(MARK) + &"\n".repeat(part.matches('\n').count()));
            }
            return;
        }
        match &node.kind {
            Kind::String(None) => edits.replace(&node.span, quoted(MARK)),
            Kind::String(Some(string)) => self.replaced(string, &node.span, layer, edits),
            Kind::Array(items) => {
                for (item, place) in items.iter().zip(self.item_places(items, place)) {
                    self.node(text, item, place, layer, edits);
                }
            }
            Kind::Object(members) => {
                for (member, place) in members.iter().zip(self.member_places(node)) {
                    self.replaced(&member.key, &member.key_span, layer, edits);
                    self.node(text, &member.value, place, layer, edits);
                }
            }
            Kind::Number | Kind::Word => {}
        }
    }

    fn replaced(&self, string: &str, span: &std::ops::Range<usize>, layer: usize, edits: &mut Edits) {
        let redacted = self.string_in(string, layer);
        if redacted != string {
            edits.replace(span, quoted(&redacted));
        }
    }

    /// Redacts the lines of a difference. A secret can begin on a line without its key, so each
    /// side is redacted as a whole.
    fn difference(&self, diff: &mut Map<String, Value>) {
        let Some(Value::Array(lines)) = diff.get_mut("lines") else { return };
        let whole = lines.clone();
        for other_side in ["added", "removed"] {
            let (mut numbers, mut side) = (Vec::new(), String::new());
            for (number, line) in whole.iter().enumerate() {
                if let Some(text) = line["text"].as_str().filter(|_| line["kind"] != other_side) {
                    numbers.push(number);
                    side.push_str(&text.replace('\n', " "));
                    side.push('\n');
                }
            }
            let redacted = self.string(&side);
            if redacted.lines().count() != numbers.len() {
                // Nobody can say which line became which.
                numbers.into_iter().for_each(|number| lines[number]["text"] = Value::from(MARK));
                continue;
            }
            for (number, (old, new)) in numbers.into_iter().zip(side.lines().zip(redacted.lines())) {
                if old != new {
                    lines[number]["text"] = Value::from(new);
                }
            }
        }
    }
}

pub(super) fn is_hidden(key: &str, is_labelled: bool, is_pointed: bool) -> bool {
    (is_labelled && matches!(key, "value" | "text")) || (is_pointed && key == "value")
}

/// Replaces a secret value by the mark.
fn hide(value: Option<&mut Value>) {
    if let Some(value) = value {
        let hides = match value {
            Value::Null | Value::Bool(_) => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Object(members) => !members.is_empty(),
            Value::Number(_) => true,
        };
        if hides {
            *value = Value::from(MARK);
        }
    }
}

/// Returns whether a secret value is replaced: `true`, `null` and empty values tell nothing.
pub(super) fn hides(node: &Node) -> bool {
    match &node.kind {
        Kind::Word => false,
        Kind::Number => true,
        Kind::String(text) => text.as_ref().is_none_or(|text| !text.is_empty()),
        Kind::Array(items) => !items.is_empty(),
        Kind::Object(members) => !members.is_empty(),
    }
}
