//! What waits for people: open questions, and answers that a run refused.

use super::{Report, runs, since};
use crate::durable::waits::{PersonWait, RunWaits};
use crate::durable::workers::Live;
use crate::failure::Failure;
use crate::problem::{Advice, Problem, Severity};
use crate::view::{View, Waiting};
use pleach::store::{RunInfo, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most positions that one examination reads. The others are read by the next ones.
const VIEWS_MAX: usize = 100;

/// The most keys of questions that a cause names.
const KEYS_MAX: usize = 5;

/// Runs with open questions.
#[derive(Default)]
struct Questions {
    count: usize,
    oldest: Option<(Timestamp, String)>,
    keys: BTreeMap<String, usize>,
    signals: usize,
    /// Whether some runs were not read yet.
    is_cut: bool,
}

impl Report<'_> {
    pub(super) async fn people(&mut self, live: &Live) -> Result<(), Failure> {
        let mut questions = Questions { is_cut: live.is_waiting_cut, ..Questions::default() };
        let (mut refused, mut left): (Vec<(&RunInfo, PersonWait)>, _) = (Vec::new(), VIEWS_MAX);
        for run in &live.waiting {
            let waits = match self.source.waits().known(run) {
                Some(known) => known,
                None if left == 0 => {
                    questions.is_cut = true;
                    continue;
                }
                None => {
                    left -= 1;
                    self.source.waits().of(self.source, run).await?
                }
            };
            questions.add(run, &waits);
            refused.extend(waits.waits.iter().filter(|wait| wait.refused.is_some()).map(|wait| (run, wait.clone())));
            if let Some(damage) = &waits.damage {
                self.damaged.insert(run.id.clone(), damage.clone());
            }
        }
        self.questions(&questions);
        if refused.is_empty() {
            self.quiet("No run has refused an answer");
        }
        for (run, wait) in refused {
            self.refusal(run, &wait);
        }
        Ok(())
    }

    fn questions(&mut self, questions: &Questions) {
        self.findings.is_cut |= questions.is_cut;
        if questions.signals > 0 {
            let verb = waits(questions.signals, questions.is_cut);
            self.quiet(format!("{} {verb} for a signal", runs(questions.signals, questions.is_cut)));
        }
        let Some((at, oldest)) = &questions.oldest else {
            self.quiet("No run waits for a person");
            return;
        };
        let mut keys: Vec<_> = questions.keys.iter().collect();
        keys.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let keys: Vec<String> = keys.into_iter().take(KEYS_MAX).map(|(key, count)| format!("{key} ({count})")).collect();
        let verb = waits(questions.count, questions.is_cut);
        let view = View::Waiting(Waiting { store: self.source.key.clone(), ..Waiting::default() });
        let command = self.command("runs list", "--status waiting");
        let problem = Problem {
            cause: Some(format!("open questions: {}", keys.join(", "))),
            so: vec!["each run continues after its answer".into()],
            since: since(*at),
            run: Some(oldest.clone()),
            count: questions.count as u64,
            advice: vec![
                Advice { text: "Answer them".into(), view: Some(view), command },
                self.look_at("Look at the oldest one", oldest),
            ],
            ..self.problem(
                Severity::Waiting,
                "waits_for_person",
                "",
                format!("{} {verb} for a person", runs(questions.count, questions.is_cut)),
            )
        };
        self.add(problem);
    }

    fn refusal(&mut self, run: &RunInfo, wait: &PersonWait) {
        let Some((reason, at)) = &wait.refused else { return };
        let what = if wait.kind == "signal" { "signal" } else { "answer to" };
        let problem = Problem {
            cause: Some(reason.clone()),
            so: vec!["the run keeps waiting for another one".into()],
            since: since(*at),
            run: Some(run.id.clone()),
            advice: vec![self.look_at("Send one that the node can use", &run.id)],
            ..self.problem(
                Severity::Warning,
                "answer_refused",
                &format!("{} {}", run.id, wait.key),
                format!("Run {} refused the last {what} {}", run.id, wait.key),
            )
        };
        self.add(problem);
    }
}

/// Returns the verb for a count of runs.
fn waits(count: usize, is_cut: bool) -> &'static str {
    if count == 1 && !is_cut { "waits" } else { "wait" }
}

impl Questions {
    fn add(&mut self, run: &RunInfo, waits: &Arc<RunWaits>) {
        let mut questions = waits.waits.iter().filter(|wait| wait.kind == "question").peekable();
        if questions.peek().is_none() {
            self.signals += usize::from(!waits.waits.is_empty());
            return;
        }
        self.count += 1;
        for wait in questions {
            *self.keys.entry(wait.key.clone()).or_default() += 1;
            let at = wait.since.unwrap_or(run.changed);
            if self.oldest.as_ref().is_none_or(|(oldest, _)| at < *oldest) {
                self.oldest = Some((at, run.id.clone()));
            }
        }
    }
}
