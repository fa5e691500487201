//! The language check: old words and names, long lines, and docs that are too short.
//!
//! It reads what a person reads: Rust, Markdown, SQL and TOML files. [`check`] fails only on the
//! areas of [`CLEAN`]; [`report`] counts everything. The lists below are the whole configuration.

mod scan;
mod short_docs;

use scan::{Fault, Kind};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use xtask::step::Outcome;

/// The areas that must stay clean of every kind of fault. Areas are the folders of the packages,
/// `docs` for all Markdown, and `root` for other files of the root.
const CLEAN: &[&str] =
    &["bench", "cli", "core", "crash", "docs", "embassy", "examples", "fuzz", "graph", "macros", "pleach", "root", "xtask"];

/// The longest comment or line of Markdown, in columns.
pub const COLUMNS_MAX: usize = 100;

/// The fewest words that document a public item.
pub const DOC_WORDS_MIN: usize = 6;

/// How many places a report lists without `--all`.
const PLACES_MAX: usize = 40;

/// Words, and what to write instead. They match as whole words in any case; `_` and `-` count as
/// spaces.
pub const WORDS: &[(&str, &str)] = &[
    ("told", "say who notifies, sends or sets; \"Default: ...\""),
    ("nobody", "no caller, no task, ..."),
    ("whoever", "a caller, the caller that"),
    ("somebody", "a caller, a task, ..."),
    ("anybody", "any caller, anyone"),
    ("scribe", "committer"),
    ("keeper", "lease renewal"),
    ("letters", "inbox messages"),
    ("crew", "executor, workers"),
    ("roster", "worker list, runner count"),
    ("sprint", "fast path"),
    ("bell", "task waker"),
    ("desk", "run actor, write queue"),
    ("fallen", "failed child"),
    ("circle", "cycle"),
    ("circles", "cycles"),
];

/// Texts in which a word of [`WORDS`] is right.
pub const ALLOWED: &[&str] = &["dead letters", "ascii letters", "6 letters", "shape=circle", "<circle class"];

/// Phrases, and what to write instead. They match as [`WORDS`] do.
pub const PHRASES: &[(&str, &str)] = &[
    ("in hand", "current"),
    ("gone on with", "resumed, continued"),
    ("goes on", "continues, resumes"),
    ("go on", "continue, resume"),
    ("is on record", "is recorded"),
    ("on record", "recorded"),
    ("tell of", "report"),
    ("tells of", "reports"),
    ("comes along", "is built in"),
    ("brings along", "includes"),
    ("unless given", "Default: ..."),
    ("unless said otherwise", "Default: ..."),
    ("for good", "permanently"),
    ("by itself", "automatically"),
    ("stands for", "represents, means"),
    ("stands in", "is in, replaces"),
    ("those that", "name them"),
    ("as far as it goes", "until it must stop"),
    ("what is left", "the remaining"),
];

/// Names of types and modules, and the names of today. They match as whole names, in this case
/// only: `Desk` and `mod desk`, but not a local variable. A file may not have such a module name
/// either.
pub const NAMES: &[(&str, &str)] = &[
    ("Above", "ParentLink"),
    ("Aside", "Signals"),
    ("Bell", "TaskWaker"),
    ("Books", "GroupState, Counts"),
    ("Care", "Retry"),
    ("Circle", "Cycle"),
    ("Crew", "Executor"),
    ("Desk", "RunActor, WriteQueue"),
    ("Door", "Target, Member"),
    ("Ears", "Listeners"),
    ("Fallen", "FailedChild"),
    ("Family", "Children"),
    ("Keeper", "LeaseRenewal"),
    ("Letter", "InboxMessage"),
    ("Letters", "InboxReader"),
    ("Life", "NodeState"),
    ("Obeyed", "Reporting"),
    ("Posed", "PendingAsk"),
    ("PostKind", "InboxMessageKind"),
    ("Posture", "ControlState"),
    ("Regroup", "RestartPlan"),
    ("Risen", "FailureStep"),
    ("Road", "Delivery"),
    ("Roster", "WorkerList"),
    ("Scribe", "Committer"),
    ("Seated", "a plain noun"),
    ("Shift", "ClaimLoop"),
    ("Spot", "InPlaceNode"),
    ("Sprint", "FastPath"),
    ("Steady", "RetryingStore"),
    ("Verdict", "ChildAction"),
    ("WindDown", "StopMode"),
    ("World", "Tree"),
];

/// Fails if a kind of fault occurs in an area that is clean of it.
pub fn check(root: &Path) -> Outcome {
    let faults = scan::faults(root, &[])?;
    let is_clean = |fault: &&Fault| CLEAN.contains(&fault.area.as_str());
    let broken: Vec<&Fault> = faults.iter().filter(is_clean).collect();
    if broken.is_empty() { Ok(()) } else { Err(text(&broken, PLACES_MAX)) }
}

/// The faults below the paths that begin with one of `prefixes`; `--all` among them lists each
/// place.
pub fn report(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let (options, prefixes): (Vec<&str>, Vec<&str>) = arguments.iter().partition(|word| word.starts_with("--"));
    if let Some(unknown) = options.iter().find(|option| **option != "--all") {
        return Err(format!("unknown option {unknown:?}; the only one is --all"));
    }
    let faults = scan::faults(root, &prefixes)?;
    let places_max = if options.is_empty() { PLACES_MAX } else { usize::MAX };
    Ok(text(&faults.iter().collect::<Vec<_>>(), places_max))
}

/// The counts per kind and area, after the first places.
fn text(faults: &[&Fault], places_max: usize) -> String {
    let mut text = String::new();
    for fault in faults.iter().take(places_max) {
        let _ = writeln!(text, "{}:{}: {}", fault.file, fault.line, fault.why);
    }
    if faults.len() > places_max {
        let _ = writeln!(text, "... and {} more; `cargo xtask words --all [PATH..]` lists them", faults.len() - places_max);
    }
    let mut counts: BTreeMap<(Kind, &str), usize> = BTreeMap::new();
    for fault in faults {
        *counts.entry((fault.kind, &fault.area)).or_default() += 1;
    }
    for ((kind, area), count) in counts {
        let _ = writeln!(text, "{:7} {area:9} {count:5}", kind.name());
    }
    let _ = writeln!(text, "{} in all", faults.len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_counts_by_kind_and_area() {
        let fault =
            |area: &str, line| Fault { kind: Kind::Width, area: area.into(), file: "a.rs".into(), line, why: "long".into() };
        let faults = [fault("core", 1), fault("core", 2), fault("graph", 3)];
        let text = text(&faults.iter().collect::<Vec<_>>(), 1);
        let expected = "a.rs:1: long\n... and 2 more; `cargo xtask words --all [PATH..]` lists them\n\
                        width   core          2\nwidth   graph         1\n3 in all\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn an_unknown_option_is_an_error() {
        assert!(report(Path::new("."), &["--most"]).is_err());
    }
}
