//! How a member is cancelled, and how it leaves the tree.

use crate::base::wakers::wake_all;
use crate::events::cause::{Cause, Exit};
use crate::events::counts::Counts;
use crate::events::event::Event;
use crate::events::signal::Signal;
use crate::tree::member::Member;
use crate::tree::node::watchers::WatchRegistry;
use crate::tree::node::{Cancel, Node, NodeState, OnDone, Phase, Rare};
use crate::tree::supervision;
use crate::tree::token::CancelToken;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

/// The token of a member: cancelled with it, at the latest when it has ended, and the other way round. Made when first asked for.
pub(crate) fn token(member: &Arc<dyn Member>) -> CancelToken {
    let node = member.node();
    let known = node.life.with(|life| life.known_rare().and_then(|rare| rare.token.clone()));
    if let Some(token) = known {
        return token;
    }
    let made = CancelToken::of_member(Arc::clone(node.tree()), node.deadline());
    // The listener is weak, so the member and its token do not keep each other.
    drop(made.attach(member));
    let (token, cause) = node.life.with(|life| {
        let token = life.rare().token.get_or_insert(made).clone();
        (token, life.cancel().map(|cancel| cancel.cause.clone()).or_else(|| life.exit().map(|exit| exit.cause())))
    });
    if let Some(cause) = cause {
        token.cancel(cause);
    }
    token
}

/// The token for the last hook of an incarnation: what ended the actor does not reach it, the end of the grace period does. Made when first asked for.
pub(crate) fn last_token(node: &Node, incarnation: u32) -> CancelToken {
    let of_this = |last: &&(u32, CancelToken)| last.0 == incarnation;
    let known = |life: &NodeState| life.known_rare()?.last_token.as_ref().filter(of_this).map(|(_, token)| token.clone());
    if let Some(token) = node.life.with(|life| known(life)) {
        return token;
    }
    let made = CancelToken::at_top(Arc::clone(node.tree())).child_for(node.tree().grace);
    // Two may come here at once; the first counts, and what is not used is dropped outside the lock.
    let (token, _unused) = node.life.with(|life| match known(life) {
        Some(token) => (token, Some(made)),
        None => (made.clone(), life.rare().last_token.replace((incarnation, made)).map(|(_, token)| token)),
    });
    token
}

/// Cancels `member` and everything below it with `cause`; where there is a cause already, that one stays.
pub(crate) fn cancel(member: &Arc<dyn Member>, cause: &Cause) {
    let cancel = Arc::new(Cancel { cause: cause.clone(), at: member.node().runtime().now() });
    let mut members = vec![Arc::clone(member)];
    while let Some(member) = members.pop() {
        let others = members.len();
        if member.node().record_cancel(&cancel, &mut members) {
            // The youngest is the next one.
            members[others..].sort_unstable_by_key(|child| child.node().number);
            member.on_cancel();
        }
    }
}

impl Node {
    /// Records the cause, and adds the children to `below`. False if there is a cause already or the member has ended.
    fn record_cancel(&self, cancel: &Arc<Cancel>, below: &mut Vec<Arc<dyn Member>>) -> bool {
        let (recorded, tokens) = self.life.with(|life| {
            if life.cancel().is_some() || matches!(life.state().phase, Phase::Exited | Phase::Gone) {
                return (false, [None, None]);
            }
            life.known_children().into_iter().for_each(|table| below.extend(table.members().cloned()));
            life.set_cancel(cancel);
            (true, life.known_rare_mut().map_or([None, None], |rare| [rare.token.clone(), rare.closing.take()]))
        });
        tokens.into_iter().flatten().for_each(|token| token.cancel(cancel.cause.clone()));
        recorded
    }

    /// The token that is cancelled when this node begins to end: wound down, cancelled or gone. Made when first asked for.
    pub(crate) fn closing_token(&self) -> CancelToken {
        let made = CancelToken::at_top(Arc::clone(self.tree()));
        let (token, cause) = self.life.with(|life| {
            let cause = life.cancel().map(|cancel| cancel.cause.clone()).or_else(|| life.exit().map(|exit| exit.cause()));
            let begun = life.known_children().is_some_and(|table| table.is_stopping());
            match cause.or(begun.then_some(Cause::Cancelled)) {
                Some(cause) => (made, Some(cause)),
                None => (life.rare().closing.get_or_insert(made).clone(), None),
            }
        });
        if let Some(cause) = cause {
            token.cancel(cause);
        }
        token
    }

    /// Says to whoever has the closing token that an orderly end has begun.
    pub(crate) fn announce_closing(&self) {
        let token = self.life.with(|life| life.known_rare_mut().and_then(|rare| rare.closing.take()));
        if let Some(token) = token {
            token.cancel(Cause::Cancelled);
        }
    }

    /// Sets the exit, once, and adds what became of messages below. Gives whoever is to be told, if there is anybody, or `None` if it has
    /// taken its leave before.
    #[inline]
    fn take_leave(&self, exit: &Exit, counts: &mut Counts) -> Option<Option<Listeners>> {
        self.life.with(|life| {
            if life.state().exit.is_some() {
                return None;
            }
            life.state_mut().phase = Phase::Exited;
            life.set_exit(exit, || self.runtime().now());
            let Some(around) = life.known_extras_mut() else { return Some(None) };
            if let Some(table) = &mut around.table {
                *counts += table.report(self.parent().is_none());
            }
            Some(around.rare.as_mut().and_then(|rare| rare.take_listeners()))
        })
    }
}

impl Rare {
    fn take_listeners(&mut self) -> Option<Listeners> {
        let Self { on_done, watchers, above, token, last_token, .. } = self;
        if on_done.is_empty() && watchers.is_none() && above.is_none() && token.is_none() && last_token.is_none() {
            return None;
        }
        let (on_done, watchers, last_token) = (core::mem::take(on_done), watchers.take(), last_token.take());
        Some(Listeners { on_done, watchers, above: above.take(), token: token.clone(), last_token })
    }
}

/// Who is told of an exit before the tree lets go.
struct Listeners {
    on_done: Vec<OnDone>,
    watchers: Option<Box<WatchRegistry>>,
    above: Option<(CancelToken, usize)>,
    token: Option<CancelToken>,
    /// Its deadline is watched for as long as somebody has it.
    last_token: Option<(u32, CancelToken)>,
}

impl Listeners {
    /// Tells all but those that watch, who hear of it when the name is free.
    #[cold]
    fn tell(self, node: &Node, exit: &Exit) -> Vec<Arc<dyn Member>> {
        if let Some((token, place)) = self.above {
            token.forget(place);
        }
        drop(self.last_token);
        if let Some(token) = self.token {
            token.cancel(exit.cause());
        }
        self.on_done.into_iter().for_each(|f| node.run_on_done(f, exit));
        self.watchers.map(|watchers| watchers.living()).unwrap_or_default()
    }
}

/// Ends a member: sets its exit, runs every `on_done`, takes it out of the tree, and tells whoever waited. Members above it that
/// have no task of their own and waited only for this one end with it.
#[inline]
pub(crate) fn leave(member: &Arc<dyn Member>, exit: &Exit) {
    if leave_one(member, exit) {
        leave_above(member);
    }
}

/// The parent of `child` has lost the last it waited for, and it may end with it, and so on: a loop, because a branch may be deep.
#[cold]
fn leave_above(child: &Arc<dyn Member>) {
    let mut next = child.node().parent().cloned();
    while let Some(member) = next {
        let ended = member.exit_when_childless().is_some_and(|exit| leave_one(&member, &exit));
        next = if ended { member.node().parent().cloned() } else { None };
    }
}

/// True if this was the last that its parent waited for.
fn leave_one(member: &Arc<dyn Member>, exit: &Exit) -> bool {
    let node = member.node();
    let mut counts = member.counts();
    let Some(listeners) = node.take_leave(exit, &mut counts) else { return false };
    let watchers = listeners.map(|listeners| listeners.tell(node, exit));
    let parent = node.parent();
    // A parent that is ending an incarnation ends its children itself; the next incarnation has nothing to do with them.
    let listening = parent.filter(|parent| parent.wants_signals() && parent.node().takes_children());
    node.report_lifecycle(|| Event::Ended { path: node.path(), exit: exit.clone() });
    let last = match parent {
        Some(parent) => let_go(parent, node, &counts),
        None => end_events(node),
    };
    // Whoever hears of the end may want the name for another: it is free by now.
    if listening.is_some() || watchers.is_some() {
        tell_of_end(node, exit, listening.into_iter().chain(watchers.iter().flatten()));
    }
    let waiters = node.life.with(|life| {
        life.state_mut().phase = Phase::Gone;
        life.known_extras_mut().and_then(|around| around.exit_waiters.take())
    });
    wake_all(waiters);
    last
}

#[cold]
fn tell_of_end<'a>(node: &Node, exit: &Exit, to: impl Iterator<Item = &'a Arc<dyn Member>>) {
    to.for_each(|watcher| watcher.notify(Signal::Terminated(node.terminated(exit.clone()))));
}

/// With the root of a system its events end. A scope that hangs below a token of the system ends for itself alone.
#[cold]
fn end_events(top: &Node) -> bool {
    if top.name.is_root() {
        top.events().end();
    }
    false
}

/// Takes `child` out of `parent`'s table. True if it was the last one, and `parent` waited for that.
fn let_go(parent: &Arc<dyn Member>, child: &Node, counts: &Counts) -> bool {
    let (released, in_turn, regrouping, waiters, childless, orphaned) = parent.node().life.with(|life| {
        let closing = life.state().phase == Phase::Closing || life.cancel().is_some();
        let table = life.child_table();
        let orphaned = table.reported;
        if !orphaned {
            table.ended += *counts;
        }
        let released = table.let_go(child);
        let in_turn = table.was_awaited(child.number);
        let regrouping = table.guardian.minds_ends() && table.guardian.note_gone(child.id());
        let childless = table.is_empty();
        let waiters = if childless { table.waiters.take() } else { None };
        (released, in_turn, regrouping, waiters, childless && closing, orphaned)
    });
    drop(released);
    if orphaned {
        parent.node().add_ended(*counts);
    }
    wake_all(waiters);
    if in_turn {
        parent.node().stop_next_child();
    }
    if regrouping {
        supervision::advance(parent);
    }
    childless
}
