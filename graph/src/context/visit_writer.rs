//! `VisitWriter`: writes the records of one visit, and waits until they are durable.
//!
//! Lock order: the visit records, then the log. No waker is woken under either lock.

use crate::context::NodeContext;
use crate::context::run_context::GraphContext;
use crate::control::Inbox;
use crate::log::frontier::undo_path;
use crate::log::message::{Message, signal_name};
use crate::log::visit::polls::DeliveryGuard;
use crate::log::visit::{Namespace, VisitRecordBody, VisitRecords};
use crate::log::{NEVER, NewRecord, RunLog};
use crate::store::{Fork, Kind, StoreError};
use crate::token::TokenId;
use pleach_core::BoxError;
use std::future::{pending, poll_fn};
use std::sync::Arc;

/// Where in a run something is done: what it takes to write it down.
pub(crate) struct VisitWriter {
    pub(crate) graph_cx: Arc<GraphContext>,
    pub(crate) records: Arc<VisitRecords>,
    pub(super) token: TokenId,
    pub(super) path: Vec<Fork>,
    /// The record that visit records follow.
    pub(super) parent: u64,
    pub(super) node: Arc<str>,
    pub(crate) attempt: u32,
    pub(super) is_undo: bool,
    /// Whether the node has an undo.
    pub(super) has_undo: bool,
}

impl NodeContext {
    /// Returns the writer for the visit of this context.
    pub(crate) fn writer(&self) -> VisitWriter {
        let records = &self.details.get_or_init(Box::default).records;
        VisitWriter {
            graph_cx: Arc::clone(&self.graph_cx),
            records: Arc::clone(records.get_or_init(|| Arc::new(VisitRecords::of_attempt(self.attempt)))),
            token: self.token,
            path: self.undoes().map_or_else(|| self.branch.forks(), undo_path),
            parent: self.undoes().unwrap_or(self.token.sequence),
            node: self.node(),
            attempt: self.attempt,
            is_undo: self.undoes().is_some(),
            has_undo: self.has_undo(),
        }
    }
}

impl VisitWriter {
    /// Takes a key for this attempt, until it is let go or delivered. `None` if it is taken, or the attempt was cut off.
    pub(crate) fn take_key(&self, namespace: Namespace, key: &str) -> Option<KeyGuard<'_>> {
        let mut records = self.records.lock_for(self.attempt)?;
        let kept = records.kept(namespace, key);
        let is_free = !std::mem::replace(&mut kept.is_used, true);
        is_free.then(|| KeyGuard { writer: self, namespace, key: key.to_string(), is_delivered: false })
    }

    pub(crate) fn log(&self) -> Option<&Arc<RunLog>> {
        self.graph_cx.run().log()
    }

    /// Where answers and signals come; an undo has nobody to ask.
    pub(crate) fn inbox(&self) -> Option<&Inbox> {
        self.graph_cx.run().inbox().filter(|_| !self.is_undo)
    }

    /// Writes a note, in the log if the run is stored, and waits until it is durable. It counts from when it is submitted: an attempt that is cut
    /// off while it waits would hide from the next what will be in the log.
    pub(crate) async fn write(&self, kind: Kind, body: VisitRecordBody) {
        match self.submit(kind, body, None) {
            Ok(sequence) => self.durable(sequence).await,
            Err(error) => self.fail(error).await,
        }
    }

    /// Writes a note, and the message that is taken with it. Its sequence, which is to become durable. A signal is only noted: its message is taken
    /// once the node was given it.
    ///
    /// An attempt that was cut off writes nothing, and the sequence is [`NEVER`]: the next attempt may be at the same effect or wait. That is decided
    /// together with adding the note to the log, so the visit records' lock is held meanwhile.
    pub(crate) fn submit(&self, kind: Kind, mut body: VisitRecordBody, message: Option<&Message>) -> Result<u64, StoreError> {
        let Some(mut records) = self.records.lock_for(self.attempt) else { return Ok(NEVER) };
        let Some(log) = self.log() else {
            records.note(kind, body, 0);
            return Ok(0);
        };
        let mut entry = NewRecord::new(kind, self.path.clone(), &*self.node);
        (entry.parent, entry.attempt) = (self.parent, self.attempt);
        body.undo = records.undo_to_write();
        drop(records);
        // Number 0 is for what a resume brought along.
        match message.filter(|message| message.number > 0) {
            Some(signal) if body.signal.is_some() => {
                (body.message, entry.signal) = (Some(signal.number), Some(signal.clone()));
            }
            answer => entry.takes = answer.map(|answer| answer.number).into_iter().collect(),
        }
        entry.body = body.bytes();
        let packed = log.pack(entry);
        let mut records = self.records.lock();
        let added = match packed {
            Ok(packed) if records.is_at(self.attempt) => log.add(packed),
            Ok(_) => Ok(NEVER),
            Err(error) => Err(error),
        };
        match (&added, records.undo.as_mut().filter(|_| body.undo.is_some())) {
            (Ok(sequence), _) if *sequence != NEVER => records.note(kind, body, *sequence),
            (_, Some(unwritten)) => unwritten.is_written = false,
            (_, None) => {}
        }
        drop(records);
        log.wake_driver();
        added
    }

    /// Waits until this driver holds the run for certain: another one may have done what comes next.
    pub(crate) async fn lease(&self) {
        if let Some(log) = self.log() {
            poll_fn(|cx| log.poll_lease(cx)).await;
        }
    }

    pub(crate) async fn durable(&self, sequence: u64) {
        if let Some(log) = self.log() {
            poll_fn(|cx| log.poll_durable(sequence, cx)).await;
        }
    }

    /// The node goes on once this record is durable: until then it is not parked, whatever else it waits for.
    pub(crate) fn deliver_after(&self, sequence: u64) -> Option<DeliveryGuard<'_>> {
        self.records.deliver_after(self.attempt, sequence)
    }

    /// Waits until the record of a value is durable, and gives what is to be kept until the value is delivered.
    pub(crate) async fn durable_value(&self, sequence: u64) -> Option<DeliveryGuard<'_>> {
        let delivering = self.deliver_after(sequence);
        self.durable(sequence).await;
        delivering
    }

    /// Fails the node: it stays pending here, and the engine drops it. An attempt that was cut off fails nobody.
    pub(crate) async fn fail<T>(&self, error: impl Into<BoxError>) -> T {
        if self.records.lock_for(self.attempt).is_some() {
            self.graph_cx.run().break_node(self.token, error.into());
        }
        pending().await
    }

    /// Wakes the run if this node does nothing but wait now: on another thread, nobody else would.
    pub(crate) fn tell_if_parked(&self) {
        if let Some(log) = self.log().filter(|_| self.records.is_parked()) {
            log.wake_driver();
        }
    }
}

/// A key that is used in this attempt. Dropped before anything was delivered, it can be used again: what was recorded for it meanwhile waits for
/// whoever asks next.
pub(crate) struct KeyGuard<'a> {
    writer: &'a VisitWriter,
    namespace: Namespace,
    key: String,
    is_delivered: bool,
}

impl KeyGuard<'_> {
    pub(crate) fn namespace(&self) -> Namespace {
        self.namespace
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// The node has what it asked for.
    pub(crate) fn deliver(mut self) {
        self.is_delivered = true;
        let records = self.writer.records.lock_for(self.writer.attempt);
        let signal = records.and_then(|mut records| records.deliver(self.namespace, &self.key));
        if let (Some(number), Some(log)) = (signal, self.writer.log()) {
            log.give_out_signal(number);
        }
    }
}

impl Drop for KeyGuard<'_> {
    fn drop(&mut self) {
        if self.is_delivered {
            return;
        }
        let has_value = match self.writer.records.lock_for(self.writer.attempt) {
            Some(mut records) => {
                let kept = records.kept(self.namespace, &self.key);
                kept.is_used = false;
                kept.value.is_some()
            }
            None => false,
        };
        // Another wait for a signal of this name may go on with it.
        if let Some(inbox) = self.writer.inbox().filter(|_| has_value) {
            inbox.wake_all(&signal_name(&self.key));
        }
    }
}
