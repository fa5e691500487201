//! Cancels a member, and removes a member from the tree.
//!
//! The steps of `leave`, in this order:
//! 1. Set the exit (`begin_exit`): from here on `exit()` returns it.
//! 2. Notify the listeners: token, `on_done` callbacks.
//! 3. Remove the member from its parent (`release_child`): its name is free.
//! 4. Notify watchers and the parent.
//! 5. Set the phase to `Gone` and wake the tasks that await the exit.
//! 6. End ancestors without a task that waited only for this member.

use crate::base::sorted::sort_by_key;
use crate::base::sync::Arc;
use crate::base::wakers::wake_all;
use crate::events::cause::{Cause, Exit};
use crate::events::counts::Counts;
use crate::events::event::Event;
use crate::events::signal::Signal;
use crate::tree::member::Member;
use crate::tree::node::watchers::WatchRegistry;
use crate::tree::node::{CancelRecord, Node, NodePhase, NodeState, OnDone, RareDetails};
use crate::tree::supervision;
use crate::tree::token::CancelToken;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Returns the token of a member, creating it on first use. It is cancelled with the member, at the
/// latest when the member has ended; cancelling it cancels the member.
pub(crate) fn token(member: &Arc<dyn Member>) -> CancelToken {
    let node = member.node();
    let known = node.state.with(|state| state.existing_rare().and_then(|rare| rare.token.clone()));
    if let Some(token) = known {
        return token;
    }
    let made = CancelToken::of_member(Arc::clone(node.tree()), node.deadline());
    // The listener is weak, so the member and its token do not keep each other alive.
    drop(made.attach(member));
    let (token, cause) = node.state.with(|state| {
        let token = state.rare_details().token.get_or_insert(made).clone();
        (token, state.cancel().map(|cancel| cancel.cause.clone()).or_else(|| state.exit().map(|exit| exit.cause())))
    });
    if let Some(cause) = cause {
        token.cancel(cause);
    }
    token
}

/// Returns the token for the last hook of an incarnation, creating it on first use. The cancel that
/// ended the actor does not reach it; the end of the grace period does.
pub(crate) fn last_token(node: &Node, incarnation: u32) -> CancelToken {
    let is_this = |last: &&(u32, CancelToken)| last.0 == incarnation;
    let known = |state: &NodeState| state.existing_rare()?.last_token.as_ref().filter(is_this).map(|(_, token)| token.clone());
    if let Some(token) = node.state.with(|state| known(state)) {
        return token;
    }
    let made = CancelToken::new_root(Arc::clone(node.tree())).child_for(node.tree().grace);
    // Two threads may create it at once: the first one wins, and the unused token is dropped
    // outside of the lock.
    let (token, _unused) = node.state.with(|state| match known(state) {
        Some(token) => (token, Some(made)),
        None => (made.clone(), state.rare_details().last_token.replace((incarnation, made)).map(|(_, token)| token)),
    });
    token
}

/// Cancels `member` and everything below it with `cause`. A member that already has a cause keeps
/// it.
///
/// Tokens are cancelled last. So code that awaits the token of a scope, and returns because of it,
/// has been cancelled itself by then: its exit says so.
pub(crate) fn cancel(member: &Arc<dyn Member>, cause: &Cause) {
    let cancel = Arc::new(CancelRecord { cause: cause.clone(), at: member.node().runtime().now() });
    let (mut members, mut tokens) = (vec![Arc::clone(member)], Vec::new());
    while let Some(member) = members.pop() {
        let first_child = members.len();
        if member.node().record_cancel(&cancel, &mut members, &mut tokens) {
            // The youngest child comes next.
            sort_by_key(&mut members[first_child..], |child| child.node().number);
            member.on_cancel(&member);
        }
    }
    tokens.into_iter().for_each(|token: CancelToken| token.cancel(cause.clone()));
}

impl Node {
    /// Records the cause, and adds the children to `below` and the tokens of this node to `tokens`.
    /// Returns false if the member was already cancelled or has ended.
    fn record_cancel(
        &self,
        cancel: &Arc<CancelRecord>,
        below: &mut Vec<Arc<dyn Member>>,
        tokens: &mut Vec<CancelToken>,
    ) -> bool {
        self.state.with(|state| {
            if state.cancel().is_some() || matches!(state.status().phase, NodePhase::Exited | NodePhase::Gone) {
                return false;
            }
            state.existing_children().into_iter().for_each(|table| below.extend(table.members().cloned()));
            state.set_cancel(cancel);
            if let Some(rare) = state.existing_rare_mut() {
                tokens.extend(rare.token.clone().into_iter().chain(rare.closing.take()));
            }
            true
        })
    }

    /// Returns the token that is cancelled when this node starts to end: stopped, closed, cancelled
    /// or gone. Created on first use.
    pub(crate) fn closing_token(&self) -> CancelToken {
        let made = CancelToken::new_root(Arc::clone(self.tree()));
        let (token, cause) = self.state.with(|state| {
            let cause = state.cancel().map(|cancel| cancel.cause.clone()).or_else(|| state.exit().map(|exit| exit.cause()));
            let begun = state.existing_children().is_some_and(|table| table.is_stopping());
            match cause.or(begun.then_some(Cause::Cancelled)) {
                Some(cause) => (made, Some(cause)),
                None => (state.rare_details().closing.get_or_insert(made).clone(), None),
            }
        });
        if let Some(cause) = cause {
            token.cancel(cause);
        }
        token
    }

    /// Cancels the closing token, because a stop or close has begun.
    pub(crate) fn announce_closing(&self) {
        let token = self.state.with(|state| state.existing_rare_mut().and_then(|rare| rare.closing.take()));
        if let Some(token) = token {
            token.cancel(Cause::Cancelled);
        }
    }

    /// Sets the exit, once, and adds the message counts of its children. Returns the listeners to
    /// notify, if any, or `None` if the exit was already set.
    #[inline]
    fn begin_exit(&self, exit: &Exit, counts: &mut Counts) -> Option<Option<ExitListeners>> {
        self.state.with(|state| {
            if state.status().exit.is_some() {
                return None;
            }
            state.status_mut().phase = NodePhase::Exited;
            state.set_exit(exit, || self.runtime().now());
            let Some(details) = state.existing_details_mut() else { return Some(None) };
            if let Some(table) = &mut details.table {
                *counts += table.report_counts(self.parent().is_none());
            }
            Some(details.rare.as_mut().and_then(|rare| rare.take_listeners()))
        })
    }
}

impl RareDetails {
    fn take_listeners(&mut self) -> Option<ExitListeners> {
        let Self { on_done, watchers, token_above, token, last_token, .. } = self;
        if on_done.is_empty() && watchers.is_none() && token_above.is_none() && token.is_none() && last_token.is_none() {
            return None;
        }
        let (on_done, watchers, last_token) = (core::mem::take(on_done), watchers.take(), last_token.take());
        Some(ExitListeners { on_done, watchers, token_above: token_above.take(), token: token.clone(), last_token })
    }
}

/// The listeners that are notified before the member leaves its parent.
struct ExitListeners {
    on_done: Vec<OnDone>,
    watchers: Option<Box<WatchRegistry>>,
    token_above: Option<(CancelToken, usize)>,
    token: Option<CancelToken>,
    /// Dropped on exit, which also ends its deadline timer.
    last_token: Option<(u32, CancelToken)>,
}

impl ExitListeners {
    /// Notifies all listeners except the watchers, and returns those. They are notified once the
    /// name is free.
    #[cold]
    fn notify(self, node: &Node, exit: &Exit) -> Vec<Arc<dyn Member>> {
        if let Some((token, key)) = self.token_above {
            token.forget(key);
        }
        drop(self.last_token);
        if let Some(token) = self.token {
            token.cancel(exit.cause());
        }
        self.on_done.into_iter().for_each(|f| node.run_on_done(f, exit));
        self.watchers.map(|watchers| watchers.living()).unwrap_or_default()
    }
}

/// Ends a member: sets its exit, runs every `on_done`, removes it from the tree and wakes all
/// waiters. Ancestors that have no task and waited only for this member end too.
#[inline]
pub(crate) fn leave(member: &Arc<dyn Member>, exit: &Exit) {
    if leave_one(member, exit) {
        leave_ancestors(member);
    }
}

/// Ends the ancestors that waited only for `child`. A loop, because a branch may be deep.
#[cold]
fn leave_ancestors(child: &Arc<dyn Member>) {
    let mut next = child.node().parent().cloned();
    while let Some(member) = next {
        let ended = member.exit_when_childless().is_some_and(|exit| leave_one(&member, &exit));
        next = if ended { member.node().parent().cloned() } else { None };
    }
}

/// Ends one member. Returns true if its parent waited only for this member.
fn leave_one(member: &Arc<dyn Member>, exit: &Exit) -> bool {
    let node = member.node();
    let mut counts = member.counts();
    let Some(listeners) = node.begin_exit(exit, &mut counts) else { return false };
    let watchers = listeners.map(|listeners| listeners.notify(node, exit));
    let parent = node.parent();
    // A parent that is ending an incarnation stops its children itself; they do not concern its
    // next incarnation.
    let parent_watcher = parent.filter(|parent| parent.wants_signals() && parent.node().takes_children());
    node.report_lifecycle(|| Event::Ended { path: node.path(), exit: exit.clone() });
    let was_last = match parent {
        Some(parent) => release_child(parent, node, &counts),
        None => end_events(node),
    };
    // A notified member may reuse the name, which is free by now.
    if parent_watcher.is_some() || watchers.is_some() {
        notify_exit(node, exit, parent_watcher.into_iter().chain(watchers.iter().flatten()));
    }
    let waiters = node.state.with(|state| {
        state.status_mut().phase = NodePhase::Gone;
        state.existing_details_mut().and_then(|details| details.exit_waiters.take())
    });
    wake_all(waiters);
    was_last
}

#[cold]
fn notify_exit<'a>(node: &Node, exit: &Exit, to: impl Iterator<Item = &'a Arc<dyn Member>>) {
    to.for_each(|watcher| watcher.notify(Signal::Terminated(node.terminated(exit.clone()))));
}

/// Ends the events with the root of a system. A scope below a token of the system has its own end.
#[cold]
fn end_events(top: &Node) -> bool {
    if top.name.is_root() {
        top.events().end();
    }
    false
}

/// Removes `child` from the table of `parent`. Returns true if it was the last child and `parent`
/// waited for that.
fn release_child(parent: &Arc<dyn Member>, child: &Node, counts: &Counts) -> bool {
    let (released, was_awaited, has_plan, waiters, childless, orphaned) = parent.node().state.with(|state| {
        let closing = state.status().phase == NodePhase::Closing || state.cancel().is_some();
        let table = state.child_table();
        let orphaned = table.reported;
        if !orphaned {
            table.ended += *counts;
        }
        let released = table.remove_child(child);
        let was_awaited = table.finish_current(child.number);
        let has_plan = table.supervision.tracks_exits() && table.supervision.note_gone(child.id());
        let childless = table.is_empty();
        let waiters = if childless { table.waiters.take() } else { None };
        (released, was_awaited, has_plan, waiters, childless && closing, orphaned)
    });
    drop(released);
    if orphaned {
        parent.node().add_ended(*counts);
    }
    wake_all(waiters);
    if was_awaited {
        parent.node().stop_next_child();
    }
    if has_plan {
        supervision::advance(parent);
    }
    childless
}
