//! How results are written: as text for people, or as JSON for programs.
//!
//! | file | owns |
//! |---|---|
//! | `mod` | [`Output`]: the chosen format, and the one place that writes to standard output |
//! | `json` | selecting fields, filters in the jq language, indentation |
//! | `table` | columns that fit the terminal |
//! | `times` | moments and durations |
//! | `progress` | one line on a terminal while a command works for long |
//! | `explanation` | why something does not continue |
//!
//! Rules:
//! 1. Results go to standard output, everything else to standard error.
//! 2. JSON is the interface for programs: it has a version, and fields are only added. Text may
//!    change.
//! 3. Every text that a program or a user wrote passes `escape` of `pleach_console::report`, or is
//!    JSON with escaped control characters.
//! 4. A closed pipe or a full device is an exit code, never a panic.

pub mod explanation;
pub mod json;
pub mod progress;
pub mod table;
pub mod times;

use crate::failure::Failure;
use json::{JsonOptions, JsonText};
pub use pleach_console::report::text::counted;
pub use pleach_console::report::{Version, escape};
use serde::Serialize;
use std::io::{self, IsTerminal as _, Write as _};
use times::Times;

/// The narrowest terminal for which tables are laid out.
const WIDTH_MIN: usize = 60;

/// The result of a command.
pub trait Report: Serialize {
    /// The key of the list whose items `--fields` selects from. `None`: it selects from the object.
    const ITEMS: Option<&'static str> = None;

    /// Returns the result as text, with a line break at its end.
    fn text(&self, style: &Style) -> String;
}

/// How text looks.
pub struct Style {
    /// The width of the terminal. `None` in a pipe or a file, where nothing is cut.
    pub width: Option<usize>,
    /// Whether colours may be used.
    pub colour: bool,
    pub times: Times,
}

impl Style {
    /// Wraps a text in a colour, if colours may be used.
    pub fn paint(&self, colour: Colour, text: &str) -> String {
        if self.colour { format!("\x1b[{}m{text}\x1b[0m", colour as u8) } else { text.to_string() }
    }
}

/// The colours of text, as the codes of a terminal with 16 colours.
#[derive(Clone, Copy)]
pub enum Colour {
    Bold = 1,
    Dim = 2,
    Red = 31,
    Green = 32,
    Yellow = 33,
    Blue = 34,
}

/// Where and how a command writes its result.
pub struct Output {
    json: Option<JsonOptions>,
    style: Style,
}

/// When colours are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColourWhen {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Output {
    pub fn new(json: Option<JsonOptions>, utc: bool, colour: ColourWhen) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let allowed = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let colour = match colour {
            ColourWhen::Auto => is_terminal && allowed,
            ColourWhen::Always => true,
            ColourWhen::Never => false,
        };
        let size = terminal_size::terminal_size().filter(|_| is_terminal);
        let width = size.map(|(width, _)| usize::from(width.0).max(WIDTH_MIN));
        Self { json, style: Style { width, colour, times: Times::new(utc) } }
    }

    pub fn is_json(&self) -> bool {
        self.json.is_some()
    }

    /// Returns whether colours may be used.
    pub fn has_colour(&self) -> bool {
        self.style.colour
    }

    /// Returns the zone in which times are shown.
    pub fn times(&self) -> &Times {
        &self.style.times
    }

    /// Writes the result of a command.
    pub fn print<R: Report>(&self, report: &R) -> Result<(), Failure> {
        let text = match &self.json {
            None => report.text(&self.style),
            Some(options) => JsonText::of(report)?.select(R::ITEMS, options)?.finish(self.style.width.is_some(), options)?,
        };
        write_all(&text)
    }

    /// Writes one object of an endless result on its own line, at once.
    pub fn print_line<R: Report>(&self, report: &R) -> Result<(), Failure> {
        let text = match &self.json {
            None => report.text(&self.style),
            Some(options) => JsonText::of(report)?.select(R::ITEMS, options)?.finish(false, options)?,
        };
        write_all(&text)
    }
}

/// Writes text to standard output.
pub fn write_all(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

/// Writes a remark to standard error. Nothing depends on it, so an error there is ignored.
pub fn remark(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}
