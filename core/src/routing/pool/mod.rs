//! `Pool`: equal actors under one supervisor, reached as one.
//!
//! A pool is a supervisor node with the workers as its children, and a roster of their addresses. Sending is choosing a worker and doing
//! what the same verb of [`ActorRef`] does there; nothing stands in between, no task and no second mailbox, so conservation, order
//! and back pressure are those of the worker. `routing` chooses, `roster` is who there is, `send` and `ask` are the verbs that wait.
//!
//! ```text
//!   index:  vacant ──hire (build, resize, replace)──► worker ──restart: same address──► worker
//!              ▲                                        │ └──resize below the index──► closed, out of the roster
//!              └──a send finds that it has ended (remove_ended)┘
//!
//!   A pool that its parent restarts puts a worker into every vacant index, once those that it had are up again.
//!
//!   A permanent worker that somebody closed is away until its supervisor has restarted it: a send finds it closed (remove_ended), and a later
//!   one finds it open again (choose).
//! ```
//!
//! Invariants:
//! 1. A send that finds its worker closed takes the message back, takes the worker out of the roster and chooses anew. It gives the
//!    message back as `Closed` only when the roster is empty.
//! 2. A worker leaves the roster before it is closed, and what it had accepted by then is its own to handle.
//! 3. A key function, and the recipe of workers, are user code and run under no lock. A recipe that panics is a failure on record.

pub(crate) mod ask;
pub(crate) mod builder;
pub(crate) mod choice;
pub(crate) mod send;
pub(crate) mod worker_list;

pub use crate::routing::pool::ask::PoolAsk;
pub use crate::routing::pool::builder::{PoolBuilder, PoolError};
pub use crate::routing::pool::send::PoolSend;

use crate::actor::actor_ref::ActorRef;
use crate::actor::reply::Reply;
use crate::base::catch;
use crate::base::lock::Lock;
use crate::base::snapshot::Snapshot;
use crate::base::sync::{AtomicUsize, Ordering};
use crate::base::time::Instant;
use crate::events::cause::Exit;
use crate::events::counts::Counts;
use crate::ids::path::ActorPath;
use crate::mailbox::PriorityEnvelope;
use crate::mailbox::send_error::SendError;
use crate::routing::pool::builder::{WorkerFactory, WorkerStarter, check_size};
use crate::routing::pool::choice::{Routing, Worker};
use crate::routing::pool::worker_list::WorkerList;
use crate::scope::supervisor::Supervisor;
use crate::supervise::decide::RestartBudget;
use crate::tree::any_ref::AnyRef;
use crate::tree::member::StopMode;
use crate::tree::node::Node;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

/// Equal actors under one supervisor, with the verbs of one. A handle: clones are the same pool, and dropping it ends nothing.
///
/// Made by `pool(..)` of a system, a supervisor, a scope or an actor's context. Each message goes to one worker:
/// [in turn](PoolBuilder::round_robin) unless told otherwise, to the [least loaded](PoolBuilder::least_loaded), or
/// [by its key](PoolBuilder::by_key).
///
/// A worker that fails restarts as its supervisor says and keeps its mailbox. One that has ended for good is left out, or
/// [replaced](PoolBuilder::replace_ended).
pub struct Pool<M: Send + 'static> {
    state: Arc<PoolState<M>>,
}

struct PoolState<M: Send + 'static> {
    supervisor: Supervisor,
    /// The same, as something in the tree.
    any: AnyRef,
    factory: WorkerFactory<M>,
    /// How many workers there ever were: the name of the next. No name comes twice, since one that is closed may live on for a while.
    started: AtomicUsize,
    routing: Routing<M>,
    turns: AtomicUsize,
    workers: Snapshot<WorkerList<M>>,
    replacements: Option<ReplacementLimit>,
}

/// How often the ended are replaced, and when they were.
struct ReplacementLimit {
    replacements_max: usize,
    window: Duration,
    recent: Lock<VecDeque<Instant>>,
}

impl ReplacementLimit {
    /// Whether one more is allowed now; if so, it is counted.
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
        supervisor.any().member.node().with_supervision(|supervision| supervision.default_budget = RestartBudget::PerChild);
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

    /// Puts a message into the mailbox of the worker whose it is, without waiting. If that one is full it fails, or drops what its
    /// policy says: other workers are not tried.
    pub fn tell(&self, message: M) -> Result<(), SendError<M>> {
        self.send_with(message, |worker, message| worker.tell(message))
    }

    /// As [`tell`](Self::tell), for workers whose mailboxes have priorities.
    pub fn tell_envelope(&self, envelope: PriorityEnvelope<M>) -> Result<(), SendError<M>> {
        let PriorityEnvelope { message, priority } = envelope;
        self.send_with(message, |worker, message| worker.tell_envelope(PriorityEnvelope { message, priority }))
    }

    /// Puts a message into the mailbox of the worker whose it is, if there is room.
    pub fn try_send(&self, message: M) -> Result<(), SendError<M>> {
        self.send_with(message, |worker, message| worker.try_send(message))
    }

    /// Puts a message into the mailbox of the worker whose it is, waiting for room there. Should that worker end meanwhile, the
    /// message goes to another. Dropping the future before it is done takes the message back out.
    pub fn send(&self, message: M) -> PoolSend<'_, M> {
        PoolSend::new(self, message)
    }

    /// Asks a worker and waits for the answer: `pool.ask(Msg::Left).await?`. As [`ActorRef::ask`], and the question goes to another
    /// worker if the one whose it is has ended before it got it.
    pub fn ask<T, Q>(&self, question: Q) -> PoolAsk<'_, M, T, Q>
    where
        T: Send + 'static,
        Q: FnOnce(Reply<T>) -> M,
    {
        PoolAsk::new(self, question)
    }

    /// How many workers it is meant to have.
    pub fn size(&self) -> usize {
        self.state.workers.get().size
    }

    /// The workers that have not ended, in the order of their indices.
    pub fn workers(&self) -> Vec<ActorRef<M>> {
        self.state.workers.get().living().into_iter().map(|worker| worker.actor.clone()).collect()
    }

    /// Gives it `size` workers. More are started at once, also for those that have ended; fewer means that the ones in the last
    /// indices, which are the youngest, are closed: they handle what is in their mailboxes, and get nothing more.
    ///
    /// After an error no new worker is at work, unless the pool began to shut down meanwhile; a further call tries again.
    pub fn resize(&self, size: usize) -> Result<(), PoolError> {
        check_size(size)?;
        let redundant = self.state.workers.update(|workers| Some(workers.resized(size)));
        close(redundant);
        self.fill()
    }

    /// What became of the messages of all workers there ever were.
    pub fn counts(&self) -> Counts {
        self.node().counts_below()
    }

    /// The pool as something in the tree: to stop, close, cancel, watch or wait for. It is the supervisor of the workers.
    pub fn any(&self) -> AnyRef {
        self.state.any.clone()
    }

    /// Where it stands in the tree.
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

    /// The worker whose message this is; `None` if there is no worker left.
    fn choose(&self, message: &M) -> Option<ActorRef<M>> {
        let PoolState { workers, routing, turns, .. } = &*self.state;
        let mut now = workers.get();
        if !now.restarting.is_empty() && workers.update(WorkerList::rejoined).is_some() {
            now = workers.get();
        }
        routing.choose(&now.workers, turns, message).map(|worker| worker.actor.clone())
    }

    /// Takes a worker out that accepts nothing more, and all others that have ended, and puts others in their indices if that is wanted and
    /// allowed.
    #[cold]
    fn remove_ended(&self, actor: &ActorRef<M>) {
        // Of several that find it ended, one takes it out.
        let Some(mut vacant) = self.state.workers.update(|workers| workers.without(actor)) else { return };
        let now = || self.node().runtime().now();
        vacant.retain(|_| self.state.replacements.as_ref().is_some_and(|replacements| replacements.allow(now())));
        if !vacant.is_empty() {
            // A pool that is shutting down refuses, and a recipe that panicked is on record: the indices stay vacant.
            drop(self.start_workers(&vacant));
        }
    }

    /// A pool that its parent restarts comes back with all its workers, also if nobody holds a handle.
    fn refill_after_restarts(&self) {
        let pool = self.clone();
        let refill = Arc::new(move || {
            // A pool that is shutting down refuses, and a recipe that panicked is on record: the indices stay vacant.
            drop(pool.fill());
        });
        self.node().with_supervision(|supervision| supervision.refill = Some(refill));
        // It holds the pool, which holds the supervisor: the end of the supervisor opens that cycle.
        let supervisor = Arc::downgrade(&self.state.any.member);
        let forget = move |_: &Exit| {
            let refill = supervisor
                .upgrade()
                .map(|supervisor| supervisor.node().with_supervision(|supervision| supervision.refill.take()));
            drop(refill);
        };
        self.node().on_done(Box::new(forget));
    }

    /// Puts a worker into every index that has none.
    fn fill(&self) -> Result<(), PoolError> {
        self.start_workers(&self.state.workers.get().vacancies())
    }

    fn start_workers(&self, indices: &[usize]) -> Result<(), PoolError> {
        // All props are made before the first worker starts.
        let starters = indices.iter().map(|&index| Ok((index, self.starter(index)?))).collect::<Result<Vec<_>, PoolError>>()?;
        let mut started = Vec::with_capacity(indices.len());
        let outcome = starters.into_iter().try_for_each(|(index, start)| {
            let name = format!("{}", self.state.started.fetch_add(1, Ordering::Relaxed));
            started.push(Worker { index, actor: start(&self.state.supervisor, &name)? });
            Ok(())
        });
        // Somebody may have resized the pool meanwhile, or filled the index: then this worker is one too many.
        let redundant = self.state.workers.update(|workers| Some(workers.joined_by(&started)));
        close(redundant);
        outcome
    }

    fn starter(&self, index: usize) -> Result<WorkerStarter<M>, PoolError> {
        match catch::catch(|| (self.state.factory)(index)) {
            Ok(starter) => Ok(starter?),
            Err(reason) => {
                let failure = self.node().failure(0, reason);
                self.node().events().failure(&failure);
                Err(PoolError::Failed(failure))
            }
        }
    }
}

fn close<M: Send + 'static>(redundant: Option<Vec<Worker<M>>>) {
    // For good, as the supervisor's own word: a permanent worker would start again, with no index in the workers.
    redundant.into_iter().flatten().rev().for_each(|worker| worker.actor.any().member.stop_by(StopMode::Close));
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
