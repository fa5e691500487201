//! Episodes of mailboxes that fill up. An episode begins when a mailbox is more than 80 % full, and
//! is over once the mailbox has stayed below that mark for [`QUIET`] after it was half empty. So a
//! mailbox that fills and drains many times in a second is one episode, with two lines.

use pleach_core::{ActorPath, Instant};
use std::time::Duration;

/// How long a mailbox must have room before its episode is over.
pub(super) const QUIET: Duration = Duration::from_secs(10);

/// How many episodes are followed at once. Further mailboxes are counted.
pub(super) const EPISODES_MAX: usize = 256;

#[derive(Debug)]
struct Episode {
    began: Instant,
    /// How often the mailbox has filled up.
    fills: u64,
    drained: Option<Instant>,
}

/// An episode that is over.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) path: String,
    pub(super) fills: u64,
    /// From the first fill to the last drain.
    pub(super) lasted: Duration,
}

/// What a caller does about a mailbox that filled up.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// Writes that an episode begins.
    Begins,
    /// Nothing: the episode is known.
    Known,
    /// Writes that too many mailboxes are filling up. Returned once until an episode ends.
    TooMany,
    /// Nothing: that was written already.
    Ignored,
}

/// The open episodes.
#[derive(Debug, Default)]
pub(super) struct Mailboxes {
    /// In the order of their paths.
    open: Vec<(String, Episode)>,
    reported_too_many: bool,
    has_timer: bool,
}

impl Mailboxes {
    pub(super) fn filled(&mut self, path: &ActorPath, now: Instant) -> Filled {
        let (path, len) = (path.to_string(), self.open.len());
        let place = self.place(&path);
        if let Ok(at) = place {
            let (_, episode) = &mut self.open[at];
            episode.fills += 1;
            episode.drained = None;
            return Filled::Known;
        }
        if len >= EPISODES_MAX {
            let again = std::mem::replace(&mut self.reported_too_many, true);
            return if again { Filled::Ignored } else { Filled::TooMany };
        }
        let (Ok(at) | Err(at)) = place;
        self.open.insert(at, (path, Episode { began: now, fills: 1, drained: None }));
        Filled::Begins
    }

    /// Returns where the episode of a path is, or where it belongs.
    fn place(&self, path: &str) -> Result<usize, usize> {
        self.open.binary_search_by(|(known, _)| known.as_str().cmp(path))
    }

    /// Returns when to call [`take_ended`](Self::take_ended), unless a timer is set.
    pub(super) fn drained(&mut self, path: &ActorPath, now: Instant) -> Option<Instant> {
        let at = self.place(&path.to_string()).ok()?;
        self.open[at].1.drained = Some(now);
        if std::mem::replace(&mut self.has_timer, true) { None } else { Some(now + QUIET) }
    }

    /// Returns the episodes that are over at `now`, and when to call this again.
    pub(super) fn take_ended(&mut self, now: Instant) -> (Vec<Ended>, Option<Instant>) {
        let over = |episode: &Episode| episode.drained.filter(|drained| now.since(*drained) >= QUIET);
        let ended: Vec<_> = self
            .open
            .iter()
            .filter_map(|(path, episode)| {
                let lasted = over(episode)?.since(episode.began);
                Some(Ended { path: path.clone(), fills: episode.fills, lasted })
            })
            .collect();
        self.open.retain(|(_, episode)| over(episode).is_none());
        self.reported_too_many &= ended.is_empty();
        let next = self.open.iter().filter_map(|(_, episode)| episode.drained).min().map(|drained| drained + QUIET);
        self.has_timer = next.is_some();
        (ended, next)
    }
}
