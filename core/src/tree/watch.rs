//! [`HandlerWatch`]: finds handlers that are stuck, without any cost to a message.
//!
//! While a listener wants `STUCK_HANDLERS`, an actor that begins a batch enters the list of busy
//! actors of its tree, unless it is in it. A sampler looks at the list once per threshold
//! ([`SystemBuilder::long_handler`](crate::SystemBuilder::long_handler)). An actor that is still at
//! the same message is stuck: it is reported once, and reports itself when the handler has
//! returned. An actor that is idle leaves the list. So a busy actor pays one flag per batch, and an
//! idle one nothing.
//!
//! Invariants:
//! 1. The sampler runs only while the list is not empty, and ends with its tree. It holds no actor.
//! 2. An actor is in the list exactly while its `WATCHED` flag is set and it was not reported.
//! 3. The flag is cleared before the sampler looks again at an idle actor. So an actor that has
//!    become busy meanwhile either enters the list itself, or is seen.
//! 4. A handler is reported between one and two thresholds after it has begun.

use crate::base::lock::Lock;
use crate::base::sync::{Arc, Weak};
use crate::base::time::Instant;
use crate::events::event::{Event, EventKinds, Lint};
use crate::tree::Tree;
use crate::tree::any_ref::AnyRef;
use crate::tree::facts::{MemberFacts, Work};
use crate::tree::member::Member;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;

/// Where an actor is: how many handlers it has begun, and how many have returned.
pub(crate) type Progress = (usize, usize);

/// The busy actors of one tree.
pub(crate) struct HandlerWatch(Lock<WatchState>);

#[derive(Default)]
struct WatchState {
    busy: Vec<BusyActor>,
    is_sampling: bool,
}

struct BusyActor {
    member: Weak<dyn Member>,
    /// Where it was when it was last looked at, and when that was.
    at: Progress,
    since: Instant,
}

impl HandlerWatch {
    pub(crate) fn new() -> Self {
        Self(Lock::new(WatchState::default()))
    }
}

impl Tree {
    /// Adds an actor that begins a batch. `at` is where it will be while it handles the first
    /// message.
    pub(crate) fn watch_handler(this: &Arc<Self>, member: &Arc<dyn Member>, at: Progress) {
        let busy = BusyActor { member: Arc::downgrade(member), at, since: this.runtime.now() };
        let starts = this.watch.0.with(|watch| {
            watch.busy.push(busy);
            !core::mem::replace(&mut watch.is_sampling, true)
        });
        if starts {
            let (tree, root) = (Arc::downgrade(this), Arc::clone(top_of(member)));
            this.runtime.spawn_observer(Box::pin(sample(tree, root)));
        }
    }

    /// Looks at all busy actors. Returns false if none is left.
    fn sample_handlers(&self) -> bool {
        let now = self.runtime.now();
        let mut looked_at = self.watch.0.with(|watch| core::mem::take(&mut watch.busy));
        looked_at.retain_mut(|busy| self.stays_busy(busy, now));
        self.watch.0.with(|watch| {
            watch.busy.append(&mut looked_at);
            watch.is_sampling = !watch.busy.is_empty();
            watch.is_sampling
        })
    }

    /// Looks at one actor, and reports it if it is stuck. Returns whether it stays in the list.
    fn stays_busy(&self, busy: &mut BusyActor, now: Instant) -> bool {
        let Some(member) = busy.member.upgrade() else { return false };
        let Some(at) = member.handler_progress() else {
            member.set_watched(false);
            // It may have become busy since: then it is in the list once.
            return member.handler_progress().is_some() && !member.set_watched(true);
        };
        let running_for = now.since(busy.since);
        if at != busy.at {
            (busy.at, busy.since) = (at, now);
        } else if running_for >= self.long_handler {
            let MemberFacts { work, actor, .. } = member.facts();
            match work {
                Work::Handling(_) => {}
                Work::Running | Work::Ready => {
                    busy.since = now;
                    return true;
                }
                // It is in a hook, which is no handler. The batch after the hook enters it again.
                _ => {
                    member.set_watched(false);
                    return false;
                }
            }
            let message = actor.map_or("", |actor| actor.message_type);
            let (path, message) = (member.node().path(), Cow::Borrowed(message));
            self.events.emit(EventKinds::STUCK_HANDLERS, || Event::Lint(Lint::StuckHandler { path, message, running_for }));
            member.mark_stuck(busy.since);
            return false;
        }
        true
    }
}

/// The root above `member`.
fn top_of(member: &Arc<dyn Member>) -> &Arc<dyn Member> {
    let mut top = member;
    while let Some(parent) = top.node().parent() {
        top = parent;
    }
    top
}

/// The sampler of one tree, until no actor is busy or the tree has ended.
async fn sample(tree: Weak<Tree>, root: Arc<dyn Member>) {
    let mut ended = pin!(AnyRef { member: root }.exited());
    loop {
        let Some(mut sleep) = tree.upgrade().map(|tree| tree.runtime.sleep_until(tree.runtime.now() + tree.long_handler))
        else {
            return;
        };
        let has_ended = poll_fn(|cx| match (ended.as_mut().poll(cx), sleep.as_mut().poll(cx)) {
            (Poll::Ready(_), _) => Poll::Ready(true),
            (_, Poll::Ready(())) => Poll::Ready(false),
            _ => Poll::Pending,
        });
        if has_ended.await || !tree.upgrade().is_some_and(|tree| tree.sample_handlers()) {
            return;
        }
    }
}
