//! [`Props`]: the recipe for an actor: its factory and its options.

use crate::actor::cell::factory::BoxTaskFactory;
use crate::actor::cell::feed_and_copy::{AnyFeedAndCopy, FeedAndCopy};
use crate::actor::reserve::AskReserve;
use crate::actor::spawn_started::StartNotice;
use crate::actor::stash::STASH_CAPACITY_DEFAULT;
use crate::actor::{Actor, cell};
use crate::base::lock::Lock;
use crate::base::sync::{Arc, unsize};
use crate::events::signal::Signal;
use crate::mailbox::Mailbox;
use crate::mailbox::slot::{self, Slot};
use crate::supervise::decide::RestartPolicy;
use crate::tree::cancel_grace::CancelGrace;
use crate::tree::node::Node;
use crate::tree::supervision::sink::EscalationSink;
use crate::tree::supervision::strategy::SupervisorStrategy;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::pin::Pin;
use core::time::Duration;
use futures_core::Stream;

/// A boxed stream that is `Send`.
pub type BoxStream<T> = Pin<Box<dyn Stream<Item = T> + Send>>;

/// The recipe for an actor: its factory and its options.
///
/// The factory makes a fresh state for each incarnation. Only the factory is required; each option
/// has a default:
///
/// | option | default |
/// |---|---|
/// | [`mailbox`](Self::mailbox) | bounded, 1,024 messages |
/// | [`restart`](Self::restart) | [`RestartPolicy::Transient`]: restart after a failure |
/// | [`retry`](Self::retry) | no retry of a failed message |
/// | [`stash_capacity`](Self::stash_capacity) | 1,024 messages |
/// | [`supervise`](Self::supervise), [`escalate_to`](Self::escalate_to) | as set for the system |
/// | [`reserve_timers`](Self::reserve_timers) | 0; only for a sealed system |
/// | [`reserve_asks`](Self::reserve_asks) | 0; only for a sealed system |
/// | [`cancel_grace`](Self::cancel_grace) | none: a cancel drops the handler at its next await |
///
/// # Examples
/// ```
/// use pleach::BoxError;
/// use pleach::prelude::*;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), pleach::Error> {
/// let system = ActorSystem::new("app")?;
/// let props = Props::from_fn(|| 0, |sum: &mut u32, n: u32| {
///     *sum += n;
///     Ok::<(), BoxError>(())
/// })
/// .mailbox(Mailbox::bounded(64))
/// .retry(2);
/// let sum = system.spawn("sum", props)?;
/// sum.tell(1)?;
/// # system.shutdown(Duration::from_secs(5)).await?;
/// # Ok(())
/// # }
/// ```
pub struct Props<A: Actor> {
    pub(crate) factory: BoxTaskFactory<A>,
    pub(crate) settings: Settings,
}

/// What props set besides the factory. It does not depend on the actor's type.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) mailbox: Mailbox,
    pub(crate) options: Option<Arc<ActorOptions>>,
    pub(crate) policy: RestartPolicy,
    pub(crate) strategy: Option<Arc<dyn SupervisorStrategy>>,
    pub(crate) sink: Option<Arc<dyn EscalationSink>>,
}

/// Options that most actors do not set.
pub(crate) struct ActorOptions {
    pub(crate) retries_max: u32,
    pub(crate) dead_letter_failed_messages: bool,
    pub(crate) stash_capacity: usize,
    /// The name of this kind of actor in metrics and spans.
    pub(crate) label: Option<&'static str>,
    instrumented: bool,
    /// Whether each message is described or copied before it is handled.
    notes_messages: bool,
    pub(crate) cancel_grace: Option<CancelGrace>,
    /// Notified when `started` has returned.
    pub(crate) start_notice: Option<Arc<StartNotice>>,
    /// The options that depend on the message type, if any is set.
    pub(crate) for_messages: Option<Box<dyn AnyMessageOptions>>,
    /// How many timers, and which asks, a sealed system has room for.
    pub(crate) timers_reserved: usize,
    pub(crate) asks_reserved: Vec<AskReserve>,
}

/// Options that depend on the message type.
struct MessageOptions<M> {
    describe: Option<Describe<M>>,
    /// Copies a message before it is handled, for a retry or a dead letter.
    copy: Option<fn(&M) -> M>,
    map_signals: Option<MapSignals<M>>,
    /// Taken when the actor's task is created. Behind a lock, because a stream need not be `Sync`.
    feed: Lock<Option<BoxStream<M>>>,
}

/// [`MessageOptions`] without their message type. So they are compiled only for actors that have
/// any.
pub(crate) trait AnyMessageOptions: Send + Sync {
    fn as_any_mut(&mut self) -> &mut dyn Any;
    /// Describes a message with [`Props::describe`], if that is set. This is user code.
    fn describe(&self, message: &dyn Any) -> Option<String>;
    /// Converts a signal to a message in `slot`, with [`Props::map_signals`]. This is user code.
    fn map_signal(&self, signal: &Signal, slot: &mut dyn Slot);
    /// Takes the feed, and what copies messages. `None` if neither is set.
    fn begin_feed_and_copy(&self) -> Option<Box<dyn AnyFeedAndCopy>>;
}

impl<M: Send + 'static> AnyMessageOptions for MessageOptions<M> {
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn describe(&self, message: &dyn Any) -> Option<String> {
        Some(self.describe.as_ref()?(message.downcast_ref()?))
    }

    fn map_signal(&self, signal: &Signal, slot: &mut dyn Slot) {
        if let (Some(map), Some(slot)) = (&self.map_signals, slot::typed(slot)) {
            *slot = map(signal);
        }
    }

    fn begin_feed_and_copy(&self) -> Option<Box<dyn AnyFeedAndCopy>> {
        let feed = self.feed.with(Option::take);
        (feed.is_some() || self.copy.is_some()).then(|| Box::new(FeedAndCopy::new(feed, self.copy)) as Box<dyn AnyFeedAndCopy>)
    }
}

impl ActorOptions {
    /// Set in [`bits`](Self::bits) if each message is described or copied before it is handled.
    pub(crate) const NOTES_MESSAGES: u8 = 2;

    /// Returns what the cell keeps of the options beside its lock: not 0, and whether each message
    /// needs them.
    pub(crate) fn bits(&self) -> u8 {
        if self.notes_messages { 1 | Self::NOTES_MESSAGES } else { 1 }
    }
}

type MapSignals<M> = Box<dyn Fn(&Signal) -> Option<M> + Send + Sync>;

type Describe<M> = Box<dyn Fn(&M) -> String + Send + Sync>;

impl<A: Actor> Props<A> {
    /// Creates props from a factory, with default options. The factory is called for each
    /// incarnation.
    pub fn new(factory: impl FnMut() -> A + Send + 'static) -> Self {
        Self { factory: cell::task_factory(factory), settings: Settings::default() }
    }

    /// Creates props for an actor that exists already and cannot be made again, such as the owner
    /// of a connection.
    ///
    /// It is never restarted: its policy is [`RestartPolicy::Temporary`]. A restart that is ordered
    /// explicitly fails.
    ///
    /// # Examples
    /// ```
    /// use pleach::{Actor, BoxError, Context, Props};
    ///
    /// struct Connection { socket: std::net::TcpStream }
    ///
    /// impl Actor for Connection {
    ///     type Msg = Vec<u8>;
    ///     type Error = BoxError;
    ///
    ///     async fn handle(&mut self, bytes: Vec<u8>, _cx: &mut Context<Self>) -> Result<(), BoxError> {
    ///         std::io::Write::write_all(&mut self.socket, &bytes)?;
    ///         Ok(())
    ///     }
    /// }
    ///
    /// fn props(socket: std::net::TcpStream) -> Props<Connection> {
    ///     Props::once(Connection { socket })
    /// }
    /// # let _ = props;
    /// ```
    pub fn once(actor: A) -> Self {
        let mut actor = Some(actor);
        let make =
            move || actor.take().expect("an actor from `Props::once` cannot be restarted: use `Props::new` with a factory");
        Self::new(make).restart(RestartPolicy::Temporary)
    }

    /// Sets the kind of mailbox. Default: [`Mailbox::bounded(1024)`](Mailbox::bounded).
    #[must_use]
    pub fn mailbox(mut self, mailbox: Mailbox) -> Self {
        self.settings.mailbox = mailbox;
        self
    }

    /// Feeds the actor from a stream or a receiver, in addition to its mailbox.
    ///
    /// Each item is handled exactly once. The end of the stream closes the actor, as
    /// [`ActorRef::close`](crate::ActorRef::close) does. The mailbox is served first.
    #[must_use]
    pub fn with_stream(mut self, items: impl Stream<Item = A::Msg> + Send + 'static) -> Self {
        self.message_options().feed = Lock::new(Some(Box::pin(items)));
        self
    }

    /// Sets how failures and dead letters describe a message. Default: the name of its type.
    ///
    /// Leave out data that must not be logged. If `describe` panics, the name of the type is used.
    #[must_use]
    pub fn describe(mut self, describe: impl Fn(&A::Msg) -> String + Send + Sync + 'static) -> Self {
        self.settings.options().notes_messages = true;
        self.message_options().describe = Some(Box::new(describe));
        self
    }

    /// Lets the current handler continue for `grace` after a cancel; then its future is dropped.
    /// Default: none, so a cancel drops it at its next await.
    ///
    /// The handler can notice the cancel through [`Context::token`](crate::Context::token). The
    /// exit is [`Exit::TidiedUp`](crate::Exit::TidiedUp) if the handler returned in time or none
    /// was running, and [`Exit::Cancelled`](crate::Exit::Cancelled) if it was dropped. No further
    /// message is started, and `stopped` runs in both cases.
    #[must_use]
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.settings.options().cancel_grace = Some(CancelGrace::new(grace));
        self
    }

    /// Retries a message whose handler failed, up to `retries` times. Default: 0.
    ///
    /// The retry is the first message after the supervisor's decision. Each message is cloned
    /// before it is handled.
    #[must_use]
    pub fn retry(mut self, retries: u32) -> Self
    where
        A::Msg: Clone,
    {
        self.settings.options().retries_max = retries;
        self.settings.options().notes_messages = true;
        self.message_options().copy = Some(A::Msg::clone);
        self
    }

    /// Makes a message whose handler failed a dead letter. Default: it is counted as failed.
    ///
    /// Each message is cloned before it is handled.
    #[must_use]
    pub fn dead_letter_failed(mut self) -> Self
    where
        A::Msg: Clone,
    {
        self.settings.options().dead_letter_failed_messages = true;
        self.settings.options().notes_messages = true;
        self.message_options().copy = Some(A::Msg::clone);
        self
    }

    /// Sets which exits lead to a restart. Default: [`RestartPolicy::Transient`], only a failure.
    #[must_use]
    pub fn restart(mut self, policy: RestartPolicy) -> Self {
        self.settings.policy = policy;
        self
    }

    /// Sets the strategy that supervises the children of this actor. Default: the strategy of the
    /// system.
    #[must_use]
    pub fn supervise(mut self, strategy: impl SupervisorStrategy) -> Self {
        self.settings.strategy = Some(unsize!(Arc::new(strategy) => dyn SupervisorStrategy));
        self
    }

    /// Sets the sink for failures that this actor's supervision escalates. Default: none
    /// here; a sink further up applies.
    ///
    /// The sink also receives failures escalated further down, unless another sink is set there.
    #[must_use]
    pub fn escalate_to(mut self, sink: impl EscalationSink) -> Self {
        self.settings.sink = Some(unsize!(Arc::new(sink) => dyn EscalationSink));
        self
    }

    /// Names this kind of actor in metrics and spans. Default: the name of its message type.
    ///
    /// Use the same label for all actors of one kind, and few labels: each is one time series.
    #[must_use]
    pub fn label(mut self, label: &'static str) -> Self {
        self.settings.options().label = Some(label);
        self
    }

    /// Runs the [instrument](crate::SystemBuilder::instrument) of the system around each message of
    /// this actor. Default: only if all actors of the system are instrumented.
    ///
    /// Its messages then take a slower path: a few hundred nanoseconds each.
    #[must_use]
    pub fn instrumented(mut self) -> Self {
        self.settings.options().instrumented = true;
        self
    }

    /// Sets how many messages the actor can stash. Default: 1,024.
    ///
    /// See [`Context::stash`](crate::Context::stash).
    #[must_use]
    pub fn stash_capacity(mut self, capacity: usize) -> Self {
        self.settings.options().stash_capacity = capacity;
        self
    }

    /// Converts signals into messages of the actor's own type.
    ///
    /// Signals are exits of watched actors and of children, failures of children, and failures that
    /// were escalated from below. A converted signal is handled by `handle`, when `signal` would
    /// have been called. If `map` returns `None`, `signal` is called.
    ///
    /// Such a message is handled before all queued ones, as signals are, and also by a suspended
    /// actor. It counts as accepted when it is made, and uses no mailbox capacity. A panic in `map`
    /// is a failure of the actor, as one in `signal` is.
    ///
    /// # Examples
    /// ```
    /// use pleach::{Actor, Context, FailureInfo, Props};
    /// use pleach::actor::Signal;
    ///
    /// enum Msg { Work(u32), ChildFailed(FailureInfo) }
    ///
    /// struct Boss;
    ///
    /// impl Actor for Boss {
    ///     type Msg = Msg;
    ///     type Error = core::convert::Infallible;
    ///
    ///     async fn handle(&mut self, msg: Msg, _cx: &mut Context<Self>) -> Result<(), Self::Error> {
    ///         match msg {
    ///             Msg::Work(_) => {}
    ///             Msg::ChildFailed(failure) => assert!(failure.incarnation() < 3),
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let props = Props::new(|| Boss).map_signals(|signal| match signal {
    ///     Signal::Failure(failure) | Signal::Escalate(failure) => Some(Msg::ChildFailed(failure.clone())),
    ///     _ => None,
    /// });
    /// # drop((props, Msg::Work(1)));
    /// ```
    #[must_use]
    pub fn map_signals(mut self, map: impl Fn(&Signal) -> Option<A::Msg> + Send + Sync + 'static) -> Self {
        self.message_options().map_signals = Some(Box::new(map));
        self
    }

    /// Sets the notice that is notified when `started` has returned.
    pub(crate) fn notify_start(mut self, notice: &Arc<StartNotice>) -> Self {
        self.settings.options().start_notice = Some(Arc::clone(notice));
        self
    }

    fn message_options(&mut self) -> &mut MessageOptions<A::Msg> {
        let options = self.settings.options().for_messages.get_or_insert_with(|| {
            Box::new(MessageOptions::<A::Msg> { describe: None, copy: None, map_signals: None, feed: Lock::new(None) })
        });
        options.as_any_mut().downcast_mut().expect("the options are of the actor's message type")
    }
}

impl Settings {
    pub(crate) fn options(&mut self) -> &mut ActorOptions {
        let options = self.options.get_or_insert_with(|| {
            Arc::new(ActorOptions {
                retries_max: 0,
                dead_letter_failed_messages: false,
                stash_capacity: STASH_CAPACITY_DEFAULT,
                label: None,
                instrumented: false,
                notes_messages: false,
                cancel_grace: None,
                start_notice: None,
                for_messages: None,
                timers_reserved: 0,
                asks_reserved: Vec::new(),
            })
        });
        Arc::get_mut(options).expect("options are shared only once the actor is spawned")
    }

    /// Sets strategy and sink of `node`, if these props have them.
    #[inline]
    pub(crate) fn apply_supervision(&self, node: &Node) {
        if self.strategy.is_some() || self.sink.is_some() {
            self.set_strategy_and_sink(node);
        }
    }

    #[cold]
    fn set_strategy_and_sink(&self, node: &Node) {
        let (strategy, sink) = (self.strategy.clone(), self.sink.clone());
        node.with_supervision(|supervision| (supervision.strategy, supervision.sink) = (strategy, sink));
    }

    pub(crate) fn is_instrumented(&self) -> bool {
        self.options.as_ref().is_some_and(|options| options.instrumented)
    }
}

impl<A: Actor> fmt::Debug for Props<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Props").field("actor", &core::any::type_name::<A>()).field("mailbox", &self.settings.mailbox).finish()
    }
}
