//! The changes of a run's own row by claims, releases, commits and messages.
//!
//! These functions are pure: they take a [`RunInfo`] and the time, and change the row in memory.
//! Every store that reads a row, decides and writes it back uses them.

use super::limits::cut_reason;
use super::{
    Commit, Deadline, Held, INBOX_MAX, Lease, NewRun, Release, RunInfo, RunStatus, StoreError, TAKEOVERS_MAX, Timestamp, Wake,
};

impl Wake {
    /// Returns when the run is due; `None` if it waits for a message.
    pub(super) fn time(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Now => Some(now),
            Self::At(time) => Some(time),
            Self::OnMessage => None,
        }
    }
}

impl Commit {
    /// Returns whether another driver may be able to claim the run after this commit.
    pub(super) fn may_make_ready(&self) -> bool {
        self.release || self.wake.is_some()
    }
}

/// Fails with [`Held`](StoreError::Held) if the run has an unexpired lease.
pub(super) fn check_free(run: &str, owner: Option<&str>, until: Option<Timestamp>, now: Timestamp) -> Result<(), StoreError> {
    match (owner, until) {
        (Some(owner), Some(until)) if until > now => {
            Err(StoreError::Held { run: run.to_string(), owner: owner.to_string(), until, left: until.since(now) })
        }
        _ => Ok(()),
    }
}

impl RunInfo {
    /// Returns the row of a new run whose log has `head` rows.
    pub(super) fn new(run: NewRun, head: u64, now: Timestamp) -> Self {
        Self {
            id: run.id,
            graph: run.graph,
            version: run.version,
            instance: run.instance,
            status: if run.wake == Wake::Now { RunStatus::Running } else { RunStatus::Waiting },
            epoch: 1,
            head,
            oldest: 1,
            lease_until: run.lease.as_ref().map(|lease| now.after(lease.length)),
            owner: run.lease.map(|lease| lease.owner),
            wake_at: run.wake.time(now),
            takeovers: 0,
            trouble: None,
            deadline: run.deadline.map(|length| now.after(length)),
            last_message: 0,
            from: run.from,
            created: now,
            changed: now,
            tags: run.tags,
            failure: None,
        }
    }

    /// Returns whether the run is held by the given claim.
    pub(super) fn is_held_as(&self, held: &Held) -> bool {
        self.owner.is_some() && self.epoch == held.epoch && self.instance == held.instance
    }

    /// Fails with [`Held`](StoreError::Held) if the run has an unexpired lease.
    pub(super) fn check_free(&self, now: Timestamp) -> Result<(), StoreError> {
        check_free(&self.id, self.owner.as_deref(), self.lease_until, now)
    }

    /// Sets the status, wake time, deadline, tags and failure after a commit.
    ///
    /// A commit without a new wake time can ignore unseen messages: sending each of them has made
    /// the run due.
    ///
    /// A failure stays until the next one, the successful end of the run, or its continuation after
    /// an end.
    pub(super) fn apply_commit(&mut self, commit: &Commit, now: Timestamp) {
        let had_ended = self.status.has_ended();
        self.status = commit.status.unwrap_or(self.status);
        if let Some(failure) = &commit.failure {
            self.failure = Some(failure.clone().shortened());
        } else if self.status == RunStatus::Finished || (had_ended && !self.status.has_ended()) {
            self.failure = None;
        }
        if let Some(tags) = &commit.tags {
            self.tags.clone_from(tags);
        }
        self.wake_at = match commit.wake {
            _ if !self.status.is_live() => None,
            _ if self.last_message > commit.seen => Some(now),
            Some(wake) => wake.time(now),
            None => self.wake_at,
        };
        self.deadline = match commit.deadline {
            None => self.deadline,
            Some(Deadline::Never) => None,
            Some(Deadline::At(at)) => Some(at),
        };
    }

    /// Claims the run. The row must be stored even after an error, because the run may have become
    /// stuck.
    pub(super) fn claim(&mut self, lease: &Lease, force: bool, now: Timestamp) -> Result<(), StoreError> {
        let is_other = self.owner.as_ref().is_some_and(|owner| *owner != lease.owner);
        if is_other && !force {
            self.check_free(now)?;
            if self.status.is_live() && self.takeovers >= TAKEOVERS_MAX {
                self.release();
                (self.status, self.wake_at) = (RunStatus::Stuck, None);
            }
        }
        if self.status == RunStatus::Stuck {
            if !force {
                let (run, reason) = (self.id.clone(), self.trouble.clone());
                return Err(StoreError::Stuck { run, takeovers: self.takeovers, reason });
            }
            (self.status, self.wake_at) = (RunStatus::Running, Some(now));
        }
        self.takeovers = if force { 0 } else { self.takeovers.saturating_add(u32::from(is_other)) };
        self.epoch += 1;
        self.owner = Some(lease.owner.clone());
        self.lease_until = Some(now.after(lease.length));
        Ok(())
    }

    /// Removes the owner and the lease.
    pub(super) fn release(&mut self) {
        (self.owner, self.lease_until) = (None, None);
    }

    /// Releases the run as its driver asked.
    pub(super) fn apply_release(&mut self, how: &Release, now: Timestamp) {
        self.release();
        let delay = match how {
            Release::AsIs => return,
            Release::ForOthers { delay } => delay,
            Release::Failed { reason, delay } => {
                self.trouble = Some(cut_reason(reason.clone()));
                self.takeovers = self.takeovers.saturating_add(1);
                delay
            }
        };
        if !self.status.is_live() {
            return;
        }
        if matches!(how, Release::Failed { .. }) && self.takeovers >= TAKEOVERS_MAX {
            (self.status, self.wake_at) = (RunStatus::Stuck, None);
        } else {
            self.wake_at = Some(now.after(*delay));
        }
    }

    /// Fails with [`Ended`](StoreError::Ended) if the run will read no more messages.
    pub(super) fn check_open(&self) -> Result<(), StoreError> {
        if !self.status.has_ended() {
            return Ok(());
        }
        Err(StoreError::Ended { run: self.id.clone(), status: self.status })
    }

    /// Fails with [`InboxFull`](StoreError::InboxFull) if the inbox has no room for one more
    /// message of this kind.
    pub(super) fn check_room(&self, untaken: usize) -> Result<(), StoreError> {
        if untaken < INBOX_MAX { Ok(()) } else { Err(StoreError::InboxFull { run: self.id.clone(), limit: INBOX_MAX }) }
    }

    /// Counts a new message, whose number is then `last_message`, and makes a live run due.
    pub(super) fn count_message(&mut self, now: Timestamp) -> Result<(), StoreError> {
        self.check_open()?;
        self.last_message += 1;
        if self.status.is_live() {
            self.wake_at = Some(self.wake_at.map_or(now, |at| at.min(now)));
        }
        Ok(())
    }
}
