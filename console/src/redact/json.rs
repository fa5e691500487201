//! JSON texts as spans: where each value is, so that it can be replaced without touching the rest.

use serde::de::IgnoredAny;
use std::ops::Range;

/// The deepest nesting that is read.
pub(super) const DEPTH_MAX: usize = 128;

/// A value in a JSON text.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) span: Range<usize>,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Object(Vec<Member>),
    Array(Vec<Node>),
    /// The decoded text; `None` if it is no Unicode.
    String(Option<String>),
    Number,
    /// `true`, `false`, `null`.
    Word,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) key: String,
    pub(super) key_span: Range<usize>,
    pub(super) value: Node,
}

/// What a text is.
#[derive(Debug)]
pub(super) enum Parsed {
    Json(Node),
    /// JSON, but nested too deeply to be read.
    TooDeep,
    Other,
}

impl Node {
    /// Returns the member with this key.
    pub(super) fn member(&self, key: &str) -> Option<&Node> {
        match &self.kind {
            Kind::Object(members) => members.iter().find(|member| member.key == key).map(|member| &member.value),
            _ => None,
        }
    }

    /// Returns the decoded text of a string.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::String(text) => text.as_deref(),
            _ => None,
        }
    }
}

/// Reads a text.
pub(super) fn parse(text: &str) -> Parsed {
    if serde_json::from_str::<IgnoredAny>(text).is_err() {
        return Parsed::Other;
    }
    Reader { text, at: 0 }.value(0).map_or(Parsed::TooDeep, Parsed::Json)
}

/// One entry of an object or array, as spans.
#[derive(Debug)]
pub(super) struct Entry {
    /// The quoted key, in an object.
    pub(super) key: Option<Range<usize>>,
    pub(super) value: Range<usize>,
}

/// Returns the entries of the object or array that is at `span` of valid JSON, one by one. What is
/// inside of them is passed over.
pub(super) fn entries(text: &str, span: Range<usize>) -> impl Iterator<Item = Entry> {
    let is_object = text.as_bytes().get(span.start) == Some(&b'{');
    let mut reader = Reader { text: &text[..span.end], at: span.start + 1 };
    std::iter::from_fn(move || {
        reader.next_at();
        if reader.peek() == b',' {
            reader.at += 1;
            reader.next_at();
        }
        if matches!(reader.peek(), b'}' | b']') {
            return None;
        }
        let key = is_object.then(|| {
            let key = reader.pass();
            reader.next_at();
            reader.at += 1; // the colon
            key
        });
        Some(Entry { key, value: reader.pass() })
    })
}

/// Reads a text that is valid JSON.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    /// `None`: too deep.
    fn value(&mut self, depth: usize) -> Option<Node> {
        let start = self.next_at();
        let kind = match self.peek() {
            b'{' | b'[' if depth == DEPTH_MAX => return None,
            b'{' => self.object(depth)?,
            b'[' => self.array(depth)?,
            b'"' => Kind::String(self.string()),
            b't' | b'f' | b'n' => {
                self.skip(|byte| byte.is_ascii_alphabetic());
                Kind::Word
            }
            _ => {
                self.skip(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E'));
                Kind::Number
            }
        };
        Some(Node { span: start..self.at, kind })
    }

    fn object(&mut self, depth: usize) -> Option<Kind> {
        let mut members = Vec::new();
        self.at += 1;
        loop {
            let start = self.next_at();
            if self.peek() == b'}' {
                break;
            }
            let key = self.string().unwrap_or_default();
            let key_span = start..self.at;
            self.next_at();
            self.at += 1; // the colon
            members.push(Member { key, key_span, value: self.value(depth + 1)? });
            self.next_at();
            if self.peek() == b',' {
                self.at += 1;
            }
        }
        self.at += 1;
        Some(Kind::Object(members))
    }

    fn array(&mut self, depth: usize) -> Option<Kind> {
        let mut items = Vec::new();
        self.at += 1;
        loop {
            self.next_at();
            match self.peek() {
                b']' => break,
                b',' => self.at += 1,
                _ => items.push(self.value(depth + 1)?),
            }
        }
        self.at += 1;
        Some(Kind::Array(items))
    }

    fn string(&mut self) -> Option<String> {
        let start = self.at;
        self.pass_string();
        serde_json::from_str(self.text.get(start..self.at)?).ok()
    }

    fn pass_string(&mut self) {
        self.at += 1;
        while self.at < self.text.len() && self.peek() != b'"' {
            self.at += if self.peek() == b'\\' { 2 } else { 1 };
        }
        self.at = (self.at + 1).min(self.text.len());
    }

    /// Passes over a value of any depth, and returns where it is.
    fn pass(&mut self) -> Range<usize> {
        let (start, mut depth) = (self.next_at(), 0_usize);
        while self.at < self.text.len() {
            match self.peek() {
                b'"' => self.pass_string(),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    self.at += 1;
                }
                _ if depth == 0 => self.skip(|byte| !matches!(byte, b',' | b'}' | b']') && !byte.is_ascii_whitespace()),
                _ => self.at += 1,
            }
            if depth == 0 {
                break;
            }
        }
        start..self.at
    }

    /// Skips white space, and returns where it ends.
    fn next_at(&mut self) -> usize {
        self.skip(|byte| byte.is_ascii_whitespace());
        self.at
    }

    fn skip(&mut self, is_skipped: impl Fn(u8) -> bool) {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        self.at += rest.iter().take_while(|byte| is_skipped(**byte)).count();
    }

    /// The next byte; at the end, one that ends every loop.
    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(b'}')
    }
}

/// Replaces spans of a text.
#[derive(Debug, Default)]
pub(super) struct Edits(Vec<(Range<usize>, String)>);

impl Edits {
    pub(super) fn replace(&mut self, span: &Range<usize>, by: String) {
        self.0.push((span.clone(), by));
    }

    /// Returns the text with all replacements. Spans do not overlap.
    pub(super) fn apply(self, text: &str) -> String {
        self.apply_in(text, 0..text.len())
    }

    /// Returns a part of the text with all replacements, which are all in it.
    pub(super) fn apply_in(mut self, text: &str, part: Range<usize>) -> String {
        self.0.sort_by_key(|(span, _)| span.start);
        let (mut edited, mut at) = (String::with_capacity(part.len()), part.start);
        for (span, by) in self.0 {
            edited.push_str(&text[at..span.start]);
            edited.push_str(&by);
            at = span.end;
        }
        edited.push_str(&text[at..part.end]);
        edited
    }
}

/// Returns a string as JSON text.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
