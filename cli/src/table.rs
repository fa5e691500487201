//! `Report`: what became of every message, as a table that adds up.

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

/// What became of all of them.
pub struct Report {
    pub fates: Vec<Fate>,
    /// As the system counted, which the sum of the workers must equal.
    pub total: Counts,
    pub failures: usize,
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

impl Report {
    /// What does not add up, if something does not.
    pub fn fault(&self) -> Option<String> {
        let sum = self.sum();
        let off = (sum != self.total).then(|| format!("the workers had {sum}, and the system counted {}", self.total));
        self.fates.iter().find_map(Fate::fault).or(off)
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
        writeln!(f, "\n{} failures are on record. One came up to the top of the tree:", self.failures)?;
        writeln!(f, "  {}", self.top.as_deref().unwrap_or("none"))?;
        writeln!(f, "Every message is accounted for.")
    }
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
        Report { fates: vec![fate], total: Counts { handled: system_handled, ..counts }, failures: 1, top: None }
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
}
