//! Retries of failures that a sink refused.
//!
//! Invariants:
//! 1. Refused failures are offered again in the order in which they came, at most
//!    [`SINK_ATTEMPTS_MAX`] times in all, with growing delays.
//! 2. A failure that waits behind a refused one for the same sink counts as refused in that round.
//!    Its last attempt is always its own.
//! 3. After the last attempt, or if more than [`REFUSED_KEPT_MAX`] wait, a failure goes to the root
//!    as undeliverable. No failure is lost.
//! 4. One task per tree retries, as a child of the `/system` guardian, and only while failures
//!    wait. If it is cancelled at shutdown, all waiting failures go to the root.

use crate::base::lock::Lock;
use crate::base::sync::Arc;
use crate::events::failure::FailureInfo;
use crate::ids::name::Name;
use crate::tree::member::Member;
use crate::tree::node::Node;
use crate::tree::supervision::sink::{EscalationSink, REFUSED_KEPT_MAX, SINK_ATTEMPTS_MAX, try_sink};
use crate::tree::task::TaskKind;
use crate::tree::{Tree, task};
use alloc::collections::VecDeque;
use core::time::Duration;

/// The delay before the second attempt. Each further delay is twice as long, up to 64 times this
/// one.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(10);

/// The failures of one tree that wait for a retry.
pub(crate) struct RetryQueue {
    waiting: Lock<RetryState>,
}

#[derive(Default)]
struct RetryState {
    queue: VecDeque<Undelivered>,
    /// The retry task is running.
    has_task: bool,
}

#[derive(Clone)]
struct Undelivered {
    sink: Arc<dyn EscalationSink>,
    failure: FailureInfo,
    attempts: u32,
}

impl RetryQueue {
    pub(crate) fn new() -> Self {
        Self { waiting: Lock::new(RetryState::default()) }
    }
}

/// Offers `failure` to `sink`. If it refuses, the failure is offered again later.
pub(crate) fn deliver(supervisor: &Arc<dyn Member>, sink: Arc<dyn EscalationSink>, failure: FailureInfo) {
    let tree = supervisor.node().tree();
    let waits_behind = tree.retries.waiting.with(|waiting| waiting.queue.iter().any(|other| Arc::ptr_eq(&other.sink, &sink)));
    let (failure, attempts) = if waits_behind {
        (failure, 0)
    } else {
        match try_sink(&*sink, failure) {
            Ok(()) => return,
            Err(failure) => (failure, 1),
        }
    };
    let mut undelivered = Some(Undelivered { sink, failure, attempts });
    let begin = tree.retries.waiting.with(|waiting| {
        if waiting.queue.len() < REFUSED_KEPT_MAX {
            waiting.queue.extend(undelivered.take());
        }
        !core::mem::replace(&mut waiting.has_task, true)
    });
    undelivered.into_iter().for_each(|one| send_to_root(tree, one));
    if begin {
        start_retry_task(supervisor);
    }
}

/// Launches the retry task.
fn start_retry_task(supervisor: &Arc<dyn Member>) {
    // The guardian `/system` ends last; a tree without one uses its top.
    let top = supervisor.node().upwards().filter_map(Node::parent).last().unwrap_or(supervisor);
    let guardian = Name::new("system").ok().and_then(|name| top.node().child(&name));
    let retry = RetryTask { tree: Arc::clone(top.node().tree()), done: false };
    if let Err(refused) = task::launch(guardian.as_ref().unwrap_or(top), None, TaskKind::Pipe, retry.run()) {
        // Dropping it sends all failures to the root: a parent that accepts no task is about to
        // end.
        drop(refused);
    }
}

/// The retry task. Dropping it early sends all waiting failures to the root.
struct RetryTask {
    tree: Arc<Tree>,
    done: bool,
}

impl RetryTask {
    async fn run(mut self) {
        let mut delay = RETRY_DELAY_MIN;
        loop {
            let runtime = &self.tree.runtime;
            runtime.sleep_until(runtime.now() + delay).await;
            delay = delay.saturating_mul(2).min(RETRY_DELAY_MIN * 64);
            if !retry_all(&self.tree) {
                self.done = true;
                return;
            }
        }
    }
}

impl Drop for RetryTask {
    fn drop(&mut self) {
        // A task that completed has left nothing; failures that wait by now belong to a newer task.
        if !self.done {
            flush(&self.tree);
        }
    }
}

/// Offers each failure once, in order, but skips sinks that refused in this round. Returns false if
/// nothing is left and the task may end.
fn retry_all(tree: &Tree) -> bool {
    // They stay in the queue meanwhile, so that later failures for the same sink wait behind them.
    let round = tree.retries.waiting.with(|waiting| waiting.queue.clone());
    let tried = round.len();
    let mut left: VecDeque<Undelivered> = VecDeque::new();
    for mut one in round {
        one.attempts += 1;
        let waits_behind = left.iter().any(|other| Arc::ptr_eq(&other.sink, &one.sink));
        if waits_behind && one.attempts < SINK_ATTEMPTS_MAX {
            // The sink refused in this round, which counts for all failures that wait for it.
            left.push_back(one);
            continue;
        }
        match try_sink(&*one.sink, one.failure.clone()) {
            Ok(()) => {}
            Err(_) if one.attempts >= SINK_ATTEMPTS_MAX => send_to_root(tree, one),
            Err(failure) => left.push_back(Undelivered { failure, ..one }),
        }
    }
    let (settled, has_more) = tree.retries.waiting.with(|waiting| {
        left.extend(waiting.queue.drain(tried..));
        let settled = core::mem::replace(&mut waiting.queue, left);
        waiting.has_task = !waiting.queue.is_empty();
        (settled, waiting.has_task)
    });
    drop(settled);
    has_more
}

/// Sends all waiting failures to the root.
fn flush(tree: &Tree) {
    let waiting = tree.retries.waiting.with(core::mem::take);
    waiting.queue.into_iter().for_each(|one| send_to_root(tree, one));
}

/// Sends an undeliverable failure to the root.
fn send_to_root(tree: &Tree, one: Undelivered) {
    let why = alloc::format!("refused {} times by its sink", one.attempts);
    tree.handle_at_root(one.failure.with_metadata("undeliverable", why));
}
