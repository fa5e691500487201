//! [`Place`]: what is known of a value from where it stands in a JSON text.
//!
//! A value is secret by its key, by a label beside it, or by the item before it: as in
//! `["--password", "…"]`, and in lists of pairs such as `[["authorization", "…"]]`.

use super::json::{Kind, Node, Parsed, entries, parse};
use super::rules::Redaction;
use super::text::is_in_word;
use super::values::{LABELS, POINTERS, is_hidden};
use std::collections::HashMap;
use std::ops::Range;

/// What is known of a value from where it stands. Default: the whole text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// What stands before or beside it says that it is secret.
    pub(super) is_secret: bool,
    /// It is an item of a list. A list of two is a pair of a name and a value there.
    pub(super) is_item: bool,
}

impl Place {
    pub(super) const fn member(is_secret: bool) -> Self {
        Self { is_secret, is_item: false }
    }
}

/// Tells the items of a list their places, one after the other.
pub(super) struct Items<'a> {
    rules: &'a Redaction,
    is_pair: bool,
    is_next_secret: bool,
}

impl<'a> Items<'a> {
    /// `len`: how many items the list has. More than two make no difference.
    pub(super) fn new(rules: &'a Redaction, list: Place, len: usize) -> Self {
        Self { rules, is_pair: list.is_item && len == 2, is_next_secret: false }
    }

    /// Returns the place of the next item. `text`: the item, if it is a string.
    pub(super) fn next(&mut self, text: Option<&str>) -> Place {
        let is_name = |text: &str| (self.is_pair || is_option(text)) && self.rules.is_secret(text);
        let names_next = text.is_some_and(is_name);
        Place { is_secret: std::mem::replace(&mut self.is_next_secret, names_next), is_item: true }
    }

    /// Returns whether a JSON string can say something about the next item.
    fn can_name(&self, json: &str) -> bool {
        json.starts_with("\"-") || json.starts_with("\"\\") || (self.is_pair && json.starts_with('"'))
    }
}

/// Returns whether an argument is the name of an option without its value: `--token`.
fn is_option(text: &str) -> bool {
    text.starts_with('-') && text.chars().all(is_in_word)
}

impl Redaction {
    /// Returns the places of the items of a list.
    pub(super) fn item_places(&self, items: &[Node], list: Place) -> Vec<Place> {
        let mut places = Items::new(self, list, items.len());
        items.iter().map(|item| places.next(item.text())).collect()
    }

    /// Returns the place of one item, which only the item before it can name.
    fn item_place(&self, items: &[Node], list: Place, at: usize) -> Place {
        let mut places = Items::new(self, list, items.len());
        if let Some(before) = at.checked_sub(1) {
            places.next(items[before].text());
        }
        places.next(items[at].text())
    }

    /// Returns the place of each member of an object.
    pub(super) fn member_places(&self, object: &Node) -> Vec<Place> {
        let Kind::Object(members) = &object.kind else { return Vec::new() };
        let is_secret = self.secret_members(object);
        members.iter().map(|member| Place::member(is_secret(&member.key))).collect()
    }

    /// Returns the place of the member with this key.
    fn member_place(&self, object: &Node, key: &str) -> Place {
        Place::member(self.secret_members(object)(key))
    }

    /// Returns what tells which members of an object are secret.
    fn secret_members(&self, object: &Node) -> impl Fn(&str) -> bool {
        let text = |name: &str| object.member(name).and_then(Node::text);
        let (is_labelled, is_pointed) = (self.labels(&text), self.points(&text));
        move |key| self.is_secret(key) || is_hidden(key, is_labelled, is_pointed)
    }

    /// Returns the entries of the object or array at `span` of valid JSON: each with its decoded
    /// key, and its place. What is inside of them is passed over.
    pub(super) fn placed<'a>(
        &'a self,
        text: &'a str,
        span: Range<usize>,
        place: Place,
    ) -> impl Iterator<Item = (super::json::Entry, Option<String>, Place)> + 'a {
        let labels = labels(text, span.clone());
        let named = |name: &str| labels.get(name).map(String::as_str);
        let (is_labelled, is_pointed) = (self.labels(&named), self.points(&named));
        let is_list = text[span.start..].starts_with('[');
        let len = if is_list && place.is_item { entries(text, span.clone()).take(3).count() } else { 0 };
        let mut items = Items::new(self, place, len);
        entries(text, span).map(move |entry| {
            let Some(key) = &entry.key else {
                let item = &text[entry.value.clone()];
                let decoded = items.can_name(item).then(|| serde_json::from_str::<String>(item).ok()).flatten();
                let place = items.next(decoded.as_deref());
                return (entry, None, place);
            };
            let key: String = serde_json::from_str(&text[key.clone()]).unwrap_or_default();
            let is_secret = self.is_secret(&key) || is_hidden(&key, is_labelled, is_pointed);
            (entry, Some(key), Place::member(is_secret))
        })
    }

    /// Returns the places of the entries of an object or array, which is at `place` itself.
    pub(crate) fn entry_places<'a>(&'a self, json: &'a str, place: Place) -> impl Iterator<Item = Place> + 'a {
        let below = move |below: Place| Place { is_secret: place.is_secret || below.is_secret, ..below };
        self.placed(json, 0..json.len(), place).map(move |(_, _, place)| below(place))
    }

    /// Returns the place of the value at a JSON pointer. The work is the size of the text for each
    /// step.
    pub(crate) fn place_at(&self, json: &str, pointer: &str) -> Place {
        let start = json.len() - json.trim_start().len();
        let (mut at, mut place) = (start..json.trim_end().len(), Place::default());
        for step in pointer.split('/').skip(1) {
            let step = step.replace("~1", "/").replace("~0", "~");
            if place.is_secret || !json[at.clone()].starts_with(['{', '[']) {
                break;
            }
            let mut found = None;
            for (number, (entry, key, place)) in self.placed(json, at.clone(), place).enumerate() {
                let is_here = key.map_or_else(|| number.to_string() == step, |key| key == step);
                // Of a key that occurs twice, the last value counts.
                found = if is_here { Some((entry.value, place)) } else { found };
            }
            let Some(next) = found else { break };
            (at, place) = next;
        }
        Place { is_secret: place.is_secret || self.is_secret_pointer(pointer), ..place }
    }

    /// Returns what tells the places of many values in the same JSON text.
    pub(crate) fn places_in(&self, json: &str) -> Places<'_> {
        let root = if let Parsed::Json(root) = parse(json) { Some(root) } else { None };
        Places { rules: self, root }
    }
}

/// A JSON text in which many values are looked up.
pub(crate) struct Places<'a> {
    rules: &'a Redaction,
    /// `None`: it cannot be read, so everything in it is secret.
    root: Option<Node>,
}

impl Places<'_> {
    /// Returns the place of the value at a JSON pointer: the same as [`Redaction::place_at`].
    pub(crate) fn at(&self, pointer: &str) -> Place {
        let Some(mut node) = self.root.as_ref() else { return Place::member(true) };
        let mut place = Place::default();
        for step in pointer.split('/').skip(1) {
            let step = step.replace("~1", "/").replace("~0", "~");
            let next = match &node.kind {
                _ if place.is_secret => None,
                Kind::Object(members) => {
                    let at = members.iter().rposition(|member| member.key == step);
                    at.map(|at| (&members[at].value, self.rules.member_place(node, &step)))
                }
                Kind::Array(items) => {
                    let at = step.parse().ok().filter(|at: &usize| *at < items.len() && at.to_string() == step);
                    at.map(|at| (&items[at], self.rules.item_place(items, place, at)))
                }
                _ => None,
            };
            let Some(next) = next else { break };
            (node, place) = next;
        }
        Place { is_secret: place.is_secret || self.rules.is_secret_pointer(pointer), ..place }
    }
}

/// Returns the texts of an object that say what its other entries are.
fn labels(text: &str, span: Range<usize>) -> HashMap<String, String> {
    let mut texts = HashMap::new();
    if !text[span.start..].starts_with('{') {
        return texts;
    }
    for entry in entries(text, span) {
        let Some(key) = entry.key.and_then(|span| serde_json::from_str::<String>(&text[span]).ok()) else { continue };
        if (LABELS.contains(&key.as_str()) || POINTERS.contains(&key.as_str())) && !texts.contains_key(&key) {
            texts.insert(key, serde_json::from_str(&text[entry.value]).unwrap_or_default());
        }
    }
    texts
}
