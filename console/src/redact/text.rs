//! Redaction of texts that are not JSON: error texts, log lines, commands, debug output.
//!
//! One pass from left to right. At each place the first rule that fits says how much is hidden.

use super::MARK;
use super::rules::Redaction;

/// Words that follow `bearer` in a sentence.
const PROSE: [&str; 12] =
    ["token", "tokens", "of", "is", "was", "auth", "authentication", "authorization", "scheme", "header", "not", "and"];

/// How far the name and the password of a URL go, in bytes.
const USERINFO_MAX: usize = 1 << 10;

impl Redaction {
    /// Redacts a text that is not JSON.
    pub(super) fn plain_text(&self, text: &str) -> String {
        let (mut redacted, mut at) = (String::with_capacity(text.len()), 0);
        while at < text.len() {
            let rest = &text[at..];
            let before = text[..at].chars().next_back();
            if let Some(secret) = self.secret_at(rest, before) {
                redacted.push_str(&rest[..secret.start]);
                redacted.push_str(MARK);
                // As many lines as before, so that lines keep their numbers.
                redacted.extend(rest[secret.clone()].matches('\n'));
                at += secret.end;
                continue;
            }
            // The next place where a rule can fit: the end of this word, or the next character.
            let step = word_len(rest).max(rest.chars().next().map_or(1, char::len_utf8));
            redacted.push_str(&rest[..step]);
            at += step;
        }
        redacted
    }

    /// Returns what is secret at the beginning of `rest`.
    fn secret_at(&self, rest: &str, before: Option<char>) -> Option<std::ops::Range<usize>> {
        if rest.starts_with("://") {
            return url_password(rest);
        }
        if rest.starts_with("-----BEGIN ") {
            return private_key(rest);
        }
        let word = &rest[..word_len(rest)];
        if word.is_empty() || before.is_some_and(is_in_word) {
            return None;
        }
        if word.eq_ignore_ascii_case("bearer") {
            return bearer(rest, word.len());
        }
        if self.is_secret(word) { value_after(rest, word, before) } else { None }
    }
}

/// Returns whether a character is part of a word: of a key, or the name of an option.
pub(super) fn is_in_word(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '-' | '.')
}

fn word_len(text: &str) -> usize {
    text.find(|character| !is_in_word(character)).unwrap_or(text.len())
}

/// `://user:password@host`: the password. It is looked for in [`USERINFO_MAX`] bytes, so that the
/// work for a text with many URLs is no more than its length times that.
fn url_password(rest: &str) -> Option<std::ops::Range<usize>> {
    let longest = rest.len().min(3 + USERINFO_MAX);
    let (whole, rest) = (rest, &rest[..(3..=longest).rev().find(|at| rest.is_char_boundary(*at))?]);
    let colon = 3 + rest[3..].find([':', '@']).filter(|at| rest.as_bytes()[3 + at] == b':')?;
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>');
    if !rest[colon..].contains('@') {
        return cut_password(whole, colon, ends);
    }
    let digits = rest[colon + 1..].bytes().take_while(u8::is_ascii_digit).count();
    let after = rest[colon + 1 + digits..].chars().next();
    if rest[3..colon].contains(ends) || after.is_none_or(|c| ends(c) || matches!(c, '/' | '?' | '#')) {
        return None; // no URL, or a port
    }
    let end = rest[colon..].find(ends).map_or(rest.len(), |at| at + colon);
    let last_at = rest[colon..end].rfind('@').map(|at| at + colon)?;
    (last_at > colon + 1).then_some(colon + 1..last_at)
}

/// `://user:pass…`, `://user:pass` at the end of a text: what was cut before its `@`.
fn cut_password(rest: &str, colon: usize, ends: impl Fn(char) -> bool) -> Option<std::ops::Range<usize>> {
    let after = &rest[colon + 1..];
    let end = after.find(|c| ends(c) || matches!(c, '/' | '?' | '#' | '@' | '…'));
    let password = &after[..end.unwrap_or(after.len())];
    let is_cut = end.is_none_or(|end| after[end..].starts_with(['…', '@']));
    let is_port = password.trim_end_matches([',', '.', ';', ':', ')', ']', '}']).bytes().all(|byte| byte.is_ascii_digit());
    let is_name = !rest[3..colon].contains(|c| ends(c) || matches!(c, '/' | '?' | '#' | '['));
    (is_cut && is_name && !is_port).then_some(colon + 1..colon + 1 + password.len())
}

/// A private key in PEM format, up to its end or that of the text.
fn private_key(rest: &str) -> Option<std::ops::Range<usize>> {
    let head = rest[11..].find("-----").map(|at| at + 11)?;
    if !rest[11..head].ends_with("PRIVATE KEY") {
        return None;
    }
    let start = head + 5;
    Some(start..rest[start..].find("-----END").map_or(rest.len(), |at| at + start)).filter(|span| !rest[span.clone()].eq(MARK))
}

/// `Bearer TOKEN`: the token.
fn bearer(rest: &str, word: usize) -> Option<std::ops::Range<usize>> {
    let start = word + rest[word..].find(|c: char| !c.is_whitespace()).filter(|spaces| *spaces > 0)?;
    let is_token = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~' | '+' | '/' | '=');
    let len = rest[start..].find(|c: char| !is_token(c)).unwrap_or(rest.len() - start);
    let token = &rest[start..start + len];
    let is_prose = PROSE.iter().any(|word| token.trim_end_matches('.').eq_ignore_ascii_case(word));
    (len > 0 && !is_prose).then_some(start..start + len)
}

/// `key=value`, `key: value`, `"key":"value"`, `key => value`, `--key value`, `-key value`,
/// `"key", "value"`, `"key", "value": "…"`: the value.
fn value_after(rest: &str, word: &str, before: Option<char>) -> Option<std::ops::Range<usize>> {
    let mut at = word.len();
    let skip = |at: usize, skipped: &[char]| at + rest[at..].find(|c| !skipped.contains(&c)).unwrap_or(rest.len() - at);
    at = skip(at, &['"', '\'', '`', '\\', ']']);
    let separator = skip(at, &[' ', '\t', '\r', '\n']);
    let after = &rest[separator..];
    at = if after.starts_with("=>") {
        separator + 2
    } else if after.starts_with("::") || after.starts_with("==") || after.starts_with("://") {
        return None;
    } else if after.starts_with(['=', ':']) {
        separator + 1
    } else if word.starts_with('-') && separator > at && !after.starts_with('-') {
        separator
    } else if after.starts_with(',') && is_quoted(rest, word, before) {
        match labelled(after) {
            Some(len) => separator + len,
            None if word.starts_with('-') || is_text(after[1..].trim_start()) => separator + 1,
            None => return None,
        }
    } else {
        return None;
    };
    at = skip(at, &[' ', '\t', '\r', '\n']);
    let is_header = ["authorization", "authorisation", "cookie"].iter().any(|name| word.to_lowercase().ends_with(name));
    let value = value_span(rest, at, is_header);
    let is_telling = !matches!(&rest[value.clone()], "" | "true" | "false" | "null" | "None" | "\"\"" | "''" | "{}" | "[]");
    (is_telling && rest[value.clone()] != *MARK).then_some(value)
}

/// Returns whether a key is in quotes: an element of a tuple or list.
fn is_quoted(rest: &str, word: &str, before: Option<char>) -> bool {
    let after = rest[word.len()..].trim_start_matches('\\').chars().next();
    after == before && matches!(before, Some('"' | '\'' | '`'))
}

/// `, "value":`, `, value:` after a label: returns where its value begins.
fn labelled(after: &str) -> Option<usize> {
    let is_quote = |c: char| matches!(c, '"' | '\'' | '`' | '\\');
    let key = after[1..].trim_start().trim_start_matches(is_quote);
    let rest = key.strip_prefix("value").or_else(|| key.strip_prefix("text"))?;
    let value = rest.trim_start_matches(is_quote).trim_start().strip_prefix(':')?;
    Some(after.len() - value.len())
}

/// Returns whether a quoted text begins here, also as in `b"…"` and `Some("…")`.
fn is_text(value: &str) -> bool {
    let name = value.bytes().take_while(u8::is_ascii_alphanumeric).count();
    let quote = value[name..].trim_start_matches('\\');
    quote.starts_with(['"', '\'', '`']) || (name > 0 && quote.starts_with('('))
}

/// Returns where the value that begins at `at` is, without its quotes.
fn value_span(rest: &str, at: usize, is_header: bool) -> std::ops::Range<usize> {
    let slashes = rest[at..].bytes().take_while(|byte| *byte == b'\\').count();
    let quote = rest[at + slashes..].chars().next().filter(|c| matches!(c, '"' | '\'' | '`'));
    if let Some(quote) = quote {
        let start = at + slashes + 1;
        return start..closing_quote(rest, start, quote, slashes).unwrap_or(rest.len());
    }
    if rest[at..].starts_with(MARK) {
        return at..at + MARK.len();
    }
    let name = rest[at..].bytes().take_while(u8::is_ascii_alphanumeric).count();
    if matches!(&rest[at..at + name], "b" | "r" | "br") {
        let slashes = rest[at + name..].bytes().take_while(|byte| *byte == b'\\').count();
        let open = at + name + slashes;
        if rest[open..].starts_with('"') {
            return at..closing_quote(rest, open + 1, '"', slashes).map_or(rest.len(), |end| end + slashes + 1);
        }
    }
    if rest[at + name..].starts_with(['{', '[', '(']) {
        return at..closing_bracket(rest, at + name);
    }
    let ends = |c: char| match c {
        '\n' | '\r' | '"' => true,
        ',' | ';' | '&' | ')' | '}' | ']' | '\'' | '`' | '<' | '>' => !is_header,
        c => c.is_whitespace() && !is_header,
    };
    at..at + rest[at..].find(ends).unwrap_or(rest.len() - at)
}

/// Returns where the quote that begins at `start` ends. `outer`: how many backslashes the quotes of
/// this text have, because the text is inside of other texts.
fn closing_quote(rest: &str, start: usize, quote: char, outer: usize) -> Option<usize> {
    let mut at = start;
    loop {
        let found = at + rest[at..].find(quote)?;
        let slashes = rest[start..found].bytes().rev().take_while(|byte| *byte == b'\\').count();
        // What is left are the escapes of this text: an even number of them does not escape the quote.
        let own = slashes.checked_sub(outer).filter(|own| own % (outer + 1) == 0).map(|own| own / (outer + 1));
        if own.is_some_and(|own| own % 2 == 0) {
            return Some(found - outer);
        }
        at = found + 1;
    }
}

/// Returns where the bracket at `open` is closed, or the end.
pub(super) fn closing_bracket(rest: &str, open: usize) -> usize {
    let (mut depth, mut quote, mut is_escaped) = (0_usize, None, false);
    for (at, byte) in rest.bytes().enumerate().skip(open) {
        if is_escaped {
            is_escaped = false;
            continue;
        }
        match (byte, quote) {
            (b'\\', _) => is_escaped = true,
            (b'"', None) => quote = Some(b'"'),
            (byte, Some(open)) if byte == open => quote = None,
            (_, Some(_)) => {}
            (b'{' | b'[' | b'(', None) => depth += 1,
            (b'}' | b']' | b')', None) => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    rest.len()
}
