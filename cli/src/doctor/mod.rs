//! `pleach doctor`: examines a store or a process, and says what to do.
//!
//! | file | owns |
//! |---|---|
//! | `mod` | the findings as text, JSON and exit code |
//! | `file` | a SQLite file: rights, space, journal, holders, integrity |
//! | `server` | a PostgreSQL server: rights, clock, connections, indexes, transactions |
//! | `runs` | the runs of a store: stuck, unserved, paused, waiting, damaged, old |
//! | `records` | the checksums of records |
//! | `process` | a process, through its inspection socket |
//!
//! Rules:
//! 1. Nothing is written: a store is opened for reading, and never created or migrated.
//! 2. Without `--full` every step is bounded, so that it can run against a busy store.
//! 3. A finding that is not well says what to do, with a command where one helps.

mod file;
mod process;
mod records;
mod runs;
#[cfg(feature = "postgres")]
mod server;

use crate::failure::{Failure, Status};
use crate::live::args::{DoctorArgs, Place};
use crate::output::escape::OneLine;
use crate::output::explanation::wrapped;
use crate::output::{Colour, Output, Report, Style, Version, counted};
use crate::store::{Access, StoreKind, Target};
use serde::Serialize;
use std::fmt::Write as _;

/// The width of the level and the subject.
const INDENT: usize = 22;

pub async fn run(args: DoctorArgs, output: &Output) -> Result<(), Failure> {
    let mut findings = Findings::default();
    let (target, kind, outcome) = match &args.target {
        Place::Socket(socket) => (socket.name(), "process", process::examine(socket, args.timeout, &mut findings).await),
        Place::Store(target) => {
            let kind = if matches!(target, Target::Sqlite(_)) { "sqlite" } else { "postgres" };
            (target.name(), kind, store(target, args.full, &mut findings).await)
        }
    };
    if let Err(failure) = &outcome {
        // Arguments that no target fits are no finding.
        if failure.status == Status::Usage {
            return outcome;
        }
        let advice = failure.advice.clone();
        findings.add(Finding { advice, ..Finding::new(Level::Problem, "reachable", failure.text.clone()) });
    }
    let worst = findings.list.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok);
    output.print(&DoctorReport { target, kind, worst, findings: findings.list })?;
    // The reason was printed, so a failure has no text.
    match outcome {
        Err(failure) => Err(Failure::new(failure.status, "")),
        Ok(()) if worst == Level::Problem => Err(Failure::new(Status::Unhealthy, "")),
        Ok(()) => Ok(()),
    }
}

async fn store(target: &Target, is_full: bool, findings: &mut Findings) -> Result<(), Failure> {
    if let Target::Sqlite(path) = target {
        file::examine_outside(path, findings);
    }
    let kind = target.open_kind(Access::Read).await?;
    findings.ok(
        "reachable",
        format!("the store can be opened, and has the format of this version ({})", env!("CARGO_PKG_VERSION")),
    );
    match &kind {
        StoreKind::Sqlite(store) => file::examine(store, is_full, findings).await?,
        #[cfg(feature = "postgres")]
        StoreKind::Postgres(store) => server::examine(store, target, findings).await?,
    }
    let store = kind.store();
    runs::examine(&store, target, is_full, findings).await?;
    records::examine(&store, target, is_full, findings).await
}

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// All is well.
    Ok,
    /// Nothing fails now, but it can soon.
    Warning,
    /// Something fails, or a run does not continue.
    Problem,
}

/// One thing that was examined.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// What was examined, as a short name that does not change.
    pub subject: &'static str,
    pub level: Level,
    pub text: String,
    /// What to do.
    pub advice: Option<String>,
    /// The command that does it, or that shows more.
    pub command: Option<String>,
}

impl Finding {
    pub fn new(level: Level, subject: &'static str, text: impl Into<String>) -> Self {
        Self { subject, level, text: text.into(), advice: None, command: None }
    }
}

/// The findings so far.
#[derive(Default)]
pub struct Findings {
    list: Vec<Finding>,
}

impl Findings {
    pub fn add(&mut self, finding: Finding) {
        self.list.push(finding);
    }

    pub fn ok(&mut self, subject: &'static str, text: impl Into<String>) {
        self.add(Finding::new(Level::Ok, subject, text));
    }

    /// Adds a finding that is not well, with what to do.
    pub fn bad(&mut self, level: Level, subject: &'static str, text: impl Into<String>, advice: impl Into<String>) {
        self.add(Finding { advice: Some(advice.into()), ..Finding::new(level, subject, text) });
    }

    /// Adds a finding that is not well, with what to do and the command for it.
    pub fn bad_with(
        &mut self,
        level: Level,
        subject: &'static str,
        text: impl Into<String>,
        advice: impl Into<String>,
        command: String,
    ) {
        let finding = Finding::new(level, subject, text);
        self.add(Finding { advice: Some(advice.into()), command: Some(command), ..finding });
    }
}

struct DoctorReport {
    target: String,
    kind: &'static str,
    worst: Level,
    findings: Vec<Finding>,
}

#[derive(Serialize)]
struct DoctorJson<'a> {
    version: Version,
    target: &'a str,
    kind: &'static str,
    worst: Level,
    findings: &'a [Finding],
}

impl Serialize for DoctorReport {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { target, kind, worst, findings } = self;
        DoctorJson { version: Version, target, kind, worst: *worst, findings }.serialize(serializer)
    }
}

impl Report for DoctorReport {
    const ITEMS: Option<&'static str> = Some("findings");

    fn text(&self, style: &Style) -> String {
        let mut text = String::new();
        let count = |level| self.findings.iter().filter(|finding| finding.level == level).count();
        for Finding { subject, level, text: words, advice, command } in &self.findings {
            let (name, colour) = match level {
                Level::Ok => ("ok", Colour::Green),
                Level::Warning => ("warning", Colour::Yellow),
                Level::Problem => ("PROBLEM", Colour::Red),
            };
            let name = style.paint(colour, name) + &" ".repeat(9 - name.len());
            let lines = |words: &str| {
                let lines = wrapped(&OneLine(words).to_string(), style.width.map(|width| width - INDENT));
                lines.join(&format!("\n{:INDENT$}", ""))
            };
            let _ = writeln!(text, "{name}{subject:<13}{}", lines(words));
            if let Some(advice) = advice {
                let _ = writeln!(text, "{:INDENT$}{}", "", lines(advice));
            }
            // A command stays on one line, so that it can be copied.
            if let Some(command) = command {
                let _ = writeln!(text, "{:INDENT$}do: {}", "", OneLine(command));
            }
        }
        let (problems, warnings) = (count(Level::Problem), count(Level::Warning));
        text + &format!("{}, {}\n", counted(problems, "problem"), counted(warnings, "warning"))
    }
}

/// Writes a size with one unit: `850 bytes`, `12 kB`, `3.4 GB`.
pub fn size(bytes: u64) -> String {
    let units = [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) if bytes < 10 * unit => format!("{}.{} {name}", bytes / unit, bytes % unit / (unit / 10)),
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None => format!("{bytes} bytes"),
    }
}

/// Lists the first texts, and says how many more there are.
pub fn some_of(texts: &[String]) -> String {
    const SHOWN_MAX: usize = 5;
    let shown = texts.iter().take(SHOWN_MAX).map(|text| crate::runs::quoted(text)).collect::<Vec<_>>().join(", ");
    if texts.len() > SHOWN_MAX { format!("{shown} and {} more", texts.len() - SHOWN_MAX) } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_lists_are_short() {
        assert_eq!(size(999), "999 bytes");
        assert_eq!(size(1_450_000), "1.4 MB");
        assert_eq!(size(45_000_000_000), "45 GB");
        let ids: Vec<String> = (0..7).map(|number| format!("r-{number}")).collect();
        assert_eq!(some_of(&ids), "r-0, r-1, r-2, r-3, r-4 and 2 more");
        assert_eq!(some_of(&ids[..1]), "r-0");
    }
}
