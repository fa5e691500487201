//! Models: every order in which a few threads can go through the code that synchronises them, tried by loom.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p pleach-core --lib --release loom_`. A model is a closure that loom runs once for each
//! order; the lock and the atomics of `sync` and `lock` are loom's then, and a load may give any value the memory model allows. A
//! lost wake-up shows as a deadlock, which loom reports.
//!
//! By default an order has at most [`PREEMPTIONS_MAX`] switches away from a thread that could have gone on: nearly every known bug needs
//! no more, and the whole set stays within two minutes. `LOOM_MAX_PREEMPTIONS` sets another bound for a longer campaign. With
//! `--nocapture` a model says how many orders it tried.
//!
//! What is read only after the threads have ended ([`Times`]) is a type of `std`: loom does not see it, so it adds no order to try. What
//! one thread does and another looks at meanwhile ([`Mark`]) loom must see, or it takes orders for the same that are not. Asserts stand
//! outside futures and callbacks that the tree runs, because it would catch their panics.

pub(crate) mod actor;
pub(crate) mod cancel;
pub(crate) mod dispatcher;
pub(crate) mod exit;
pub(crate) mod group;
pub(crate) mod hub;
pub(crate) mod mailbox;
pub(crate) mod reply;
pub(crate) mod reserve;
pub(crate) mod scope;
pub(crate) mod sending;
pub(crate) mod supervision;

use crate::actor::cell::Cell;
use crate::base::runtime::{BoxFuture, Runtime};
use crate::base::time::Instant;
use crate::ids::name::Name;
use crate::mailbox::queue::{MessageQueue, Refill};
use crate::mailbox::{Mailbox, control};
use crate::tree::Tree;
use crate::tree::node::{Node, NodeParent};
use crate::tree::token::CancelToken;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bound on preemptions when `LOOM_MAX_PREEMPTIONS` gives none.
const PREEMPTIONS_MAX: usize = 3;

/// Runs `model` in every order within the bound.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(PREEMPTIONS_MAX));
    builder.max_branches = builder.max_branches.max(10_000);
    let orders = Times::default();
    let tried = orders.clone();
    builder.check(move || {
        tried.add();
        model();
    });
    std::println!("{} orders", orders.get());
}

/// Where a thread of a model sleeps. Being woken is seen by loom; so is one wake-up for no reason, which a future must bear.
struct Bed(loom::sync::Notify);

impl Wake for Bed {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
}

/// Polls `future` to its end, asleep in between. Nobody left to wake it is a deadlock, and the model fails.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let bed = Arc::new(Bed(loom::sync::Notify::new()));
    let waker = Waker::from(Arc::clone(&bed));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        bed.0.wait();
    }
}

/// Polls `future` once, with a waker that does nothing.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    core::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A runtime that runs nothing by itself: a thread of the model runs what was spawned, when the model says so. Its clock stands still.
#[derive(Default)]
struct ByHand {
    spawned: Mutex<VecDeque<BoxFuture<'static, ()>>>,
}

impl ByHand {
    fn new() -> Arc<Self> {
        Arc::default()
    }

    fn token(self: &Arc<Self>) -> CancelToken {
        CancelToken::root(Arc::clone(self) as Arc<dyn Runtime>)
    }

    /// Runs what was spawned so far to its end, one after the other, on this thread.
    fn run_spawned(&self) {
        while let Some(task) = self.take() {
            block_on(task);
        }
    }

    fn take(&self) -> Option<BoxFuture<'static, ()>> {
        self.spawned.lock().unwrap().pop_front()
    }
}

impl Runtime for ByHand {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.spawned.lock().unwrap().push_back(task);
    }

    fn now(&self) -> Instant {
        Instant::ZERO
    }

    fn sleep_until(&self, _at: Instant) -> BoxFuture<'static, ()> {
        Box::pin(core::future::pending())
    }

    fn random(&self) -> u64 {
        0
    }
}

/// An actor's cell with no task behind it: the model is its receiver.
fn cell<M: Send + 'static>(mailbox: Mailbox) -> Arc<Cell<M>> {
    cell_in(&Tree::new(ByHand::new()), mailbox)
}

fn cell_in<M: Send + 'static>(tree: &Arc<Tree>, mailbox: Mailbox) -> Arc<Cell<M>> {
    let id = tree.next_id();
    Arc::new(Cell::new(Node::new(NodeParent::Root(Arc::clone(tree)), id, Name::made(id)), MessageQueue::new(mailbox), None))
}

/// The receiver of a cell, in place of the actor's task: control first, then a message, else it parks.
struct Receiver<M> {
    cell: Arc<Cell<M>>,
    batch: Vec<M>,
    handled: Vec<M>,
    buried: Vec<M>,
    /// Parks as it takes a lone message, and has done so.
    early: bool,
    parked: bool,
}

/// What a receiver came upon.
#[derive(Debug, PartialEq, Eq)]
enum Met {
    Message,
    Stop,
    End,
}

impl<M: Send + 'static> Receiver<M> {
    fn of(cell: &Arc<Cell<M>>) -> Self {
        let cell = Arc::clone(cell);
        Self { cell, batch: Vec::new(), handled: Vec::new(), buried: Vec::new(), early: false, parked: false }
    }

    /// One that parks as it takes a lone message, and rests after it if nothing has come meanwhile.
    fn early(cell: &Arc<Cell<M>>) -> Self {
        Self { early: true, ..Self::of(cell) }
    }

    fn poll_next(&mut self, waker: &Waker) -> Poll<Met> {
        let mailbox = self.cell.mailbox();
        loop {
            let parked = core::mem::take(&mut self.parked);
            if mailbox.control_word() & control::STOP != 0 {
                return Poll::Ready(Met::Stop);
            }
            if parked && mailbox.is_still_parked() {
                return Poll::Pending;
            }
            if self.early
                && self.batch.is_empty()
                && let Some(message) = mailbox.take_single(waker)
            {
                self.parked = true;
                self.handled.push(message);
                mailbox.count_handled();
                return Poll::Ready(Met::Message);
            }
            if let Some(message) = self.batch.pop() {
                mailbox.count_taken();
                self.handled.push(message);
                mailbox.count_handled();
                return Poll::Ready(Met::Message);
            }
            match mailbox.refill(&mut self.batch, true, waker) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Refill::Ended) => return Poll::Ready(Met::End),
                Poll::Ready(_) => {}
            }
        }
    }

    /// Handles the next message, or says why there is none.
    fn next(&mut self) -> Met {
        block_on(poll_fn(|cx| self.poll_next(cx.waker())))
    }

    /// Handles messages until something else comes.
    fn drain(&mut self) -> Met {
        self.run(usize::MAX)
    }

    /// Handles messages as one task, until there are `enough` or something else comes.
    fn run(&mut self, enough: usize) -> Met {
        block_on(poll_fn(|cx| {
            loop {
                match self.poll_next(cx.waker()) {
                    Poll::Ready(Met::Message) if self.handled.len() < enough => {}
                    polled => return polled,
                }
            }
        }))
    }

    /// The end of an actor: takes no more, and makes dead letters of what is left.
    fn leave(&mut self) {
        let mailbox = self.cell.mailbox();
        drop(mailbox.close());
        loop {
            while let Some(message) = self.batch.pop() {
                mailbox.count_removed();
                self.buried.push(message);
            }
            match block_on(poll_fn(|cx| mailbox.poll_remaining(cx.waker()))) {
                Some(left) => self.batch = left,
                None => return,
            }
        }
    }
}

/// How often something happened, for whoever looks meanwhile. Relaxed: what must be seen is seen because of the code under test.
#[derive(Clone)]
struct Mark(Arc<loom::sync::atomic::AtomicUsize>);

impl Mark {
    fn new() -> Self {
        Self(Arc::new(loom::sync::atomic::AtomicUsize::new(0)))
    }

    fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// How often something happened, for afterwards; loom does not see it.
#[derive(Clone, Default)]
struct Times(Arc<AtomicUsize>);

impl Times {
    fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
