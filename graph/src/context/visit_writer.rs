//! `VisitWriter`: writes the records of one visit and waits until they are durable.
//!
//! An attempt is **abandoned** when it timed out, was cancelled, or was replaced by the next
//! attempt. Its future may still be polled on another thread for a moment.
//!
//! Invariants:
//! 1. An abandoned attempt writes nothing and fails no node.
//! 2. A record counts in memory from its submission on, before it is durable.
//! 3. A value is returned to the node only after its record is durable.
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

/// The position of an attempt in its run, with everything that its records need.
pub(crate) struct VisitWriter {
    pub(crate) graph_cx: Arc<GraphContext>,
    pub(crate) records: Arc<VisitRecords>,
    pub(super) token: TokenId,
    pub(super) path: Vec<Fork>,
    /// The record that placed the token; the records of this visit name it as their parent.
    pub(super) parent: u64,
    pub(super) node: Arc<str>,
    pub(crate) attempt: u32,
    pub(super) is_undo: bool,
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
    /// Reserves a key for this attempt, until the guard is dropped or its value is delivered.
    /// Returns `None` if the key is in use or the attempt was abandoned.
    pub(crate) fn take_key(&self, namespace: Namespace, key: &str) -> Option<KeyGuard<'_>> {
        let mut records = self.records.lock_for(self.attempt)?;
        let key_state = records.key_state(namespace, key);
        let is_free = !std::mem::replace(&mut key_state.is_used, true);
        is_free.then(|| KeyGuard { writer: self, namespace, key: key.to_string(), is_delivered: false })
    }

    pub(crate) fn log(&self) -> Option<&Arc<RunLog>> {
        self.graph_cx.run().log()
    }

    /// Returns the inbox of the run. Returns `None` for an undo, which cannot wait for messages.
    pub(crate) fn inbox(&self) -> Option<&Inbox> {
        self.graph_cx.run().inbox().filter(|_| !self.is_undo)
    }

    /// Writes a visit record and waits until it is durable. Fails the node if the record is too
    /// large.
    pub(crate) async fn write(&self, kind: Kind, body: VisitRecordBody) {
        match self.submit(kind, body, None) {
            Ok(sequence) => self.durable(sequence).await,
            Err(error) => self.fail(error).await,
        }
    }

    /// Submits a visit record and returns its sequence number. `message` is the message that this
    /// record takes from the inbox; the message of a signal is only named in the record and is
    /// removed from the inbox after the node got the signal.
    ///
    /// An abandoned attempt writes nothing and gets [`NEVER`]: the next attempt may use the same
    /// effect or wait. The check and the append happen under the lock of the visit records, so no
    /// attempt can start between them.
    ///
    /// The record counts from its submission on. Otherwise an attempt that is abandoned while it
    /// waits would hide from the next attempt what the log will contain.
    pub(crate) fn submit(&self, kind: Kind, mut body: VisitRecordBody, message: Option<&Message>) -> Result<u64, StoreError> {
        let Some(mut records) = self.records.lock_for(self.attempt) else { return Ok(NEVER) };
        let Some(log) = self.log() else {
            records.apply(kind, body, 0, 0);
            return Ok(0);
        };
        let mut record = NewRecord::new(kind, self.path.clone(), &*self.node);
        (record.parent, record.attempt) = (self.parent, self.attempt);
        body.undo = records.undo_to_write();
        drop(records);
        // Number 0 marks a message that a resume carried; it is not in the inbox.
        match message.filter(|message| message.number > 0) {
            Some(signal) if body.signal.is_some() => {
                (body.message, record.signal) = (Some(signal.number), Some(signal.clone()));
            }
            answer => record.takes = answer.map(|answer| answer.number).into_iter().collect(),
        }
        record.body = body.bytes();
        let packed = log.pack(record);
        let mut records = self.records.lock();
        let added = match packed {
            Ok(packed) if records.is_at(self.attempt) => Ok(log.add(packed)),
            Ok(_) => Ok(NEVER),
            Err(error) => Err(error),
        };
        match (&added, records.undo.as_mut().filter(|_| body.undo.is_some())) {
            (Ok(sequence), _) if *sequence != NEVER => records.apply(kind, body, *sequence, *sequence),
            (_, Some(unwritten)) => unwritten.is_written = false,
            (_, None) => {}
        }
        drop(records);
        log.wake_driver();
        added
    }

    /// Waits until this driver holds the lease for certain. If not, another driver may already be
    /// executing the next step.
    pub(crate) async fn lease(&self) {
        if let Some(log) = self.log() {
            poll_fn(|cx| log.poll_lease(cx)).await;
        }
    }

    /// Waits until the record with this sequence number is durable.
    pub(crate) async fn durable(&self, sequence: u64) {
        if let Some(log) = self.log() {
            poll_fn(|cx| log.poll_durable(sequence, cx)).await;
        }
    }

    /// Keeps the node from counting as parked until the guard is dropped: it continues when this
    /// record is durable.
    pub(crate) fn deliver_after(&self, sequence: u64) -> Option<DeliveryGuard<'_>> {
        self.records.deliver_after(self.attempt, sequence)
    }

    /// Waits until the record of a value is durable. The caller holds the guard until it has
    /// delivered the value.
    pub(crate) async fn durable_value(&self, sequence: u64) -> Option<DeliveryGuard<'_>> {
        let delivering = self.deliver_after(sequence);
        self.durable(sequence).await;
        delivering
    }

    /// Fails the node: this future stays pending, and the engine drops it. Does nothing for an
    /// abandoned attempt.
    pub(crate) async fn fail<T>(&self, error: impl Into<BoxError>) -> T {
        if self.records.lock_for(self.attempt).is_some() {
            self.graph_cx.run().break_node(self.token, error.into());
        }
        pending().await
    }

    /// Wakes the engine if this node is parked. If the node runs on another thread, no other event
    /// would wake the engine.
    pub(crate) fn wake_driver_if_parked(&self) {
        if let Some(log) = self.log().filter(|_| self.records.is_parked()) {
            log.wake_driver();
        }
    }
}

/// A key that this attempt uses. If the guard is dropped before a value was delivered, the key is
/// free again, and a value recorded meanwhile goes to the next caller.
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

    /// Marks the value as delivered to the node.
    pub(crate) fn deliver(mut self) {
        self.is_delivered = true;
        let records = self.writer.records.lock_for(self.writer.attempt);
        let signal = records.and_then(|mut records| records.deliver(self.namespace, &self.key));
        if let (Some(number), Some(log)) = (signal, self.writer.log()) {
            log.deliver_signal(number);
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
                let key_state = records.key_state(self.namespace, &self.key);
                key_state.is_used = false;
                key_state.value.is_some()
            }
            None => false,
        };
        // Another wait for a signal of this name can take the value.
        if let Some(inbox) = self.writer.inbox().filter(|_| has_value) {
            inbox.wake_all(&signal_name(&self.key));
        }
    }
}
