//! `Pool`: several equal actors behind one address.
//!
//! A pool is a supervisor with the workers as its children, and a list of their addresses. A send
//! chooses a worker and calls the same method of its [`ActorRef`]. No task and no second mailbox is
//! involved, so counts, order and back pressure are those of the worker.
//!
//! | module | owns |
//! |---|---|
//! | `choice` | which worker gets a message |
//! | `worker_list` | which workers exist; pure |
//! | `send`, `ask` | the future of `send`; how a question reaches a worker |
//! | `builder` | options and errors |
//!
//! States of one index of the pool:
//!
//! ```text
//!             start_workers                       restart: same address
//!   vacant ──────────────────► worker, in list ◄─────────────────────────┐
//!     ▲                          │  │  │                                 │
//!     │ remove_ended: it ended   │  │  └─ remove_ended: permanent, ──► restarting
//!     └──────────────────────────┘  │     closed by another              (rejoined by `choose`)
//!                                   └─ resize to fewer workers ──► closed, removed
//! ```
//!
//! A pool that its parent restarts starts a worker for every vacant index, after its former workers
//! have restarted.
//!
//! Invariants:
//! 1. A send that finds its worker closed takes the message back, removes the worker from the list
//!    and chooses again. It returns `Closed` only if the list is empty.
//! 2. A worker is removed from the list before it is closed, and still processes what it has
//!    accepted.
//! 3. Key functions and the closure for props are user code and run under no lock. A panic in that
//!    closure is reported as a failure.

mod ask;
pub(crate) mod builder;
pub(crate) mod choice;
pub(crate) mod send;
pub(crate) mod worker_list;

use crate::actor::actor_ref::ActorRef;
use crate::actor::recipient::ask::RecipientAsk;
use crate::actor::reply::Reply;
use crate::base::catch;
use crate::base::lock::Lock;
use crate::base::snapshot::Snapshot;
use crate::base::sync::{Arc, AtomicUsize, Ordering, unsize};
use crate::base::time::Instant;
use crate::events::cause::Exit;
use crate::events::counts::Counts;
use crate::ids::path::ActorPath;
use crate::mailbox::PriorityEnvelope;
use crate::mailbox::send_error::SendError;
use crate::routing::pool::builder::{PoolBuilder, PoolError, WorkerFactory, WorkerStarter, check_size};
use crate::routing::pool::choice::{Routing, Worker};
use crate::routing::pool::send::PoolSend;
use crate::routing::pool::worker_list::WorkerList;
use crate::scope::supervisor::Supervisor;
use crate::supervise::decide::RestartLimitScope;
use crate::tree::any_ref::AnyRef;
use crate::tree::member::StopMode;
use crate::tree::node::Node;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

/// Several equal actors behind one address. Clones refer to the same pool; dropping it has no
/// effect.
///
/// Created by `pool(..)` of a system, a supervisor, a scope or an actor's context. Each message
/// goes to one worker: [in turn](PoolBuilder::round_robin) by default, to the [least
/// loaded](PoolBuilder::least_loaded), or [by its key](PoolBuilder::by_key).
///
/// A failed worker is restarted by its supervisor and keeps its mailbox. A worker that has ended
/// permanently is skipped, or [replaced](PoolBuilder::replace_ended).
///
/// ```
/// use pleach::{BoxError, CancelToken, Props, Scope};
/// use pleach::runtime::Dispatcher;
///
/// let sim = Dispatcher::seeded(1);
/// let scope = Scope::under(&CancelToken::root(sim.runtime()));
/// let pool = scope
///     .pool("resize", 4, |_index| Props::from_fn(|| 0, |done: &mut u32, _picture: String| {
///         *done += 1;
///         Ok::<(), BoxError>(())
///     }))
///     .build()?;
/// for n in 0..8 {
///     pool.tell(format!("{n}.png")).unwrap();
/// }
/// pool.any().close();
/// sim.simulate(pool.any().exited()).unwrap();
/// assert_eq!(pool.counts().handled, 8);
/// # Ok::<(), pleach::routing::PoolError>(())
/// ```
pub struct Pool<M: Send + 'static> {
    state: Arc<PoolState<M>>,
}

struct PoolState<M: Send + 'static> {
    supervisor: Supervisor,
    /// The supervisor as an untyped reference.
    any: AnyRef,
    factory: WorkerFactory<M>,
    /// The number of workers ever started, which is the name of the next one. Names are not reused,
    /// because a closed worker may still run for a while.
    started: AtomicUsize,
    routing: Routing<M>,
    turns: AtomicUsize,
    workers: Snapshot<WorkerList<M>>,
    replacements: Option<ReplacementLimit>,
}

/// How many ended workers may be replaced within a time window.
struct ReplacementLimit {
    replacements_max: usize,
    window: Duration,
    recent: Lock<VecDeque<Instant>>,
}

impl ReplacementLimit {
    /// Returns whether one more replacement is allowed now, and counts it.
    fn allow(&self, now: Instant) -> bool {
        self.recent.with(|recent| {
            while recent.front().is_some_and(|at| now.since(*at) > self.window) {
                recent.pop_front();
            }
            let allowed = recent.len() < self.replacements_max;
            if allowed {
                recent.push_back(now);
            }
            allowed
        })
    }
}

impl<M: Send + 'static> Pool<M> {
    fn start(builder: PoolBuilder<M>) -> Result<Self, PoolError> {
        let PoolBuilder { parent, name, size, factory, routing, strategy, replacements } = builder;
        check_size(size)?;
        let supervisor = Supervisor::with(&parent, &name, strategy)?;
        supervisor.any().member.node().with_supervision(|supervision| {
            supervision.default_limit_scope = RestartLimitScope::PerChild;
            supervision.pool_size = Some(size);
        });
        let state = PoolState {
            any: supervisor.any(),
            supervisor,
            factory,
            started: AtomicUsize::new(0),
            routing,
            turns: AtomicUsize::new(0),
            workers: Snapshot::new(WorkerList::vacant(size)),
            replacements: replacements.map(|(max, window)| ReplacementLimit {
                replacements_max: max as usize,
                window,
                recent: Lock::new(VecDeque::new()),
            }),
        };
        let pool = Self { state: Arc::new(state) };
        match pool.fill() {
            Ok(()) => {
                pool.refill_after_restarts();
                Ok(pool)
            }
            Err(why) => {
                pool.any().stop();
                Err(why)
            }
        }
    }

    /// Sends a message to its worker without waiting.
    ///
    /// If the mailbox of that worker is full, its overflow rule applies. Other workers are not
    /// tried.
    ///
    /// # Errors
    /// Returns the message in [`SendError`] if the mailbox rejects it, or if no worker is left.
    pub fn tell(&self, message: M) -> Result<(), SendError<M>> {
        self.send_with(message, |worker, message| worker.tell(message))
    }

    /// Sends a message with a priority, for workers with priority mailboxes. Otherwise like
    /// [`tell`](Self::tell).
    pub fn tell_envelope(&self, envelope: PriorityEnvelope<M>) -> Result<(), SendError<M>> {
        let PriorityEnvelope { message, priority } = envelope;
        self.send_with(message, |worker, message| worker.tell_envelope(PriorityEnvelope { message, priority }))
    }

    /// Sends a message to its worker if the mailbox has room.
    ///
    /// # Errors
    /// Returns the message in [`SendError`] if the mailbox is full, or if no worker is left.
    pub fn try_send(&self, message: M) -> Result<(), SendError<M>> {
        self.send_with(message, |worker, message| worker.try_send(message))
    }

    /// Sends a message to its worker, and waits for room in the mailbox.
    ///
    /// If that worker ends meanwhile, the message goes to another one. Dropping the future before
    /// it is ready withdraws the message.
    pub fn send(&self, message: M) -> PoolSend<'_, M> {
        PoolSend::new(self, message)
    }

    /// Asks a worker and waits for the reply: `pool.ask(Msg::Left).await?`.
    ///
    /// Works like [`ActorRef::ask`]. If the chosen worker ends before it receives the question,
    /// another worker is asked.
    pub fn ask<T, Q>(&self, question: Q) -> RecipientAsk<'_, M, T, Q>
    where
        T: Send + 'static,
        Q: FnOnce(Reply<T>) -> M,
    {
        RecipientAsk::new(self, question)
    }

    /// Returns the configured number of workers.
    pub fn size(&self) -> usize {
        self.state.workers.get().size
    }

    /// Returns the live workers, in the order of their indices.
    pub fn workers(&self) -> Vec<ActorRef<M>> {
        self.state.workers.get().living().into_iter().map(|worker| worker.actor.clone()).collect()
    }

    /// Changes the number of workers.
    ///
    /// With more, new workers start at once, also for ended ones. With fewer, the workers with the
    /// highest indices are closed: they process their queued messages and receive no more.
    ///
    /// # Errors
    /// - [`PoolError::ZeroWorkers`], [`PoolError::TooMany`]: invalid size. Nothing changes.
    /// - [`PoolError::Failed`]: the closure for props panicked. No new worker starts.
    /// - [`PoolError::Refused`]: a worker was not started, for example because the pool is
    ///   stopping.
    ///
    /// A further call tries again.
    pub fn resize(&self, size: usize) -> Result<(), PoolError> {
        check_size(size)?;
        self.node().with_supervision(|supervision| supervision.pool_size = Some(size));
        let redundant = self.state.workers.update(|workers| Some(workers.resized(size)));
        close(redundant);
        self.fill()
    }

    /// Returns the message counts of all workers that ever ran in this pool.
    pub fn counts(&self) -> Counts {
        self.node().counts_below()
    }

    /// Returns an untyped reference to the supervisor of the workers, to stop, close, cancel, watch
    /// or wait for the pool.
    pub fn any(&self) -> AnyRef {
        self.state.any.clone()
    }

    /// Returns the path of the pool in the tree.
    pub fn path(&self) -> ActorPath {
        self.node().path()
    }

    fn node(&self) -> &Node {
        self.state.any.member.node()
    }

    fn send_with(
        &self,
        mut message: M,
        verb: impl Fn(&ActorRef<M>, M) -> Result<(), SendError<M>>,
    ) -> Result<(), SendError<M>> {
        loop {
            let Some(worker) = self.choose(&message) else { return Err(SendError::Closed(message)) };
            match verb(&worker, message) {
                Err(SendError::Closed(back)) => message = back,
                sent => return sent,
            }
            self.remove_ended(&worker);
        }
    }

    /// Returns the worker for this message, or `None` if no worker is left.
    fn choose(&self, message: &M) -> Option<ActorRef<M>> {
        let PoolState { workers, routing, turns, .. } = &*self.state;
        let mut now = workers.get();
        if !now.restarting.is_empty() && workers.update(WorkerList::rejoined).is_some() {
            now = workers.get();
        }
        routing.choose(&now.workers, turns, message).map(|worker| worker.actor.clone())
    }

    /// Removes a worker that accepts no more messages, and all other ended workers. Replaces them
    /// as far as that is configured and allowed.
    #[cold]
    fn remove_ended(&self, actor: &ActorRef<M>) {
        // Several senders may find the same worker ended. Only one of them removes it.
        let Some(mut vacant) = self.state.workers.update(|workers| workers.without(actor)) else { return };
        let now = || self.node().runtime().now();
        vacant.retain(|_| self.state.replacements.as_ref().is_some_and(|replacements| replacements.allow(now())));
        if !vacant.is_empty() {
            // On an error the indices stay vacant: the pool is stopping, or the panic was reported.
            drop(self.start_workers(&vacant));
        }
    }

    /// Makes the supervisor start missing workers after a restart, even if no handle of the pool is
    /// left.
    fn refill_after_restarts(&self) {
        let pool = self.clone();
        let refill = Arc::new(move || {
            // On an error the indices stay vacant: the pool is stopping, or the panic was reported.
            drop(pool.fill());
        });
        self.node().with_supervision(|supervision| supervision.refill = Some(unsize!(refill => dyn Fn() + Send + Sync)));
        // The closure holds the pool, which holds the supervisor. This callback breaks the cycle.
        let supervisor = Arc::downgrade(&self.state.any.member);
        let forget = move |_: &Exit| {
            let refill = supervisor
                .upgrade()
                .map(|supervisor| supervisor.node().with_supervision(|supervision| supervision.refill.take()));
            drop(refill);
        };
        self.node().on_done(Box::new(forget));
    }

    /// Starts a worker for every vacant index.
    fn fill(&self) -> Result<(), PoolError> {
        self.start_workers(&self.state.workers.get().vacancies())
    }

    fn start_workers(&self, indices: &[usize]) -> Result<(), PoolError> {
        // Create all props before the first worker starts.
        let starters = indices.iter().map(|&index| Ok((index, self.starter(index)?))).collect::<Result<Vec<_>, PoolError>>()?;
        let mut started = Vec::with_capacity(indices.len());
        let outcome = starters.into_iter().try_for_each(|(index, start)| {
            let name = format!("{}", self.state.started.fetch_add(1, Ordering::Relaxed));
            started.push(Worker { index, actor: start(&self.state.supervisor, &name)? });
            Ok(())
        });
        // The pool may have been resized, or the index filled, meanwhile. Such workers are
        // redundant.
        let redundant = self.state.workers.update(|workers| Some(workers.joined_by(&started)));
        close(redundant);
        outcome
    }

    fn starter(&self, index: usize) -> Result<WorkerStarter<M>, PoolError> {
        match catch::catch(|| (self.state.factory)(index)) {
            Ok(starter) => Ok(starter?),
            Err(reason) => {
                let failure = self.node().failure(0, reason);
                self.node().events().record_failure(&failure);
                Err(PoolError::Failed(failure))
            }
        }
    }
}

fn close<M: Send + 'static>(redundant: Option<Vec<Worker<M>>>) {
    // Through the member, which is permanent: a permanent worker closed through its address would
    // restart, without an entry in the list.
    redundant.into_iter().flatten().rev().for_each(|worker| {
        let member = &worker.actor.any().member;
        member.stop_with(member, StopMode::Close);
    });
}

impl<M: Send + 'static> Clone for Pool<M> {
    fn clone(&self) -> Self {
        Self { state: Arc::clone(&self.state) }
    }
}

impl<M: Send + 'static> fmt::Debug for Pool<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} {:?} of {})", self.path(), self.state.routing, self.size())
    }
}
