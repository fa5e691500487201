//! Compensation of a stored run. Each undo and its effects are recorded, so that a resumed run
//! continues inside an undo or with the next one.

use crate::compile::plan::Plan;
use crate::context::run_context::{GraphContext, UndoableVisit};
use crate::engine::undo::UndoWork;
use crate::error::{Compensation, RunError, RunFault, cut_fault, fault_of};
use crate::log::codec::StoredUndo;
use crate::log::frontier::undo_path;
use crate::log::undo_payload::UndoPayload;
use crate::log::visit::{VisitRecordBody, VisitRecords};
use crate::log::{NewRecord, RunLog, open};
use crate::store::{Kind, Record, RunStatus, Store, StoreError};
use crate::token::TokenId;
use pleach_core::{BoxFuture, CancelToken, Reason};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The undos of a stored run that failed.
pub(super) struct DurableUndoRun<S> {
    pub(super) error: Option<RunError<S>>,
    work: BoxFuture<'static, Result<Compensation, RunFault>>,
}

impl<S: Send + 'static> DurableUndoRun<S> {
    /// Starts the remaining undos. Earlier drivers have undone the nodes in `undone`.
    pub(super) fn begin(plan: &Arc<Plan<S>>, graph_cx: &Arc<GraphContext>, error: RunError<S>, undone: Vec<String>) -> Self {
        let (plan, graph_cx) = (Arc::clone(plan), Arc::clone(graph_cx));
        Self { error: Some(error), work: Box::pin(undo_all(plan, graph_cx, undone)) }
    }

    /// Ready with the failure and its compensation, or with the reason of an interruption. A resume
    /// continues after that.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<RunError<S>> {
        let ended = std::task::ready!(self.work.as_mut().poll(cx));
        let mut error = self.error.take().expect("the undos of a run end once");
        Poll::Ready(match ended {
            Ok(compensation) => {
                error.set_compensation(compensation);
                error
            }
            Err(interrupted) => RunError::new(interrupted, None),
        })
    }
}

/// Runs the remaining undos, last first. Fails if a record cannot be read or written and a resume
/// can continue.
async fn undo_all<S: Send + 'static>(
    plan: Arc<Plan<S>>,
    graph_cx: Arc<GraphContext>,
    mut undone: Vec<String>,
) -> Result<Compensation, RunFault> {
    let Some(log) = graph_cx.run().log() else { return Ok(Compensation::Compensated { undone }) };
    let fresh = CancelToken::root(Arc::clone(log.runtime()));
    loop {
        let sequence = log.undo();
        if sequence == 0 {
            return Ok(Compensation::Compensated { undone });
        }
        let (node, reason, left) = match undo_one(&plan, &graph_cx, log, &fresh, sequence).await {
            Ok((node, Ok(()))) => {
                undone.push(node);
                continue;
            }
            Ok((node, Err(reason))) => match nodes_before(log, sequence).await {
                // The failed undo is recorded: a resume reports the remaining nodes.
                Err(unread) if !log.is_detached() => return Err(fault_of(&*log.run, "", "open", unread)),
                left => (node, reason.to_string(), left.unwrap_or_default()),
            },
            // A run that has lost its store cannot be resumed: report what was undone.
            Err(interrupted) if log.is_detached() => (String::new(), interrupted.to_string(), Vec::new()),
            Err(interrupted) => return Err(interrupted),
        };
        return Ok(Compensation::CompensationFailed { undone, node, reason, left });
    }
}

/// Runs the undo of one record. Returns the node and the result. Fails if the record cannot be read
/// or the end cannot be recorded.
async fn undo_one<S: Send + 'static>(
    plan: &Plan<S>,
    graph_cx: &Arc<GraphContext>,
    log: &Arc<RunLog>,
    fresh: &CancelToken,
    sequence: u64,
) -> Result<(String, Result<(), Reason>), RunFault> {
    let fault = |op, error| fault_of(&*log.run, "", op, error);
    let (record, StoredUndo { payload, unknown, before }) =
        open::undo_of(log, sequence).await.map_err(|error| fault("open", error))?;
    let header = &record.header;
    let ended = match plan.nodes_by_id.undo(&header.node).map(Arc::clone) {
        None => Err(Reason::Error("the graph has no undo for this node; add one with `compensate`".into())),
        Some(undo) => {
            let token = TokenId { sequence: header.parent, branch: header.path.last().map_or(0, |fork| fork.branch) };
            let payload = UndoPayload { json: payload, unknown };
            let next =
                UndoableVisit { name: header.node.as_str().into(), undo, payload, token, iteration: header.iterations() };
            let records = (sequence, Arc::new(undo_records(log, sequence).map_err(|error| fault("open", error))?));
            match UndoWork::begin(next, graph_cx, Some(fresh.clone()), records) {
                Ok(mut work) => poll_fn(|cx| work.poll(graph_cx, cx)).await,
                Err(reason) => Err(reason),
            }
        }
    };
    let failed = ended.as_ref().err().map(Reason::to_string);
    let left = if failed.is_some() { sequence } else { before };
    record_undo_end(log, &record, left, failed).await.map_err(|error| fault("commit", error))?;
    Ok((record.header.node, ended))
}

/// Restores the visit records that an earlier process wrote during this undo.
fn undo_records(log: &RunLog, sequence: u64) -> Result<VisitRecords, StoreError> {
    let damaged = |sequence, reason| StoreError::Damaged { run: log.run.to_string(), sequence, reason };
    let records = log.token_at(&undo_path(sequence)).map(|token| token.visit_records).unwrap_or_default();
    let taken = records.into_iter().map(|note| log.take_restored(note).ok_or_else(|| damaged(note, "it is not there")));
    let records: Vec<Record> = taken.collect::<Result<_, _>>()?;
    VisitRecords::restore(records).map_err(|_| damaged(sequence, "a visit record of its undo cannot be read"))
}

/// Records the end of an undo and the next record to undo.
async fn record_undo_end(log: &Arc<RunLog>, record: &Record, left: u64, failed: Option<String>) -> Result<(), StoreError> {
    log.set_undo(left);
    let mut undo_record = NewRecord::new(Kind::Undo, record.header.path.clone(), record.header.node.clone());
    undo_record.parent = record.sequence;
    undo_record.status = match &failed {
        Some(_) => Some(RunStatus::CompensationFailed),
        None => Some(if left == 0 { RunStatus::Compensated } else { RunStatus::Running }),
    };
    undo_record.body = VisitRecordBody { error: failed.map(cut_fault), ..VisitRecordBody::default() }.bytes();
    let sequence = log.submit(undo_record)?;
    poll_fn(|cx| log.poll_durable(sequence, cx)).await;
    Ok(())
}

/// Returns the nodes whose undos would follow this record and have not run.
async fn nodes_before(log: &Arc<RunLog>, sequence: u64) -> Result<Vec<String>, StoreError> {
    let mut nodes = Vec::new();
    let mut next = open::undo_of(log, sequence).await?.1.before;
    while next > 0 {
        let (record, StoredUndo { before, .. }) = open::undo_of(log, next).await?;
        nodes.push(record.header.node);
        next = before;
    }
    Ok(nodes)
}

/// Reads the compensation of an ended run from its log. The result equals that of the driver that
/// ended the run.
pub(crate) async fn compensation_of(
    store: &dyn Store,
    run: &str,
    undone: Vec<String>,
    undo_failed: Option<u64>,
) -> Result<Compensation, StoreError> {
    let Some(failed) = undo_failed else { return Ok(Compensation::Compensated { undone }) };
    let damaged = || StoreError::Damaged {
        run: run.to_string(),
        sequence: failed,
        reason: "it does not contain the error of the failed undo",
    };
    let record = open::records(store, run, vec![failed]).await?.remove(&failed).ok_or_else(damaged)?;
    let VisitRecordBody { error, .. } = serde_json::from_slice(&record.body).map_err(|_| damaged())?;
    let (mut left, mut next) = (Vec::new(), open::undo_at(store, run, record.header.parent).await?.1.before);
    while next > 0 {
        let (record, StoredUndo { before, .. }) = open::undo_at(store, run, next).await?;
        left.push(record.header.node);
        next = before;
    }
    let reason = error.unwrap_or_default();
    Ok(Compensation::CompensationFailed { undone, node: record.header.node, reason, left })
}
