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

/// Publishes each message to all actor have subscribed. A handle: clones are the same topic.
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
    actor: AnyRef,
    slow: SlowSubscriber,
    dropped: AtomicUsize,
    /// Taken only when this is dropped.
    delivery: Option<Box<dyn Delivery<M>>>,
}

/// The way of a message to one actor, without the actor's own message type.
trait Delivery<M>: Send + Sync {
    fn offer(&self, message: M, wait: bool) -> Offered;
}

enum Offered {
    Taken,
    Full,
    Ended,
    /// There was no room; true once the message is in the mailbox, false if the actor ended before.
    Waits(BoxFuture<'static, bool>),
}

struct AdaptedDelivery<N: Send + 'static, F> {
    actor: ActorRef<N>,
    adapt: F,
}

impl<M, N: Send + 'static, F: Fn(M) -> N + Send + Sync> Delivery<M> for AdaptedDelivery<N, F> {
    fn offer(&self, message: M, wait: bool) -> Offered {
        let message = (self.adapt)(message);
        let sent = if wait { self.actor.try_send(message) } else { self.actor.tell(message) };
        match sent {
            Ok(()) => Offered::Taken,
            Err(SendError::Full(message)) if wait => {
                let actor = self.actor.clone();
                Offered::Waits(Box::pin(async move {
                    let sent = actor.send(message).await;
                    let taken = sent.is_ok();
                    catch_and_report(&actor.any(), || drop(sent));
                    taken
                }))
            }
            Err(SendError::Full(_)) => Offered::Full,
            Err(_) => Offered::Ended,
        }
    }
}

/// Runs user code for `actor`. A panic in it is a failure on record there.
fn catch_and_report<R>(actor: &AnyRef, f: impl FnOnce() -> R) -> Option<R> {
    let node = actor.member.node();
    catch::catch(f).map_err(|reason| node.events().failure(&node.failure(0, reason))).ok()
}

impl<M> Subscriber<M> {
    /// What tells actors apart, of whatever system.
    fn address(&self) -> usize {
        core::ptr::from_ref(self.actor.member.node()).addr()
    }

    fn count_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether it is the actor in whose own code this runs: it makes no room while it waits here.
    fn is_current_actor(&self) -> bool {
        current::member().is_some_and(|member| AnyRef { member } == self.actor)
    }
}

impl<M: Clone> Subscriber<M> {
    fn offer(&self, message: &M) -> Option<Offered> {
        let delivery = self.delivery.as_ref()?;
        let wait = self.slow == SlowSubscriber::Wait && !self.is_current_actor();
        catch_and_report(&self.actor, || delivery.offer(message.clone(), wait))
    }
}

/// The adapter is a user's value, and whoever lets go of it last may be anybody.
impl<M> Drop for Subscriber<M> {
    fn drop(&mut self) {
        let delivery = self.delivery.take();
        catch_and_report(&self.actor, || drop(delivery));
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
        let delivery: Box<dyn Delivery<M>> = Box::new(AdaptedDelivery { actor: actor.clone(), adapt });
        let (actor, dropped) = (actor.any(), AtomicUsize::new(0));
        let subscriber = Arc::new(Subscriber { actor, slow, dropped, delivery: Some(delivery) });
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
        let mut ended_subscribers = Vec::new();
        for subscriber in self.subscribers.all().iter() {
            match subscriber.offer(&message) {
                Some(Offered::Taken) => report.delivered += 1,
                Some(Offered::Waits(wait)) => waiting.push((Arc::clone(subscriber), wait)),
                Some(Offered::Full) if subscriber.slow == SlowSubscriber::Unsubscribe => {
                    report.unsubscribed += 1;
                    ended_subscribers.push(Arc::clone(subscriber));
                }
                Some(Offered::Full) => {
                    report.dropped += 1;
                    subscriber.count_dropped();
                }
                Some(Offered::Ended) => {
                    report.ended += 1;
                    ended_subscribers.push(Arc::clone(subscriber));
                }
                None => report.failed += 1,
            }
        }
        drop(message);
        self.subscribers.remove(&ended_subscribers);
        if !waiting.is_empty() {
            let ended = wait_for_room(waiting, &mut report).await;
            self.subscribers.remove(&ended);
        }
        report
    }

    /// How many subscribers there are that have not ended.
    pub fn subscribers(&self) -> usize {
        self.subscribers.all().iter().filter(|subscriber| subscriber.actor.exit().is_none()).count()
    }
}

/// Waits until each mailbox has taken its message or has closed; those that closed.
async fn wait_for_room<M>(
    mut waiting: Vec<(Arc<Subscriber<M>>, BoxFuture<'static, bool>)>,
    report: &mut Published,
) -> Vec<Arc<Subscriber<M>>> {
    let mut ended = Vec::new();
    let mut count = |subscriber: &Arc<Subscriber<M>>, taken: bool| {
        if taken {
            report.delivered += 1;
        } else {
            report.ended += 1;
            ended.push(Arc::clone(subscriber));
        }
    };
    // All are polled once and so stand in the waiting lists of their mailboxes, which let them in without further polls. Then one
    // after the other: what wakes this is the one at the end or comes to nothing.
    let mut all_queued = false;
    poll_fn(|cx| {
        if !core::mem::replace(&mut all_queued, true) {
            waiting.retain_mut(|(subscriber, wait)| match wait.as_mut().poll(cx) {
                Poll::Ready(taken) => {
                    count(subscriber, taken);
                    false
                }
                Poll::Pending => true,
            });
        }
        while let Some((subscriber, wait)) = waiting.last_mut() {
            match wait.as_mut().poll(cx) {
                Poll::Ready(taken) => count(subscriber, taken),
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
        f.debug_list().entries(self.subscribers.all().iter().map(|subscriber| subscriber.actor.path())).finish()
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
        self.topic.subscribers.remove(core::slice::from_ref(&self.subscriber));
    }

    /// How many messages the subscriber did not get because it had no room.
    pub fn dropped(&self) -> usize {
        self.subscriber.dropped.load(Ordering::Relaxed)
    }

    /// Whether the subscriber still gets what is published.
    pub fn is_active(&self) -> bool {
        self.subscriber.actor.exit().is_none() && self.topic.subscribers.contains(&self.subscriber)
    }
}

impl<M> fmt::Debug for Subscription<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subscription({} {:?})", self.subscriber.actor.path(), self.subscriber.slow)
    }
}
