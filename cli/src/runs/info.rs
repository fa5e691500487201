//! The parts of a run's row as text.

use crate::output::{Colour, Style};
use pleach::store::{RunStatus, Timestamp};
pub use pleach_console::report::info::{branches, place_text};

/// Returns the status in its colour.
pub fn status_text(style: &Style, status: RunStatus) -> String {
    style.paint(status_colour(status), status.as_str())
}

pub fn status_colour(status: RunStatus) -> Colour {
    match status {
        RunStatus::Running => Colour::Blue,
        RunStatus::Finished => Colour::Green,
        RunStatus::Waiting | RunStatus::Cancelled | RunStatus::Compensated => Colour::Yellow,
        _ => Colour::Red,
    }
}

/// Returns a time with its distance from now: `2026-11-17 09:30:05 +01:00 (3 m ago)`.
pub fn time_text(style: &Style, at: Timestamp) -> String {
    format!("{} ({})", style.times.exact(at), style.times.relative(at))
}
