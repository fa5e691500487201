//! Gives redacted values back to an edited state.
//!
//! A person edits a state in which secrets are marks. Where the edited state still has the mark,
//! and the stored state has a redacted value at the same place, the stored value returns. A mark
//! at any other place is refused: it would become data, or give a secret to another owner.
//!
//! Elements of arrays have no names. An element with a mark gets its values back if it is found
//! unchanged in the stored array, or if it is the only element that was changed.

use super::MARK;
use super::json::{Edits, Kind, Member, Node, Parsed, parse, quoted};
use super::place::Place;
use super::rules::Redaction;
use super::values::hides;
use crate::failure::Failure;
use std::borrow::Cow;
use std::collections::HashMap;

impl Redaction {
    /// Returns whether a JSON text contains the mark, in any spelling.
    pub(crate) fn has_mark(&self, text: &str) -> bool {
        match parse(text) {
            Parsed::Json(node) => has_mark(&node),
            Parsed::TooDeep | Parsed::Other => text.contains(MARK),
        }
    }

    /// Returns the edited JSON text with the stored values in the places of the marks.
    ///
    /// # Errors
    /// `bad_request` if the text is not JSON, `redacted` for a mark that cannot be resolved.
    pub(crate) fn restore(&self, edited: &str, stored: &str) -> Result<String, Failure> {
        let edited_node = match parse(edited) {
            Parsed::Json(node) => node,
            Parsed::TooDeep => return Err(Failure::new("bad_request", "the state is nested too deeply")),
            Parsed::Other => {
                let error = serde_json::from_str::<serde::de::IgnoredAny>(edited).err();
                let reason = error.map_or_else(String::new, |error| error.to_string());
                return Err(Failure::new("bad_request", format_args!("the state is not JSON: {reason}")));
            }
        };
        if !has_mark(&edited_node) {
            return Ok(edited.to_string());
        }
        let Parsed::Json(stored_node) = parse(stored) else { return Err(refused("")) };
        let mut work = Restoring { rules: self, edited, stored, edits: Edits::default() };
        work.node(&edited_node, &stored_node, (Place::default(), Place::default()), "")?;
        Ok(work.edits.apply(edited))
    }
}

struct Restoring<'a> {
    rules: &'a Redaction,
    edited: &'a str,
    stored: &'a str,
    edits: Edits,
}

impl Restoring<'_> {
    /// Restores a part. `places`: where the part is in the edited and in the stored state.
    fn node(&mut self, edited: &Node, stored: &Node, places: (Place, Place), pointer: &str) -> Result<(), Failure> {
        if !has_mark(edited) {
            return Ok(());
        }
        if places.0.is_secret != places.1.is_secret {
            return Err(refused(pointer));
        }
        if places.1.is_secret && hides(stored) {
            return if edited.text() == Some(MARK) { self.give_back(edited, stored) } else { Err(refused(pointer)) };
        }
        match (&edited.kind, &stored.kind) {
            (Kind::String(Some(text)), Kind::String(Some(original))) if *text == self.rules.string_in(original, 0) => {
                self.give_back(edited, stored)
            }
            (Kind::String(_), Kind::String(None)) if edited.text() == Some(MARK) => self.give_back(edited, stored),
            (Kind::Object(_), Kind::Object(_)) => self.object(edited, stored, pointer),
            (Kind::Array(_), Kind::Array(_)) => self.array((edited, places.0), (stored, places.1), pointer),
            _ => Err(refused(pointer)),
        }
    }

    fn give_back(&mut self, edited: &Node, stored: &Node) -> Result<(), Failure> {
        self.edits.replace(&edited.span, self.stored[stored.span.clone()].to_string());
        Ok(())
    }

    fn object(&mut self, edited: &Node, stored: &Node, pointer: &str) -> Result<(), Failure> {
        let (Kind::Object(members), Kind::Object(originals)) = (&edited.kind, &stored.kind) else { return Ok(()) };
        let (places, stored_places) = (self.rules.member_places(edited), self.rules.member_places(stored));
        let stored_at = self.members_by_key(originals);
        for (member, place) in members.iter().zip(places) {
            let below = format!("{pointer}/{}", member.key.replace('~', "~0").replace('/', "~1"));
            if !member.key.contains(MARK) && !has_mark(&member.value) {
                continue;
            }
            let Some(number) = stored_at.get(member.key.as_str()).copied().flatten() else { return Err(refused(&below)) };
            let original = &originals[number];
            if original.key != member.key {
                self.edits.replace(&member.key_span, quoted(&original.key));
            }
            self.node(&member.value, &original.value, (place, stored_places[number]), &below)?;
        }
        Ok(())
    }

    fn array(&mut self, edited: (&Node, Place), stored: (&Node, Place), pointer: &str) -> Result<(), Failure> {
        let (Kind::Array(items), Kind::Array(originals)) = (&edited.0.kind, &stored.0.kind) else { return Ok(()) };
        let item_places = self.rules.item_places(items, edited.1);
        let original_places = self.rules.item_places(originals, stored.1);
        let shown: Vec<String> =
            originals.iter().zip(&original_places).map(|(original, place)| self.shown(original, *place)).collect();
        let edited: Vec<String> = items.iter().map(|item| canonical(self.edited, item)).collect();
        let raw = |source: usize| &self.stored[originals[source].span.clone()];
        // The first of the stored items that look the same, and whether they are the same.
        let mut found_at: HashMap<&str, (usize, bool)> = HashMap::new();
        for (number, shown) in shown.iter().enumerate() {
            let (first, is_same) = found_at.entry(shown).or_insert((number, true));
            *is_same &= raw(*first) == raw(number);
        }
        let is_same_len = items.len() == originals.len();
        let changed = edited.iter().zip(&shown).filter(|(edited, shown)| edited != shown).count();
        // What is secret because of the item before it belongs to that item.
        let has_same_owner = |number: usize, source: usize| match original_places[source].is_secret {
            true => item_places[number].is_secret && edited[number - 1] == shown[source - 1],
            false => !item_places[number].is_secret,
        };
        for (number, item) in items.iter().enumerate() {
            if !has_mark(item) {
                continue;
            }
            let below = format!("{pointer}/{number}");
            let found = found_at.get(edited[number].as_str());
            let source = if is_same_len && shown[number] == edited[number] {
                Some(number)
            } else {
                found.filter(|(_, is_same)| *is_same).map(|(first, _)| *first)
            };
            match source {
                Some(source) if has_same_owner(number, source) => self.give_back(item, &originals[source])?,
                None if found.is_none() && is_same_len && changed == 1 => {
                    self.node(item, &originals[number], (item_places[number], original_places[number]), &below)?;
                }
                _ => return Err(refused(&below)),
            }
        }
        Ok(())
    }

    /// Returns the number of each stored member by its key, and by its key as the person saw it.
    /// `None`: there are several.
    fn members_by_key<'n>(&self, originals: &'n [Member]) -> HashMap<Cow<'n, str>, Option<usize>> {
        let mut found_at = HashMap::new();
        let mut add = |key: Cow<'n, str>, number| {
            found_at.entry(key).and_modify(|known| *known = None).or_insert(Some(number));
        };
        for (number, original) in originals.iter().enumerate() {
            let hidden = self.rules.string_in(&original.key, 0);
            if hidden != original.key {
                add(hidden.into(), number);
            }
            add(original.key.as_str().into(), number);
        }
        found_at
    }

    /// Returns a stored part as the person saw it.
    fn shown(&self, stored: &Node, place: Place) -> String {
        let shown = self.rules.node_text(self.stored, stored, place, 0);
        match parse(&shown) {
            Parsed::Json(node) => canonical(&shown, &node),
            _ => shown,
        }
    }
}

/// Returns whether a part contains the mark.
fn has_mark(node: &Node) -> bool {
    match &node.kind {
        Kind::String(text) => text.as_ref().is_some_and(|text| text.contains(MARK)),
        Kind::Array(items) => items.iter().any(has_mark),
        Kind::Object(members) => members.iter().any(|member| member.key.contains(MARK) || has_mark(&member.value)),
        Kind::Number | Kind::Word => false,
    }
}

/// Returns a part without white space, and with every string written in the same way.
pub(super) fn canonical(text: &str, node: &Node) -> String {
    match &node.kind {
        Kind::String(Some(string)) => quoted(string),
        Kind::Array(items) => format!("[{}]", join(items.iter().map(|item| canonical(text, item)))),
        Kind::Object(members) => {
            let member = |member: &Member| format!("{}:{}", quoted(&member.key), canonical(text, &member.value));
            format!("{{{}}}", join(members.iter().map(member)))
        }
        _ => text[node.span.clone()].to_string(),
    }
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(",")
}

fn refused(pointer: &str) -> Failure {
    let place = if pointer.is_empty() { "the state".to_string() } else { format!("the state at {pointer}") };
    Failure::new("redacted", format_args!("{place} contains {MARK}, and no stored value belongs there"))
        .advice("write the value itself, or leave this part as it was")
}
