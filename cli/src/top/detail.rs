//! [`Detail`]: everything about one member.

use super::columns::{count, per_second};
use super::rows::RateBook;
use crate::output::times::{Times, short};
use crate::screen::text::{fit, pad, wrap};
use crate::screen::widgets::{mailbox_bar, sparkline};
use crate::screen::{Line, Look, Span};
use pleach::actor::ActorPath;
use pleach::inspect::{Activity, EventInfo, Followed, MemberInfo, Why};
use pleach::store::Timestamp;
use std::collections::VecDeque;

/// How many events of a member are kept.
const EVENTS_MAX: usize = 200;

/// The columns of the labels.
const LABEL: usize = 14;

#[derive(Debug)]
pub struct Detail {
    pub path: ActorPath,
    /// The member as it was last read.
    pub member: Option<MemberInfo>,
    why: Option<Why>,
    /// Whether the member has ended, or another one has its path.
    note: Option<&'static str>,
    events: VecDeque<EventInfo>,
    missed: u64,
    no_events: Option<String>,
    /// The first visible line.
    pub first: usize,
}

impl Detail {
    pub fn new(path: ActorPath, member: Option<MemberInfo>) -> Self {
        Self { path, member, why: None, note: None, events: VecDeque::new(), missed: 0, no_events: None, first: 0 }
    }

    pub fn apply(&mut self, answer: Option<Box<(MemberInfo, Why)>>) {
        let Some((member, why)) = answer.map(|answer| *answer) else {
            self.note = Some("has ended; this is its last picture");
            return;
        };
        self.note = match &self.member {
            Some(known) if known.id != member.id => Some("is another member than before, with the same path"),
            _ => self.note.filter(|note| note.starts_with("is another")),
        };
        (self.member, self.why) = (Some(member), Some(why));
    }

    pub fn event(&mut self, event: Followed) {
        let is_within = |path: &ActorPath| path.segments().starts_with(self.path.segments());
        match event {
            Followed::Event(event) if event.path.as_ref().is_some_and(is_within) => self.events.push_back(event),
            Followed::Missed(missed) => self.missed += missed,
            _ => {}
        }
        if self.events.len() > EVENTS_MAX {
            self.events.pop_front();
        }
    }

    pub fn no_events(&mut self, reason: String) {
        self.no_events = Some(reason);
    }

    /// Returns all lines, at most `width` columns wide.
    pub fn lines(&self, rates: &RateBook, times: &Times, width: usize, look: &Look) -> Vec<Line<'static>> {
        let mut page = Page { lines: Vec::new(), width, look };
        if let Some(note) = self.note {
            page.lines.push(Line::from(Span::styled(format!("This member {note}."), look.theme.bad_badge)));
        }
        match &self.member {
            None if self.note.is_none() => page.lines.push(Line::from(Span::styled("reading it", look.theme.weak))),
            None => {}
            Some(member) => page.member(member, rates),
        }
        if let Some(why) = &self.why {
            page.why(why);
        }
        page.title("Events");
        if let Some(reason) = &self.no_events {
            page.text("", reason, look.theme.warn);
        } else if self.events.is_empty() {
            page.text("", "none since this was opened", look.theme.weak);
        }
        for event in self.events.iter().rev() {
            let at = times.clock(Timestamp::from_millis((event.unix_us / 1_000) as i64));
            let at = at.split(' ').next().unwrap_or_default().to_string();
            let is_bad = matches!(event.kind.as_str(), "failed" | "gave_up" | "unhandled" | "dead_letter");
            page.text(&at, &event.text, if is_bad { look.theme.bad } else { Default::default() });
        }
        if self.missed > 0 {
            page.text("", &format!("{} events were left out: the process sent them too fast", self.missed), look.theme.warn);
        }
        page.lines
    }
}

/// Lines with labels.
struct Page<'a> {
    lines: Vec<Line<'static>>,
    width: usize,
    look: &'a Look,
}

impl Page<'_> {
    fn title(&mut self, title: &'static str) {
        self.lines.push(Line::default());
        self.lines.push(Line::from(Span::styled(title, self.look.theme.strong)));
    }

    /// Adds a text behind a label, on as many lines as it needs.
    fn text(&mut self, label: &str, text: &str, style: crate::screen::CellStyle) {
        let indent = if label.is_empty() { 2 } else { LABEL };
        for (at, part) in wrap(text, self.width.saturating_sub(indent), self.look).into_iter().enumerate() {
            let label = pad(if at == 0 { label } else { "" }, indent);
            self.lines.push(Line::from(vec![Span::styled(label, self.look.theme.weak), Span::styled(part, style)]));
        }
    }

    fn spans(&mut self, label: &str, spans: Vec<Span<'static>>) {
        let mut line = Line::from(Span::styled(pad(label, LABEL), self.look.theme.weak));
        line.spans.extend(spans);
        self.lines.push(line);
    }

    fn member(&mut self, member: &MemberInfo, rates: &RateBook) {
        let theme = self.look.theme;
        self.text("kind", &format!("{}, id {}", member.kind, member.id), Default::default());
        self.text("now", &now(member), super::columns::activity_style(&member.activity, self.look));
        for wait in &member.waits {
            self.text("waits", &wait.to_string(), theme.warn);
        }
        if member.waits_left_out > 0 {
            self.text("", &format!("and for {} others", member.waits_left_out), theme.weak);
        }
        if let Some(actor) = &member.actor {
            self.text("handles", &actor.message_type, Default::default());
            let mut spans = mailbox_bar(actor.queued, actor.capacity, 20.min(self.width / 4), self.look);
            let of =
                actor.capacity.map_or_else(|| " queued, no limit".into(), |capacity| format!(" of {} queued", count(capacity)));
            spans.push(Span::raw(format!(" {}{of}", count(actor.queued))));
            for (number, what) in
                [(actor.waiting_senders, "senders wait"), (actor.stashed, "stashed"), (actor.timers, "timers")]
            {
                if number > 0 {
                    let style = if what == "senders wait" { theme.bad } else { theme.weak };
                    spans.push(Span::styled(format!(", {} {what}", count(number)), style));
                }
            }
            self.spans("mailbox", spans);
            self.text("messages", &ledger(actor), Default::default());
            let rate =
                rates.rate(member.id).map_or_else(|| "not known yet".into(), |rate| format!("{}/s handled ", per_second(rate)));
            let trend = rates.trend(member.id);
            let known = rates.trend(member.id).count().min(30).min(self.width / 3);
            let trend = sparkline(trend, known, self.look);
            self.spans("rate", vec![Span::raw(rate), trend]);
        }
        match (member.pool_size, member.children) {
            (Some(size), workers) => self.text("workers", &format!("{workers} of {size}"), Default::default()),
            (None, 0) => {}
            (None, children) => self.text("children", &count(children), Default::default()),
        }
        self.restarts(member);
        if let Some(failure) = &member.last_failure {
            let during = failure.message.as_ref().map_or_else(String::new, |message| format!(", while it handled {message}"));
            let from = if failure.origin == member.path { String::new() } else { format!(", first in {}", failure.origin) };
            let text =
                format!("{} ago, incarnation {}{from}{during}: {}", short(failure.ago), failure.incarnation, failure.reason);
            self.text("last failure", &text, theme.bad);
        }
        if let Some(ago) = member.cancelled_for {
            self.text("cancelled", &format!("{} ago; it ends at its next await", short(ago)), theme.warn);
        }
    }

    fn restarts(&mut self, member: &MemberInfo) {
        let theme = self.look.theme;
        let Some(restarts) = member.restarts else { return };
        let window = short(restarts.window);
        let shared = if restarts.is_shared { ", counted together with its siblings" } else { "" };
        let incarnation =
            member.actor.as_ref().map_or_else(String::new, |actor| format!("; incarnation {}", actor.incarnation));
        let (text, style) = match restarts.allowed {
            None => (format!("{} in {window}, no limit", restarts.used), theme.warn),
            Some(allowed) if restarts.used >= allowed => {
                (format!("{} of {allowed} in {window}: the next failure is too many", restarts.used), theme.bad)
            }
            Some(allowed) => (format!("{} of {allowed} in {window}", restarts.used), theme.warn),
        };
        let style = if restarts.used == 0 { Default::default() } else { style };
        self.text("restarts", &format!("{text}{shared}{incarnation}"), style);
    }

    /// Shows the deepest cause first, then the way up.
    fn why(&mut self, why: &Why) {
        let look = self.look;
        if why.chain.len() > 1 || !why.reasons.is_empty() {
            self.title("Why");
        }
        if why.is_cycle {
            self.text("", "the waits form a cycle: none of these members can continue", look.theme.bad);
        }
        if why.chain.len() > 1 {
            for (step, member) in why.chain.iter().rev().enumerate() {
                let waits = member.waits.first().filter(|_| step > 0 || why.is_cycle);
                let (lead, what) = match waits {
                    Some(wait) => ("so ", wait.to_string()),
                    None => ("cause ", now(member)),
                };
                let style = if step == 0 { look.theme.bad } else { Default::default() };
                let lead = if step == 0 { lead.replace("so ", "cause ") } else { format!("{}so ", "  ".repeat(step.min(8))) };
                let text = format!("{} {what}", member.path);
                let room = self.width.saturating_sub(lead.len() + 2);
                let parts =
                    vec![Span::styled(format!("  {lead}"), look.theme.weak), Span::styled(fit(&text, room, look), style)];
                self.lines.push(Line::from(parts));
            }
        }
        for reason in &why.reasons {
            self.text("", &reason.to_string(), look.theme.warn);
        }
        if !why.waiters.is_empty() {
            self.title("Waits for it, or for its cause");
        }
        for waiter in &why.waiters {
            self.text("", &format!("{} {}", waiter.path, waiter.wait), Default::default());
        }
        if why.waiters_left_out > 0 {
            self.text("", &format!("and {} others", why.waiters_left_out), look.theme.weak);
        }
    }
}

fn now(member: &MemberInfo) -> String {
    match member.activity {
        Activity::Handling { for_at_least, is_exact } => {
            let least = if is_exact { "" } else { "at least " };
            let what = member.actor.as_ref().map_or("a message", |actor| &actor.message_type);
            format!("handles one {what} for {least}{}", short(for_at_least))
        }
        other => other.to_string(),
    }
}

/// Writes the account of all messages: what was accepted is handled, failed, lost or still there.
fn ledger(actor: &pleach::inspect::ActorInfo) -> String {
    let counts = actor.counts;
    let open = counts.accepted.saturating_sub(counts.handled + counts.failed + counts.dead_lettered);
    format!(
        "{} accepted = {} handled + {} failed + {} dead letters + {open} open",
        count(counts.accepted),
        count(counts.handled),
        count(counts.failed),
        count(counts.dead_lettered),
        open = count(open),
    )
}
