//! `InboxReader`: reads new messages from the stored inbox of a run.
//!
//! It reads when a commit or the control actor reported new messages, when the store sends a hint
//! while the run waits, and once per second otherwise.

use crate::log::RunLog;
use crate::log::committer::{RunActivity, StoreCall};
use crate::store::{InboxMessage, StoreError};
use pleach_core::{BoxFuture, Instant};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The longest time between two reads of the inbox.
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// Reads the inbox of one run.
#[derive(Default)]
pub(super) struct InboxReader {
    /// The highest known message number.
    pub(super) last_message: u64,
    /// When the store last reported that number.
    pub(super) reported_at: Option<Instant>,
    /// The read in flight, and the highest number known when it began. Messages posted since may be
    /// missing from its result.
    reading: Option<(u64, StoreCall<Vec<InboxMessage>>)>,
    /// True if the last read failed. It is repeated after the interval.
    is_unanswered: bool,
    timer: Option<BoxFuture<'static, ()>>,
    /// The hint of the store, awaited while the run waits.
    hint: Option<BoxFuture<'static, ()>>,
}

impl InboxReader {
    /// Creates a reader for an inbox whose last known message has this number.
    pub(super) fn new(last_message: u64) -> Self {
        Self { last_message, ..Self::default() }
    }

    /// Ready when messages were read.
    pub(super) fn poll(
        &mut self,
        log: &Arc<RunLog>,
        cx: &mut Context<'_>,
        activity: RunActivity,
    ) -> Poll<Result<Vec<InboxMessage>, StoreError>> {
        loop {
            if let Some((known, reading)) = &mut self.reading {
                let read = std::task::ready!(reading.as_mut().poll(cx));
                let known = *known;
                self.reading = None;
                let messages = match read {
                    Ok(messages) => messages,
                    // Not urgent while the lease can be renewed: read again later.
                    Err(error) if error.is_temporary() => {
                        self.is_unanswered = true;
                        continue;
                    }
                    Err(error) => return Poll::Ready(Err(error)),
                };
                self.is_unanswered = false;
                self.last_message = self.last_message.max(log.note_read(&messages, known));
                if !messages.is_empty() {
                    return Poll::Ready(Ok(messages));
                }
                continue;
            }
            let seen = log.lock().seen;
            if (self.last_message > seen && !self.is_unanswered) || self.is_due(log, cx, activity) {
                let log = Arc::clone(log);
                let call = Box::pin(async move { log.options.store.inbox(&log.run, seen).await });
                self.reading = Some((self.last_message, call));
                continue;
            }
            return Poll::Pending;
        }
    }

    /// Returns true if the interval has passed or, while nodes wait, the store sent a hint.
    fn is_due(&mut self, log: &Arc<RunLog>, cx: &mut Context<'_>, activity: RunActivity) -> bool {
        let runtime = log.runtime();
        let mut is_due = false;
        if activity == RunActivity::Busy {
            self.hint = None;
        } else {
            let store = Arc::clone(&log.options.store);
            let hint = self.hint.get_or_insert_with(|| Box::pin(async move { store.hint().await }));
            is_due = hint.as_mut().poll(cx).is_ready();
        }
        while !is_due {
            let timer = self.timer.get_or_insert_with(|| runtime.sleep_until(runtime.now() + READ_INTERVAL));
            if timer.as_mut().poll(cx).is_pending() {
                return false;
            }
            // Each commit reports the last message number, so the interval restarts with it.
            let due = self.reported_at.map(|reported_at| reported_at + READ_INTERVAL).filter(|due| *due > runtime.now());
            self.timer = due.map(|due| runtime.sleep_until(due));
            is_due = due.is_none();
        }
        (self.timer, self.hint) = (None, None);
        true
    }
}

impl RunLog {
    /// Returns the number up to which messages were read. All numbers up to `last_message` existed
    /// before the read.
    pub(crate) fn note_read(&self, messages: &[InboxMessage], last_message: u64) -> u64 {
        let mut state = self.lock();
        let last = messages.last().map_or(last_message, |last| last.number);
        state.seen = state.seen.max(last);
        state.seen
    }
}
