//! How moments and durations are written and parsed. JSON always has RFC 3339 in UTC.

use pleach::store::Timestamp;
use std::time::{Duration, SystemTime};

/// Returns the time in RFC 3339, in UTC, with milliseconds.
pub fn rfc3339(at: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(at.as_millis()) {
        Ok(at) => format!("{at:.3}"),
        Err(_) => format!("{}ms", at.as_millis()),
    }
}

/// Writes a duration with one unit: `850 ms`, `12 s`, `3 m`, `5 h`, `9 d`.
pub fn short(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        seconds @ 1..100 => format!("{seconds} s"),
        seconds @ 100..6_000 => format!("{} m", seconds / 60),
        seconds @ 6_000..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// Parses a duration or a moment: `90s`, `2h`, `7d`, or a time such as `2026-11-17T09:30:00Z`. A
/// duration means this long ago.
///
/// # Errors
/// The text is neither of them. The error says what to write.
pub fn parse_since(text: &str) -> Result<Timestamp, String> {
    if let Ok(duration) = parse_duration(text) {
        let now: Timestamp = SystemTime::now().into();
        return Ok(Timestamp::from_millis(now.as_millis().saturating_sub(duration.as_millis() as i64)));
    }
    let parsed = text.parse::<jiff::Timestamp>().map(|at| at.as_millisecond());
    parsed
        .map(Timestamp::from_millis)
        .map_err(|_| format!("{text:?} is not a time; write 90s, 2h, 7d, or 2026-11-17T09:30:00Z"))
}

/// Parses a duration: a whole number with `ms`, `s`, `m`, `h` or `d`.
///
/// # Errors
/// The text is no such duration. The error says what to write.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration; write a whole number with ms, s, m, h or d, such as 90s");
    let digits = text.find(|character: char| !character.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    // A limit of about 300 years keeps every sum within range.
    number.checked_mul(millis).filter(|millis| *millis < 10_000_000_000_000).map(Duration::from_millis).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        assert_eq!(rfc3339(Timestamp::from_millis(1_763_371_805_250)), "2025-11-17T09:30:05.250Z");
        assert_eq!(rfc3339(Timestamp::from_millis(i64::MAX)), "9223372036854775807ms");
    }

    #[test]
    fn durations_are_parsed_and_written() {
        assert_eq!(parse_duration("90s"), Ok(Duration::from_secs(90)));
        for wrong in ["", "s", "5", "-1s", "5 s", "1.5h", "99999999999999999d"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_since("2025-11-17T09:30:05.250Z").map(Timestamp::as_millis), Ok(1_763_371_805_250));
        assert!(parse_since("yesterday").is_err());
        assert_eq!(short(Duration::from_millis(850)), "850 ms");
        assert_eq!(short(Duration::from_secs(7_300)), "2 h");
    }
}
