//! `Recipient`: an actor for those who speak another type than its own. What they say is adapted on the way into its mailbox.
//!
//! A recipient is the actor's cell behind a [`Door`], or a chain of adapters that ends there. Sending is in two steps, so that an adapter
//! runs only for what the mailbox has taken (see `mailbox::slots`): a place is held, which may be refused; then all adapters of the
//! chain make the message, and it fills the place.
//!
//! Invariants:
//! 1. What is refused comes back as it was given: no adapter has seen it.
//! 2. Adapters are user code. They run under no lock, as nobody's handler, and are caught in one place, [`Cell::fill`]. A panic is a
//!    failure on record of the actor, whose message counts as failed; neither its state nor the sender is touched.
//! 3. A recipient is an address: restarts keep it, and dropping it does nothing to the actor.

pub(crate) mod ask;
pub(crate) mod send;

pub use crate::actor::recipient::ask::RecipientAsk;
pub use crate::actor::recipient::send::RecipientSend;

use crate::actor::actor_ref::ActorRef;
use crate::actor::cell::Cell;
use crate::actor::cell::member::type_name;
use crate::actor::reply::Reply;
use crate::base::catch;
use crate::events::cause::{Cause, Exit};
use crate::events::failure::FailureInfo;
use crate::ids::path::{ActorId, ActorPath};
use crate::mailbox::reserve::{Reservation, Reserved};
use crate::mailbox::send_error::SendError;
use crate::mailbox::{Priority, PriorityEnvelope};
use crate::tree::any_ref::{AnyRef, Exited};
use crate::tree::current;
use crate::tree::node::Node;
use alloc::sync::Arc;
use core::fmt;
use core::task::{Poll, Waker};

/// An actor that takes `M`s, whatever its own message type: from [`ActorRef::map`], or an [`ActorRef`] as it is. A handle: clones are the
/// same recipient.
///
/// It has the verbs of an `ActorRef`, with the same answers: a message that is refused comes back as it was given, overflow policies, dead
/// letters and counts are those of the actor's mailbox. The adapter runs in the sender's task, for each message the mailbox has taken;
/// it should be quick, since the actor does not end before it is done. If it panics, the message counts as failed and the failure is on
/// record as the actor's; the actor goes on, and the sender does not notice. It lasts across restarts.
///
/// ```
/// # use pleach::{BoxError, CancelToken, Dispatcher, Props, Recipient, Reply, Scope};
/// # let sim = Dispatcher::seeded(1);
/// # let scope = Scope::under(&CancelToken::root(sim.runtime()));
/// enum Shop { Price(u32), Last(Reply<u32>) }
///
/// # let props = Props::from_fn(|| 0, |last: &mut u32, msg: Shop| {
/// #     match msg {
/// #         Shop::Price(n) => *last = n,
/// #         Shop::Last(reply) => reply.send(*last),
/// #     }
/// #     Ok::<(), BoxError>(())
/// # });
/// # let shop = scope.actor("shop", props).unwrap();
/// /// Knows nothing of shops.
/// fn announce(prices: &Recipient<u32>) {
///     prices.tell(120).expect("it has room");
/// }
///
/// announce(&shop.map(Shop::Price));
/// let in_words = shop.map(Shop::Price).map(|text: &str| text.len() as u32);
/// # sim.simulate(async {
/// in_words.send("seven").await?;
/// assert_eq!(shop.ask(Shop::Last).await?, 5);
/// # Ok::<(), BoxError>(())
/// # }).unwrap().unwrap();
/// ```
pub struct Recipient<M: Send + 'static> {
    actor: AnyRef,
    target: Arc<dyn Target<M>>,
}

/// The way into one actor's mailbox for an `N`.
trait Target<N>: Send + Sync {
    /// Where places are held; the same for the whole chain.
    fn room(&self) -> &dyn ReserveRoom;

    /// Fills a place with what `make` gives, which is called once. `Err` if making it failed.
    fn fill(&self, reservation: Reservation, make: &mut dyn FnMut() -> N) -> Result<(), FailureInfo>;
}

/// The places of a mailbox, whatever its messages are.
trait ReserveRoom: Send + Sync {
    fn node(&self) -> &Node;
    fn reserve(&self, priority: Priority, may_drop: bool) -> Result<Reservation, SendError<()>>;
    fn poll_reserve(
        &self,
        key: &mut Option<u64>,
        priority: Priority,
        waker: &Waker,
    ) -> Poll<Result<Reservation, SendError<()>>>;
    fn withdraw_reserve(&self, key: u64);
    /// Whether the receiver has fallen behind.
    fn receiver_is_behind(&self) -> bool;
}

impl<M: Send + 'static> Cell<M> {
    fn report_reserved(&self, (reservation, high_water): Reserved) -> Reservation {
        self.report_if_high_water(high_water);
        reservation
    }
}

impl<M: Send + 'static> ReserveRoom for Cell<M> {
    fn node(&self) -> &Node {
        self.node()
    }

    fn reserve(&self, priority: Priority, may_drop: bool) -> Result<Reservation, SendError<()>> {
        self.mailbox().reserve(priority, may_drop).map(|held| self.report_reserved(held))
    }

    fn poll_reserve(
        &self,
        key: &mut Option<u64>,
        priority: Priority,
        waker: &Waker,
    ) -> Poll<Result<Reservation, SendError<()>>> {
        self.mailbox().poll_reserve(key, priority, waker).map_ok(|held| self.report_reserved(held))
    }

    fn withdraw_reserve(&self, key: u64) {
        self.mailbox().withdraw_reserve(key);
    }

    fn receiver_is_behind(&self) -> bool {
        self.mailbox().receiver_is_behind()
    }
}

impl<M: Send + 'static> Target<M> for Cell<M> {
    fn room(&self) -> &dyn ReserveRoom {
        self
    }

    fn fill(&self, reservation: Reservation, make: &mut dyn FnMut() -> M) -> Result<(), FailureInfo> {
        let made = {
            // A reply that an adapter drops is none of the sender's: it is answered at once.
            let mut nobody = None;
            let _outside = current::enter(&mut nobody, Waker::noop());
            catch::catch(make)
        };
        match made {
            Ok(message) => {
                match self.mailbox().fill(reservation, message) {
                    None => {}
                    Some((message, Some(reason))) => self.dead_letter_for_sender(message, reason),
                    Some((message, None)) => self.discard(message),
                }
                Ok(())
            }
            Err(reason) => {
                let failure = self.node().failure(0, reason).with_message(type_name::<M>());
                // On record first: once the place is void the actor may end, and its system with it.
                self.node().events().failure(&failure);
                self.mailbox().fail_reservation(reservation);
                Err(failure)
            }
        }
    }
}

/// One adapter before a door. It is there until it is dropped.
struct AdaptedTarget<M: Send + 'static, F> {
    target: Arc<dyn Target<M>>,
    adapt: Option<F>,
}

impl<M: Send + 'static, N, F: Fn(N) -> M + Send + Sync> Target<N> for AdaptedTarget<M, F> {
    fn room(&self) -> &dyn ReserveRoom {
        self.target.room()
    }

    fn fill(&self, reservation: Reservation, make: &mut dyn FnMut() -> N) -> Result<(), FailureInfo> {
        let adapt = self.adapt.as_ref().expect("taken only in the drop");
        self.target.fill(reservation, &mut || adapt(make()))
    }
}

/// An adapter is a user's value, and whoever lets go of it last may be anybody.
impl<M: Send + 'static, F> Drop for AdaptedTarget<M, F> {
    fn drop(&mut self) {
        let adapt = self.adapt.take();
        if let Err(reason) = catch::catch(|| drop(adapt)) {
            let node = self.target.room().node();
            node.events().failure(&node.failure(0, reason));
        }
    }
}

impl<M: Send + 'static> Recipient<M> {
    /// As [`ActorRef::tell`].
    pub fn tell(&self, message: M) -> Result<(), SendError<M>> {
        self.push(message.into(), true)
    }

    /// As [`ActorRef::tell_envelope`].
    pub fn tell_envelope(&self, envelope: PriorityEnvelope<M>) -> Result<(), SendError<M>> {
        self.push(envelope, true)
    }

    /// As [`ActorRef::try_send`].
    pub fn try_send(&self, message: M) -> Result<(), SendError<M>> {
        self.push(message.into(), false)
    }

    /// As [`ActorRef::send`].
    pub fn send(&self, message: M) -> RecipientSend<'_, M> {
        RecipientSend::new(self, message)
    }

    /// As [`ActorRef::ask`]. An adapter that panics is an answer as well: [`AskError::Failed`](crate::AskError::Failed).
    pub fn ask<T, Q>(&self, question: Q) -> RecipientAsk<'_, M, T, Q>
    where
        T: Send + 'static,
        Q: FnOnce(Reply<T>) -> M,
    {
        RecipientAsk::new(self, question)
    }

    /// The same actor for code that speaks of `N`s. Adapters add up: this one runs first.
    pub fn map<N: Send + 'static>(&self, adapt: impl Fn(N) -> M + Send + Sync + 'static) -> Recipient<N> {
        let target = Arc::new(AdaptedTarget { target: Arc::clone(&self.target), adapt: Some(adapt) });
        Recipient { actor: self.actor.clone(), target }
    }

    /// As [`ActorRef::stop`].
    pub fn stop(&self) {
        self.actor.stop();
    }

    /// As [`ActorRef::close`].
    pub fn close(&self) {
        self.actor.close();
    }

    /// As [`ActorRef::cancel`].
    pub fn cancel(&self, cause: impl Into<Cause>) {
        self.actor.cancel(cause);
    }

    /// As [`ActorRef::on_done`].
    pub fn on_done(&self, f: impl FnOnce(&Exit) + Send + 'static) {
        self.actor.on_done(f);
    }

    /// As [`ActorRef::exited`].
    pub fn exited(&self) -> Exited {
        self.actor.exited()
    }

    /// As [`ActorRef::exit`].
    pub fn exit(&self) -> Option<Exit> {
        self.actor.exit()
    }

    /// Who the actor is.
    pub fn id(&self) -> ActorId {
        self.actor.id()
    }

    /// Where the actor stands in the tree.
    pub fn path(&self) -> ActorPath {
        self.actor.path()
    }

    /// The actor without a message type.
    pub fn any(&self) -> AnyRef {
        self.actor.clone()
    }

    fn push(&self, PriorityEnvelope { message, priority }: PriorityEnvelope<M>, may_drop: bool) -> Result<(), SendError<M>> {
        match self.target.room().reserve(priority, may_drop) {
            Ok(reservation) => {
                // A failure in making the message is on record, and none of the sender's.
                drop(self.fill(reservation, message));
                Ok(())
            }
            Err(refused) => Err(refused.with_message(message)),
        }
    }

    fn fill(&self, reservation: Reservation, message: M) -> Result<(), FailureInfo> {
        let mut message = Some(message);
        self.target.fill(reservation, &mut || message.take().expect("a message is made once"))
    }
}

impl<M: Send + 'static> From<ActorRef<M>> for Recipient<M> {
    fn from(actor: ActorRef<M>) -> Self {
        Self { actor: actor.any(), target: Arc::clone(actor.cell()) as Arc<dyn Target<M>> }
    }
}

impl<M: Send + 'static> Clone for Recipient<M> {
    fn clone(&self) -> Self {
        Self { actor: self.actor.clone(), target: Arc::clone(&self.target) }
    }
}

impl<M: Send + 'static> fmt::Debug for Recipient<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recipient({} {})", self.id(), self.path())
    }
}
