//! `Report`: two tables that account for every message and every failure.

use pleach::prelude::*;
use std::fmt;

/// The messages of one worker, by outcome.
pub struct WorkerRow {
    pub worker: &'static str,
    pub sent: u64,
    pub returned: u64,
    pub counts: Counts,
    pub restarts: u32,
    pub exit: Option<Exit>,
}

/// A decision of a supervisor, with the number of times it was made and the details of the last.
pub struct Decision {
    path: ActorPath,
    directive: SupervisorDirective,
    /// Whether a child escalated the failure.
    escalated: bool,
    times: u64,
    /// The restarts that the supervisor counted, and its window.
    restarts: u32,
    window: Duration,
    reason: String,
}

/// The outcome of all messages and failures.
pub struct Report {
    pub rows: Vec<WorkerRow>,
    /// The counts of the system. They must equal the sum of the workers.
    pub total: Counts,
    pub failures: u64,
    pub decisions: Vec<Decision>,
    /// The failure that reached the top of the tree.
    pub top: Option<String>,
}

impl WorkerRow {
    fn fault(&self) -> Option<String> {
        let Self { worker, sent, returned, counts, exit, .. } = self;
        if !counts.is_settled() {
            return Some(format!("{worker}: {counts}"));
        }
        if *sent != returned + counts.accepted {
            return Some(format!("{worker}: {sent} sent, {returned} returned, {counts}"));
        }
        if exit.is_none() { Some(format!("{worker} is still running")) } else { None }
    }
}

impl Decision {
    /// Starts a row with its first decision.
    pub fn first(failure: &FailureInfo, directive: SupervisorDirective) -> Self {
        Self {
            path: failure.path().clone(),
            directive,
            escalated: escalated(failure),
            times: 1,
            restarts: failure.restarts(),
            window: failure.window(),
            reason: failure.reason().to_string(),
        }
    }

    /// Whether a decision about `failure` belongs to this row.
    pub fn is_like(&self, failure: &FailureInfo, directive: SupervisorDirective) -> bool {
        self.directive == directive && self.path == *failure.path() && self.escalated == escalated(failure)
    }

    /// Adds one more decision to this row.
    pub fn add(&mut self, failure: &FailureInfo) {
        self.times += 1;
        self.restarts = failure.restarts();
        self.reason = failure.reason().to_string();
    }
}

fn escalated(failure: &FailureInfo) -> bool {
    failure.path() != failure.origin()
}

impl Report {
    /// Returns which counts do not match, if any.
    pub fn fault(&self) -> Option<String> {
        let sum = self.sum();
        let off = (sum != self.total).then(|| format!("the workers counted {sum}, but the system counted {}", self.total));
        let decided: u64 = self.decisions.iter().filter(|decision| !decision.escalated).map(|decision| decision.times).sum();
        let undecided = (decided != self.failures).then(|| format!("{} failures, but {decided} decisions", self.failures));
        self.rows.iter().find_map(WorkerRow::fault).or(off).or(undecided)
    }

    fn sum(&self) -> Counts {
        self.rows.iter().fold(Counts::default(), |mut sum, row| {
            sum += row.counts;
            sum
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sent: u64 = self.rows.iter().map(|row| row.sent).sum();
        let returned: u64 = self.rows.iter().map(|row| row.returned).sum();
        let restarts: u32 = self.rows.iter().map(|row| row.restarts).sum();
        writeln!(f, "{} workers got {sent} jobs. The outcome of every job:\n", self.rows.len())?;
        writeln!(f, "worker        sent    returned   accepted = handled + failed + dead letters   restarts  exit")?;
        for row in &self.rows {
            let exit = row.exit.as_ref().map(short).unwrap_or_default();
            write_counts(f, row.worker, (row.sent, row.returned), row.counts, row.restarts, &exit)?;
        }
        write_counts(f, "total", (sent, returned), self.total, restarts, "")?;
        writeln!(f, "\n{} failures. The decision about every failure:\n", self.failures)?;
        writeln!(f, "path                   times  decision  restarts counted  last reason")?;
        for decision in &self.decisions {
            write_decision(f, decision)?;
        }
        writeln!(f, "\nThe failure that reached the top of the tree:\n  {}", self.top.as_deref().unwrap_or("none"))?;
        writeln!(f, "Every message and every failure is accounted for.")
    }
}

fn write_decision(f: &mut fmt::Formatter<'_>, decision: &Decision) -> fmt::Result {
    let Decision { path, directive, escalated, times, restarts, window, reason } = decision;
    let (path, directive) = (path.to_string(), format!("{directive:?}"));
    let from_below = if *escalated { "escalated: " } else { "" };
    let counted = format!("{restarts} in {window:?}");
    writeln!(f, "{path:22} {times:>5}  {directive:8}  {counted:>16}  {from_below}{reason}")
}

fn write_counts(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    (sent, returned): (u64, u64),
    counts: Counts,
    restarts: u32,
    exit: &str,
) -> fmt::Result {
    let Counts { accepted, handled, failed, dead_lettered } = counts;
    let line = format!(
        "{name:9} {sent:>8} {returned:>11} {accepted:>10} = {handled:>7} + {failed:>6} + {dead_lettered:>12}   {restarts:>8}  {exit}"
    );
    writeln!(f, "{}", line.trim_end())
}

/// Returns the exit in a few words. The whole failure is printed below the table.
fn short(exit: &Exit) -> String {
    match exit {
        Exit::Failed(failure) => format!("failed: {}", failure.reason()),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(handled: u64, system_handled: u64) -> Report {
        let counts = Counts { accepted: 9, handled, failed: 1, dead_lettered: 2 };
        let row = WorkerRow { worker: "reliable", sent: 10, returned: 1, counts, restarts: 0, exit: Some(Exit::Closed) };
        let decision = Decision {
            path: "/user/team/reliable".parse().unwrap(),
            directive: SupervisorDirective::Restart,
            escalated: false,
            times: 1,
            restarts: 1,
            window: Duration::from_secs(5),
            reason: "forgot".into(),
        };
        let total = Counts { handled: system_handled, ..counts };
        Report { rows: vec![row], total, failures: 1, decisions: vec![decision], top: None }
    }

    #[test]
    fn matching_counts_have_no_fault() {
        assert_eq!(report(6, 6).fault(), None);
    }

    #[test]
    fn lost_message_and_wrong_total_are_faults() {
        assert!(report(5, 5).fault().is_some_and(|fault| fault.starts_with("reliable: ")));
        assert!(report(6, 7).fault().is_some_and(|fault| fault.contains("the system counted")));
    }

    #[test]
    fn failure_without_decision_is_a_fault() {
        let undecided = Report { failures: 2, ..report(6, 6) };
        assert_eq!(undecided.fault().as_deref(), Some("2 failures, but 1 decisions"));
        let mut twice = report(6, 6);
        // An escalated failure was decided once before, by the supervisor below.
        twice.decisions.push(Decision { escalated: true, ..report(6, 6).decisions.remove(0) });
        assert_eq!(twice.fault(), None);
    }

    #[test]
    fn decision_row_has_its_figures() {
        let said = report(6, 6).to_string();
        assert!(said.contains("/user/team/reliable        1  Restart            1 in 5s  forgot\n"), "{said}");
    }
}
