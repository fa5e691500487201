//! The kinds of inbox messages. Commands have their own space: however full an inbox is, a run can
//! be paused, resumed and cancelled.

use super::NewMessage;

pub(crate) const PAUSE: &str = "command/pause";
pub(crate) const RESUME: &str = "command/resume";
pub(crate) const CANCEL: &str = "command/cancel";

/// What the names of answers begin with.
pub(crate) const ANSWER: &str = "answer/";

/// What is wrong with an inbox whose next number is taken.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) const STRAY_MESSAGE: &str = "its inbox has a message that was never posted to it";

/// What a message is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InboxMessageKind {
    /// To pause (`command/pause`), to go on (`command/resume`), to end for good (`command/cancel`). It is never refused for want of room.
    Command,
    /// The answer to an interrupt: `answer/` and its key.
    Answer,
    /// A signal, or whatever else it is called.
    Signal,
}

/// What a store does with a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandAction {
    /// Nothing: this message says the same, and nobody took it.
    Known(u64),
    /// It is added, and these are removed: what they say does not count any more.
    Instead(Vec<u64>),
}

impl NewMessage {
    /// What it is.
    pub fn kind(&self) -> InboxMessageKind {
        match self.name.as_str() {
            PAUSE | RESUME | CANCEL => InboxMessageKind::Command,
            name if name.starts_with(ANSWER) => InboxMessageKind::Answer,
            _ => InboxMessageKind::Signal,
        }
    }

    /// What to do with it, if it is a command: `untaken` are the commands in the inbox that nobody took, with their numbers and names, in order.
    /// Of pause and resume the last counts; a cancel stays. So there are two of them at most.
    pub fn among(&self, untaken: &[(u64, String)]) -> CommandAction {
        let is_cancel = self.name == CANCEL;
        let rivals = || untaken.iter().filter(|(_, name)| (name == CANCEL) == is_cancel);
        match rivals().next_back() {
            Some((number, name)) if *name == self.name => CommandAction::Known(*number),
            _ => CommandAction::Instead(rivals().map(|(number, _)| *number).collect()),
        }
    }
}
