//! `Report`: what became of every message, and what was decided about every failure, as two tables that add up.

use pleach::prelude::*;
use std::fmt;

/// What became of the messages of one worker.
pub struct Fate {
    pub worker: &'static str,
    pub offered: u64,
    pub given_back: u64,
    pub counts: Counts,
    pub restarts: u32,
    pub exit: Option<Exit>,
}

/// What was decided about failures: of whom, how often, and with which figures at the last of them.
pub struct Decision {
    path: ActorPath,
    directive: SupervisorDirective,
    /// Whether it was about a failure that a child had handed up.
    handed_up: bool,
    times: u64,
    /// Restarts in how long a window, as the supervisor counted them.
    restarts: u32,
    window: Duration,
    reason: String,
}

/// What became of all of them.
pub struct Report {
    pub fates: Vec<Fate>,
    /// As the system counted, which the sum of the workers must equal.
    pub total: Counts,
    pub failures: u64,
    pub decisions: Vec<Decision>,
    /// The failure that came up to the top of the tree.
    pub top: Option<String>,
}

impl Fate {
    fn fault(&self) -> Option<String> {
        let Self { worker, offered, given_back, counts, exit, .. } = self;
        if !counts.is_settled() {
            return Some(format!("{worker}: {counts}"));
        }
        if *offered != given_back + counts.accepted {
            return Some(format!("{worker}: {offered} offered, {given_back} given back, {counts}"));
        }
        if exit.is_none() { Some(format!("{worker} has not ended")) } else { None }
    }
}

impl Decision {
    /// The first of its kind.
    pub fn first(failure: &FailureInfo, directive: SupervisorDirective) -> Self {
        Self {
            path: failure.path().clone(),
            directive,
            handed_up: handed_up(failure),
            times: 1,
            restarts: failure.restarts(),
            window: failure.window(),
            reason: failure.reason().to_string(),
        }
    }

    /// Whether a decision about `failure` belongs into the same row.
    pub fn is_like(&self, failure: &FailureInfo, directive: SupervisorDirective) -> bool {
        self.directive == directive && self.path == *failure.path() && self.handed_up == handed_up(failure)
    }

    /// One more of the same kind.
    pub fn add(&mut self, failure: &FailureInfo) {
        self.times += 1;
        self.restarts = failure.restarts();
        self.reason = failure.reason().to_string();
    }
}

fn handed_up(failure: &FailureInfo) -> bool {
    failure.path() != failure.origin()
}

impl Report {
    /// What does not add up, if something does not.
    pub fn fault(&self) -> Option<String> {
        let sum = self.sum();
        let off = (sum != self.total).then(|| format!("the workers had {sum}, and the system counted {}", self.total));
        let decided: u64 = self.decisions.iter().filter(|decision| !decision.handed_up).map(|decision| decision.times).sum();
        let undecided = (decided != self.failures)
            .then(|| format!("{} failures are on record, and {decided} were decided on", self.failures));
        self.fates.iter().find_map(Fate::fault).or(off).or(undecided)
    }

    fn sum(&self) -> Counts {
        self.fates.iter().fold(Counts::default(), |mut sum, fate| {
            sum += fate.counts;
            sum
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offered: u64 = self.fates.iter().map(|fate| fate.offered).sum();
        let given_back: u64 = self.fates.iter().map(|fate| fate.given_back).sum();
        let restarts: u32 = self.fates.iter().map(|fate| fate.restarts).sum();
        writeln!(f, "A crew of {} was offered {offered} jobs. What became of every one:\n", self.fates.len())?;
        writeln!(f, "worker     offered  given back   accepted = handled + failed + dead letters   restarts  exit")?;
        for fate in &self.fates {
            let exit = fate.exit.as_ref().map(short).unwrap_or_default();
            row(f, fate.worker, (fate.offered, fate.given_back), fate.counts, fate.restarts, &exit)?;
        }
        row(f, "total", (offered, given_back), self.total, restarts, "")?;
        writeln!(f, "\n{} failures are on record. What was decided about every one:\n", self.failures)?;
        writeln!(f, "where                  times  decided   restarts counted  the last of them")?;
        for decision in &self.decisions {
            decided_row(f, decision)?;
        }
        writeln!(f, "\nOne came up to the top of the tree:\n  {}", self.top.as_deref().unwrap_or("none"))?;
        writeln!(f, "Every message and every failure is accounted for.")
    }
}

fn decided_row(f: &mut fmt::Formatter<'_>, decision: &Decision) -> fmt::Result {
    let Decision { path, directive, handed_up, times, restarts, window, reason } = decision;
    let (path, directive) = (path.to_string(), format!("{directive:?}"));
    let from_below = if *handed_up { "handed up: " } else { "" };
    let counted = format!("{restarts} in {window:?}");
    writeln!(f, "{path:22} {times:>5}  {directive:8}  {counted:>16}  {from_below}{reason}")
}

fn row(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    (offered, given_back): (u64, u64),
    counts: Counts,
    restarts: u32,
    exit: &str,
) -> fmt::Result {
    let Counts { accepted, handled, failed, dead_lettered } = counts;
    let line = format!(
        "{name:9} {offered:>8} {given_back:>11} {accepted:>10} = {handled:>7} + {failed:>6} + {dead_lettered:>12}   {restarts:>8}  {exit}"
    );
    writeln!(f, "{}", line.trim_end())
}

/// The exit in a word or two; the whole failure stands below the table.
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
        let fate = Fate { worker: "steady", offered: 10, given_back: 1, counts, restarts: 0, exit: Some(Exit::Closed) };
        let decision = Decision {
            path: "/user/crew/steady".parse().unwrap(),
            directive: SupervisorDirective::Restart,
            handed_up: false,
            times: 1,
            restarts: 1,
            window: Duration::from_secs(5),
            reason: "forgot".into(),
        };
        let total = Counts { handled: system_handled, ..counts };
        Report { fates: vec![fate], total, failures: 1, decisions: vec![decision], top: None }
    }

    #[test]
    fn a_report_that_adds_up_has_no_fault() {
        assert_eq!(report(6, 6).fault(), None);
    }

    #[test]
    fn a_lost_message_and_a_wrong_total_are_faults() {
        assert!(report(5, 5).fault().is_some_and(|fault| fault.starts_with("steady: ")));
        assert!(report(6, 7).fault().is_some_and(|fault| fault.contains("the system counted")));
    }

    #[test]
    fn a_failure_that_nobody_decided_on_is_a_fault() {
        let missed = Report { failures: 2, ..report(6, 6) };
        assert_eq!(missed.fault().as_deref(), Some("2 failures are on record, and 1 were decided on"));
        let mut twice = report(6, 6);
        // What is handed up has been decided on before, below.
        twice.decisions.push(Decision { handed_up: true, ..report(6, 6).decisions.remove(0) });
        assert_eq!(twice.fault(), None);
    }

    #[test]
    fn a_decision_stands_in_a_row_with_its_figures() {
        let said = report(6, 6).to_string();
        assert!(said.contains("/user/crew/steady          1  Restart            1 in 5s  forgot\n"), "{said}");
    }
}
