//! Compensation of a run in memory: undoes completed nodes, last first, on a fresh cancel token.

use crate::context::run_context::{GraphContext, UndoableVisit};
use crate::context::{NodeContext, NodeDetails};
use crate::error::{Compensation, RunError};
use crate::log::undo_payload::UndoPayload;
use crate::log::visit::VisitRecords;
use crate::token::{BranchPath, TokenId};
use pleach_core::{BoxError, BoxFuture, CancelToken, Cause, Reason, catch_panic};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

/// The undos of a failed run.
pub(super) struct UndoRun<S> {
    graph_cx: Arc<GraphContext>,
    error: Option<RunError<S>>,
    /// The remaining visits to undo, in commit order.
    left: Vec<UndoableVisit>,
    undone: Vec<String>,
    current: Option<(String, UndoWork)>,
    fresh: Option<CancelToken>,
}

impl<S> UndoRun<S> {
    /// Starts the undos. Returns the error unchanged if no undo is saved or the run stays open for
    /// a resume.
    pub(super) fn begin(graph_cx: &Arc<GraphContext>, error: RunError<S>) -> Result<Self, RunError<S>> {
        if error.fault().ends_run() {
            return Err(error);
        }
        let left = graph_cx.run().take_undos();
        if left.is_empty() {
            return Err(error);
        }
        let fresh = graph_cx.run().runtime().ok().map(|runtime| CancelToken::root(Arc::clone(runtime)));
        let graph_cx = Arc::clone(graph_cx);
        Ok(Self { graph_cx, error: Some(error), left, undone: Vec::new(), current: None, fresh })
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<RunError<S>> {
        loop {
            let Some((node, undo)) = &mut self.current else {
                let Some(next) = self.left.pop() else {
                    let undone = std::mem::take(&mut self.undone);
                    return Poll::Ready(self.end(Compensation::Compensated { undone }));
                };
                let node = next.name.to_string();
                match UndoWork::begin(next, &self.graph_cx, self.fresh.clone(), (0, Arc::default())) {
                    Ok(undo) => self.current = Some((node, undo)),
                    Err(reason) => return Poll::Ready(self.fail(node, &reason)),
                }
                continue;
            };
            let ended = std::task::ready!(undo.poll(&self.graph_cx, cx));
            let node = std::mem::take(node);
            self.current = None;
            match ended {
                Ok(()) => self.undone.push(node),
                Err(reason) => return Poll::Ready(self.fail(node, &reason)),
            }
        }
    }

    /// Ends the compensation: the current or next undo fails with this cause.
    pub(super) fn cancel(&mut self, cause: Cause) -> RunError<S> {
        let current = self.current.take().map(|(node, undo)| {
            drop(catch_panic(|| drop(undo)));
            node
        });
        let next = || self.left.pop().map(|next| next.name.to_string());
        let node = current.or_else(next).unwrap_or_default();
        self.fail(node, &Reason::Error(Box::new(cause)))
    }

    fn fail(&mut self, node: String, reason: &Reason) -> RunError<S> {
        let left = self.left.iter().rev().map(|one| one.name.to_string()).collect();
        let (undone, reason) = (std::mem::take(&mut self.undone), reason.to_string());
        self.end(Compensation::CompensationFailed { undone, node, reason, left })
    }

    fn end(&mut self, compensation: Compensation) -> RunError<S> {
        let mut error = self.error.take().expect("the undos of a run end once");
        error.set_compensation(compensation);
        error
    }
}

/// An undo in progress.
pub(super) struct UndoWork {
    token: TokenId,
    /// `None` after the end.
    future: Option<BoxFuture<'static, Result<(), BoxError>>>,
}

impl UndoWork {
    /// Calls an undo. In a stored run its visit records belong to the record that it undoes, and
    /// those of an earlier process are passed in.
    pub(super) fn begin(
        next: UndoableVisit,
        graph_cx: &Arc<GraphContext>,
        fresh: Option<CancelToken>,
        (record, records): (u64, Arc<VisitRecords>),
    ) -> Result<Self, Reason> {
        let UndoableVisit { name, undo, payload, token, iteration } = next;
        records.begin_attempt(1);
        graph_cx.run().forget_broken(token);
        let UndoPayload { json, unknown } = payload;
        let (name, records, undoes) = (Some(name), OnceLock::from(records), Some(record));
        let details = OnceLock::from(Box::new(NodeDetails { fresh, undoes, name, records, unknown, ..NodeDetails::default() }));
        let (graph_cx, branch) = (Arc::clone(graph_cx), BranchPath::default());
        let context = NodeContext { graph_cx, node: 0, attempt: 1, iteration, token, branch, details };
        let future = catch_panic(|| (undo.call)(context, &json))?;
        Ok(Self { token, future: Some(future) })
    }

    /// Polls the undo. A panic or an impossible request counts as its failure.
    pub(super) fn poll(&mut self, graph_cx: &GraphContext, cx: &mut Context<'_>) -> Poll<Result<(), Reason>> {
        let future = self.future.as_mut().expect("an undo ends once");
        let ended = match catch_panic(|| future.as_mut().poll(cx)) {
            Ok(Poll::Pending) => match graph_cx.run().why_broken(self.token) {
                Some(reason) => Err(Reason::Error(reason)),
                None => return Poll::Pending,
            },
            Ok(Poll::Ready(ended)) => ended.map_err(Reason::Error),
            Err(reason) => Err(reason),
        };
        let future = self.future.take();
        Poll::Ready(catch_panic(|| drop(future)).and(ended))
    }
}
