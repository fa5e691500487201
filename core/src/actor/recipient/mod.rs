//! [`Recipient`]: an address that accepts another message type, through an adapter.
//!
//! A recipient is the actor's cell behind a [`Target`], or a chain of adapters that ends there. A
//! send has two steps, so that an adapter runs only for a message that the mailbox has accepted
//! (see `mailbox::reserve`): room is reserved, which may fail; then the adapters of the chain make
//! the message, and it fills the reservation.
//!
//! Invariants:
//! 1. A rejected message is returned unchanged: no adapter has seen it.
//! 2. Adapters are user code. They run under no lock and outside every handler, and their panics
//!    are caught in one place, `Cell::fill`. A panic is recorded as a failure of the actor and its
//!    message counts as failed; the actor's state and the sender are not affected.
//! 3. A recipient is an address: it stays valid across restarts, and dropping it does nothing to
//!    the actor.

pub(crate) mod ask;
pub(crate) mod send;

pub use crate::actor::recipient::ask::RecipientAsk;
pub use crate::actor::recipient::send::RecipientSend;

use crate::actor::actor_ref::ActorRef;
use crate::actor::cell::member::type_name;
use crate::actor::cell::{AnyCell, Cell};
use crate::actor::reply::Reply;
use crate::base::catch;
use crate::base::sync::{Arc, unsize};
use crate::events::cause::{Cause, Exit};
use crate::events::failure::FailureInfo;
use crate::ids::path::{ActorId, ActorPath};
use crate::mailbox::reserve::{Reservation, Reserved};
use crate::mailbox::send_error::SendError;
use crate::mailbox::{Priority, PriorityEnvelope};
use crate::tree::any_ref::{AnyRef, Exited};
use crate::tree::current;
use core::fmt;
use core::task::{Poll, Waker};

/// An address for messages of type `M`, whatever the message type of the actor.
///
/// It comes from [`ActorRef::map`], or from an [`ActorRef`] through `From`. Clones are cheap and
/// address the same actor; it stays valid across restarts.
///
/// It has the methods of an `ActorRef`, with the same results. A rejected message is returned
/// unchanged. Overflow rule, dead letters and counts are those of the actor's mailbox.
///
/// The adapter runs in the sender's task, for each message that the mailbox has accepted. Keep it
/// short: the actor cannot exit before it has returned. If it panics, the message counts as failed
/// and the failure is recorded for the actor; the actor keeps running, and the sender gets no
/// error.
///
/// # Examples
/// ```
/// # use pleach::{BoxError, CancelToken, Props, Reply, Scope};
/// # use pleach::actor::Recipient;
/// # use pleach::runtime::Dispatcher;
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
/// # let shop = scope.spawn("shop", props).unwrap();
/// /// Does not know the type `Shop`.
/// fn announce(prices: &Recipient<u32>) {
///     prices.tell(120).expect("the mailbox has room");
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

/// The way of an `N` into the mailbox of one actor.
trait Target<N>: Send + Sync {
    /// Returns the cell in whose mailbox room is reserved; the same for the whole chain.
    fn cell(&self) -> &AnyCell;

    /// Fills a reservation with the result of `make`, which is called once. Returns the failure if
    /// `make` panicked.
    fn fill(&self, reservation: Reservation, make: &mut dyn FnMut() -> N) -> Result<(), FailureInfo>;
}

/// The reservations of an actor's mailbox, whatever its message type.
impl AnyCell {
    fn reserve(&self, priority: Priority, may_drop: bool) -> Result<Reservation, SendError<()>> {
        self.mailbox().reserve(priority, may_drop).map(|reserved| self.report_reserved(reserved))
    }

    fn poll_reserve(
        &self,
        key: &mut Option<u64>,
        priority: Priority,
        waker: &Waker,
    ) -> Poll<Result<Reservation, SendError<()>>> {
        self.mailbox().poll_reserve(key, priority, waker).map_ok(|reserved| self.report_reserved(reserved))
    }

    fn report_reserved(&self, (reservation, high_water): Reserved) -> Reservation {
        self.report_if_high_water(high_water);
        reservation
    }
}

impl<M: Send + 'static> Target<M> for Cell<M> {
    fn cell(&self) -> &AnyCell {
        self.any()
    }

    fn fill(&self, reservation: Reservation, make: &mut dyn FnMut() -> M) -> Result<(), FailureInfo> {
        let made = {
            // A reply that an adapter drops is answered at once, and not kept for the sender's
            // handler.
            let mut no_member = None;
            let _outside = current::enter(&mut no_member, Waker::noop());
            catch::catch(make)
        };
        match made {
            Ok(message) => {
                match self.mailbox().fill(reservation, message, self.any().capture()) {
                    None => {}
                    Some((message, Some(reason))) => self.any().dead_letter_for_sender(&mut Some(message), reason),
                    Some((message, None)) => self.any().discard(&mut Some(message)),
                }
                Ok(())
            }
            Err(reason) => {
                let failure = self
                    .node()
                    .failure(0, reason)
                    .with_message(type_name::<M>())
                    .with_message_type(core::any::type_name::<M>());
                // Recorded first: once the reservation is released, the actor may end, and its
                // system with it.
                self.node().events().record_failure(&failure);
                self.any().mailbox().fail_reservation(reservation);
                Err(failure)
            }
        }
    }
}

/// One adapter in front of a target. `adapt` is present until the drop.
struct AdaptedTarget<M: Send + 'static, F> {
    target: Arc<dyn Target<M>>,
    adapt: Option<F>,
}

impl<M: Send + 'static, N, F: Fn(N) -> M + Send + Sync> Target<N> for AdaptedTarget<M, F> {
    fn cell(&self) -> &AnyCell {
        self.target.cell()
    }

    fn fill(&self, reservation: Reservation, make: &mut dyn FnMut() -> N) -> Result<(), FailureInfo> {
        let adapt = self.adapt.as_ref().expect("present until the drop");
        self.target.fill(reservation, &mut || adapt(make()))
    }
}

/// Catches a panic of the adapter's drop, because any thread may drop the last clone.
impl<M: Send + 'static, F> Drop for AdaptedTarget<M, F> {
    fn drop(&mut self) {
        let adapt = self.adapt.take();
        if let Err(reason) = catch::catch(|| drop(adapt)) {
            let node = self.target.cell().node();
            node.events().record_failure(&node.failure(0, reason));
        }
    }
}

impl<M: Send + 'static> Recipient<M> {
    /// Sends a message without waiting. See [`ActorRef::tell`].
    pub fn tell(&self, message: M) -> Result<(), SendError<M>> {
        self.push(message.into(), true)
    }

    /// Sends a message with a priority, without waiting. See [`ActorRef::tell_envelope`].
    pub fn tell_envelope(&self, envelope: PriorityEnvelope<M>) -> Result<(), SendError<M>> {
        self.push(envelope, true)
    }

    /// Sends a message if there is room. See [`ActorRef::try_send`].
    pub fn try_send(&self, message: M) -> Result<(), SendError<M>> {
        self.push(message.into(), false)
    }

    /// Sends a message and waits for room. See [`ActorRef::send`].
    pub fn send(&self, message: M) -> RecipientSend<'_, M> {
        RecipientSend::new(self, message)
    }

    /// Sends a question and waits for its answer. See [`ActorRef::ask`].
    ///
    /// # Errors
    /// If an adapter panics, the ask fails with [`AskError::Failed`](crate::AskError::Failed).
    pub fn ask<T, Q>(&self, question: Q) -> RecipientAsk<'_, M, T, Q>
    where
        T: Send + 'static,
        Q: FnOnce(Reply<T>) -> M,
    {
        RecipientAsk::new(self, question)
    }

    /// Returns an address of the same actor for messages of type `N`. Adapters form a chain: this
    /// one runs first.
    pub fn map<N: Send + 'static>(&self, adapt: impl Fn(N) -> M + Send + Sync + 'static) -> Recipient<N> {
        let target = Arc::new(AdaptedTarget { target: Arc::clone(&self.target), adapt: Some(adapt) });
        Recipient { actor: self.actor.clone(), target: unsize!(target => dyn Target<N>) }
    }

    /// Stops the actor after its current message. See [`ActorRef::stop`].
    pub fn stop(&self) {
        self.actor.stop();
    }

    /// Closes the actor's mailbox. See [`ActorRef::close`].
    pub fn close(&self) {
        self.actor.close();
    }

    /// Cancels the actor at its next await. See [`ActorRef::cancel`].
    pub fn cancel(&self, cause: impl Into<Cause>) {
        self.actor.cancel(cause);
    }

    /// Calls `f` once with the exit of the actor. See [`ActorRef::on_done`].
    pub fn on_done(&self, f: impl FnOnce(&Exit) + Send + 'static) {
        self.actor.on_done(f);
    }

    /// Waits until the actor has ended. See [`ActorRef::exited`].
    pub fn exited(&self) -> Exited {
        self.actor.exited()
    }

    /// Returns the exit of the actor, or `None` while it is alive.
    pub fn exit(&self) -> Option<Exit> {
        self.actor.exit()
    }

    /// Returns the id of the actor behind this address.
    pub fn id(&self) -> ActorId {
        self.actor.id()
    }

    /// Returns the path of the actor in the tree.
    pub fn path(&self) -> ActorPath {
        self.actor.path()
    }

    /// Returns the address of the actor without a message type.
    pub fn any(&self) -> AnyRef {
        self.actor.clone()
    }

    fn push(&self, PriorityEnvelope { message, priority }: PriorityEnvelope<M>, may_drop: bool) -> Result<(), SendError<M>> {
        match self.target.cell().reserve(priority, may_drop) {
            Ok(reservation) => {
                // A failure of the adapter is recorded; it is not the sender's error.
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
        Self { actor: actor.any(), target: unsize!(Arc::clone(actor.cell()) => dyn Target<M>) }
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
