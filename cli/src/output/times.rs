//! [`Times`]: how moments are written.
//!
//! Text shows the local time with its offset, or UTC. JSON always has RFC 3339 in UTC.

use jiff::tz::TimeZone;
use pleach::store::Timestamp;
pub use pleach_console::report::times::{parse_duration, parse_since, rfc3339, short};
use std::time::SystemTime;

/// The zone in which text shows times.
#[derive(Clone)]
pub struct Times {
    zone: TimeZone,
}

impl Times {
    pub fn new(utc: bool) -> Self {
        Self { zone: if utc { TimeZone::UTC } else { TimeZone::system() } }
    }

    /// Returns the time with its offset: `2026-11-17 09:30:05 +01:00`.
    pub fn exact(&self, at: Timestamp) -> String {
        match jiff::Timestamp::from_millisecond(at.as_millis()) {
            Ok(at) => at.to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M:%S %:z").to_string(),
            Err(_) => format!("{} ms", at.as_millis()),
        }
    }

    /// Returns the time of day with its offset: `09:30:05 +01:00`.
    pub fn clock(&self, at: Timestamp) -> String {
        self.exact(at).split_once(' ').map_or_else(String::new, |(_, clock)| clock.to_string())
    }

    /// Returns how long ago a time was, or how far ahead it is.
    pub fn relative(&self, at: Timestamp) -> String {
        relative(at, SystemTime::now().into())
    }
}

fn relative(at: Timestamp, now: Timestamp) -> String {
    if at > now { format!("in {}", short(at.since(now))) } else { format!("{} ago", short(now.since(at))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_the_chosen_zone() {
        let at = Timestamp::from_millis(1_763_371_805_250);
        assert_eq!(Times::new(true).exact(at), "2025-11-17 09:30:05 +00:00");
    }

    #[test]
    fn distances_are_written_from_now() {
        let now = Timestamp::from_millis(100_000);
        assert_eq!(relative(Timestamp::from_millis(88_000), now), "12 s ago");
        assert_eq!(relative(Timestamp::from_millis(220_000), now), "in 2 m");
    }
}
