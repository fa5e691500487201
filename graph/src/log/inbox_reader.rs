//! `InboxReader`: reads new messages from the inbox of a run, when there may be some.

use crate::log::RunLog;
use crate::log::committer::{RunActivity, StoreCall};
use crate::store::{InboxMessage, StoreError};
use pleach_core::{BoxFuture, Instant};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// How often the inbox is looked into, whether or not the store said anything.
const INBOX_EVERY: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct InboxReader {
    /// The highest number there is, as far as is known.
    pub(super) posted: u64,
    /// When the store last said so.
    pub(super) heard_at: Option<Instant>,
    /// The highest number that was known when the store was asked. More may have been posted since, and the answer may be from before that.
    reading: Option<(u64, StoreCall<Vec<InboxMessage>>)>,
    /// The store did not answer the last time, and is asked again when it is time.
    is_unanswered: bool,
    timer: Option<BoxFuture<'static, ()>>,
    nudged: Option<BoxFuture<'static, ()>>,
}

impl InboxReader {
    /// A reader for an inbox whose last known message has this number.
    pub(super) fn new(posted: u64) -> Self {
        Self { posted, ..Self::default() }
    }

    /// Ready when messages were read.
    pub(super) fn poll(
        &mut self,
        log: &Arc<RunLog>,
        cx: &mut Context<'_>,
        standing: RunActivity,
    ) -> Poll<Result<Vec<InboxMessage>, StoreError>> {
        loop {
            if let Some((known, reading)) = &mut self.reading {
                let read = std::task::ready!(reading.as_mut().poll(cx));
                let known = *known;
                self.reading = None;
                let messages = match read {
                    Ok(messages) => messages,
                    // As long as the lease can be renewed, this can wait.
                    Err(error) if error.is_temporary() => {
                        self.is_unanswered = true;
                        continue;
                    }
                    Err(error) => return Poll::Ready(Err(error)),
                };
                self.is_unanswered = false;
                self.posted = self.posted.max(log.note_read(&messages, known));
                if !messages.is_empty() {
                    return Poll::Ready(Ok(messages));
                }
                continue;
            }
            let seen = log.lock().seen;
            if (self.posted > seen && !self.is_unanswered) || self.is_time_to_look(log, cx, standing) {
                let log = Arc::clone(log);
                let asked = Box::pin(async move { log.options.store.inbox(&log.run, seen).await });
                self.reading = Some((self.posted, asked));
                continue;
            }
            return Poll::Pending;
        }
    }

    /// Now and then; and while everything waits, the run waits for messages.
    fn is_time_to_look(&mut self, log: &Arc<RunLog>, cx: &mut Context<'_>, standing: RunActivity) -> bool {
        let runtime = log.runtime();
        let mut is_time = false;
        if standing == RunActivity::Busy {
            self.nudged = None;
        } else {
            let store = Arc::clone(&log.options.store);
            let nudged = self.nudged.get_or_insert_with(|| Box::pin(async move { store.nudged().await }));
            is_time = nudged.as_mut().poll(cx).is_ready();
        }
        while !is_time {
            let timer = self.timer.get_or_insert_with(|| runtime.sleep_until(runtime.now() + INBOX_EVERY));
            if timer.as_mut().poll(cx).is_pending() {
                return false;
            }
            // Every commit is answered with what there is in the inbox.
            let due = self.heard_at.map(|heard_at| heard_at + INBOX_EVERY).filter(|due| *due > runtime.now());
            self.timer = due.map(|due| runtime.sleep_until(due));
            is_time = due.is_none();
        }
        (self.timer, self.nudged) = (None, None);
        true
    }
}

impl RunLog {
    /// Up to which number messages were read. Numbers up to `posted` were given before the store was asked.
    pub(crate) fn note_read(&self, messages: &[InboxMessage], posted: u64) -> u64 {
        let mut state = self.lock();
        let last = messages.last().map_or(posted, |last| last.number);
        state.seen = state.seen.max(last);
        state.seen
    }
}
