//! [`Markup`]: HTML in which every text is escaped, because there is no other way to add one.

use crate::report::escape::{ManyLines, OneLine};
use std::fmt::{self, Write as _};

/// A piece of a page. Names of elements, classes and attributes are part of this program; texts are
/// escaped, and control characters in them are visible.
#[derive(Clone, Debug, Default)]
pub(super) struct Markup(String);

impl Markup {
    /// Returns a text on one line.
    pub(super) fn text(text: impl fmt::Display) -> Self {
        Self(escaped(&OneLine(&text.to_string()).to_string()))
    }

    /// Returns a text that keeps its line breaks and tabs.
    pub(super) fn lines(text: &str) -> Self {
        Self(escaped(&ManyLines(text).to_string()))
    }

    /// Returns an element with a class; an empty class is left out.
    pub(super) fn element(tag: &'static str, class: &'static str, inner: impl IntoIterator<Item = Self>) -> Self {
        Self::with(tag, class, &[], inner)
    }

    /// Returns an element with a text in it.
    pub(super) fn of(tag: &'static str, class: &'static str, text: impl fmt::Display) -> Self {
        Self::element(tag, class, [Self::text(text)])
    }

    /// Returns an element of a drawing, with numbers as attributes.
    pub(super) fn shape(tag: &'static str, class: &'static str, numbers: &[(&'static str, f64)]) -> Self {
        let mut shape = String::new();
        for (name, number) in numbers {
            // Writing to a string does not fail.
            let _ = write!(shape, " {name}=\"{}\"", rounded(*number));
        }
        Self(format!("<{tag} class=\"{class}\"{shape}/>"))
    }

    /// Returns a line of a drawing: commands of a path, each with its numbers.
    pub(super) fn path(class: &'static str, commands: &[(char, &[f64])]) -> Self {
        let mut line = String::new();
        for (command, numbers) in commands {
            line.push(*command);
            for number in *numbers {
                let _ = write!(line, "{} ", rounded(*number));
            }
        }
        Self(format!("<path class=\"{class}\" d=\"{}\"/>", line.trim_end()))
    }

    /// Returns an element with attributes of this program.
    pub(super) fn with(
        tag: &'static str,
        class: &'static str,
        attributes: &[(&'static str, &str)],
        inner: impl IntoIterator<Item = Self>,
    ) -> Self {
        let mut html = format!("<{tag}");
        let class = (!class.is_empty()).then_some(("class", class));
        for (name, value) in class.iter().chain(attributes) {
            let _ = write!(html, " {name}=\"{}\"", escaped(&OneLine(value).to_string()));
        }
        html.push('>');
        inner.into_iter().for_each(|part| html.push_str(&part.0));
        let _ = write!(html, "</{tag}>");
        Self(html)
    }

    /// Returns several pieces as one.
    pub(super) fn all(parts: impl IntoIterator<Item = Self>) -> Self {
        Self(parts.into_iter().map(|part| part.0).collect())
    }

    /// Returns a part of the page that this program contains as a file.
    pub(super) fn fixed(html: &'static str) -> Self {
        Self(html.to_string())
    }

    /// Gives the tables and texts of a section names of their own: readers of a screen list them.
    pub(super) fn named(self, section: &'static str) -> Self {
        let mut html = self.0;
        for kind in ["Table", "Text"] {
            let unnamed = format!("aria-label=\"{kind}\"");
            let mut number = 0;
            while let Some(at) = html.find(&unnamed) {
                number += 1;
                let name = format!("aria-label=\"{kind} {number} of: {}\"", escaped(section));
                html.replace_range(at..at + unnamed.len(), &name);
            }
        }
        Self(html)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_html(self) -> String {
        self.0
    }
}

fn rounded(number: f64) -> f64 {
    if number.is_finite() { (number * 10.0).round() / 10.0 } else { 0.0 }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k7_texts_and_attributes_are_escaped() {
        let hostile = "</p><script>'\"&\u{1b}[31m\n\u{202e}";
        let expected = "&lt;/p&gt;&lt;script&gt;&#39;&quot;&amp;\\x1b[31m\\n\\u{202e}";
        let html = Markup::with("p", "note", &[("title", hostile)], [Markup::text(hostile)]).into_html();
        assert_eq!(html, format!("<p class=\"note\" title=\"{expected}\">{expected}</p>"));
        assert_eq!(Markup::lines("a\n<b>").into_html(), "a\n&lt;b&gt;");
        let shape = Markup::shape("rect", "box", &[("x", 1.26), ("y", f64::NAN)]).into_html();
        assert_eq!(shape, "<rect class=\"box\" x=\"1.3\" y=\"0\"/>");
    }
}
