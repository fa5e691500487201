//! [`Counts`]: what became of every message.

use core::fmt;
use core::ops::AddAssign;

/// What became of the messages of one actor, or of a whole system.
///
/// Whenever no message is queued or being handled, `accepted == handled + failed + dead_lettered`.
/// Otherwise the difference is [`open`](Self::open). On 32-bit targets the counts of one live actor
/// wrap around at 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Counts {
    /// How many messages a mailbox has accepted.
    pub accepted: u64,
    /// How many messages a handler has handled with `Ok`.
    pub handled: u64,
    /// Messages whose handler returned an error, panicked or was cancelled.
    pub failed: u64,
    /// Messages that no handler processed: left in the mailbox, dropped or conflated.
    pub dead_lettered: u64,
}

impl Counts {
    /// Returns the accepted messages that are still queued or being handled.
    pub fn open(&self) -> u64 {
        self.accepted.saturating_sub(self.handled + self.failed + self.dead_lettered)
    }

    /// Returns whether every accepted message was handled, failed or became a dead letter.
    pub fn is_settled(&self) -> bool {
        self.accepted == self.handled + self.failed + self.dead_lettered
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.accepted += more.accepted;
        self.handled += more.handled;
        self.failed += more.failed;
        self.dead_lettered += more.dead_lettered;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { accepted, handled, failed, dead_lettered } = self;
        write!(f, "{accepted} accepted = {handled} handled + {failed} failed + {dead_lettered} dead-lettered")?;
        match self.open() {
            0 => Ok(()),
            open => write!(f, " + {open} open"),
        }
    }
}
