//! Values as text, for people: one line per member, indented by depth. The text may change;
//! programs use the fields.

use crate::inspect::info::{Activity, ActorInfo, LastFailure, MemberInfo, RestartInfo, WaitInfo, WaitKind};
use crate::inspect::snapshot::Snapshot;
use core::fmt;
use core::time::Duration;

/// Writes a duration with at most three significant digits: `12ms`, `3.2s`, `4min`.
pub(crate) struct Short(pub(crate) Duration);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0.as_secs(), self.0.as_millis());
        match seconds {
            0 if millis == 0 => write!(f, "{}us", self.0.as_micros()),
            0 => write!(f, "{millis}ms"),
            1..10 => write!(f, "{}.{}s", seconds, self.0.subsec_millis() / 100),
            10..120 => write!(f, "{seconds}s"),
            120..7_200 => write!(f, "{}min", seconds / 60),
            _ => write!(f, "{}h", seconds / 3_600),
        }
    }
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Handling { for_at_least, is_exact: true } => return write!(f, "handling for {}", Short(*for_at_least)),
            Self::Handling { for_at_least, .. } => return write!(f, "handling for at least {}", Short(*for_at_least)),
            Self::WaitingToRestart { remaining: Some(remaining) } => return write!(f, "restarts in {}", Short(*remaining)),
            Self::WaitingToRestart { remaining: None } => "waits to restart with its siblings",
            Self::Open => "open",
            Self::Starting => "starting",
            Self::Idle => "idle",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::InHook => "in a hook",
            Self::Suspended => "suspended",
            Self::Restarting => "restarting",
            Self::Stopping => "stopping",
            Self::Ended => "ended",
            Self::Unknown => "in a state that this version does not know",
        })
    }
}

impl fmt::Display for WaitInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = &self.on;
        match self.kind {
            WaitKind::Answer => write!(f, "asks {on}"),
            WaitKind::Room => write!(f, "waits for room in the mailbox of {on}"),
            WaitKind::Exit => write!(f, "waits for the exit of {on}"),
            WaitKind::Children => write!(f, "waits for the children of {on}"),
            WaitKind::Tasks => write!(f, "waits for the tasks of {on}"),
            WaitKind::Result => write!(f, "waits for a result of {on}"),
            WaitKind::Slot => write!(f, "waits for a free slot of {on}"),
            WaitKind::Unknown => write!(f, "waits for {on}"),
        }
    }
}

impl fmt::Display for RestartInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.allowed {
            Some(allowed) => write!(f, "{} of {allowed} restarts in {}", self.used, Short(self.window)),
            None => write!(f, "{} restarts in {}", self.used, Short(self.window)),
        }
    }
}

impl fmt::Display for LastFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed {} ago: ", Short(self.ago))?;
        visible(&self.reason, f)
    }
}

/// Writes a text of the program on one line, with control characters made visible.
fn visible(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    use fmt::Write;
    text.chars().try_for_each(|char| match char.is_control() {
        true => write!(f, "{}", char.escape_default()),
        false => f.write_char(char),
    })
}

impl fmt::Display for ActorInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.capacity {
            Some(capacity) => write!(f, "{} of {capacity} queued", self.queued)?,
            None => write!(f, "{} queued", self.queued)?,
        }
        match self.waiting_senders {
            0 => {}
            1 => f.write_str(", 1 sender waits")?,
            senders => write!(f, ", {senders} senders wait")?,
        }
        if self.stashed > 0 {
            write!(f, ", {} stashed", self.stashed)?;
        }
        write!(f, ", {} handled", self.counts.handled)?;
        if self.counts.failed > 0 {
            write!(f, ", {} failed", self.counts.failed)?;
        }
        if self.counts.dead_lettered > 0 {
            write!(f, ", {} dead letters", self.counts.dead_lettered)?;
        }
        Ok(())
    }
}

/// One line: name, kind, activity, then what is worth knowing.
impl fmt::Display for MemberInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.last() {
            Some(_) if self.depth == 0 => write!(f, "{}", self.path)?,
            Some(name) => write!(f, "{name}")?,
            None => f.write_str("/")?,
        }
        write!(f, " ({}) {}", self.kind, self.activity)?;
        if let Some(actor) = &self.actor {
            write!(f, "; {actor}")?;
        }
        match (self.pool_size, self.children) {
            (Some(size), workers) => write!(f, "; {workers} of {size} workers")?,
            (None, 0) => {}
            (None, 1) => f.write_str("; 1 child")?,
            (None, children) => write!(f, "; {children} children")?,
        }
        if let Some(up_for) = self.up_for {
            write!(f, "; up {}", Short(up_for))?;
        }
        self.waits.iter().try_for_each(|wait| write!(f, "; {wait}"))?;
        if let Some(restarts) = self.restarts.filter(|restarts| restarts.used > 0) {
            write!(f, "; {restarts}")?;
        }
        if let Some(failure) = &self.last_failure {
            write!(f, "; {failure}")?;
        }
        match self.cancelled_for {
            Some(ago) => write!(f, "; cancelled {} ago", Short(ago)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, member) in self.members.iter().enumerate() {
            let line_end = if index == 0 { "" } else { "\n" };
            write!(f, "{line_end}{:indent$}{member}", "", indent = 2 * member.depth as usize)?;
        }
        match self.next {
            Some(_) => f.write_str("\n… more"),
            None => Ok(()),
        }
    }
}
