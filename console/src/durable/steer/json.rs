//! Values that people entered: JSON text, checked, and passed on with every digit.

use crate::failure::Failure;
use pleach::store::TEXT_BYTES_MAX;
use serde_json::value::RawValue;

/// The longest key or name in bytes. The store adds the kind of the message to it.
const NAME_BYTES_MAX: usize = TEXT_BYTES_MAX - "signal/".len();

/// Checks a JSON text, and leaves out the space around it. Numbers are not parsed.
///
/// `name` begins the sentence of an error, which says the line and column.
pub(super) fn checked(text: &str, name: &str) -> Result<Box<RawValue>, Failure> {
    let wrong = |error: serde_json::Error| {
        let (line, column) = (error.line(), error.column());
        let reason = error.to_string();
        let reason = reason.split(" at line ").next().unwrap_or_default();
        Failure::new("not_json", format_args!("{name} is not JSON: line {line}, column {column}: {reason}"))
            .advice("a text needs double quotes, and the last entry of a list or object has no comma")
    };
    serde_json::from_str::<&RawValue>(text).map(RawValue::to_owned).map_err(wrong)
}

/// Checks the key of a question, or the name of a signal. `what` begins the sentence of an error.
pub(super) fn checked_name<'a>(name: &'a str, what: &str) -> Result<&'a str, Failure> {
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains('\0') {
        return Ok(name);
    }
    Err(Failure::new("bad_request", format_args!("{what} must have 1 to {NAME_BYTES_MAX} bytes and no zero character")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k5_values_are_checked_and_not_parsed() {
        let exact = r#"{"n": 9223372036854775807, "x": 0.10, "y": 1e400}"#;
        assert_eq!(checked(&format!(" \n{exact}\n"), "the state").unwrap().get(), exact);
        for (text, place) in [("{\n  \"a\": 1,\n}", "line 3, column 1"), ("", "line 1, column 0"), ("yes", "line 1, column 1")]
        {
            let failure = checked(text, "the state").unwrap_err();
            assert_eq!(failure.code, "not_json");
            assert!(failure.text.contains(place), "{text:?}: {failure}");
        }
    }
}
