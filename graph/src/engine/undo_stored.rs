//! Compensation of a stored run: each undo is written down when it is done, so that a run which is resumed goes on with the next.

use crate::context::{NodeContext, Rare};
use crate::error::{Compensation, RunError};
use crate::journal::Journal;
use crate::journal::codec::StoredUndo;
use crate::journal::notes::NoteBody;
use crate::journal::{Entry, opening};
use crate::plan::Plan;
use crate::shared::Shared;
use crate::store::{Kind, Record, RunStatus, StoreError};
use crate::token::{BranchPath, TokenId};
use pleach_core::{BoxError, BoxFuture, CancelToken, Reason, catch_panic};
use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

/// The undos of a stored run that failed.
pub(super) struct UndoingStored<S> {
    pub(super) error: Option<RunError<S>>,
    work: BoxFuture<'static, Result<Compensation, StoreError>>,
}

impl<S: Send + 'static> UndoingStored<S> {
    pub(super) fn begin(plan: &Arc<Plan<S>>, shared: &Arc<Shared>, error: RunError<S>) -> Self {
        let (plan, shared) = (Arc::clone(plan), Arc::clone(shared));
        Self { error: Some(error), work: Box::pin(undo_all(plan, shared)) }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<RunError<S>> {
        let undone = std::task::ready!(self.work.as_mut().poll(cx));
        let mut error = self.error.take().expect("a run is undone once");
        match undone {
            Ok(compensation) => error.set_compensation(compensation),
            Err(failed) => {
                let (undone, reason) = (Vec::new(), failed.to_string());
                let (node, left) = (String::new(), Vec::new());
                error.set_compensation(Compensation::CompensationFailed { undone, node, reason, left });
            }
        }
        Poll::Ready(error)
    }
}

/// Undoes what can be undone, the last first.
async fn undo_all<S: Send + 'static>(plan: Arc<Plan<S>>, shared: Arc<Shared>) -> Result<Compensation, StoreError> {
    let Some(journal) = shared.run().journal().map(Arc::clone) else {
        return Ok(Compensation::Compensated { undone: Vec::new() });
    };
    let fresh = CancelToken::root(Arc::clone(journal.runtime()));
    let mut undone = Vec::new();
    loop {
        let sequence = journal.undo();
        if sequence == 0 {
            return Ok(Compensation::Compensated { undone });
        }
        let (record, undo) = opening::undo_of(&journal, sequence).await?;
        let node = record.header.node.clone();
        let ended = match plan.undos.get(&node) {
            None => Err(Reason::Error("this graph has no undo for it".into())),
            Some(known) => {
                let context = context(&shared, &record, fresh.clone());
                let token = context.token;
                match catch_panic(|| (known.call)(context, &undo.payload)) {
                    Ok(work) => finish(work, &shared, token).await,
                    Err(reason) => Err(reason),
                }
            }
        };
        match ended {
            Ok(()) => {
                write(&journal, &record, undo.before, None).await?;
                undone.push(node);
            }
            Err(reason) => {
                write(&journal, &record, sequence, Some(reason.to_string())).await?;
                let left = nodes_before(&journal, undo.before).await?;
                return Ok(Compensation::CompensationFailed { undone, node, reason: reason.to_string(), left });
            }
        }
    }
}

/// Runs an undo to its end; its panic is its failure, and so is asking for something impossible.
async fn finish(mut work: BoxFuture<'static, Result<(), BoxError>>, shared: &Shared, token: TokenId) -> Result<(), Reason> {
    let ended = poll_fn(|cx| match catch_panic(|| work.as_mut().poll(cx)) {
        Ok(Poll::Pending) => match shared.run().why_broken(token) {
            Some(why) => Poll::Ready(Err(Reason::Error(why))),
            None => Poll::Pending,
        },
        Ok(polled) => polled.map_err(Reason::Error),
        Err(reason) => Poll::Ready(Err(reason)),
    })
    .await;
    catch_panic(|| drop(work)).and(ended)
}

/// Writes down how an undo ended, and what is left to be undone.
async fn write(journal: &Arc<Journal>, record: &Record, left: u64, failed: Option<String>) -> Result<(), StoreError> {
    journal.set_undo(left);
    let mut entry = Entry::new(Kind::Undo, record.header.path.clone(), record.header.node.clone());
    entry.parent = record.sequence;
    entry.status = match &failed {
        Some(_) => Some(RunStatus::CompensationFailed),
        None => Some(if left == 0 { RunStatus::Compensated } else { RunStatus::Running }),
    };
    entry.body = NoteBody { error: failed, ..NoteBody::default() }.bytes();
    let sequence = journal.submit(entry)?;
    poll_fn(|cx| journal.poll_durable(sequence, cx)).await;
    Ok(())
}

/// The nodes whose undos have not run.
async fn nodes_before(journal: &Arc<Journal>, mut next: u64) -> Result<Vec<String>, StoreError> {
    let mut nodes = Vec::new();
    while next > 0 {
        let (record, StoredUndo { before, .. }) = opening::undo_of(journal, next).await?;
        nodes.push(record.header.node);
        next = before;
    }
    Ok(nodes)
}

fn context(shared: &Arc<Shared>, record: &Record, fresh: CancelToken) -> NodeContext {
    let header = &record.header;
    let name = Some(header.node.as_str().into());
    let token = TokenId { sequence: header.parent, branch: header.path.last().map_or(0, |fork| fork.branch) };
    let rare = Rare { fresh: Some(fresh), is_undo: true, name, ..Rare::default() };
    NodeContext {
        shared: Arc::clone(shared),
        node: 0,
        attempt: 1,
        iteration: header.visits,
        token,
        branch: BranchPath::default(),
        rare: OnceLock::from(Box::new(rare)),
    }
}
