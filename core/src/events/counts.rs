//! [`Counts`]: what became of every message.

use core::fmt;
use core::ops::AddAssign;

/// What became of the messages of one actor, or of a whole system.
///
/// Whenever no message is queued or being handled, `accepted == handled + failed + dead_lettered`.
/// Otherwise the difference is [`open`](Self::open). On 32-bit targets the counts of one live actor
/// wrap around at 2^32.
///
/// # Examples
/// ```
/// use pleach::prelude::*;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), pleach::Error> {
/// let system = ActorSystem::new("shop")?;
/// let props = Props::from_fn(|| (), |(), n: u32| if n > 0 { Ok(()) } else { Err("zero") });
/// let till = system.spawn("till", props)?;
/// till.tell(1)?;
/// till.tell(0)?;
/// till.close();
/// till.exited().await;
/// assert_eq!(till.counts(), Counts { accepted: 2, handled: 1, failed: 1, dead_lettered: 0 });
/// # Ok(())
/// # }
/// ```
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
