//! JSON within a text that is not JSON: a question in a sentence, an answer in an error text.
//!
//! The rules of plain texts know what stands before a value. Those of JSON also know what is beside
//! it, and where it is nested.

use super::json::{Edits, Parsed, parse, quoted};
use super::place::Place;
use super::rules::Redaction;
use super::text::closing_bracket;
use super::{LAYERS_MAX, MARK};
use std::borrow::Cow;

/// How many times a text is read at most, to find where its brackets end.
const READS_MAX: usize = 64;

impl Redaction {
    /// Redacts the JSON objects and lists in a text. `layer`: how many texts it is inside of.
    pub(super) fn embedded_json<'a>(&self, text: &'a str, layer: usize) -> Cow<'a, str> {
        let (mut edits, mut at, mut left) = (Edits::default(), 0, text.len() * READS_MAX);
        while let Some(found) = text[at..].find(['{', '[']).filter(|_| left > 0) {
            let start = at + found;
            let end = closing_bracket(text, start);
            left = left.saturating_sub(end - start);
            let part = &text[start..end];
            let redacted = match parse(part) {
                Parsed::Other => {
                    at = start + 1;
                    continue;
                }
                Parsed::Json(_) if !part.contains('"') => part.to_string(),
                Parsed::Json(node) if layer < LAYERS_MAX => self.node_text(part, &node, Place::default(), layer + 1),
                Parsed::Json(_) | Parsed::TooDeep => quoted(MARK),
            };
            edits.replace(&(start..end), redacted);
            at = end;
        }
        if at == 0 { text.into() } else { edits.apply(text).into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "hunter2canary";

    #[test]
    fn k7_secrets_in_json_within_a_text_are_hidden() {
        let rules = Redaction::new();
        for json in [
            r#"{"name":"password","value":"hunter2canary"}"#,
            r#"{"value":"hunter2canary","key":"token"}"#,
            r#"{"path":"/user/password","value":"hunter2canary"}"#,
            r#"["--password",["hunter2canary"]]"#,
            r#"["--password",{"x":"hunter2canary"}]"#,
            r#"[["--password","x"],["token","hunter2canary"]]"#,
            r#"{"a":"{\"value\":\"hunter2canary\",\"key\":\"token\"}"}"#,
        ] {
            for text in
                [format!("waits for an answer: {json}"), format!("[a] {{b}} {json}, {json}: [] {{"), format!("[{{{json}")]
            {
                let shown = rules.string(&text);
                assert!(!shown.contains(SECRET), "{shown}");
                assert_eq!(rules.string(&shown), shown, "twice is once");
            }
        }
        for text in ["see [1] and {\"n\": 1}", "Debug { a: [\"b\", 1], c: \"{\" }", "[redacted] [", "{é] [\"é\"]"] {
            assert_eq!(rules.string(text), text);
        }
    }

    /// What is cut off or written by `Debug` is no JSON.
    #[test]
    fn k7_secrets_with_a_label_are_hidden_in_cut_texts() {
        let rules = Redaction::new();
        for text in [
            r#"waits: {"name":"password","value":"hunter2canary…"#,
            r#"waits: {\"name\":\"password\", \"value\" : \"hunter2canary…"#,
            r#"Field { name: "password", value: "hunter2canary" }"#,
            r#"waits: ["--password",["hunter2canary…"#,
            r#"waits: ["--password", {"x": "hunter2canary…"#,
        ] {
            let shown = rules.string(text);
            assert!(!shown.contains(SECRET) && shown.contains(MARK), "{shown}");
            assert_eq!(rules.string(&shown), shown, "twice is once");
        }
    }

    /// With work that grows faster than the text, this test does not end.
    #[test]
    fn k7_many_open_brackets_are_read_in_few_passes() {
        for part in ["[", "{", "[\"", "{\"a\":", "[\"[\"", "[1,{", "{}[", "\"[\\"] {
            let text = part.repeat(400_000 / part.len());
            assert!(Redaction::new().embedded_json(&text, 0).len() <= text.len(), "{part}");
        }
    }
}
