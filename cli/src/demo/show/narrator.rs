//! The narrator: what just happened and what pleach did about it, in plain words.

use super::picture::{Picture, Tone};
use crate::demo::protocol::{Decided, Directive, Note};
use crate::demo::worker::orders::STEPS;

/// What a narrator says: a sentence, its tone, and the member that it is about.
pub struct Said {
    pub tone: Tone,
    pub text: String,
    pub path: Option<String>,
}

/// Returns the last part of a path.
pub fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Describes a note, if it is worth a sentence.
pub fn describe(note: &Note, picture: &Picture) -> Option<Said> {
    let said = |tone, text, path: Option<&String>| Some(Said { tone, text, path: path.cloned() });
    match note {
        Note::Decided(decided) => Some(describe_decision(decided, picture)),
        Note::GaveUp { supervisor, child, restarts, window_ms } => {
            let text = format!(
                "{} failed again after {restarts} restarts in {}: supervisor {} gives up",
                name(child),
                seconds(*window_ms),
                name(supervisor)
            );
            said(Tone::Trouble, text, Some(supervisor))
        }
        Note::Overloaded { path, sent, returned } => {
            let kept = sent - returned;
            let text = match returned {
                0 => format!("{sent} messages at once for {}: its mailbox takes the newest", name(path)),
                _ => format!(
                    "{sent} messages at once for {}: {kept} fit into its mailbox, {returned} went back to their sender",
                    name(path)
                ),
            };
            said(Tone::User, text, Some(path))
        }
        Note::DeadLetters { path, count, are_dropped } => {
            let why = if *are_dropped { "its full mailbox drops the oldest" } else { "it has ended before them" };
            let text = format!("{} of {}: {why}, and each is counted", counted(*count, "dead letter"), name(path));
            said(Tone::Trouble, text, Some(path))
        }
        Note::Returned { path } => {
            said(Tone::User, format!("the mailbox of {} is full: the poison went back to its sender", name(path)), None)
        }
        Note::Asks { run, cents } => {
            said(Tone::Plain, format!("{run} costs {} and waits for an approval, on disk, without a task", price(*cents)), None)
        }
        Note::Ended { run, failure: None } => {
            said(Tone::Good, format!("{run} was shipped: {} steps, each on disk", STEPS.len()), None)
        }
        Note::Ended { run, failure: Some(failure) } => said(Tone::Trouble, format!("{run} ended: {failure}"), None),
        Note::Ready { .. } | Note::Restarted { .. } | Note::Step { .. } | Note::Pulse(_) | Note::Final(_) => None,
    }
}

fn describe_decision(decided: &Decided, picture: &Picture) -> Said {
    let Decided { path, directive, reason, is_panic, is_escalated, restarts, delay_ms } = decided;
    let what = match (is_escalated, is_panic) {
        (true, _) => format!("{} passed its failure up", name(path)),
        (false, true) => format!("{} panicked: {reason}", name(path)),
        (false, false) => format!("{} failed: {reason}", name(path)),
    };
    let wait = if *delay_ms == 0 { "at once".to_string() } else { format!("in {}", seconds(*delay_ms)) };
    let queued = picture.member(path).and_then(|member| Some(member.actor.as_ref()?.queued)).unwrap_or(0);
    let done = match directive {
        Directive::Restart if *is_escalated => format!("it is restarted {wait}, with all its children"),
        Directive::Restart if queued > 0 => format!("restarted {wait}; its mailbox keeps {}", counted(queued, "message")),
        Directive::Restart => format!("restarted {wait}, restart {restarts}"),
        Directive::Stop => "it is stopped".to_string(),
        Directive::Escalate => "the failure goes up".to_string(),
        Directive::Other => "it continues".to_string(),
    };
    let tone = if *directive == Directive::Restart { Tone::Good } else { Tone::Trouble };
    Said { tone, text: format!("{what} → {done}"), path: Some(path.clone()) }
}

pub fn seconds(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        _ if millis.is_multiple_of(1_000) => format!("{} s", millis / 1_000),
        _ => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
    }
}

pub fn price(cents: u64) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}

/// Returns a number with its noun.
pub fn counted(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn text(note: &Note) -> String {
        describe(note, &Picture::new(Instant::now())).map(|said| said.text).unwrap_or_default()
    }

    #[test]
    fn sentences_name_what_failed_and_what_was_done() {
        let decided = Decided {
            path: "/user/shop/stock".into(),
            directive: Directive::Restart,
            reason: "shelf 7 is empty".into(),
            is_panic: false,
            is_escalated: false,
            restarts: 2,
            delay_ms: 390,
        };
        assert_eq!(text(&Note::Decided(decided.clone())), "stock failed: shelf 7 is empty → restarted in 390 ms, restart 2");
        let panicked = Decided { is_panic: true, delay_ms: 0, ..decided.clone() };
        assert_eq!(text(&Note::Decided(panicked)), "stock panicked: shelf 7 is empty → restarted at once, restart 2");
        let above = Decided { path: "/user/shop/payments".into(), is_escalated: true, delay_ms: 2_400, ..decided };
        assert_eq!(
            text(&Note::Decided(above)),
            "payments passed its failure up → it is restarted in 2.4 s, with all its children"
        );
        let gave_up = Note::GaveUp {
            supervisor: "/user/shop/payments".into(),
            child: "/user/shop/payments/bank".into(),
            restarts: 3,
            window_ms: 5_000,
        };
        assert_eq!(text(&gave_up), "bank failed again after 3 restarts in 5 s: supervisor payments gives up");
        let sent = |returned| text(&Note::Overloaded { path: "/user/shop/stock".into(), sent: 5_000, returned });
        assert!(sent(4_800).contains("200 fit into its mailbox, 4800 went back"));
        assert!(sent(0).contains("takes the newest"));
        let dead = Note::DeadLetters { path: "/user/shop/mail".into(), count: 15, are_dropped: true };
        assert_eq!(text(&dead), "15 dead letters of mail: its full mailbox drops the oldest, and each is counted");
    }
}
