//! [`InjectedFault`]: a fault that happened, and the text by which it is asked for again.

use crate::runtime::Instant;
use crate::sim::faults::FaultKind;
use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;

/// A fault that happened in a simulation. `Display` writes it as `PLEACH_FAULTS` has it, such as
/// `crash-after:/user/till#3`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InjectedFault {
    /// What the fault did to the operation.
    pub kind: FaultKind,
    /// Where it happened: the path of an actor, the name of an I/O stand-in, a method of a store.
    pub site: String,
    /// The number of the operation at this site, counted from 1.
    pub number: u64,
    /// When it happened, on the virtual clock.
    pub at: Instant,
}

/// What tells one fault from another in the same test: everything except its time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::sim) struct FaultId {
    pub(in crate::sim) kind: FaultKind,
    pub(in crate::sim) site: String,
    pub(in crate::sim) number: u64,
}

impl InjectedFault {
    pub(in crate::sim) fn id(&self) -> FaultId {
        FaultId { kind: self.kind, site: self.site.clone(), number: self.number }
    }
}

impl fmt::Display for InjectedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id().fmt(f)
    }
}

impl fmt::Display for FaultId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}#{}", self.kind, escaped(&self.site), self.number)
    }
}

impl FromStr for FaultId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = || {
            let (kind, rest) = text.split_once(':')?;
            let (site, number) = rest.rsplit_once('#')?;
            Some((kind, unescaped(site)?, number.parse().ok()?))
        };
        let Some((kind, site, number)) = parts() else {
            return Err(format!("{text:?} is no fault; write it as `kind:site#number`, such as `crash-after:/user/till#3`"));
        };
        Ok(Self { kind: kind.parse()?, site, number })
    }
}

/// Reads a list of faults, separated by commas. An empty text is an empty list.
pub(in crate::sim) fn parse_list(text: &str) -> Result<Vec<FaultId>, String> {
    text.split(',').map(str::trim).filter(|one| !one.is_empty()).map(str::parse).collect()
}

/// Writes faults as [`parse_list`] reads them.
pub(in crate::sim) fn list(faults: &[InjectedFault]) -> String {
    let mut text = String::new();
    for fault in faults {
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}{fault}");
    }
    text
}

/// Replaces the characters that end a fault in a list, or that a shell may change.
fn escaped(site: &str) -> String {
    let mut text = String::new();
    for character in site.chars() {
        match character {
            ',' | '#' | '%' | '\'' | ' ' => {
                let _ = write!(text, "%{:02x}", u32::from(character));
            }
            other => text.push(other),
        }
    }
    text
}

fn unescaped(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut site = parts.next()?.to_string();
    for part in parts {
        let code = u8::from_str_radix(part.get(..2)?, 16).ok()?;
        site.push(char::from(code));
        site.push_str(part.get(2..)?);
    }
    Some(site)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d5_list_of_faults_is_read_as_it_was_written() {
        let fault = |kind, site: &str, number| InjectedFault { kind, site: site.into(), number, at: Instant::ZERO };
        let faults = [fault(FaultKind::CrashAfter, "/user/a, #1 'b' 100%", 3), fault(FaultKind::AnswerLost, "commit", 12)];
        let text = list(&faults);
        assert_eq!(text, "crash-after:/user/a%2c%20%231%20%27b%27%20100%25#3,answer-lost:commit#12");
        assert_eq!(parse_list(&text), Ok(faults.iter().map(InjectedFault::id).collect()));
        assert_eq!(parse_list(""), Ok(Vec::new()));
    }

    #[test]
    fn d5_unreadable_fault_is_named_with_what_to_write() {
        let wrong = parse_list("crash-after:/user/till").unwrap_err();
        assert_eq!(
            wrong,
            "\"crash-after:/user/till\" is no fault; write it as `kind:site#number`, such as `crash-after:/user/till#3`"
        );
        assert!(
            parse_list("crash:/user/till#1")
                .unwrap_err()
                .starts_with("\"crash\" is no kind of fault; use one of handler-fails")
        );
    }
}
