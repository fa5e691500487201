//! Runs steps in order and reports them, one line per step.
//!
//! A step in the background starts at its place in the order. Its result is printed after it ended,
//! between the lines of two other steps. Only one thread prints results, so lines never mix.

use crate::step::{Outcome, Step, seconds};
use std::io::Write as _;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How many of the slowest steps the summary names.
const SLOWEST: usize = 5;

/// The outcome of a step and its duration.
type Timed = (Outcome, Duration);

/// Runs the steps, and stops at the first failure.
pub fn run_all(steps: Vec<Step>) -> Outcome {
    let begun = Instant::now();
    let width = steps.iter().map(|step| step.name.len()).max().unwrap_or(0);
    let mut report = Report { width, ..Report::default() };
    let mut background: Vec<(String, JoinHandle<Timed>)> = Vec::new();
    let mut steps = steps.into_iter();
    while report.failed.is_empty()
        && let Some(Step { name, is_background, check }) = steps.next()
    {
        if is_background {
            println!("{name:width$}  started");
            background.push((name, thread::spawn(|| timed(check))));
        } else {
            report.add(name, || timed(check));
        }
        for (name, ended) in background.extract_if(.., |(_, step)| step.is_finished()) {
            report.add(name, || joined(ended));
        }
    }
    // Also after a failure: the processes of a step must not outlive this one.
    for (name, step) in background {
        report.add(name, || joined(step));
    }
    report.print_summary(steps.count(), begun.elapsed());
    if report.failed.is_empty() { Ok(()) } else { Err("not everything passed".into()) }
}

fn timed(check: impl FnOnce() -> Outcome) -> Timed {
    let begun = Instant::now();
    let outcome = check();
    (outcome, begun.elapsed())
}

fn joined(step: JoinHandle<Timed>) -> Timed {
    step.join().unwrap_or_else(|_| (Err("the step panicked".into()), Duration::ZERO))
}

/// The steps that ended so far.
#[derive(Default)]
struct Report {
    /// The width of the column of names.
    width: usize,
    passed: Vec<(String, Duration)>,
    failed: Vec<(String, Duration)>,
}

impl Report {
    /// Prints the line of a step.
    fn add(&mut self, name: String, result: impl FnOnce() -> Timed) {
        print!("{name:width$} ", width = self.width);
        // A step may take minutes. Show its name before it ends.
        drop(std::io::stdout().flush());
        let (outcome, time) = result();
        match outcome {
            Ok(()) => {
                println!(" ok  {:>8}", seconds(time));
                self.passed.push((name, time));
            }
            Err(why) => {
                println!("FAIL {:>8}\n\n{}\n", seconds(time), why.trim_end());
                self.failed.push((name, time));
            }
        }
    }

    fn print_summary(&self, not_run: usize, time: Duration) {
        println!("slowest: {}", self.slowest().join(", "));
        let failed: Vec<&str> = self.failed.iter().map(|(name, _)| name.as_str()).collect();
        let (passed, time) = (self.passed.len(), seconds(time));
        match failed.as_slice() {
            [] => println!("{passed} passed, 0 failed, {time}"),
            names => println!("{passed} passed, {} failed ({}), {not_run} not run, {time}", names.len(), names.join(", ")),
        }
    }

    /// The slowest steps with their times, slowest first.
    fn slowest(&self) -> Vec<String> {
        let mut all: Vec<&(String, Duration)> = self.passed.iter().chain(&self.failed).collect();
        all.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        all.iter().take(SLOWEST).map(|(name, time)| format!("{name} {}", seconds(*time))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn steps_after_a_background_step_run_meanwhile() {
        let (send, received) = mpsc::channel();
        let waits = Step::new("waits", move || received.recv().map_err(|error| error.to_string())).in_background();
        let sends = Step::new("sends", move || send.send(()).map_err(|error| error.to_string()));
        assert_eq!(run_all(vec![waits, sends]), Ok(()));
    }

    #[test]
    fn failed_background_step_fails_the_run() {
        let fails = Step::new("fails", || Err("no".into())).in_background();
        assert!(run_all(vec![fails, Step::new("passes", || Ok(()))]).is_err());
    }

    #[test]
    fn summary_names_the_slowest_steps() {
        let step = |seconds| (format!("step{seconds}"), Duration::from_secs(seconds));
        let report = Report { passed: (1..=6).map(step).collect(), failed: vec![step(7)], ..Report::default() };
        assert_eq!(report.slowest(), ["step7 7.0 s", "step6 6.0 s", "step5 5.0 s", "step4 4.0 s", "step3 3.0 s"]);
    }
}
