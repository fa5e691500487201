//! What comes after an incarnation: the message in hand, the supervisor's word, the hooks, the next incarnation or the end.
//!
//! Order at every end: the drain is gone already; the message in hand is accounted for; the guardian decides; replies that were lost
//! are answered with the outcome; children end, youngest first; `stopped` runs; the state is dropped. At the last end the mailbox is
//! emptied into dead letters and the tree lets go.

use crate::cell::{Body, Cell, End};
use crate::current::Current;
use crate::events::DeadLetterReason;
use crate::guarded::{Cut, Guarded};
use crate::guardian::{self, Verdict};
use crate::mailbox::control;
use crate::node::{self, Member, WindDown};
use crate::{Actor, AskError, BoxError, BoxFuture, Cause, Exit, FailureInfo, Reason, catch};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;

/// Dead letters recorded in one go before others may run.
const BURIALS_PER_POLL_MAX: u32 = 256;

/// What comes next.
pub(crate) enum After {
    Again,
    Leave(Exit),
}

/// Settles one incarnation.
pub(crate) async fn after<A: Actor>(
    cell: &Arc<Cell<A::Msg>>,
    current: &mut Option<Current>,
    body: &mut Body<A>,
    end: Result<End, Cut>,
) -> After {
    let (failure, asked) = match end {
        Ok(End::Stopped) => return After::Leave(Exit::Stopped),
        Ok(End::Closed) => return After::Leave(Exit::Closed),
        Ok(End::Cancelled) | Err(Cut::Cancelled) => return leave_cancelled(cell, body),
        Ok(End::Restart) => (None, true),
        Ok(End::ChildFailed) => (cell.node().take_failure(), false),
        Ok(End::Failed(error)) => (Some(record(cell, body, Reason::Error(error))), false),
        Err(Cut::Panicked(reason)) => (Some(record(cell, body, reason)), false),
    };
    let Some(failure) = failure else {
        return if asked { restart(cell, current, body, None).await } else { After::Again };
    };
    let (verdict, failure) = guardian::judge(cell.node(), failure);
    let started = body.actor.is_some();
    settle_in_hand(cell, body, true);
    answer_lost(cell, &AskError::Failed(failure.clone()));
    match verdict {
        Verdict::Resume if started => After::Again,
        Verdict::Resume | Verdict::Restart => restart(cell, current, body, Some(failure)).await,
        Verdict::Stop => After::Leave(Exit::Failed(failure)),
        Verdict::Escalate => {
            if let Some(parent) = &cell.node().parent {
                let node = parent.node();
                Arc::clone(parent).child_failed(failure.escalate_to_parent(node.id, node.path()));
            }
            After::Leave(Exit::Failed(failure))
        }
    }
}

fn leave_cancelled<A: Actor>(cell: &Cell<A::Msg>, body: &mut Body<A>) -> After {
    let cause = cell.node().cause().unwrap_or(Cause::Cancelled);
    settle_in_hand(cell, body, false);
    answer_lost(cell, &AskError::Cancelled(cause.clone()));
    After::Leave(Exit::Cancelled(cause))
}

/// Makes the record of a failure and tells it. There is one for every failure, whatever becomes of it.
fn record<A: Actor>(cell: &Cell<A::Msg>, body: &Body<A>, reason: Reason) -> FailureInfo {
    let mut failure = cell.node().failure(body.cx.incarnation(), reason);
    if body.in_hand {
        let described = body.kept.as_ref().and_then(|kept| kept.description.clone());
        failure = failure.with_message(described.unwrap_or_else(crate::cell::type_name::<A::Msg>));
    }
    cell.node().world.events.failure(&failure);
    failure
}

/// Accounts for the message whose handler did not finish: once more if it may be retried, else failed or a dead letter.
fn settle_in_hand<A: Actor>(cell: &Cell<A::Msg>, body: &mut Body<A>, may_retry: bool) {
    if !core::mem::take(&mut body.in_hand) {
        return;
    }
    let kept = body.kept.take();
    let (retries_max, bury) = cell.extra().map_or((0, false), |extra| (extra.retries_max, extra.bury_failed));
    match kept.map(|kept| *kept) {
        Some(mut kept) if may_retry && kept.attempts < retries_max && kept.message.is_some() => {
            cell.inbox().begin_again();
            body.batch.extend(kept.message.take());
            body.batch.rotate_right(1);
            kept.attempts += 1;
            body.kept = Some(Box::new(kept));
        }
        Some(kept) if bury => {
            cell.inbox().count_dead_lettered();
            kept.message.into_iter().for_each(|message| cell.bury(message, DeadLetterReason::HandlerFailed));
        }
        _ => cell.inbox().count_failed(),
    }
}

/// Answers the asks whose replies were dropped in what has just ended.
fn answer_lost<M>(cell: &Cell<M>, why: &AskError) {
    if cell.inbox().word() & control::UNANSWERED != 0 {
        cell.inbox().take_unanswered().into_iter().for_each(|reply| reply.answer(why.clone()));
    }
}

/// Ends this incarnation and clears the place for the next.
async fn restart<A: Actor>(
    cell: &Arc<Cell<A::Msg>>,
    current: &mut Option<Current>,
    body: &mut Body<A>,
    failure: Option<FailureInfo>,
) -> After {
    if let (Some(actor), Some(failure)) = (body.actor.as_mut(), &failure) {
        let hook = Guarded::new(cell, current, actor.restarting(failure, &mut body.cx)).await;
        record_hook(cell, body, hook);
    }
    let exit = failure.map_or(Exit::Stopped, Exit::Failed);
    end_incarnation(cell, current, body, &exit, WindDown::Stop).await;
    body.cx.next_incarnation();
    body.suspended = false;
    if cell.node().reopen() { After::Again } else { leave_cancelled(cell, body) }
}

/// The end of one incarnation: its children, its `stopped` hook, its state.
async fn end_incarnation<A: Actor>(
    cell: &Arc<Cell<A::Msg>>,
    current: &mut Option<Current>,
    body: &mut Body<A>,
    exit: &Exit,
    how: WindDown,
) {
    end_children(cell, how).await;
    if body.actor.is_some() {
        run_stopped(cell, current, body, exit).await;
    }
    let actor = body.actor.take();
    if let Err(reason) = catch::catch(|| drop(actor)) {
        record(cell, body, reason);
    }
}

async fn end_children<M>(cell: &Cell<M>, how: WindDown) {
    let node = cell.node();
    node.refuse_children();
    if !node.has_children() {
        return;
    }
    node.wind_down_children(how);
    let mut key = None;
    poll_fn(|cx| node.poll_childless(&mut key, cx.waker())).await;
}

async fn run_stopped<A: Actor>(cell: &Arc<Cell<A::Msg>>, current: &mut Option<Current>, body: &mut Body<A>, exit: &Exit) {
    let grace = cell.node().world.grace;
    body.cx.begin_ending();
    let ended = {
        let Some(actor) = body.actor.as_mut() else { return };
        let mut hook = pin!(Guarded::new(cell, current, actor.stopped(exit, &mut body.cx)).despite_cancel());
        let mut sleep: Option<BoxFuture<'static, ()>> = None;
        poll_fn(|cx| {
            if let Poll::Ready(ended) = hook.as_mut().poll(cx) {
                return Poll::Ready(ended);
            }
            let runtime = &cell.node().world.runtime;
            let sleep = sleep.get_or_insert_with(|| runtime.sleep_until(runtime.now() + grace));
            let too_long = || Err(Cut::Panicked(Reason::Error(Box::new(GraceExceeded(grace)))));
            sleep.as_mut().poll(cx).map(|()| too_long())
        })
        .await
    };
    record_hook(cell, body, ended);
}

/// A hook that failed is a failure on record, and changes nothing else.
fn record_hook<A: Actor>(cell: &Cell<A::Msg>, body: &Body<A>, ended: Result<Result<(), A::Error>, Cut>) {
    let reason = match ended {
        Ok(Ok(())) | Err(Cut::Cancelled) => return,
        Ok(Err(error)) => Reason::Error(Into::<BoxError>::into(error)),
        Err(Cut::Panicked(reason)) => reason,
    };
    record(cell, body, reason);
}

/// The last end.
pub(crate) async fn leave<A: Actor>(
    cell: &Arc<Cell<A::Msg>>,
    current: &mut Option<Current>,
    mut body: Body<A>,
    exit: Exit,
    tenancy: Tenancy<A::Msg>,
) {
    cell.inbox().close();
    let how = if matches!(exit, Exit::Closed) { WindDown::Close } else { WindDown::Stop };
    end_incarnation(cell, current, &mut body, &exit, how).await;
    let (reason, why) = outcome(&exit);
    let mut buried = 0;
    loop {
        while let Some(message) = body.batch.pop_front() {
            bury_as_part_of(cell, current, message, reason);
            buried += 1;
            if buried % BURIALS_PER_POLL_MAX == 0 {
                yield_once().await;
            }
        }
        match cell.inbox().take_left_over() {
            Some(ring) => body.batch = ring,
            None => break,
        }
    }
    let rest = catch::catch(|| drop((body.feed.take(), body.kept.take())));
    if let Err(reason) = rest {
        record(cell, &body, reason);
    }
    answer_lost(cell, &why);
    tenancy.end(exit);
}

/// Buries a message as the member it was meant for, so that a reply in it is answered with the outcome.
fn bury_as_part_of<M: Send + 'static>(cell: &Cell<M>, current: &mut Option<Current>, message: M, reason: DeadLetterReason) {
    let _inside = crate::current::enter(current, core::task::Waker::noop());
    cell.inbox().count_removed();
    cell.bury(message, reason);
}

/// What an exit means for messages nobody handled and for those who asked.
fn outcome(exit: &Exit) -> (DeadLetterReason, AskError) {
    match exit {
        Exit::Stopped | Exit::Closed => (DeadLetterReason::Stopped, AskError::Closed),
        Exit::Cancelled(cause) => (DeadLetterReason::Cancelled, AskError::Cancelled(cause.clone())),
        Exit::Failed(failure) => (DeadLetterReason::Failed, AskError::Failed(failure.clone())),
    }
}

async fn yield_once() {
    let mut yielded = false;
    poll_fn(|cx| {
        if core::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The right to be in the tree. If the task is dropped before its end, because its runtime went away, the member leaves all the same.
pub(crate) struct Tenancy<M: Send + 'static>(Option<Arc<Cell<M>>>);

impl<M: Send + 'static> Tenancy<M> {
    pub(crate) fn new(cell: Arc<Cell<M>>) -> Self {
        Self(Some(cell))
    }

    fn end(mut self, exit: Exit) {
        if let Some(cell) = self.0.take() {
            node::leave(cell as Arc<dyn Member>, exit);
        }
    }
}

impl<M: Send + 'static> Drop for Tenancy<M> {
    fn drop(&mut self) {
        let Some(cell) = self.0.take() else { return };
        cell.inbox().close();
        // What the task held is gone with it and counts as dead letters: everything accepted and not settled.
        while let Some(ring) = cell.inbox().take_left_over() {
            for message in ring {
                cell.inbox().count_removed();
                cell.bury(message, DeadLetterReason::Cancelled);
            }
        }
        cell.inbox().settle_rest();
        answer_lost(&cell, &AskError::Cancelled(Cause::Dropped));
        node::leave(cell as Arc<dyn Member>, Exit::Cancelled(Cause::Dropped));
    }
}

/// The `stopped` hook did not return within the grace period.
#[derive(Debug)]
struct GraceExceeded(Duration);

impl fmt::Display for GraceExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the `stopped` hook took longer than the grace period of {:?} and was cut off", self.0)
    }
}

impl core::error::Error for GraceExceeded {}
