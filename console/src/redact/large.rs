//! Redaction of JSON texts of any length, for downloads.
//!
//! Objects and arrays that are larger than a piece are passed through entry by entry, so that the
//! work needs little memory besides the text. The result is that of [`Redaction::text_at`].

use super::MARK;
use super::json::{DEPTH_MAX, Parsed, entries, parse, quoted};
use super::place::Place;
use super::rules::Redaction;
use serde::de::IgnoredAny;
use std::ops::{ControlFlow, Range};

/// Values of at most this many bytes are redacted at once.
const PIECE_MAX: usize = 256 * 1024;

/// How many bytes are written at once, at least, except for the last ones.
const WRITTEN_AT_ONCE: usize = 64 * 1024;

impl Redaction {
    /// Redacts the JSON text of a value at a place, and writes it in pieces. Ends when `write`
    /// breaks.
    pub(crate) fn write_at(&self, place: Place, text: &str, write: impl FnMut(String) -> ControlFlow<()>) -> ControlFlow<()> {
        self.write_pieces(place, text, PIECE_MAX, write)
    }

    pub(super) fn write_pieces(
        &self,
        place: Place,
        text: &str,
        piece_max: usize,
        mut write: impl FnMut(String) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let span = text.len() - text.trim_start().len()..text.trim_end().len();
        if span.len() <= piece_max || serde_json::from_str::<IgnoredAny>(text).is_err() {
            return write(self.text_at(place, text));
        }
        let mut work = Large { rules: self, text, piece_max, kept: String::new(), write: &mut write };
        work.value(span, place, 0)?;
        let rest = std::mem::take(&mut work.kept);
        if rest.is_empty() { ControlFlow::Continue(()) } else { write(rest) }
    }
}

struct Large<'a, W> {
    rules: &'a Redaction,
    text: &'a str,
    piece_max: usize,
    /// What is not written yet.
    kept: String,
    write: &'a mut W,
}

impl<W: FnMut(String) -> ControlFlow<()>> Large<'_, W> {
    fn value(&mut self, span: Range<usize>, place: Place, depth: usize) -> ControlFlow<()> {
        let part = &self.text[span.clone()];
        let is_container = part.starts_with(['{', '[']);
        if !place.is_secret && !is_container && !part.starts_with('"') {
            return self.add(part); // a number or a word
        }
        if part.len() <= self.piece_max || !is_container {
            let redacted = match parse(part) {
                Parsed::Json(node) => self.rules.node_text(part, &node, place, 0),
                Parsed::TooDeep | Parsed::Other => quoted(MARK),
            };
            return self.add(&redacted);
        }
        if place.is_secret && entries(self.text, span.clone()).next().is_none() {
            return self.add(part); // an empty value tells nothing
        }
        if place.is_secret || depth == DEPTH_MAX {
            // As many lines as before, so that lines keep their numbers.
            return self.add(&(quoted(MARK) + &"\n".repeat(part.matches('\n').count())));
        }
        self.entries(span, place, depth)
    }

    /// Redacts the entries of a large object or array, and copies what is between them.
    fn entries(&mut self, span: Range<usize>, place: Place, depth: usize) -> ControlFlow<()> {
        let mut at = span.start;
        for (entry, key, place) in self.rules.placed(self.text, span.clone(), place) {
            if let (Some(span), Some(key)) = (entry.key, key) {
                self.add(&self.text[at..span.start])?;
                let redacted = self.rules.string_in(&key, 0);
                let same = &self.text[span.clone()];
                self.add(&if redacted == key { same.to_string() } else { quoted(&redacted) })?;
                at = span.end;
            }
            self.add(&self.text[at..entry.value.start])?;
            self.value(entry.value.clone(), place, depth + 1)?;
            at = entry.value.end;
        }
        self.add(&self.text[at..span.end])
    }

    fn add(&mut self, text: &str) -> ControlFlow<()> {
        self.kept.push_str(text);
        if self.kept.len() < WRITTEN_AT_ONCE {
            return ControlFlow::Continue(());
        }
        (self.write)(std::mem::take(&mut self.kept))
    }
}
