//! Finds public items whose doc comment has too few words.
//!
//! It reads formatted source line by line: an item begins in its own line, and the block of an enum
//! or a trait ends with a `}` below its first letter.

use super::DOC_WORDS_MIN;

/// What a public item begins with, after `pub `. A field is anything else with a colon.
const ITEMS: [&str; 9] = ["fn ", "async fn ", "const fn ", "struct ", "enum ", "trait ", "const ", "type ", "mod "];

/// The line of each item that is documented with too few words, and what is wrong.
pub fn short_docs(text: &str) -> Vec<(usize, String)> {
    let (mut found, mut words, mut is_hidden) = (Vec::new(), None, false);
    // The indentation of the enum or trait that this line is inside of.
    let mut block: Option<usize> = None;
    for (index, line) in text.lines().enumerate() {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        if let Some(doc) = code.strip_prefix("///") {
            *words.get_or_insert(0) += doc.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count();
            continue;
        }
        if code.starts_with("#[") || code.starts_with("//") {
            is_hidden |= code.starts_with("#[doc(hidden)]");
            if line == "#[cfg(test)]"
                && text.lines().nth(index + 1).is_some_and(|next| next.starts_with("mod ") && next.ends_with('{'))
            {
                break;
            }
            continue;
        }
        let is_inside = block.is_some_and(|outer| indent == outer + 4);
        if block.is_some_and(|outer| indent == outer && code.starts_with('}')) {
            block = None;
        }
        if let Some(count) = words.take()
            && count < DOC_WORDS_MIN
            && !is_hidden
            && let Some(name) = item(code, is_inside)
        {
            found.push((index + 1, format!("{name} is documented in {count} words; write {DOC_WORDS_MIN} or more")));
        }
        is_hidden = false;
        if (code.starts_with("pub enum ") || code.starts_with("pub trait ")) && code.ends_with('{') {
            block = Some(indent);
        }
    }
    found
}

/// The name of the public item that begins in a line; inside of an enum or a trait, everything is
/// public.
fn item(code: &str, is_inside: bool) -> Option<&str> {
    let public = code.strip_prefix("pub ").or(is_inside.then_some(code))?;
    let rest = ITEMS.iter().find_map(|item| public.strip_prefix(item)).unwrap_or(public);
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
    (end > 0 && rest[..end] != *"use").then(|| &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        short_docs(text).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn short_docs_of_public_items_and_fields_are_found() {
        let source =
            "/// What it is.\npub struct A {\n    /// Its name.\n    pub name: u8,\n    /// Private.\n    age: u8,\n}\n";
        assert_eq!(lines(source), [2, 4]);
        assert!(lines("/// The message type, usually an enum.\npub type A = u8;\n").is_empty());
        assert!(lines("/// Short.\npub(crate) fn a() {}\n/// Short.\nfn b() {}\n").is_empty());
    }

    #[test]
    fn lines_of_one_doc_add_up_across_attributes() {
        let source = "/// Three words here.\n///\n/// And three more.\n#[must_use]\n// why\npub fn a() {}\n";
        assert!(lines(source).is_empty());
        assert_eq!(lines("/// Too short.\n#[must_use]\npub async fn a() {}\n"), [3]);
    }

    #[test]
    fn variants_and_methods_of_traits_are_public() {
        let source =
            "/// One of many kinds of fault.\npub enum A {\n    /// Bad.\n    B,\n}\nenum C {\n    /// Bad.\n    D,\n}\n";
        assert_eq!(lines(source), [4]);
        let source = "pub trait A {\n    /// Runs.\n    fn b() {\n        /// Inner.\n        const C: u8 = 1;\n    }\n}\n";
        assert_eq!(lines(source), [3]);
    }

    #[test]
    fn hidden_items_and_tests_are_left_out() {
        assert!(lines("/// Short.\n#[doc(hidden)]\npub fn a() {}\n").is_empty());
        assert!(lines("#[cfg(test)]\nmod tests {\n    /// Short.\n    pub fn a() {}\n}\n").is_empty());
    }
}
