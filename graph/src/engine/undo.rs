//! Compensation: after a run has failed, what its committed nodes recorded is undone, the last first, on a token that nobody
//! has cancelled.

use crate::context::{NodeContext, Rare};
use crate::error::{Compensation, RunError};
use crate::shared::{Shared, Undoable};
use crate::token::{BranchPath, TokenId};
use pleach_core::{BoxError, BoxFuture, CancelToken, Cause, Reason, catch_panic};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

/// An undo on its way.
type Work = BoxFuture<'static, Result<(), BoxError>>;

/// The undos of a failed run.
pub(super) struct Undoing<S> {
    shared: Arc<Shared>,
    error: Option<RunError<S>>,
    /// What is left to be undone, in the order in which it was committed.
    left: Vec<Undoable>,
    undone: Vec<String>,
    current: Option<(String, TokenId, Work)>,
    fresh: Option<CancelToken>,
}

impl<S> Undoing<S> {
    /// Begins, unless there is nothing to undo, or the run was merely cut short: it could be gone on with as it is.
    pub(super) fn begin(shared: &Arc<Shared>, error: RunError<S>) -> Result<Self, RunError<S>> {
        if error.fault().ends_run() {
            return Err(error);
        }
        let left = shared.run().take_undos();
        if left.is_empty() {
            return Err(error);
        }
        let fresh = shared.run().runtime().ok().map(|runtime| CancelToken::root(Arc::clone(runtime)));
        let shared = Arc::clone(shared);
        Ok(Self { shared, error: Some(error), left, undone: Vec::new(), current: None, fresh })
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<RunError<S>> {
        loop {
            let Some((node, token, undo)) = &mut self.current else {
                let Some(next) = self.left.pop() else {
                    let undone = std::mem::take(&mut self.undone);
                    return Poll::Ready(self.end(Compensation::Compensated { undone }));
                };
                let (node, token) = (next.name.to_string(), next.token);
                let (fresh, shared) = (self.fresh.clone(), Arc::clone(&self.shared));
                match catch_panic(|| start(next, shared, fresh)) {
                    Ok(undo) => self.current = Some((node, token, undo)),
                    Err(reason) => return Poll::Ready(self.fail(node, &reason)),
                }
                continue;
            };
            let ended = match catch_panic(|| undo.as_mut().poll(cx)) {
                Ok(Poll::Pending) => match self.shared.run().why_broken(*token) {
                    Some(why) => Err(Reason::Error(why)),
                    None => return Poll::Pending,
                },
                Ok(Poll::Ready(ended)) => ended.map_err(Reason::Error),
                Err(reason) => Err(reason),
            };
            let node = std::mem::take(node);
            let current = self.current.take();
            match catch_panic(|| drop(current)).and(ended) {
                Ok(()) => self.undone.push(node),
                Err(reason) => return Poll::Ready(self.fail(node, &reason)),
            }
        }
    }

    /// Ends it where it is: the undo that is running, or would be next, has failed for this cause.
    pub(super) fn cut_off(&mut self, cause: Cause) -> RunError<S> {
        let current = self.current.take().map(|(node, _, undo)| {
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
        let mut error = self.error.take().expect("a run is undone once");
        error.set_compensation(compensation);
        error
    }
}

fn start(next: Undoable, shared: Arc<Shared>, fresh: Option<CancelToken>) -> Work {
    let Undoable { name, undo, payload, token, iteration } = next;
    let rare = OnceLock::from(Box::new(Rare { fresh, is_undo: true, name: Some(name), ..Rare::default() }));
    let branch = BranchPath::default();
    let context = NodeContext { shared, node: 0, attempt: 1, iteration, token, branch, rare };
    (undo.call)(context, &payload)
}
