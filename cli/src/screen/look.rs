//! [`Look`]: colours by their meaning, and glyphs with an ASCII form.
//!
//! Only the eight basic colours are used, on the background of the terminal, so a view is readable
//! on dark and on light ones. A state is always also a word or a shape: without colours nothing is
//! lost.

use ratatui_core::style::{Color, Modifier, Style};
use std::env;

/// How a view looks on this terminal.
#[derive(Clone, Debug)]
pub struct Look {
    pub theme: Theme,
    pub glyphs: &'static Glyphs,
}

impl Look {
    /// Chooses glyphs by the locale. `colour` says whether colours may be used.
    pub fn new(colour: bool) -> Self {
        Self::with(colour, !is_utf8(|name| env::var(name).ok()))
    }

    pub fn with(colour: bool, ascii: bool) -> Self {
        Self { theme: Theme::new(colour), glyphs: if ascii { &ASCII } else { &UNICODE } }
    }
}

/// The styles of text, by meaning. Use [`Style::default`] for plain text.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    /// Names and titles.
    pub strong: Style,
    /// What can be skipped: units, labels, zeros.
    pub weak: Style,
    /// What is as it should be.
    pub good: Style,
    /// What needs a look soon.
    pub warn: Style,
    /// What has failed, is full or stuck.
    pub bad: Style,
    /// What belongs together: the name of the system, the sorted column, frames.
    pub accent: Style,
    /// The selected row. Patch it over the row.
    pub selected: Style,
    /// Something that just happened, for a moment.
    pub flash: Style,
    /// A word on a coloured ground, such as a status in a header.
    pub good_badge: Style,
    pub warn_badge: Style,
    pub bad_badge: Style,
    /// A key in a footer or a help panel.
    pub key: Style,
}

impl Theme {
    fn new(colour: bool) -> Self {
        let plain = Style::new();
        let (bold, reversed) = (plain.add_modifier(Modifier::BOLD), plain.add_modifier(Modifier::REVERSED));
        let front = |of: Color, style: Style| if colour { style.fg(of) } else { style };
        let badge = |of: Color| if colour { bold.fg(Color::Black).bg(of) } else { reversed };
        Self {
            strong: bold,
            weak: plain.add_modifier(Modifier::DIM),
            good: front(Color::Green, plain),
            warn: front(Color::Yellow, plain),
            bad: front(Color::Red, bold),
            accent: front(Color::Cyan, plain),
            selected: reversed,
            flash: if colour { badge(Color::Yellow) } else { reversed.add_modifier(Modifier::BOLD) },
            good_badge: badge(Color::Green),
            warn_badge: badge(Color::Yellow),
            bad_badge: badge(Color::Red),
            key: front(Color::Cyan, bold),
        }
    }
}

/// The characters of lines, bars and marks.
#[derive(Debug)]
pub struct Glyphs {
    /// Whether text is limited to ASCII.
    pub is_ascii: bool,
    /// Marks a text that was cut.
    pub ellipsis: &'static str,
    /// Eight or fewer levels of a sparkline, the lowest first.
    pub levels: &'static [&'static str],
    /// Parts of a cell of a bar, from nearly empty to full.
    pub parts: &'static [&'static str],
    /// A cell of a bar that is empty.
    pub empty: &'static str,
    /// Corners and sides of a frame: top left, top right, bottom left, bottom right, horizontal,
    /// vertical.
    pub frame: [&'static str; 6],
    /// The selected row.
    pub pointer: &'static str,
    /// A branch of a tree that is open, closed, and one without children.
    pub open: &'static str,
    pub closed: &'static str,
    pub leaf: &'static str,
    pub down: &'static str,
    /// Leads from a cause to its effect.
    pub arrow: &'static str,
    /// Separates parts of a line.
    pub dot: &'static str,
    /// Marks of good, warning and bad states.
    pub good: &'static str,
    pub warn: &'static str,
    pub bad: &'static str,
}

static UNICODE: Glyphs = Glyphs {
    is_ascii: false,
    ellipsis: "…",
    levels: &["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"],
    parts: &["▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"],
    empty: "░",
    frame: ["╭", "╮", "╰", "╯", "─", "│"],
    pointer: "▌",
    open: "▾",
    closed: "▸",
    leaf: "·",
    down: "↓",
    arrow: "→",
    dot: "·",
    good: "●",
    warn: "▲",
    bad: "✖",
};

static ASCII: Glyphs = Glyphs {
    is_ascii: true,
    ellipsis: "~",
    levels: &["_", ".", "-", "=", "+", "*", "#"],
    parts: &["#"],
    empty: ".",
    frame: ["+", "+", "+", "+", "-", "|"],
    pointer: ">",
    open: "-",
    closed: "+",
    leaf: " ",
    down: "v",
    arrow: "->",
    dot: "|",
    good: "o",
    warn: "!",
    bad: "X",
};

/// Returns whether the terminal shows UTF-8: by the first locale variable that is set. Without any,
/// as in many containers, it does.
fn is_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| variable(name).filter(|value| !value.is_empty()));
    locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glyphs_follow_the_locale() {
        let with =
            |set: &[(&str, &str)]| is_utf8(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string()));
        assert!(with(&[]) && with(&[("LANG", "de_DE.UTF-8")]) && with(&[("LC_ALL", ""), ("LANG", "C.utf8")]));
        assert!(!with(&[("LANG", "C")]) && !with(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]));
    }

    #[test]
    fn theme_without_colours_has_none() {
        let theme = Theme::new(false);
        for style in [theme.good, theme.warn, theme.bad, theme.accent, theme.flash, theme.bad_badge, theme.key] {
            assert_eq!((style.fg, style.bg), (None, None));
        }
    }
}
