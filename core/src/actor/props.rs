//! `Props`: the recipe of an actor: how to make it, its mailbox, and what becomes of a message that failed.

use crate::actor::cell::factory::BoxTaskFactory;
use crate::actor::context::Context;
use crate::actor::spawn_started::StartNotice;
use crate::actor::stash::STASH_CAPACITY_DEFAULT;
use crate::actor::{Actor, cell};
use crate::base::lock::Lock;
use crate::base::reason::BoxError;
use crate::events::signal::Signal;
use crate::mailbox::Mailbox;
use crate::supervise::decide::RestartPolicy;
use crate::tree::cancel_grace::CancelGrace;
use crate::tree::node::Node;
use crate::tree::supervision::escalate::EscalationSink;
use crate::tree::supervision::strategy::SupervisorStrategy;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;
use core::pin::Pin;
use core::time::Duration;
use futures_core::Stream;

/// A boxed stream that can move between threads.
pub type BoxStream<T> = Pin<Box<dyn Stream<Item = T> + Send>>;

/// How to make an actor, again and again. Each incarnation gets a fresh state from the factory.
pub struct Props<A: Actor> {
    pub(crate) factory: BoxTaskFactory<A>,
    mailbox: Mailbox,
    options: Option<Arc<ActorOptions<A::Msg>>>,
    policy: RestartPolicy,
    strategy: Option<Arc<dyn SupervisorStrategy>>,
    sink: Option<Arc<dyn EscalationSink>>,
}

/// What most actors do not ask for.
pub(crate) struct ActorOptions<M> {
    pub(crate) describe: Option<Describe<M>>,
    pub(crate) copy: Option<fn(&M) -> M>,
    pub(crate) retries_max: u32,
    pub(crate) dead_letter_failed_messages: bool,
    pub(crate) stash_capacity: usize,
    pub(crate) map_system: Option<MapSystem<M>>,
    pub(crate) cancel_grace: Option<CancelGrace>,
    /// Who waits for its start.
    pub(crate) start_notice: Option<Arc<StartNotice>>,
    /// Until the actor begins. Behind the lock, because a stream need not be shared between threads.
    pub(crate) feed: Lock<Option<BoxStream<M>>>,
}

type MapSystem<M> = Box<dyn Fn(&Signal) -> Option<M> + Send + Sync>;

type Describe<M> = Box<dyn Fn(&M) -> String + Send + Sync>;

impl<A: Actor> Props<A> {
    /// An actor made by `factory`, with the default mailbox.
    pub fn new(factory: impl FnMut() -> A + Send + 'static) -> Self {
        Self {
            factory: cell::task_factory(factory),
            mailbox: Mailbox::default(),
            options: None,
            policy: RestartPolicy::default(),
            strategy: None,
            sink: None,
        }
    }

    /// An actor that is there already and cannot be made a second time, as one that owns a connection. It is never restarted: its policy is
    /// [`RestartPolicy::Temporary`], and a restart that somebody orders fails.
    ///
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
        let make = move || actor.take().expect("an actor from `Props::once` cannot start again: give `Props::new` a factory");
        Self::new(make).restart(RestartPolicy::Temporary)
    }

    /// Gives it another mailbox.
    #[must_use]
    pub fn mailbox(mut self, mailbox: Mailbox) -> Self {
        self.mailbox = mailbox;
        self
    }

    /// Feeds it from a stream or a receiver: each item is handled exactly once, and the end of the stream is a `close()`.
    #[must_use]
    pub fn fed_by(mut self, items: impl Stream<Item = A::Msg> + Send + 'static) -> Self {
        self.options().feed = Lock::new(Some(Box::pin(items)));
        self
    }

    /// Says how records word a message (its type's name otherwise). Leave out what must not be logged.
    #[must_use]
    pub fn describe(mut self, describe: impl Fn(&A::Msg) -> String + Send + Sync + 'static) -> Self {
        self.options().describe = Some(Box::new(describe));
        self
    }

    /// Lets the message in hand be handled on for `grace` after a cancel; then its handler is dropped. Without it a cancel drops the
    /// handler at its next await.
    ///
    /// The handler learns of the cancel by [`Context::token`](crate::Context::token). The exit is
    /// [`Exit::TidiedUp`](crate::Exit::TidiedUp) if the handler returned in time, or if none was at work, and
    /// [`Exit::Cancelled`](crate::Exit::Cancelled) if it was dropped. No further message is begun, and `stopped` runs in both cases.
    #[must_use]
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.options().cancel_grace = Some(CancelGrace::new(grace));
        self
    }

    /// Handles a message that failed up to `retries` times more, first thing after the supervisor's word.
    #[must_use]
    pub fn retry(mut self, retries: u32) -> Self
    where
        A::Msg: Clone,
    {
        let options = self.options();
        options.retries_max = retries;
        options.copy = Some(A::Msg::clone);
        self
    }

    /// Makes a message whose handler failed a dead letter, in place of counting it as failed.
    #[must_use]
    pub fn dead_letter_failed(mut self) -> Self
    where
        A::Msg: Clone,
    {
        let options = self.options();
        options.dead_letter_failed_messages = true;
        options.copy = Some(A::Msg::clone);
        self
    }

    /// Which ends call for another start: a failure only (transient) unless given.
    #[must_use]
    pub fn restart(mut self, policy: RestartPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Supervises the children of this actor by `strategy`, in place of the system's default.
    #[must_use]
    pub fn supervise(mut self, strategy: impl SupervisorStrategy) -> Self {
        self.strategy = Some(Arc::new(strategy));
        self
    }

    /// Gives what this actor's supervision hands up to `sink`, and what is handed up below it too, unless another is given there.
    #[must_use]
    pub fn escalate_to(mut self, sink: impl EscalationSink) -> Self {
        self.sink = Some(Arc::new(sink));
        self
    }

    /// How many messages the actor may put aside with `Context::stash`: 1,024 unless given.
    #[must_use]
    pub fn stash_capacity(mut self, capacity: usize) -> Self {
        self.options().stash_capacity = capacity;
        self
    }

    /// Makes messages of the actor's own type out of what it would hear as a [`signal`](Actor::signal): the ends of what it watches and of
    /// its children, their failures, and what was handed up from below. They come to `handle`, at the moment the signal would have come
    /// to `signal`; where `map` gives `None`, it does.
    ///
    /// Such a message is before all others, since signals are, and also comes to an actor that is suspended. It counts as accepted when it
    /// is made, takes no room in the mailbox, and is from then on like any other: handled, failed or a dead letter. A panic in `map`
    /// is a failure of the actor, as one in `signal` is.
    ///
    /// ```
    /// use pleach::{Actor, Context, FailureInfo, Props, Signal};
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
    /// let props = Props::new(|| Boss).map_system(|signal| match signal {
    ///     Signal::Failure(failure) | Signal::Escalate(failure) => Some(Msg::ChildFailed(failure.clone())),
    ///     _ => None,
    /// });
    /// # drop((props, Msg::Work(1)));
    /// ```
    #[must_use]
    pub fn map_system(mut self, map: impl Fn(&Signal) -> Option<A::Msg> + Send + Sync + 'static) -> Self {
        self.options().map_system = Some(Box::new(map));
        self
    }

    /// Tells `up` when `started` has returned.
    pub(crate) fn notify_start(mut self, notice: &Arc<StartNotice>) -> Self {
        self.options().start_notice = Some(Arc::clone(notice));
        self
    }

    fn options(&mut self) -> &mut ActorOptions<A::Msg> {
        let options = self.options.get_or_insert_with(|| {
            Arc::new(ActorOptions {
                describe: None,
                copy: None,
                retries_max: 0,
                dead_letter_failed_messages: false,
                stash_capacity: STASH_CAPACITY_DEFAULT,
                map_system: None,
                cancel_grace: None,
                start_notice: None,
                feed: Lock::new(None),
            })
        });
        Arc::get_mut(options).expect("props are not shared before they are spawned")
    }

    /// Which ends call for another start.
    pub(crate) fn policy(&self) -> RestartPolicy {
        self.policy
    }

    /// Sets up how `node` supervises its children, where the recipe says so.
    #[inline]
    pub(crate) fn apply_supervision(&self, node: &Node) {
        if self.strategy.is_some() || self.sink.is_some() {
            self.set_strategy_and_sink(node);
        }
    }

    #[cold]
    fn set_strategy_and_sink(&self, node: &Node) {
        let (strategy, sink) = (self.strategy.clone(), self.sink.clone());
        node.with_supervision(|guardian| (guardian.strategy, guardian.sink) = (strategy, sink));
    }

    pub(crate) fn mailbox_kind(&self) -> Mailbox {
        self.mailbox
    }

    pub(crate) fn shared_options(&self) -> Option<Arc<ActorOptions<A::Msg>>> {
        self.options.clone()
    }
}

impl<S, M, E, F> Props<FnActor<S, M, E, F>>
where
    S: Send + 'static,
    M: Send + 'static,
    E: Into<BoxError> + Send + 'static,
    F: FnMut(&mut S, M) -> Result<(), E> + Clone + Send + 'static,
{
    /// An actor that is a closure with a state. `state` makes the state of each incarnation.
    ///
    /// ```
    /// use pleach::{Props, BoxError};
    ///
    /// let props = Props::from_fn(|| 0u64, |total: &mut u64, n: u64| -> Result<(), BoxError> {
    ///     *total += n;
    ///     Ok(())
    /// });
    /// # drop(props);
    /// ```
    ///
    /// Such an actor changes its behaviour with its state, and is at the first one again after a restart. The state may be the behaviour:
    ///
    /// ```
    /// use pleach::{Props, BoxError};
    ///
    /// struct Light(fn(&mut Light));
    ///
    /// fn red(light: &mut Light) { light.0 = green }
    /// fn green(light: &mut Light) { light.0 = red }
    ///
    /// let props = Props::from_fn(|| Light(red), |light, (): ()| -> Result<(), BoxError> {
    ///     (light.0)(light);
    ///     Ok(())
    /// });
    /// # drop(props);
    /// ```
    pub fn from_fn(mut state: impl FnMut() -> S + Send + 'static, handle: F) -> Self {
        Self::new(move || FnActor { state: state(), handle: handle.clone(), types: PhantomData })
    }
}

impl<S, M, E> Props<StateFn<S, M, E>>
where
    S: Send + 'static,
    M: Send + 'static,
    E: Into<BoxError> + Send + 'static,
{
    /// As [`from_fn`](Props::from_fn), with the actor's context: for timers, children, or to stop itself.
    ///
    /// ```
    /// use pleach::{Props, BoxError};
    ///
    /// let props = Props::from_fn_with(|| 3u32, |left: &mut u32, (): (), cx| -> Result<(), BoxError> {
    ///     *left -= 1;
    ///     if *left == 0 {
    ///         cx.stop();
    ///     }
    ///     Ok(())
    /// });
    /// # drop(props);
    /// ```
    pub fn from_fn_with<F>(mut state: impl FnMut() -> S + Send + 'static, handle: F) -> Self
    where
        F: Fn(&mut S, M, &mut Context<StateFn<S, M, E>>) -> Result<(), E> + Send + Sync + 'static,
    {
        let handle: Arc<HandleWith<S, M, E>> = Arc::new(handle);
        Self::new(move || StateFn { state: state(), handle: Arc::clone(&handle) })
    }
}

type HandleWith<S, M, E> = dyn Fn(&mut S, M, &mut Context<StateFn<S, M, E>>) -> Result<(), E> + Send + Sync;

/// An actor made of a state and a closure that is given the context; from [`Props::from_fn_with`].
pub struct StateFn<S: Send + 'static, M: Send + 'static, E: Into<BoxError> + Send + 'static> {
    state: S,
    handle: Arc<HandleWith<S, M, E>>,
}

impl<S, M, E> Actor for StateFn<S, M, E>
where
    S: Send + 'static,
    M: Send + 'static,
    E: Into<BoxError> + Send + 'static,
{
    type Msg = M;
    type Error = E;

    async fn handle(&mut self, msg: M, cx: &mut Context<Self>) -> Result<(), E> {
        (self.handle)(&mut self.state, msg, cx)
    }
}

/// An actor made of a state and a closure; from [`Props::from_fn`].
pub struct FnActor<S, M, E, F> {
    state: S,
    handle: F,
    types: PhantomData<fn(M) -> E>,
}

impl<S, M, E, F> Actor for FnActor<S, M, E, F>
where
    S: Send + 'static,
    M: Send + 'static,
    E: Into<BoxError> + Send + 'static,
    F: FnMut(&mut S, M) -> Result<(), E> + Send + 'static,
{
    type Msg = M;
    type Error = E;

    async fn handle(&mut self, msg: M, _cx: &mut Context<Self>) -> Result<(), E> {
        (self.handle)(&mut self.state, msg)
    }
}

impl<A: Actor> fmt::Debug for Props<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Props").field("actor", &core::any::type_name::<A>()).field("mailbox", &self.mailbox).finish()
    }
}
