//! The frame of an incident: its head, its sections in order, and what was left out.

use super::markup::Markup;
use super::words::{sentence, text, time};
use crate::clock;
use crate::server::routes::Api;
use serde_json::Value;

/// The looks of the page, for light, dark and paper.
const STYLE: &str = concat!("<style>", include_str!("style.css"), "</style>");

/// The page may load nothing and run nothing: it has its own rule, because no server adds one.
const HEAD: &str = concat!(
    "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">",
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; ",
    "form-action 'none'\">",
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">",
    "<meta name=\"referrer\" content=\"no-referrer\"><meta name=\"color-scheme\" content=\"light dark\">",
);

/// A page that is being written.
pub(super) struct Page {
    /// What the page is about, such as `Run order-7`.
    title: String,
    /// Beside the title: the status, and whether it is good, bad or neither.
    badge: Option<(String, &'static str)>,
    sections: Vec<(&'static str, Markup)>,
    /// What was not read or not written, one sentence each.
    left_out: Vec<String>,
}

impl Page {
    pub(super) fn new(title: String) -> Self {
        Self { title, badge: None, sections: Vec::new(), left_out: Vec::new() }
    }

    pub(super) fn badge(&mut self, text: &str, tone: &'static str) {
        self.badge = Some((sentence(&text.replace('_', " ")), tone));
    }

    /// Adds a section, unless it is empty.
    pub(super) fn section(&mut self, title: &'static str, content: Markup) {
        if !content.is_empty() {
            self.sections.push((title, content.named(title)));
        }
    }

    /// Says that something is not in the page.
    pub(super) fn left_out(&mut self, what: impl Into<String>) {
        self.left_out.push(what.into());
    }

    /// Returns the answer of a view. A failed one becomes a sentence about what is missing.
    pub(super) fn read(&mut self, what: &str, seen: Result<Value, crate::failure::Failure>) -> Option<Value> {
        seen.map_err(|failure| self.left_out(format!("{}: {failure}.", sentence(what)))).ok()
    }

    /// Writes the page. `facts` are said in its head.
    pub(super) fn html(self, api: &Api, facts: &[(&str, String)]) -> String {
        let console = api.described().unwrap_or_default();
        let mut known = vec![("Taken", format!("{} (UTC, as all times on this page)", time(&clock::now())))];
        known.extend(facts.iter().map(|(name, value)| (*name, value.clone())));
        known.push(("Console", text(&console["name"]).unwrap_or_else(|| "without a name".to_string())));
        known.extend(text(&console["environment"]["name"]).map(|name| ("Environment", name)));
        known.push(("Saved by", text(&console["user"]).unwrap_or_default()));
        known.push(("Version", format!("pleach {}", env!("CARGO_PKG_VERSION"))));
        let fact = |(name, value): &(&str, String)| {
            Markup::element("div", "", [Markup::of("dt", "", name), Markup::of("dd", "", value)])
        };
        let badge = self.badge.as_ref().map(|(text, tone)| Markup::of("span", tone, text));
        let title = Markup::of("h1", "", &self.title);
        let head = [Markup::element("div", "title", [Some(title), badge].into_iter().flatten())];
        let facts = [Markup::element("dl", "facts", known.iter().map(fact))];
        let header = Markup::element("header", "", head.into_iter().chain(facts));
        let mut all = vec![header];
        for (title, content) in self.sections {
            all.push(Markup::element("section", "", [Markup::of("h2", "", title), content]));
        }
        let mut missing = self.left_out;
        missing.push("Secrets: they are shown as [redacted].".to_string());
        let missing = Markup::element("ul", "", missing.iter().map(|text| Markup::of("li", "", text)));
        all.push(Markup::element("section", "", [Markup::of("h2", "", "What is not on this page"), missing]));
        let body = Markup::element("body", "", [Markup::element("main", "", all)]);
        let title = Markup::of("title", "", format_args!("{} – incident", self.title));
        Markup::all([
            Markup::fixed(HEAD),
            title,
            Markup::fixed(STYLE),
            Markup::fixed("</head>"),
            body,
            Markup::fixed("</html>\n"),
        ])
        .into_html()
    }
}
