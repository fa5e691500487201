//! The kinds of inbox messages.
//!
//! Commands do not count toward the limit of an inbox, so a run with a full inbox can still be
//! paused, resumed and cancelled.

use super::NewMessage;

pub(crate) const PAUSE: &str = "command/pause";
pub(crate) const RESUME: &str = "command/resume";
pub(crate) const CANCEL: &str = "command/cancel";

/// The prefix of the names of answers.
pub(crate) const ANSWER: &str = "answer/";

/// The damage of an inbox that already has a message with the next number.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) const STRAY_MESSAGE: &str = "its inbox has a message that was never sent to it";

/// The kind of an inbox message. Its name decides the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InboxMessageKind {
    /// `command/pause`, `command/resume` or `command/cancel`. A full inbox still accepts it.
    Command,
    /// The answer to an interrupt: `answer/` and the key of the interrupt.
    Answer,
    /// A signal. Every other name is a signal too.
    Signal,
}

/// How a store adds a command to an inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandAction {
    /// Add nothing: an equal command with this number still waits to be taken.
    AlreadyQueued(u64),
    /// Add the command and remove these, which it replaces.
    Replace(Vec<u64>),
}

impl NewMessage {
    /// Returns the kind of the message, which its name decides.
    pub fn kind(&self) -> InboxMessageKind {
        match self.name.as_str() {
            PAUSE | RESUME | CANCEL => InboxMessageKind::Command,
            name if name.starts_with(ANSWER) => InboxMessageKind::Answer,
            _ => InboxMessageKind::Signal,
        }
    }

    /// Decides how a store adds this command to an inbox.
    ///
    /// `untaken` are the commands that wait to be taken, with their numbers and names, in order.
    /// The last pause or resume replaces earlier ones, and a cancel stays, so at most two commands
    /// wait.
    pub fn against_queued(&self, untaken: &[(u64, String)]) -> CommandAction {
        let is_cancel = self.name == CANCEL;
        let rivals = || untaken.iter().filter(|(_, name)| (name == CANCEL) == is_cancel);
        match rivals().next_back() {
            Some((number, name)) if *name == self.name => CommandAction::AlreadyQueued(*number),
            _ => CommandAction::Replace(rivals().map(|(number, _)| *number).collect()),
        }
    }
}
