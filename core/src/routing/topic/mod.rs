//! `Topic`: what is published in it reaches every subscriber, in the publisher's own task.
//!
//! A topic is a list of subscribers and no more: no task, no queue, no place in the tree. Publishing goes through the list as it was
//! when it began, and puts the message into each mailbox; what is slow is said for each subscription, never left to chance.
//!
//! Invariants:
//! 1. No lock is held while a message is copied, adapted, sent or dropped: publishing works on a snapshot of the list.
//! 2. An actor is in the list at most once. Subscribing again takes the place of what was there, so an actor may do it in `started` of
//!    each incarnation.
//! 3. A subscription is to an address. A restart keeps address and mailbox, so it keeps the subscription as well.
//! 4. Copying and adapting are user code: a panic there is a failure on record with the subscriber's path, and costs that subscriber
//!    that one message. Nobody else notices.

pub(crate) mod subscribers;

use crate::actor::actor_ref::ActorRef;
use crate::base::catch;
use crate::base::runtime::BoxFuture;
use crate::base::sync::{AtomicUsize, Ordering};
use crate::mailbox::send_error::SendError;
use crate::routing::topic::subscribers::Subscribers;
use crate::tree::any_ref::AnyRef;
use crate::tree::current;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::poll_fn;
use core::task::Poll;

/// Publishes each message to all who have subscribed. A handle: clones are the same topic.
///
/// ```
/// # use pleach::{BoxError, CancelToken, Dispatcher, Props, Scope, SlowSubscriber, Topic};
/// # let sim = Dispatcher::seeded(1);
/// # let scope = Scope::under(&CancelToken::root(sim.runtime()));
/// # let props = || Props::from_fn(|| (), |_, _: Option<u32>| Ok::<(), BoxError>(()));
/// # let (screen, archive) = (scope.actor("screen", props()).unwrap(), scope.actor("archive", props()).unwrap());
/// let prices = Topic::<u32>::new();
/// prices.subscribe_with(&screen, SlowSubscriber::Drop, Some); // what it has no room for, it does not see
/// prices.subscribe_with(&archive, SlowSubscriber::Wait, Some); // whoever publishes waits for it
/// # sim.simulate(async {
/// let report = prices.publish(120).await;
/// assert_eq!((report.delivered, report.dropped), (2, 0));
/// # }).unwrap();
/// ```
pub struct Topic<M> {
    subscribers: Arc<Subscribers<M>>,
}

/// What becomes of a message for a subscriber whose mailbox is full.
///
/// Under `Drop` and `Unsubscribe` the message is told, so a mailbox that drops the oldest or conflates does that and is never full.
/// Under `Wait` it is sent, which waits whatever the mailbox's own policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowSubscriber {
    /// The subscriber does not get this one; [`Subscription::dropped`] counts it.
    Drop,
    /// The subscription ends.
    Unsubscribe,
    /// The publisher waits for room. Others have got theirs by then. An actor that publishes to itself would wait for ever, since
    /// it makes no room meanwhile: it gets its own messages as under `Drop`.
    Wait,
}

/// What became of one message that was published: each subscriber is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Mailboxes that took it.
    pub delivered: usize,
    /// Subscribers with no room for it, which do without.
    pub dropped: usize,
    /// Subscribers with no room for it, whose subscription ended.
    pub unsubscribed: usize,
    /// Subscribers that had ended or take no more input; they are out of the list now.
    pub ended: usize,
    /// Subscribers for which copying or adapting it panicked. Each is a failure on record.
    pub failed: usize,
}

/// One actor in the list.
struct Subscriber<M> {
    who: AnyRef,
    slow: SlowSubscriber,
    dropped: AtomicUsize,
    /// Taken only when this is dropped.
    road: Option<Box<dyn Road<M>>>,
}

/// The way of a message to one actor, without the actor's own message type.
trait Road<M>: Send + Sync {
    fn offer(&self, message: M, wait: bool) -> Offer;
}

enum Offer {
    Taken,
    Full,
    Ended,
    /// There was no room; true once the message is in the mailbox, false if the actor ended before.
    Waits(BoxFuture<'static, bool>),
}

struct Adapted<N: Send + 'static, F> {
    actor: ActorRef<N>,
    adapt: F,
}

impl<M, N: Send + 'static, F: Fn(M) -> N + Send + Sync> Road<M> for Adapted<N, F> {
    fn offer(&self, message: M, wait: bool) -> Offer {
        let message = (self.adapt)(message);
        let sent = if wait { self.actor.try_send(message) } else { self.actor.tell(message) };
        match sent {
            Ok(()) => Offer::Taken,
            Err(SendError::Full(message)) if wait => {
                let actor = self.actor.clone();
                Offer::Waits(Box::pin(async move {
                    let sent = actor.send(message).await;
                    let taken = sent.is_ok();
                    on_record(&actor.any(), || drop(sent));
                    taken
                }))
            }
            Err(SendError::Full(_)) => Offer::Full,
            Err(_) => Offer::Ended,
        }
    }
}

/// Runs user code for `who`. A panic in it is a failure on record there.
fn on_record<R>(who: &AnyRef, f: impl FnOnce() -> R) -> Option<R> {
    let node = who.member.node();
    catch::catch(f).map_err(|reason| node.events().failure(&node.failure(0, reason))).ok()
}

impl<M> Subscriber<M> {
    /// What tells actors apart, of whatever system.
    fn address(&self) -> usize {
        core::ptr::from_ref(self.who.member.node()).addr()
    }

    fn count_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether it is the actor in whose own code this runs: it makes no room while it waits here.
    fn is_here(&self) -> bool {
        current::member().is_some_and(|member| AnyRef { member } == self.who)
    }
}

impl<M: Clone> Subscriber<M> {
    fn offer(&self, message: &M) -> Option<Offer> {
        let road = self.road.as_ref()?;
        let wait = self.slow == SlowSubscriber::Wait && !self.is_here();
        on_record(&self.who, || road.offer(message.clone(), wait))
    }
}

/// The adapter is a user's value, and whoever lets go of it last may be anybody.
impl<M> Drop for Subscriber<M> {
    fn drop(&mut self) {
        let road = self.road.take();
        on_record(&self.who, || drop(road));
    }
}

impl<M: Clone + Send + 'static> Topic<M> {
    /// A topic that nobody has subscribed to yet.
    pub fn new() -> Self {
        Self { subscribers: Arc::new(Subscribers::new()) }
    }

    /// Sends `actor` whatever is published from now on. `slow` says what happens when its mailbox is full.
    ///
    /// The subscription lasts until [`Subscription::unsubscribe`], or until the actor ends; dropping the handle keeps it. An actor has one
    /// subscription to a topic: another one takes its place.
    pub fn subscribe(&self, actor: &ActorRef<M>, slow: SlowSubscriber) -> Subscription<M> {
        self.subscribe_with(actor, slow, |message| message)
    }

    /// As [`subscribe`](Self::subscribe), for an actor with another message type: `topic.subscribe_with(&actor, slow, Msg::News)`.
    pub fn subscribe_with<N: Send + 'static>(
        &self,
        actor: &ActorRef<N>,
        slow: SlowSubscriber,
        adapt: impl Fn(M) -> N + Send + Sync + 'static,
    ) -> Subscription<M> {
        let road: Box<dyn Road<M>> = Box::new(Adapted { actor: actor.clone(), adapt });
        let (who, dropped) = (actor.any(), AtomicUsize::new(0));
        let subscriber = Arc::new(Subscriber { who, slow, dropped, road: Some(road) });
        self.subscribers.add(&subscriber);
        Subscription { topic: self.clone(), subscriber }
    }

    /// Puts a copy of `message` into the mailbox of every subscriber, and tells what became of it.
    ///
    /// It waits only for subscribers under [`SlowSubscriber::Wait`] that have no room, after all others have got theirs. Messages of one
    /// publisher, by publishes that do not overlap, reach each subscriber in order. Dropping the future withdraws what still waits.
    pub async fn publish(&self, message: M) -> Published {
        let mut report = Published::default();
        let mut waiting = Vec::new();
        let mut over = Vec::new();
        for subscriber in self.subscribers.all().iter() {
            match subscriber.offer(&message) {
                Some(Offer::Taken) => report.delivered += 1,
                Some(Offer::Waits(wait)) => waiting.push((Arc::clone(subscriber), wait)),
                Some(Offer::Full) if subscriber.slow == SlowSubscriber::Unsubscribe => {
                    report.unsubscribed += 1;
                    over.push(Arc::clone(subscriber));
                }
                Some(Offer::Full) => {
                    report.dropped += 1;
                    subscriber.count_dropped();
                }
                Some(Offer::Ended) => {
                    report.ended += 1;
                    over.push(Arc::clone(subscriber));
                }
                None => report.failed += 1,
            }
        }
        drop(message);
        self.subscribers.take_out(&over);
        if !waiting.is_empty() {
            let ended = wait_for_room(waiting, &mut report).await;
            self.subscribers.take_out(&ended);
        }
        report
    }

    /// How many subscribers there are that have not ended.
    pub fn subscribers(&self) -> usize {
        self.subscribers.all().iter().filter(|subscriber| subscriber.who.exit().is_none()).count()
    }
}

/// Waits until each mailbox has taken its message or has closed; those that closed.
async fn wait_for_room<M>(
    mut waiting: Vec<(Arc<Subscriber<M>>, BoxFuture<'static, bool>)>,
    report: &mut Published,
) -> Vec<Arc<Subscriber<M>>> {
    let mut ended = Vec::new();
    let mut settle = |subscriber: &Arc<Subscriber<M>>, taken: bool| {
        if taken {
            report.delivered += 1;
        } else {
            report.ended += 1;
            ended.push(Arc::clone(subscriber));
        }
    };
    // All are polled once and so stand in the waiting lists of their mailboxes, which let them in without further polls. Then one
    // after the other: what wakes this is the one at the end or comes to nothing.
    let mut standing = false;
    poll_fn(|cx| {
        if !core::mem::replace(&mut standing, true) {
            waiting.retain_mut(|(subscriber, wait)| match wait.as_mut().poll(cx) {
                Poll::Ready(taken) => {
                    settle(subscriber, taken);
                    false
                }
                Poll::Pending => true,
            });
        }
        while let Some((subscriber, wait)) = waiting.last_mut() {
            match wait.as_mut().poll(cx) {
                Poll::Ready(taken) => settle(subscriber, taken),
                Poll::Pending => return Poll::Pending,
            }
            waiting.pop();
        }
        Poll::Ready(())
    })
    .await;
    ended
}

impl<M> Clone for Topic<M> {
    fn clone(&self) -> Self {
        Self { subscribers: Arc::clone(&self.subscribers) }
    }
}

impl<M: Clone + Send + 'static> Default for Topic<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M> fmt::Debug for Topic<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.subscribers.all().iter().map(|subscriber| subscriber.who.path())).finish()
    }
}

/// One actor's subscription to a topic; from [`Topic::subscribe`]. Dropping it does nothing: the actor that keeps it in its state loses
/// that state in a restart, and stays subscribed.
pub struct Subscription<M> {
    topic: Topic<M>,
    subscriber: Arc<Subscriber<M>>,
}

impl<M> Subscription<M> {
    /// Ends it. A publish that has begun by now may still reach the subscriber. If another subscription of the same actor has
    /// taken its place, that one stays.
    pub fn unsubscribe(self) {
        self.topic.subscribers.take_out(core::slice::from_ref(&self.subscriber));
    }

    /// How many messages the subscriber did not get because it had no room.
    pub fn dropped(&self) -> usize {
        self.subscriber.dropped.load(Ordering::Relaxed)
    }

    /// Whether the subscriber still gets what is published.
    pub fn is_active(&self) -> bool {
        self.subscriber.who.exit().is_none() && self.topic.subscribers.contains(&self.subscriber)
    }
}

impl<M> fmt::Debug for Subscription<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subscription({} {:?})", self.subscriber.who.path(), self.subscriber.slow)
    }
}
