//! [`Cursor`]: where the next page of a snapshot begins, as an opaque text.
//!
//! Text form: `c1:START:NEXT:PLACE.NUMBER,PLACE.NUMBER,…`, from the start down. It is valid for one
//! system in one process.

use crate::tree::walk::{Place, WalkPosition};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// The prefix of the text form, with its version.
const PREFIX: &str = "c1:";

/// Where the next page of a [`Snapshot`](crate::Snapshot) begins.
///
/// It is valid for the same system and the same start path. `Display` writes it as text, which
/// parses back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub(crate) WalkPosition);

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}:{}:", self.0.start, self.0.next)?;
        self.0.way.iter().enumerate().try_for_each(|(index, at)| {
            let separator = if index == 0 { "" } else { "," };
            write!(f, "{separator}{}.{}", at.place, at.number)
        })
    }
}

/// The error for a text that is not a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CursorError;

impl fmt::Display for CursorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid cursor: pass the `next` of an earlier page unchanged, or none to start again")
    }
}

impl core::error::Error for CursorError {}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let mut parts = text.strip_prefix(PREFIX).ok_or(CursorError)?.splitn(3, ':');
        let mut part = || parts.next().ok_or(CursorError);
        let (start, next, way) = (number(part()?)?, number(part()?)?, part()?);
        let way = match way {
            "" => Vec::new(),
            way => way.split(',').map(place).collect::<Result<_, _>>()?,
        };
        if way.len() > crate::inspect::snapshot::SNAPSHOT_DEPTH_MAX as usize {
            return Err(CursorError);
        }
        Ok(Self(WalkPosition { start, way, next }))
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, CursorError> {
    text.parse().map_err(|_| CursorError)
}

fn place(text: &str) -> Result<Place, CursorError> {
    let (place, of) = text.split_once('.').ok_or(CursorError)?;
    Ok(Place { place: number(place)?, number: number(of)? })
}

#[cfg(feature = "serde")]
impl serde::Serialize for Cursor {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Cursor {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = alloc::string::String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn o1_cursor_parses_back_from_its_text() {
        for text in ["c1:1:0:", "c1:7:3:0.2", "c1:18446744073709551615:4294967295:1.2,3.4"] {
            assert_eq!(text.parse::<Cursor>().unwrap().to_string(), text);
        }
        for text in ["", "c1", "c1:", "c1:1:2", "c2:1:0:", "c1:1:0:1", "c1:1:0:1.2,", "c1:x:0:", "c1:1:-1:", "c1:1:4294967296:"]
        {
            assert_eq!(text.parse::<Cursor>(), Err(CursorError), "{text}");
        }
    }
}
