//! A small tokenizer for Rust source.
//!
//! It knows as much of the language as the checks need: words, signs and literals with their line.
//! Comments are skipped, and the contents of strings are never taken for code.
//! [`without_tests`] removes the items that only tests or models compile.

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An identifier or a keyword; a raw identifier has lost its `r#`.
    Word,
    /// `::`, or a single other sign.
    Sign,
    /// A string, character or number.
    Literal,
}

/// One token and the line it begins in, counted from 1.
#[derive(Debug, Clone, Copy)]
pub struct Token<'a> {
    /// The text as written.
    pub text: &'a str,
    /// The line it begins in.
    pub line: usize,
    /// What it is.
    pub kind: Kind,
}

impl Token<'_> {
    /// Whether this is the sign or the word `text`, and not a literal.
    pub fn is(&self, text: &str) -> bool {
        self.kind != Kind::Literal && self.text == text
    }
}

/// Splits `source` into tokens.
pub fn tokens(source: &str) -> Vec<Token<'_>> {
    let (mut tokens, mut at, mut line) = (Vec::new(), 0, 1);
    while let Some(first) = source[at..].chars().next() {
        let rest = &source[at..];
        let (len, kind) = next(rest, first);
        if let Some(kind) = kind {
            let text = rest[..len].strip_prefix("r#").filter(|_| kind == Kind::Word).unwrap_or(&rest[..len]);
            tokens.push(Token { text, line, kind });
        }
        line += rest[..len].matches('\n').count();
        at += len;
    }
    tokens
}

/// The length of what `rest` begins with, and its kind; no kind for a space or a comment.
fn next(rest: &str, first: char) -> (usize, Option<Kind>) {
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), None);
    }
    if rest.starts_with("/*") {
        return (block_comment(rest), None);
    }
    if let Some(len) = string(rest) {
        return (len, Some(Kind::Literal));
    }
    if first.is_whitespace() {
        return (first.len_utf8(), None);
    }
    if first == '\'' {
        return character_or_lifetime(rest);
    }
    if first.is_alphabetic() || first == '_' {
        let raw = if rest.starts_with("r#") { 2 } else { 0 };
        return (raw + word(&rest[raw..]), Some(Kind::Word));
    }
    if first.is_ascii_digit() {
        return (word(rest), Some(Kind::Literal));
    }
    let len = if rest.starts_with("::") { 2 } else { first.len_utf8() };
    (len, Some(Kind::Sign))
}

fn word(text: &str) -> usize {
    text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len())
}

/// Block comments nest.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// The length of a string literal with its prefix, if `rest` begins with one.
fn string(rest: &str) -> Option<usize> {
    let prefix = rest.find(|letter| !matches!(letter, 'b' | 'c' | 'r')).filter(|len| *len <= 2)?;
    let hashes = rest[prefix..].bytes().take_while(|byte| *byte == b'#').count();
    let is_raw = rest[..prefix].ends_with('r');
    let body = rest[prefix + hashes..].strip_prefix('"')?;
    let begin = prefix + hashes + 1;
    if is_raw {
        let end = format!("\"{}", "#".repeat(hashes));
        return Some(body.find(&end).map_or(rest.len(), |at| begin + at + end.len()));
    }
    (hashes == 0).then(|| begin + quoted(body, '"'))
}

/// The length up to and including the closing `quote`.
fn quoted(body: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, letter) in body.char_indices() {
        if letter == quote && !is_escaped {
            return at + 1;
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    body.len()
}

/// `'a'` is a literal; `'a` without a second quote is a lifetime, which no check needs.
fn character_or_lifetime(rest: &str) -> (usize, Option<Kind>) {
    let body = &rest[1..];
    let mut chars = body.chars();
    match (chars.next(), chars.next()) {
        (Some('\\'), _) => (1 + quoted(body, '\''), Some(Kind::Literal)),
        (Some(letter), Some('\'')) => (1 + letter.len_utf8() + 1, Some(Kind::Literal)),
        _ => (1 + word(body), None),
    }
}

/// The tokens without the items below `#[cfg(test)]` or `#[cfg(loom)]`.
pub fn without_tests<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        let Some(end) = attribute_end(tokens, at) else {
            kept.push(tokens[at]);
            at += 1;
            continue;
        };
        if is_test_only(&tokens[at..end]) {
            at = item_end(tokens, end);
        } else {
            kept.extend_from_slice(&tokens[at..end]);
            at = end;
        }
    }
    kept
}

/// The end of the outer attribute that begins at `at`.
pub fn attribute_end(tokens: &[Token<'_>], at: usize) -> Option<usize> {
    (tokens.get(at)?.is("#") && tokens.get(at + 1)?.is("[")).then(|| group_end(tokens, at + 1))
}

/// The index after the bracket that closes the one at `open`.
pub fn group_end(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        if token.kind == Kind::Sign {
            match token.text {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return at + 1;
            }
        }
    }
    tokens.len()
}

/// Whether an attribute is a `cfg` that holds only in tests or models.
pub fn is_test_only(attribute: &[Token<'_>]) -> bool {
    let texts: Vec<&str> = attribute.iter().map(|token| token.text).collect();
    matches!(texts.as_slice(), ["#", "[", "cfg", "(", predicate @ .., ")", "]"] if requires_test(predicate))
}

fn requires_test(predicate: &[&str]) -> bool {
    match predicate {
        ["test" | "loom"] => true,
        ["all", "(", rest @ .., ")"] => {
            // Only the direct parts of `all`: one inside `not` or `any` requires nothing.
            let mut depth = 0;
            rest.iter().any(|text| {
                match *text {
                    "(" => depth += 1,
                    ")" => depth -= 1,
                    _ => {}
                }
                depth == 0 && matches!(*text, "test" | "loom")
            })
        }
        _ => false,
    }
}

/// The end of the item, field or arm that begins at `begin`, after its other attributes.
fn item_end(tokens: &[Token<'_>], begin: usize) -> usize {
    let mut at = begin;
    while let Some(end) = attribute_end(tokens, at) {
        at = end;
    }
    let is_visibility = |token: &&Token<'_>| ["pub", "(", "crate", "super", "in", "::", ")"].contains(&token.text);
    let keyword = tokens[at..].iter().find(|token| !is_visibility(token)).map_or("", |token| token.text);
    let ends_at_block = !matches!(keyword, "use" | "const" | "static" | "type" | "let");
    let ends_at_comma = !KEYWORDS.contains(&keyword);
    while at < tokens.len() {
        let token = tokens[at];
        match token.text {
            _ if token.kind != Kind::Sign => at += 1,
            ";" => return at + 1,
            "," if ends_at_comma => return at + 1,
            // The end of what this item is inside of.
            ")" | "]" | "}" => return at,
            "(" | "[" => at = group_end(tokens, at),
            "{" => {
                at = group_end(tokens, at);
                if ends_at_block {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    at
}

/// The words that items begin with, as opposed to fields, variants and arms.
const KEYWORDS: [&str; 14] =
    ["async", "const", "enum", "extern", "fn", "impl", "let", "mod", "static", "struct", "trait", "type", "unsafe", "use"];

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        tokens(source).into_iter().map(|token| token.text).collect()
    }

    fn kept(source: &str) -> String {
        without_tests(&tokens(source)).into_iter().map(|token| token.text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_are_skipped_and_strings_are_literals() {
        let source = "a // crate::b\n/* c /* d */ e */ f \"crate::g \\\" h\" r#\"i\"j\"# 'k' '\\'' &'l m b\"n\" r#type";
        let expected = ["a", "f", "\"crate::g \\\" h\"", "r#\"i\"j\"#", "'k'", "'\\''", "&", "m", "b\"n\"", "type"];
        assert_eq!(texts(source), expected);
        assert!(tokens("\"super\"").iter().all(|token| !token.is("super")));
    }

    #[test]
    fn tokens_have_the_line_they_begin_in() {
        let lines: Vec<usize> = tokens("a\n/* \n */ b\n\"c\nd\" e").into_iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 3, 4, 5]);
    }

    #[test]
    fn test_items_are_removed_and_others_are_kept() {
        assert_eq!(kept("#[cfg(test)] mod tests { use a::b; } c"), "c");
        assert_eq!(kept("#[cfg(all(test, loom))] #[path = \"x\"] mod models; c"), "c");
        assert_eq!(kept("#[cfg(test)] pub(crate) use a::{b, c}; d"), "d");
        assert_eq!(kept("enum A { #[cfg(test)] B(x::C), D }"), "enum A { D }");
        assert_eq!(kept("match a { #[cfg(test)] B => c, D => e }"), "match a { D = > e }");
        assert_eq!(kept("#[cfg(test)] fn a<B, C>(b: B) where B: x::D, C: E { f } g"), "g");
        assert_eq!(kept("#[cfg(not(test))] a"), "# [ cfg ( not ( test ) ) ] a");
        assert_eq!(kept("#[cfg(any(test, feature = \"a\"))] b").split(' ').next_back(), Some("b"));
        assert_eq!(kept("#[cfg(all(not(test), unix))] b").split(' ').next_back(), Some("b"));
    }
}
