//! Durable sleeps of a node, by the clock of the store.
//!
//! A sleep has one record, `Wait`, with its deadline. The first deadline counts for all attempts of
//! the visit, in this process and in the next. The run can pause meanwhile.

use crate::context::NodeContext;
use crate::context::visit_writer::VisitWriter;
use crate::error::{EffectError, RunFault};
use crate::log::visit::{Namespace, OpenWait, VisitRecordBody};
use crate::store::{Kind, Timestamp};
use pleach_core::{BoxFuture, Instant};
use std::future::pending;
use std::time::{Duration, SystemTime};

impl NodeContext {
    /// Waits until the given time, by the clock of the store (see [`now`](Self::now)).
    ///
    /// The first deadline is recorded. A retry, or another process after a crash, waits for that
    /// deadline and ignores a different `at`. A time in the past returns after the wait is
    /// recorded.
    ///
    /// # Errors
    /// The node fails with an [`EffectError`] if the key is already in use in this attempt or is
    /// invalid.
    ///
    /// # Cancel safety
    /// Dropping the future frees the key. The next call with this key waits for the recorded
    /// deadline.
    pub fn sleep_until(&self, key: impl Into<String>, at: SystemTime) -> BoxFuture<'static, ()> {
        let (writer, key) = (self.writer(), key.into());
        Box::pin(async move { writer.sleep(key, at.into()).await })
    }

    /// Waits for this long, counted from the first call in the visit.
    ///
    /// The deadline is recorded as in [`sleep_until`](Self::sleep_until): a retry or a restart of
    /// the process does not prolong the wait.
    pub fn sleep(&self, key: impl Into<String>, time: Duration) -> BoxFuture<'static, ()> {
        let at = Timestamp::from(self.now()).after(time);
        let (writer, key) = (self.writer(), key.into());
        Box::pin(async move { writer.sleep(key, at).await })
    }

    /// Returns the current time, by the clock of the store.
    ///
    /// An in-memory run uses the clock of the simulation or of the machine.
    pub fn now(&self) -> SystemTime {
        let run = self.graph_cx.run();
        let stored = run.log().map(|log| Duration::from_millis(log.now().as_millis().max(0) as u64));
        let since_1970 = stored.or_else(|| run.runtime().ok()?.time_of_day());
        since_1970.map_or_else(SystemTime::now, |time| SystemTime::UNIX_EPOCH + time)
    }
}

impl VisitWriter {
    async fn sleep(self, key: String, at: Timestamp) {
        if let Err(error) = self.check_key(&key) {
            return self.fail(error).await;
        }
        let Some(key_guard) = self.take_key(Namespace::Wait, &key) else {
            return self.fail(EffectError::UsedTwice { key }).await;
        };
        let Some((known, until)) = self.records.lock_for(self.attempt).map(|mut records| {
            let key_state = records.key_state(Namespace::Wait, &key);
            (key_state.wait.flatten(), key_state.until)
        }) else {
            return pending().await;
        };
        let due = known.unwrap_or(at);
        // In a stored run, the clock of the store may have been adjusted since the first call.
        let until = match until.filter(|_| self.log().is_none()).map_or_else(|| self.wake_up(due), Ok) {
            Ok(until) => until,
            Err(fault) => return self.fail(fault).await,
        };
        let runtime = match self.graph_cx.run().runtime() {
            Ok(runtime) => runtime,
            Err(fault) => return self.fail(fault).await,
        };
        if let Some(mut records) = self.records.lock_for(self.attempt) {
            records.key_state(Namespace::Wait, &key).until = Some(until);
        }
        // A deadline in the past is recorded too: a later attempt may pass a different one.
        let is_over = runtime.now() >= until;
        let open = OpenWait { key: key.clone(), due: Some(due), question: None, message: None };
        let waits = if is_over { None } else { self.wait(open) };
        if !is_over && waits.is_none() {
            return pending().await;
        }
        if known.is_none() {
            let body = VisitRecordBody { key, due: Some(due), ..VisitRecordBody::default() };
            let sequence = match self.submit(Kind::Wait, body, None) {
                Ok(sequence) => sequence,
                Err(error) => return self.fail(error).await,
            };
            // The node continues as soon as the record is durable, so it does not count as parked.
            let _delivering = if is_over { self.deliver_after(sequence) } else { None };
            self.durable(sequence).await;
        }
        match self.graph_cx.run().log() {
            _ if is_over => {}
            Some(log) => log.sleep_until(due).await,
            None => runtime.sleep_until(until).await,
        }
        key_guard.deliver();
    }

    /// Converts a deadline to the clock of the runtime.
    fn wake_up(&self, due: Timestamp) -> Result<Instant, RunFault> {
        let run = self.graph_cx.run();
        match run.log() {
            Some(log) => Ok(log.instant_of(due)),
            None => {
                let runtime = run.runtime()?;
                let now =
                    runtime.time_of_day().map_or_else(|| SystemTime::now().into(), |time| Timestamp::default().after(time));
                Ok(runtime.now() + due.since(now))
            }
        }
    }
}
