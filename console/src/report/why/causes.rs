//! Decides why a run is where it is. Reads nothing, so every case can be tested.

use super::facts::{Facts, Others};
use super::waiting;
use super::{Line, RunExplanation};
use crate::report::command::{check, of_run, quoted};
use crate::report::info::branches;
use crate::report::text::counted;
use crate::report::times::short;
use pleach::durable::RunView;
use pleach::store::{FailureKind, GraphVersion, RunFailure, RunInfo, RunStatus, StoreError, TAKEOVERS_MAX};
use std::time::Duration;

/// How long a due run may be unclaimed before that is called a problem. Workers look at least every
/// few seconds.
const CLAIMED_WITHIN: Duration = Duration::from_secs(15);

/// How long a driver may work without a commit before that is called long.
const LONG_WORK: Duration = Duration::from_secs(300);

/// Explains a run whose own row is damaged.
pub fn of_damaged_row(store: &str, run: &str, reason: &str) -> RunExplanation {
    let mut found = RunExplanation::default();
    found.cause(Line::new("damaged", format!("the row of the run is damaged: {reason}")));
    found.so(Line::new("unreadable", "no worker claims the run, and no message reaches it"));
    found.advise("restore the store from a backup; the other runs are not affected", None);
    found.advise("only if the run may be lost", Some(of_run(store, run, "delete", "")));
    found.advise("examines the whole store", Some(format!("pleach doctor {} --full", quoted(store))));
    found
}

/// Explains a run whose row is readable.
pub fn of(store: &str, facts: &Facts) -> RunExplanation {
    let why = Why { store, facts };
    let mut found = RunExplanation::default();
    match &facts.view {
        Err(error) => why.damaged_log(error, &mut found),
        Ok(view) => match facts.info.status {
            RunStatus::Finished => found.cause(Line::new("finished", "the run reached its end").happened(facts.info.changed)),
            RunStatus::Stuck => why.stuck(view, &mut found),
            status if status.has_ended() => why.ended(view, &mut found),
            _ => why.live(view, &mut found),
        },
    }
    if let Some(from) = &facts.info.from {
        let text = format!("the run was forked from run {} after its record {}", quoted(&from.run), from.sequence);
        found.note(Line::new("forked", text));
    }
    found
}

pub struct Why<'a> {
    pub store: &'a str,
    pub facts: &'a Facts,
}

impl Why<'_> {
    pub fn command(&self, word: &str, more: &str) -> Option<String> {
        Some(of_run(self.store, &self.facts.info.id, word, more))
    }

    fn check_command(&self) -> Option<String> {
        Some(check(self.store))
    }

    fn damaged_log(&self, error: &StoreError, found: &mut RunExplanation) {
        let StoreError::Damaged { sequence, reason, .. } = error else { return };
        found.cause(Line {
            record: Some(*sequence),
            ..Line::new("damaged", format!("record {sequence} of the log is damaged: {reason}"))
        });
        found.so(Line::new("unreadable", "the position of the run cannot be read, and no worker can drive it"));
        found.advise("find the last intact record", self.command("history", ""));
        if *sequence > 1 {
            found.advise(
                "or restore the store from a backup; --dry-run shows what would run again",
                self.command("rewind", &format!("{} --dry-run", sequence - 1)),
            );
        }
    }

    fn stuck(&self, view: &RunView, found: &mut RunExplanation) {
        let (info, at) = (&self.facts.info, waiting::places(view));
        match &info.trouble {
            Some(trouble) => found.cause(Line::new("trouble", format!("no worker could drive the run: {trouble}"))),
            None => {
                let text = format!("the driver died {} times in a row without a commit, each time {at}", info.takeovers);
                found.cause(Line::new("crashes", text).since(info.changed));
                let text = "the node may crash its process: memory, a stack overflow, an abort, or a kill from outside";
                found.so(Line::new("suspect", text));
            }
        }
        let text = format!("after {TAKEOVERS_MAX} attempts without progress, no worker claims the run any more");
        found.so(Line::new("stuck", text));
        found.advise("after the cause is repaired, and deployed", self.command("unstick", ""));
        found.advise("or to end the run: send this first, then unstick it", self.command("cancel", ""));
    }

    fn ended(&self, view: &RunView, found: &mut RunExplanation) {
        let info = &self.facts.info;
        let last = view.failure.as_ref();
        for failure in self.facts.undone_for.iter().chain(last).chain(&self.facts.undo_failed) {
            if found.causes.iter().all(|known| known.record != Some(failure.sequence)) {
                found.cause(of_failure(failure));
            }
        }
        if found.causes.is_empty() {
            found.cause(Line::new("ended", format!("the run ended as {}, and its reason is not stored", info.status)));
        }
        let effect = match info.status {
            RunStatus::Failed => "the run failed, and no worker continues it",
            RunStatus::Compensated => "the completed nodes were undone, and the run is over",
            RunStatus::CompensationFailed => "the undos stopped there: the work of earlier nodes is still done",
            _ => "the run was cancelled, and no worker continues it",
        };
        found.so(Line::new("ended", effect).since(info.changed));
        match info.status {
            RunStatus::Failed => {
                let node = last.map_or("", |failure| failure.node.as_str());
                let text = if node.is_empty() { String::new() } else { format!(", at node {node:?}") };
                found.advise(format!("after the cause is repaired: continues{text}"), self.command("retry", ""));
            }
            RunStatus::CompensationFailed => {
                found.advise("after the cause is repaired: continues the undos", self.command("retry", ""));
            }
            _ => found.advise("only if it should run again: goes back to a record", self.command("rewind", "RECORD --dry-run")),
        }
        found.advise("shows every record", self.command("history", ""));
        for refused in view.refused.iter().rev().take(1) {
            let text = format!("the message {} was not used: {}", quoted(&refused.name), refused.reason);
            found.note(Line::new("refused", text).happened(refused.at));
        }
    }

    fn live(&self, view: &RunView, found: &mut RunExplanation) {
        let facts = self.facts;
        let info = &facts.info;
        self.commands(view, found);
        if let Some(deadline) = info.deadline.filter(|at| *at <= facts.now) {
            found.cause(Line::new("deadline", "the deadline of the run has passed").since(deadline));
            found.so(Line::new("deadline", "the next driver cancels the run"));
        }
        if view.is_undoing {
            found.causes.extend(view.failure.as_ref().map(of_failure));
            let done = if view.undone.is_empty() { "none yet".into() } else { view.undone.join(", ") };
            found.so(Line::new("undoing", format!("its completed nodes are being undone; undone: {done}")));
        }
        if facts.is_held() {
            self.driven(view, found);
        } else if facts.is_due() {
            self.unclaimed(view, found);
        } else {
            self.not_due(view, found);
        }
        waiting::forks(view, found);
    }

    /// Pause and cancel commands that are in force or on their way.
    fn commands(&self, view: &RunView, found: &mut RunExplanation) {
        let sent = |name: &str| self.facts.inbox.iter().rev().find(|(known, _)| known == name).map(|(_, at)| *at);
        if let Some(at) = sent("command/cancel") {
            found.cause(Line::new("cancelling", "a command cancels the run, and no driver has taken it yet").since(at));
        }
        if view.is_paused {
            let line = Line::new("paused", "a command paused the run");
            found.cause(Line { since: sent("command/pause"), ..line });
            let text = if self.facts.is_held() { "its driver starts no further node" } else { "no worker drives it" };
            found.so(Line::new("paused", text));
            found.advise("lets it continue", self.command("resume", ""));
        }
    }

    /// A driver holds the run.
    fn driven(&self, view: &RunView, found: &mut RunExplanation) {
        let Facts { info, now, .. } = self.facts;
        waiting::attempts(view, *now, found);
        waiting::open_waits(self, view, found);
        let owner = driver(info);
        let works_for = now.since(info.changed);
        if found.causes.is_empty() {
            let text = format!("{owner} is working {}", waiting::places(view));
            found.cause(Line::new("driven", text).since(info.changed));
        } else {
            found.so(Line::new("driven", format!("{owner} holds the run")));
        }
        let left = info.lease_until.map_or(Duration::ZERO, |until| until.since(*now));
        let text = format!("its lease ends in {} unless it renews it; then another worker takes the run over", short(left));
        found.so(Line::new("lease", text));
        if info.takeovers > 0 {
            found.so(self.suspect(info.takeovers));
        }
        if works_for > LONG_WORK && !view.is_paused && view.waits().next().is_none() {
            let text = format!("no record for {}; if that is too long for this node, look at {owner}", short(works_for));
            found.advise(text, None);
        }
        found.advise("follows it", self.command("tail", ""));
    }

    /// The run is due, and no driver holds it.
    fn unclaimed(&self, view: &RunView, found: &mut RunExplanation) {
        let Facts { info, now, is_holder_alive, .. } = self.facts;
        let due = info.wake_at.unwrap_or(*now);
        // The lease of a dead holder has ended before its time.
        let since = if *is_holder_alive == Some(false) { due } else { due.max(info.lease_until.unwrap_or(due)) };
        if info.owner.is_some() {
            self.lost_driver(view, found);
        }
        if let Some(trouble) = &info.trouble {
            found.cause(Line::new("trouble", format!("the last worker could not drive the run: {trouble}")));
        }
        waiting::attempts(view, *now, found);
        if view.is_paused {
            return;
        }
        if !self.facts.inbox.is_empty() {
            let names: Vec<String> = self.facts.inbox.iter().take(5).map(|(name, _)| quoted(name)).collect();
            let (messages, names) = (counted(self.facts.inbox.len(), "message"), names.join(", "));
            found.so(Line::new("messages", format!("not taken by a driver yet: {messages}: {names}")));
        }
        let waited = now.since(since);
        if waited < CLAIMED_WITHIN && info.owner.is_none() {
            let text = format!("the run is due for {}, and waits for the next free worker", short(waited));
            found.cause(Line::new("due", text).since(since));
            found.advise("follows it", self.command("tail", ""));
            return;
        }
        self.unserved(since, found);
    }

    /// The driver of the run has lost it: its process has ended, or does not renew the lease.
    fn lost_driver(&self, view: &RunView, found: &mut RunExplanation) {
        let Facts { info, is_holder_alive, .. } = self.facts;
        let (owner, work) = (driver(info), waiting::places(view));
        if *is_holder_alive == Some(false) {
            let text = format!("the process of {owner} has ended while it was working {work}");
            found.cause(Line::new("driver_ended", text).since(info.changed));
        } else {
            let why = match is_holder_alive {
                Some(true) => "its process still has the store open, so it is stopped, or too busy to renew",
                _ => "its process has ended, is stopped, or does not reach the store",
            };
            let text = format!("the lease of {owner} ended and was not renewed: {why}");
            found.cause(Line { since: info.lease_until, ..Line::new("lease_ended", text) });
            if let Some(pid) = process(info) {
                let text = "on its machine; a T in the column STAT means stopped, and `kill -CONT` continues it";
                found.advise(text, Some(format!("ps -o pid,stat,etime,args -p {pid}")));
            }
        }
        if info.takeovers > 0 {
            found.so(self.suspect(info.takeovers + 1));
        }
    }

    /// Says how many drivers died, and what follows.
    fn suspect(&self, died: u32) -> Line {
        let times = counted(died as usize, "driver");
        let text =
            format!("{times} in a row died without a commit: the node may crash them; after {TAKEOVERS_MAX} the run is stuck");
        Line::new("suspect", text)
    }

    /// Says which workers the store knows, and why none of them serves the run.
    fn unserved(&self, since: pleach::store::Timestamp, found: &mut RunExplanation) {
        let (info, none) = (&self.facts.info, Others::default());
        let others = self.facts.others.as_ref().unwrap_or(&none);
        let wanted = (info.graph.clone(), info.version.clone());
        let GraphVersion { fingerprint, schema } = &info.version;
        let version = format!("graph {:?} with fingerprint {fingerprint} and schema {schema}", info.graph);
        let of_version = others.drivers.iter().find(|(_, versions)| versions.contains(&wanted));
        let text = match (others.drivers.len(), of_version) {
            (0, _) => "no worker drives any run of this store now".to_string(),
            (_, Some((name, _))) => format!("driver {name} serves this version, and has not claimed the run: it may be full"),
            (1, None) => format!("the only driver that holds runs of this store now has none of {version}"),
            (count, None) => format!("{count} drivers hold runs of this store now, none of them of {version}"),
        };
        found.cause(Line::new("unserved", text));
        if let Some((newer, at)) = &others.newer_version {
            let GraphVersion { fingerprint, schema } = newer;
            let text =
                format!("newer runs of this graph have fingerprint {fingerprint} and schema {schema}: a deploy changed it");
            found.cause(Line::new("other_version", text).happened(*at));
        }
        found.so(Line::new("unclaimed", "the run is due, and no worker claims it").since(since));
        let is_other_version = others.newer_version.is_some() || (of_version.is_none() && !others.drivers.is_empty());
        if is_other_version {
            found.advise("says what the new program must accept or migrate; it exports FILE.json", self.check_command());
            found.advise(format!("or start a worker of the program that has {version}"), None);
        } else {
            found.advise(format!("start a worker that serves {version}, or look why it does not run"), None);
            found.advise("if one runs: says whether its graphs serve the run", self.check_command());
        }
    }

    /// The run waits for a time or a message.
    fn not_due(&self, view: &RunView, found: &mut RunExplanation) {
        let Facts { info, now, .. } = self.facts;
        if let Some(trouble) = &info.trouble {
            found.cause(Line::new("trouble", format!("the last worker could not drive the run: {trouble}")));
            let text =
                format!("a worker tries again; after {TAKEOVERS_MAX} attempts the run is stuck ({} so far)", info.takeovers);
            found.so(Line::new("delayed", text).due(info.wake_at));
        }
        waiting::attempts(view, *now, found);
        waiting::open_waits(self, view, found);
        if found.causes.is_empty() {
            let line = Line::new("waiting", format!("the run waits {}", waiting::places(view)));
            found.cause(line.since(info.changed).due(info.wake_at));
        }
    }
}

/// Returns the process of the driver: its name begins with the id.
fn process(info: &RunInfo) -> Option<u32> {
    info.owner.as_deref()?.split_once('-')?.0.parse().ok()
}

fn driver(info: &RunInfo) -> String {
    let owner = info.owner.as_deref().unwrap_or("unknown");
    process(info).map_or_else(|| format!("driver {owner}"), |pid| format!("driver {owner} (process {pid})"))
}

/// Says what failed, as a sentence.
pub fn of_failure(failure: &RunFailure) -> Line {
    let RunFailure { node, attempt, reason, .. } = failure;
    let (kind, text) = match failure.kind {
        FailureKind::Node if *attempt > 0 => ("node_failed", format!("node {node:?} failed at attempt {attempt}: {reason}")),
        FailureKind::Node => ("node_failed", format!("node {node:?} failed: {reason}")),
        FailureKind::Panic => ("panic", reason.clone()),
        FailureKind::Router => ("router_failed", format!("the router after node {node:?} failed: {reason}")),
        FailureKind::Merge => ("merge_failed", format!("the merge after node {node:?} failed: {reason}")),
        FailureKind::FanOutTimeout => ("fan_out_timeout", format!("the branches of {node:?} were not done in time: {reason}")),
        FailureKind::Limit => ("limit", format!("the run exceeded its limit of visits: {reason}")),
        FailureKind::Deadline => ("deadline", format!("the run was cancelled at its deadline: {reason}")),
        FailureKind::Cancelled => ("cancelled", format!("a command cancelled the run: {reason}")),
        FailureKind::Undo => ("undo_failed", format!("the undo of node {node:?} failed: {reason}")),
        _ if node.is_empty() => ("failed", reason.clone()),
        _ => ("failed", format!("node {node:?}: {reason}")),
    };
    let node = (!node.is_empty()).then(|| node.clone());
    let line = Line { node, branch: branches(&failure.branch), record: Some(failure.sequence), ..Line::new(kind, text) };
    line.happened(failure.at).due(failure.retry_at)
}
