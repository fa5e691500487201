//! Times as the page shows them: RFC 3339 in UTC, with microseconds.

/// Returns the present time of day.
pub(crate) fn now() -> String {
    text(jiff::Timestamp::now())
}

/// Returns a time as text.
pub(crate) fn text(time: jiff::Timestamp) -> String {
    format!("{time:.6}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn times_are_rfc_3339_in_utc() {
        let time = jiff::Timestamp::from_microsecond(1_795_002_000_000_007).unwrap_or_default();
        assert_eq!(super::text(time), "2026-11-18T11:40:00.000007Z");
    }
}
