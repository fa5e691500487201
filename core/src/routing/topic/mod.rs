//! `Topic`: publishes messages to subscribed actors, in the publisher's own task.
//!
//! A topic is only a list of subscribers. It has no task, no queue and no node in the tree.
//! Publishing takes a snapshot of the list and puts the message into each mailbox. What happens
//! when a mailbox is full is set per subscription.
//!
//! Invariants:
//! 1. No lock is held while a message is cloned, adapted, sent or dropped: publishing works on a
//!    snapshot.
//! 2. An actor is in the list at most once. Subscribing again replaces the subscription, so an
//!    actor may subscribe in `started` of each incarnation.
//! 3. A subscription belongs to an address. A restart keeps the address, the mailbox and the
//!    subscription.
//! 4. Cloning and adapting are user code. A panic there is reported as a failure with the
//!    subscriber's path. That subscriber misses the message; the others do not.

pub(crate) mod subscribers;

use crate::actor::actor_ref::ActorRef;
use crate::base::catch;
use crate::base::runtime::BoxFuture;
use crate::base::sync::{Arc, AtomicUsize, Ordering};
use crate::mailbox::send_error::SendError;
use crate::routing::topic::subscribers::Subscribers;
use crate::tree::any_ref::AnyRef;
use crate::tree::current;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::future::poll_fn;
use core::task::Poll;

/// Publishes each message to all subscribed actors. Clones refer to the same topic.
///
/// ```
/// use pleach::{BoxError, CancelToken, Props, Scope};
/// use pleach::routing::{SlowSubscriber, Topic};
/// use pleach::runtime::Dispatcher;
///
/// let sim = Dispatcher::seeded(1);
/// let scope = Scope::under(&CancelToken::root(sim.runtime()));
/// let props = || Props::from_fn(|| (), |_, _: Option<u32>| Ok::<(), BoxError>(()));
/// let screen = scope.spawn("screen", props()).unwrap();
/// let archive = scope.spawn("archive", props()).unwrap();
///
/// let prices = Topic::<u32>::new();
/// prices.subscribe_with(&screen, SlowSubscriber::Drop, Some); // misses messages while it is full
/// prices.subscribe_with(&archive, SlowSubscriber::Wait, Some); // publishers wait while it is full
/// sim.simulate(async move {
///     let report = prices.publish(120).await;
///     assert_eq!((report.delivered, report.dropped), (2, 0));
/// }).unwrap();
/// ```
pub struct Topic<M> {
    subscribers: Arc<Subscribers<M>>,
}

/// What happens to a message when the mailbox of a subscriber is full.
///
/// `Drop` and `Unsubscribe` use `tell`, so a mailbox that drops the oldest message or conflates is
/// never full. `Wait` uses `send`, which waits whatever the overflow rule of the mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowSubscriber {
    /// The subscriber misses the message; [`Subscription::dropped`] counts it.
    Drop,
    /// The subscription ends, and the message is not delivered.
    Unsubscribe,
    /// The publisher waits for room, after the message went to all other subscribers.
    ///
    /// An actor that publishes to itself cannot make room while it waits. For it, this works like
    /// `Drop`.
    Wait,
}

/// The outcome of one publish. Each subscriber is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Subscribers whose mailbox accepted the message.
    pub delivered: usize,
    /// Subscribers with a full mailbox that missed the message.
    pub dropped: usize,
    /// Subscribers with a full mailbox whose subscription ended.
    pub unsubscribed: usize,
    /// Subscribers that have exited or are closing. They were removed from the list.
    pub ended: usize,
    /// Subscribers for which cloning or adapting the message panicked. Each is reported as a
    /// failure.
    pub failed: usize,
}

/// One subscribed actor.
struct Subscriber<M> {
    actor: AnyRef,
    slow: SlowSubscriber,
    dropped: AtomicUsize,
    /// `None` only while this is dropped.
    delivery: Option<Box<dyn Delivery<M>>>,
}

/// Delivers a message to one actor, with the actor's message type erased.
trait Delivery<M>: Send + Sync {
    fn offer(&self, message: M, wait: bool) -> Offered;
}

enum Offered {
    Taken,
    Full,
    Ended,
    /// The mailbox was full. Resolves to true once the message is queued, and to false if the actor
    /// ended before.
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

/// Runs user code for `actor`. Reports a panic as a failure of that actor.
fn catch_and_report<R>(actor: &AnyRef, f: impl FnOnce() -> R) -> Option<R> {
    let node = actor.member.node();
    catch::catch(f).map_err(|reason| node.events().record_failure(&node.failure(0, reason))).ok()
}

impl<M> Subscriber<M> {
    /// Identifies the actor, also across systems.
    fn address(&self) -> usize {
        core::ptr::from_ref(self.actor.member.node()).addr()
    }

    fn count_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether this runs inside the subscriber itself, which cannot make room while it
    /// waits.
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

/// The adapter is user code. The last owner may be any thread, so its drop is guarded.
impl<M> Drop for Subscriber<M> {
    fn drop(&mut self) {
        let delivery = self.delivery.take();
        catch_and_report(&self.actor, || drop(delivery));
    }
}

impl<M: Clone + Send + 'static> Topic<M> {
    /// Creates a topic that has no subscribers.
    pub fn new() -> Self {
        Self { subscribers: Arc::new(Subscribers::new()) }
    }

    /// Subscribes `actor` to all messages from now on. `slow` says what happens when its mailbox is
    /// full.
    ///
    /// The subscription lasts until [`Subscription::unsubscribe`] or the exit of the actor.
    /// Dropping the returned handle keeps it. An actor has at most one subscription per topic: a
    /// new one replaces the old one.
    pub fn subscribe(&self, actor: &ActorRef<M>, slow: SlowSubscriber) -> Subscription<M> {
        self.subscribe_with(actor, slow, |message| message)
    }

    /// Subscribes an actor with another message type: `topic.subscribe_with(&actor, slow,
    /// Msg::News)`.
    ///
    /// `adapt` converts each message in the publisher's task. Otherwise like
    /// [`subscribe`](Self::subscribe).
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

    /// Puts a clone of `message` into the mailbox of every subscriber, and returns the outcome.
    ///
    /// Waits only for full subscribers with [`SlowSubscriber::Wait`], after all others have
    /// received the message. If one publisher publishes sequentially, each subscriber receives the
    /// messages in that order. Dropping the future withdraws the messages that still wait.
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

    /// Returns the number of subscribers that have not exited.
    pub fn subscribers(&self) -> usize {
        self.subscribers.all().iter().filter(|subscriber| subscriber.actor.exit().is_none()).count()
    }
}

/// Waits until each mailbox has accepted its message or has closed. Returns the subscribers that
/// closed.
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
    // Poll all sends once, so that each is queued in its mailbox, which accepts it without further
    // polls. Then wait for one after the other: a wake concerns either the last one, or is ignored.
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

/// One subscription of an actor to a topic; from [`Topic::subscribe`].
///
/// Dropping it has no effect, so an actor that keeps it in its state stays subscribed after a
/// restart.
pub struct Subscription<M> {
    topic: Topic<M>,
    subscriber: Arc<Subscriber<M>>,
}

impl<M> Subscription<M> {
    /// Ends the subscription. A publish in progress may still deliver to the actor.
    ///
    /// If a newer subscription of the same actor has replaced this one, the newer one stays.
    pub fn unsubscribe(self) {
        self.topic.subscribers.remove(core::slice::from_ref(&self.subscriber));
    }

    /// Returns the number of messages that the subscriber missed because its mailbox was full.
    pub fn dropped(&self) -> usize {
        self.subscriber.dropped.load(Ordering::Relaxed)
    }

    /// Returns whether the subscription is still active and the actor has not exited.
    pub fn is_active(&self) -> bool {
        self.subscriber.actor.exit().is_none() && self.topic.subscribers.contains(&self.subscriber)
    }
}

impl<M> fmt::Debug for Subscription<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subscription({} {:?})", self.subscriber.actor.path(), self.subscriber.slow)
    }
}
