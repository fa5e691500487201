//! What is wrong in a process now, for the home page: the reasons of its health, members that fail,
//! and messages that do not add up.
//!
//! The health is asked for each time. The counts of all members are read at most every
//! [`COUNTED_EVERY`], and less often if that takes long.

use crate::failure::Failure;
use crate::problem::{Advice, Problem, Severity};
use crate::process::history::{time, unix_micros};
use crate::process::ledger::Ledger;
use crate::process::link::{Link, Session};
use crate::process::reasons;
use crate::report::command::quoted;
use crate::source::{Findings, Quiet};
use crate::view::{MemberAt, View};
use pleach::actor::ActorPath;
use pleach::inspect::{Health, HealthReason, MemberInfo, TopBy, TopRequest};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How often the counts of all members are read, at most.
const COUNTED_EVERY: Duration = Duration::from_secs(5);

/// They are also not read again for this many times as long as it took.
const WAIT_PER_COST: u32 = 50;

/// How long that may take. If it takes longer, it is not tried again for [`UNCOUNTED_FOR`].
const COUNTED_WITHIN: Duration = Duration::from_secs(3);
const UNCOUNTED_FOR: Duration = Duration::from_secs(120);

/// How many members with failures are looked at, and how many problems of that kind are listed.
const FAILED_MAX: usize = 50;
const FAILING_MAX: usize = 10;

/// A failure that is older is no problem of now.
const RECENT: Duration = Duration::from_secs(60);

/// How many reasons are looked at more closely.
const EXPLAINED_MAX: usize = 5;

/// What the examinations before have found.
#[derive(Default)]
pub(super) struct Memory(Mutex<Remembered>);

#[derive(Default)]
struct Remembered {
    /// Since when each present problem is known, so that its time does not vary from look to look.
    since: BTreeMap<String, String>,
    counted: Option<Counted>,
}

/// What the counts of all members say.
#[derive(Clone)]
struct Counted {
    failing: Vec<MemberInfo>,
    is_cut: bool,
    ledger: Option<Ledger>,
    until: Instant,
}

/// The problems of a process so far.
pub(super) struct Report<'a> {
    key: &'a str,
    socket: Option<String>,
    findings: Findings,
}

/// Examines the process.
pub(super) async fn examine(key: &str, link: &Arc<Link>, memory: &Memory) -> Result<Findings, Failure> {
    let mut session = link.session().await?;
    let health = session.ask(|client| client.health()).await?;
    let mut report = Report { key, socket: link.socket(), findings: Findings::default() };
    if health == Health::Down {
        report.down();
        return Ok(report.findings);
    }
    for (number, reason) in health.reasons().iter().enumerate() {
        let cause = if number < EXPLAINED_MAX { reasons::deepest_cause(&mut session, reason).await? } else { None };
        report.reason(reason, cause);
    }
    report.quiet_reasons(health.reasons());
    match timeout(COUNTED_WITHIN, memory.counted(&mut session)).await {
        Ok(counted) => {
            let counted = counted?;
            report.failing(&counted, health.reasons());
            report.ledger(counted.ledger.as_ref());
        }
        // So large a tree is not counted at every look; what is known is shown.
        Err(_) => {
            memory.give_up_counting();
            report.cut();
        }
    }
    memory.keep_times(&mut report.findings.problems);
    Ok(report.findings)
}

impl Report<'_> {
    /// Returns a problem of this kind about a member, without its consequences.
    pub(super) fn problem(&self, severity: Severity, kind: &str, path: &ActorPath, title: String) -> Problem {
        Problem {
            key: format!("{}:{path}:{kind}", self.key),
            severity,
            kind: kind.to_string(),
            source: self.key.to_string(),
            title,
            cause: None,
            so: Vec::new(),
            since: None,
            path: Some(path.to_string()),
            run: None,
            count: 1,
            advice: vec![self.look_at("Look at it", path)],
        }
    }

    pub(super) fn add(&mut self, problem: Problem) {
        self.findings.problems.push(problem);
    }

    pub(super) fn cut(&mut self) {
        self.findings.is_cut = true;
    }

    fn quiet(&mut self, text: &str) {
        self.findings.quiet.push(Quiet { source: self.key.to_string(), text: text.to_string() });
    }

    /// Advice with the page of a member, and the command that explains it.
    pub(super) fn look_at(&self, text: &str, path: &ActorPath) -> Advice {
        let at = MemberAt { process: self.key.to_string(), path: path.to_string() };
        Advice { text: text.to_string(), view: Some(View::Member(at)), command: self.command("why", path) }
    }

    /// Returns a command about a member, if commands can reach the process.
    pub(super) fn command(&self, word: &str, path: &ActorPath) -> Option<String> {
        let socket = quoted(self.socket.as_ref()?);
        Some(format!("pleach {word} {socket} {}", quoted(&path.to_string())))
    }

    fn down(&mut self) {
        let root = ActorPath::root();
        let title = "The system is shutting down or has ended".to_string();
        let problem = Problem {
            so: vec!["it starts nothing new".to_string()],
            advice: vec![Advice { text: "Route no work to it".to_string(), ..Advice::default() }],
            ..self.problem(Severity::Error, "down", &root, title)
        };
        self.add(problem);
    }

    /// Says which kinds of problems were looked for and not found.
    fn quiet_reasons(&mut self, found: &[HealthReason]) {
        for (kind, text) in reasons::QUIET {
            if !found.iter().any(|reason| reasons::kind(reason) == kind) {
                self.quiet(text);
            }
        }
    }

    /// Members that have failed lately, and are restarted within their limit.
    fn failing(&mut self, counted: &Counted, known: &[HealthReason]) {
        let is_known = |member: &&MemberInfo| {
            known.iter().any(|reason| matches!(reason, HealthReason::GaveUp { child, .. } if *child == member.path))
        };
        let failing: Vec<_> = counted.failing.iter().filter(|member| !is_known(member)).collect();
        if failing.is_empty() && !counted.is_cut {
            self.quiet("No actor has failed within the last minute");
        }
        self.findings.is_cut |= counted.is_cut || failing.len() > FAILING_MAX;
        for member in failing.into_iter().take(FAILING_MAX) {
            let Some(last) = &member.last_failure else { continue };
            let limit = member.restarts.and_then(|restarts| restarts.allowed.map(|allowed| (restarts.used, allowed)));
            let so = limit.map(|(used, allowed)| match allowed.saturating_sub(used) {
                0 => "the next failure within the window exceeds the restart limit".to_string(),
                left => format!("it is restarted; {left} of {allowed} restarts are left"),
            });
            let cause = last.message.as_ref().map(|message| format!("it was handling {message}"));
            let problem = Problem {
                cause,
                so: so.into_iter().collect(),
                since: Some(time(unix_micros().saturating_sub(micros(last.ago)))),
                count: member.actor.as_ref().map_or(1, |actor| actor.counts.failed).max(1),
                ..self.problem(Severity::Warning, "failing", &member.path, format!("{} failed: {}", member.path, last.reason))
            };
            self.add(problem);
        }
    }

    fn ledger(&mut self, ledger: Option<&Ledger>) {
        let Some(ledger) = ledger.filter(|ledger| ledger.is_complete) else { return };
        let root = ActorPath::root();
        if ledger.difference == 0 {
            return self.quiet("Every accepted message is accounted for");
        }
        let (count, text) = (ledger.difference.unsigned_abs(), if ledger.difference > 0 { "nowhere" } else { "counted twice" });
        let messages = if count == 1 { "message is" } else { "messages are" };
        let problem = Problem {
            cause: Some("accepted messages are not the sum of those handled, failed, dead-lettered and waiting".to_string()),
            so: vec!["the counts of this process cannot be trusted".to_string()],
            count,
            advice: vec![
                self.look_at("Look at the ledger", &root),
                Advice { text: "Please report this".to_string(), ..Advice::default() },
            ],
            ..self.problem(Severity::Error, "out_of_balance", &root, format!("{count} accepted {messages} {text}"))
        };
        self.add(problem);
    }
}

impl Memory {
    fn remembered(&self) -> std::sync::MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what the counts of all members say, from a look that may be some seconds old.
    async fn counted(&self, session: &mut Session<'_>) -> Result<Counted, Failure> {
        let begun = Instant::now();
        if let Some(known) = self.remembered().counted.clone().filter(|known| begun < known.until) {
            return Ok(known);
        }
        let mut request = TopRequest::by(TopBy::Failed);
        request.limit = Some(FAILED_MAX);
        let top = session.ask(|client| client.top(request)).await?;
        let mut ledger = Ledger::of(&top);
        if ledger.as_ref().is_some_and(|ledger| ledger.difference != 0) {
            // Only a difference that stays is one.
            let root = ActorPath::root();
            let again = session.ask(|client| Ledger::ask(client, &root)).await?;
            ledger =
                ledger.filter(|ledger| again.as_ref().is_some_and(|again| again.difference == ledger.difference)).or(again);
        }
        let is_recent = |member: &MemberInfo| member.last_failure.as_ref().is_some_and(|failure| failure.ago < RECENT);
        let failing: Vec<_> = top.rows.into_iter().map(|row| row.member).filter(is_recent).collect();
        let until = Instant::now() + COUNTED_EVERY.max(begun.elapsed() * WAIT_PER_COST);
        let counted = Counted { is_cut: failing.len() >= FAILED_MAX, failing, ledger, until };
        self.remembered().counted = Some(counted.clone());
        Ok(counted)
    }

    /// Remembers that the members are too many to be counted in time.
    fn give_up_counting(&self) {
        let until = Instant::now() + UNCOUNTED_FOR;
        self.remembered().counted = Some(Counted { failing: Vec::new(), is_cut: true, ledger: None, until });
    }

    /// Gives each problem the time at which it was first found.
    fn keep_times(&self, problems: &mut [Problem]) {
        let mut remembered = self.remembered();
        let before = std::mem::take(&mut remembered.since);
        for problem in problems {
            let since = before.get(&problem.key).cloned().or(problem.since.take()).unwrap_or_else(|| time(unix_micros()));
            remembered.since.insert(problem.key.clone(), since.clone());
            problem.since = Some(since);
        }
    }
}

/// Returns a duration in microseconds.
pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
