//! [`examine`]: what is wrong in a store now, and what waits for people.
//!
//! | file | finds |
//! |---|---|
//! | `mod` | damage; the form of a problem |
//! | `failed` | failed and stuck runs, grouped by error |
//! | `live` | runs that nobody serves, lost leases, trouble, missed deadlines |
//! | `people` | questions to people, and refused answers |
//!
//! One page of each status is read, so the cost does not grow with the store: counts end at 1,000,
//! and `is_cut` says that there may be more. Positions of waiting runs are read once and kept.

mod failed;
mod live;
mod people;

use super::StoreSource;
use super::workers::Live;
use crate::failure::Failure;
use crate::problem::{Advice, Problem, Severity};
use crate::report::command::quoted;
use crate::report::text::{counted, cut};
use crate::report::times::rfc3339;
use crate::source::{Findings, Quiet};
use crate::view::{RunAt, View};
use pleach::store::{DamagedRun, Timestamp};
use std::collections::BTreeMap;

/// The newest runs whose rows are checked for damage.
const NEWEST: usize = 200;

/// The most problems of one kind.
const PROBLEMS_MAX: usize = 20;

/// The longest part of a key that tells problems of one kind apart.
const KEY_MAX: usize = 80;

/// The problems of a store so far.
pub(super) struct Report<'a> {
    source: &'a StoreSource,
    findings: Findings,
    now: Timestamp,
    /// Ids of damaged runs, with what is wrong.
    damaged: BTreeMap<String, String>,
}

pub(super) async fn examine(source: &StoreSource) -> Result<Findings, Failure> {
    let live = Live::read(source).await?;
    let newest = source.store().store().list(Vec::new(), None, NEWEST).await?;
    let mut report = Report { source, findings: Findings::default(), now: live.now, damaged: BTreeMap::new() };
    report.damaged_rows(live.damaged.iter().chain(&newest.damaged));
    report.findings.is_cut |= live.is_running_cut || live.is_waiting_cut;
    report.failed().await?;
    report.unserved(&live).await?;
    report.lost(&live).await?;
    report.troubled(&live);
    report.people(&live).await?;
    report.damage();
    Ok(report.findings)
}

impl Report<'_> {
    /// Returns a problem of this kind, without its consequences and advice.
    fn problem(&self, severity: Severity, kind: &str, detail: &str, title: String) -> Problem {
        let key = self.source.key.clone();
        let detail = if detail.is_empty() { String::new() } else { format!(":{}", short_key(detail)) };
        Problem {
            key: format!("{key}:{kind}{detail}"),
            severity,
            kind: kind.to_string(),
            source: key,
            title,
            cause: None,
            so: Vec::new(),
            since: None,
            path: None,
            run: None,
            count: 1,
            advice: Vec::new(),
        }
    }

    fn add(&mut self, problem: Problem) {
        let of_kind = self.findings.problems.iter().filter(|known| known.kind == problem.kind).count();
        if of_kind >= PROBLEMS_MAX {
            self.findings.is_cut = true;
        } else {
            self.findings.problems.push(problem);
        }
    }

    fn quiet(&mut self, text: impl Into<String>) {
        self.findings.quiet.push(Quiet { source: self.source.key.clone(), text: text.into() });
    }

    /// Advice with the page of a run.
    fn look_at(&self, text: impl Into<String>, run: &str) -> Advice {
        let view = View::Run(RunAt { store: self.source.key.clone(), run: run.to_string() });
        Advice { text: text.into(), view: Some(view), command: self.command("why", &quoted(run)) }
    }

    /// Returns a command with the store as its first argument, if commands can open the store.
    fn command(&self, words: &str, more: &str) -> Option<String> {
        let store = quoted(self.source.store().target()?);
        let separator = if more.is_empty() { "" } else { " " };
        Some(format!("pleach {words} {store}{separator}{more}"))
    }

    fn damaged_rows<'a>(&mut self, rows: impl Iterator<Item = &'a DamagedRun>) {
        self.damaged.extend(rows.map(|row| (row.run.clone(), format!("the row of the run is damaged: {}", row.reason))));
    }

    /// Reports the damage that was found on the way.
    fn damage(&mut self) {
        let damaged = std::mem::take(&mut self.damaged);
        if damaged.is_empty() {
            self.quiet("No damaged run was found");
        }
        for (run, reason) in damaged {
            let title = format!("Run {run} is damaged");
            let problem = Problem {
                cause: Some(reason),
                so: vec!["no worker can drive it".into()],
                advice: vec![
                    self.look_at("Look at what is left of it", &run),
                    Advice {
                        text: "Restore the store from a backup; other runs are not affected".into(),
                        command: self.command("doctor", "--full"),
                        ..Advice::default()
                    },
                ],
                run: Some(run.clone()),
                ..self.problem(Severity::Error, "damaged", &run, title)
            };
            self.add(problem);
        }
    }
}

/// Returns a text that tells problems of one kind apart: a long one ends with a hash of the rest.
fn short_key(detail: &str) -> String {
    let short = cut(detail, KEY_MAX);
    if short == detail {
        return short;
    }
    // FNV-1a: the key is the same at the next look, and in the next process.
    let hash =
        detail.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    format!("{short}{hash:016x}")
}

/// Writes a count of runs: `3 runs`, `1,000 or more runs`.
fn runs(count: usize, is_cut: bool) -> String {
    if is_cut { format!("{count} or more runs") } else { counted(count, "run") }
}

fn since(at: Timestamp) -> Option<String> {
    Some(rfc3339(at))
}
