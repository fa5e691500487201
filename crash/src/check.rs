//! What must hold after any kill: checks the ledger against the store.
//!
//! A store is read after each kill, before anything is restarted, and at the end. Each reading is
//! compared with all ledger entries from before it began, and with earlier readings:
//!
//! - *lost*: a record that was seen or acknowledged is missing or differs; the log has a hole or a
//!   damaged record;
//! - *ran ahead*: something began before its preconditions were durable: the step before it, or the
//!   begin record of an effect;
//! - *repeated*: something durable began again, and its driver had to know;
//! - *twice*: a `once` effect happened again;
//! - *fence*: epochs decrease along the log; a record of an older epoch came after a claim; two
//!   processes had one epoch; a driver repeated what a later one had done, although it was not
//!   stopped, or more than once although it had to check its lease in between;
//! - *end*: a run did not end like an undisturbed one, or undos did not run in reverse order of the
//!   records.

use crate::assignments::TrackedRun;
use crate::graph::{State, Variant};
use crate::ledger::{Entry, Ledger};
use crate::reading::{self, Durable, Reading};
use crate::report::{Report, fact};
use pleach::store::{Kind, RunStatus};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

/// A broken rule.
#[derive(Clone, Debug)]
pub struct Violation {
    pub rule: &'static str,
    pub run: String,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: run {}: {}", self.rule, self.run, self.what)
    }
}

/// The end of an undisturbed run.
#[derive(Clone, Debug)]
pub struct Reference {
    pub state: Option<State>,
    pub visits: u64,
}

/// Compares readings of the store with the ledger.
#[derive(Default)]
pub struct Checker {
    runs: HashMap<String, Known>,
    pub violations: Vec<Violation>,
    /// Late starts of drivers that were stopped past their leases.
    pub late: u64,
    pub readings: u64,
}

#[derive(Default)]
struct Known {
    /// Sum and epoch of each record.
    records: BTreeMap<u64, (u64, u64)>,
    facts: HashMap<String, Since>,
    /// Epoch and head of each reading.
    fences: Vec<(u64, u64)>,
}

/// Since when something is known to be durable.
struct Since {
    sequence: u64,
    epoch: u64,
    order: u64,
}

impl Checker {
    fn add(&mut self, rule: &'static str, run: &str, what: impl Into<String>) {
        self.violations.push(Violation { rule, run: run.to_string(), what: what.into() });
    }

    /// Reads a run and checks it. Returns the reading if the run exists.
    pub fn read(&mut self, ledger: &Ledger, run: &str) -> Option<Reading> {
        // Everything in the ledger by now must be visible in this reading.
        let before = ledger.now();
        let read = ledger.handle().block_on(reading::read(ledger.store(), run));
        let after = ledger.now();
        let entries = ledger.with(|book| book.entries.get(run).cloned().unwrap_or_default());
        self.readings += 1;
        match read {
            Ok(Some(reading)) => {
                self.compare(run, &reading, &entries, before, after);
                Some(reading)
            }
            Ok(None) => {
                if entries.iter().any(|entry| entry.order < before && matches!(entry.report, Report::Acknowledged { .. })) {
                    self.add("lost", run, "the whole run is missing, although records were acknowledged");
                }
                None
            }
            Err(error) => {
                self.add("lost", run, error.to_string());
                None
            }
        }
    }

    fn compare(&mut self, run: &str, reading: &Reading, entries: &[Entry], before: u64, after: u64) {
        let mut known = self.runs.remove(run).unwrap_or_default();
        let mut found = Vec::new();
        known.add(reading, after, &mut found);
        known.check_entries(reading, entries, before, &mut found);
        found.into_iter().for_each(|(rule, what)| self.add(rule, run, what));
        self.runs.insert(run.to_string(), known);
    }

    /// Checks a run at its end: reads it once more and checks all ledger entries.
    pub fn finish(&mut self, ledger: &Ledger, run: &str, reference: &HashMap<Variant, Reference>) -> Option<Reading> {
        let Some(reading) = self.read(ledger, run) else {
            self.add("end", run, "the run is not in the store");
            return None;
        };
        let (entries, stopped) =
            ledger.with(|book| (book.entries.get(run).cloned().unwrap_or_default(), book.were_stopped.clone()));
        let Some(known) = self.runs.remove(run) else { return Some(reading) };
        let (variant, was_forced) =
            ledger.with(|book| (book.assignments.runs[run].variant, book.assignments.runs[run].was_forced));
        let mut found = Vec::new();
        let late_starts = |entry: &Entry, stalled: bool| match was_forced {
            true => LateStarts::Any,
            false if stalled || stopped.contains(&entry.pid) => LateStarts::One,
            false => LateStarts::None,
        };
        self.late += known.check_repeats(&entries, late_starts, &mut found);
        check_claims(&entries, &mut found);
        check_undos(&reading.records, &entries, &mut found);
        ledger.with(|book| check_end(&book.assignments.runs[run], &reading, reference.get(&variant), &mut found));
        found.into_iter().for_each(|(rule, what)| self.add(rule, run, what));
        Some(reading)
    }

    /// Whether a process had begun something that is not durable, so that it died in the middle of
    /// a step.
    pub fn was_busy(&self, ledger: &Ledger, run: &str, pid: u32) -> bool {
        ledger.with(|book| {
            let began = book.entries.get(run).into_iter().flatten().filter(|entry| entry.pid == pid);
            let known = self.runs.get(run);
            began.into_iter().any(|entry| match &entry.report {
                Report::Began { fact, .. } if fact.starts_with("visit") || fact.starts_with("undo") => {
                    !known.is_some_and(|known| known.facts.contains_key(fact))
                }
                _ => false,
            })
        })
    }
}

type Found = Vec<(&'static str, String)>;

/// How often a driver may repeat what a later driver has done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LateStarts {
    None,
    /// The driver was stopped between a check of its lease and its next action. It checks again
    /// before any further action.
    One,
    /// The run was taken by force before the lease expired. The driver learns that with its next
    /// commit or renewal.
    Any,
}

impl Known {
    /// Adds a reading and reports contradictions.
    fn add(&mut self, reading: &Reading, order: u64, found: &mut Found) {
        let mut epoch_before = 0;
        for record in &reading.records {
            let Durable { sequence, sum, epoch, .. } = *record;
            if epoch < epoch_before {
                found.push(("fence", format!("record {sequence} has epoch {epoch}, but follows epoch {epoch_before}")));
            }
            epoch_before = epoch;
            if let Some((since, head)) = self.fences.iter().find(|(since, head)| sequence > *head && epoch < *since) {
                let what = format!("record {sequence} of epoch {epoch} follows record {head}, after epoch {since} had begun");
                found.push(("fence", what));
            }
            match self.records.insert(sequence, (sum, epoch)) {
                Some(was) if was != (sum, epoch) => found.push(("lost", format!("record {sequence} has changed"))),
                _ => {}
            }
            for fact in &record.facts {
                self.facts.entry(fact.clone()).or_insert(Since { sequence, epoch, order });
            }
        }
        if let Some((last, _)) = self.records.last_key_value()
            && *last > reading.info.head
        {
            found.push(("lost", format!("record {last} was stored before, but the head is {}", reading.info.head)));
        }
        if reading.records.last().map_or(0, |record| record.sequence) != reading.info.head {
            found.push(("lost", format!("the log does not end at the head {}", reading.info.head)));
        }
        self.fences.push((reading.info.epoch, reading.info.head));
    }

    /// Checks that all entries from before the reading are visible in it.
    fn check_entries(&self, reading: &Reading, entries: &[Entry], before: u64, found: &mut Found) {
        let oldest = reading.info.oldest;
        for entry in entries.iter().filter(|entry| entry.order < before) {
            match &entry.report {
                Report::Acknowledged { sequence, sum, .. } if *sequence >= oldest => match self.records.get(sequence) {
                    Some((is, _)) if is == sum => {}
                    Some(_) => found.push(("lost", format!("record {sequence} differs from the acknowledged one"))),
                    None => found.push(("lost", format!("record {sequence} was acknowledged, but is missing"))),
                },
                // A pruned record can no longer prove anything.
                Report::Began { fact, rests_on, .. } if oldest == 1 => {
                    if let Some(ground) = rests_on.iter().find(|ground| !self.facts.contains_key(*ground)) {
                        found.push(("ran ahead", format!("{fact} began before {ground} was durable")));
                    }
                }
                _ => {}
            }
        }
    }

    /// Checks that nothing durable begins again. Returns the number of late starts.
    fn check_repeats(&self, entries: &[Entry], late_starts: impl Fn(&Entry, bool) -> LateStarts, found: &mut Found) -> u64 {
        let mut late: HashMap<(u32, u64), u64> = HashMap::new();
        let mut happened = HashSet::new();
        let acknowledged: HashMap<u64, u64> = entries
            .iter()
            .filter_map(|entry| match entry.report {
                Report::Acknowledged { sequence, .. } => Some((sequence, entry.order)),
                _ => None,
            })
            .collect();
        for entry in entries {
            let Report::Began { fact, epoch, once, stalled, .. } = &entry.report else { continue };
            if *once && !happened.insert(fact) {
                found.push(("twice", fact.clone()));
            }
            let Some(since) = self.facts.get(fact) else { continue };
            let was_acknowledged = acknowledged.get(&since.sequence).is_some_and(|known_at| *known_at < entry.order);
            let is_known = since.order < entry.order || was_acknowledged;
            // A driver that claimed the run after the record was written has read it.
            if since.epoch < *epoch || (since.epoch == *epoch && is_known) {
                let what = format!("{fact} began with epoch {epoch}, but was durable since record {}", since.sequence);
                found.push(("repeated", what));
            } else if is_known && since.epoch > *epoch {
                let count = late.entry((entry.pid, *epoch)).or_default();
                *count += 1;
                let is_allowed = match late_starts(entry, *stalled) {
                    LateStarts::None => false,
                    LateStarts::One => *count == 1,
                    LateStarts::Any => true,
                };
                if !is_allowed {
                    let Since { sequence, epoch: later, .. } = since;
                    let what = format!(
                        "{fact} began with epoch {epoch}, but epoch {later} had done it with record {sequence}; late start {count} of its driver"
                    );
                    found.push(("fence", what));
                }
            }
        }
        late.into_values().sum()
    }
}

/// Checks that each epoch belongs to one process.
fn check_claims(entries: &[Entry], found: &mut Found) {
    let mut holders: HashMap<u64, u32> = HashMap::new();
    for entry in entries {
        let epoch = match &entry.report {
            Report::Claimed { epoch, .. } | Report::Began { epoch, .. } | Report::Acknowledged { epoch, .. } => *epoch,
            _ => continue,
        };
        let holder = *holders.entry(epoch).or_insert(entry.pid);
        if holder != entry.pid {
            found.push(("fence", format!("epoch {epoch} belonged to the processes {holder} and {}", entry.pid)));
        }
    }
}

/// Checks that undos run in reverse order of the undoable records.
fn check_undos(records: &[Durable], entries: &[Entry], found: &mut Found) {
    let undone: Vec<String> = of_kind(records, Kind::Undo).map(|record| fact::undo(&record.node)).collect();
    if undone.is_empty() {
        return;
    }
    let expected: Vec<String> =
        records.iter().rev().filter(|record| record.can_be_undone).map(|record| fact::undo(&record.node)).collect();
    let mut begun: Vec<&String> = Vec::new();
    for entry in entries {
        if let Report::Began { fact, .. } = &entry.report
            && fact.starts_with("undo")
            && !begun.contains(&fact)
        {
            begun.push(fact);
        }
    }
    if undone != expected || begun != expected.iter().collect::<Vec<_>>() {
        found.push(("end", format!("undos began as {begun:?} and are recorded as {undone:?}; expected {expected:?}")));
    }
}

fn of_kind(records: &[Durable], kind: Kind) -> impl Iterator<Item = &Durable> {
    records.iter().filter(move |record| record.kind == kind)
}

/// Checks that the run ended like an undisturbed one. If the outcome of the wire is unknown, node
/// `settle` runs instead of `charge`.
fn check_end(tracked: &TrackedRun, reading: &Reading, reference: Option<&Reference>, found: &mut Found) {
    let expected = if tracked.variant.is_undone() { RunStatus::Compensated } else { RunStatus::Finished };
    let (status, errors) = (reading.info.status, &tracked.errors);
    if status != expected || !tracked.is_done {
        let last = errors.iter().rev().take(3).collect::<Vec<_>>();
        found.push(("end", format!("its status is {status}, expected {expected}; its drivers reported {last:?}")));
        return;
    }
    let Some(reference) = reference else { return };
    let has_settled = tracked.state.as_ref().is_some_and(|state| state.done.iter().any(|done| done == "settle"));
    let plain = |state: &State| {
        let done = state.done.iter().map(|done| if done == "settle" { "charge".to_string() } else { done.clone() });
        (state.turns, done.collect::<Vec<String>>())
    };
    if tracked.state.as_ref().map(plain) != reference.state.as_ref().map(plain) {
        found.push(("end", format!("its state is {:?}, expected {:?}", tracked.state, reference.state)));
    }
    let visits = reading.records.last().map_or(0, |record| record.visits);
    if visits != reference.visits + u64::from(has_settled) {
        found.push(("end", format!("it counts {visits} visits, expected {}", reference.visits)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules that are broken if a driver of epoch 1 begins something after a driver of epoch 2
    /// has done it: these facts.
    fn broken_by(facts: &[&str], late_starts: LateStarts) -> Vec<&'static str> {
        let since = |_| Since { sequence: 7, epoch: 2, order: 1 };
        let known = Known { facts: facts.iter().map(|fact| (fact.to_string(), since(fact))).collect(), ..Known::default() };
        let began = |(order, fact): (u64, &&str)| {
            let (run, fact, rests_on) = ("r".to_string(), fact.to_string(), Vec::new());
            Entry { order, pid: 9, report: Report::Began { run, fact, epoch: 1, rests_on, once: false, stalled: false } }
        };
        let entries: Vec<Entry> = (2..).zip(facts).map(began).collect();
        let mut found = Vec::new();
        assert_eq!(known.check_repeats(&entries, |_, _| late_starts, &mut found), facts.len() as u64);
        found.into_iter().map(|(rule, _)| rule).collect()
    }

    #[test]
    fn c6_stopped_driver_may_start_one_thing_late() {
        assert!(broken_by(&["visit a"], LateStarts::One).is_empty());
        assert_eq!(broken_by(&["visit a", "effect b"], LateStarts::One), ["fence"]);
        assert_eq!(broken_by(&["visit a"], LateStarts::None), ["fence"]);
        assert!(broken_by(&["visit a", "effect b"], LateStarts::Any).is_empty());
    }
}
