//! Loom models: small concurrent programs, run in every interleaving of their threads.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p pleach-core --lib --release loom_`. A model is a
//! closure that loom runs once per interleaving. Locks and atomics are loom's types then, and a
//! load may return any value that the memory model allows. A lost wake shows as a deadlock, which
//! loom reports.
//!
//! By default, an interleaving has at most [`PREEMPTIONS_MAX`] preemptions. Nearly all known bugs
//! need no more, and the whole set runs within two minutes. `LOOM_MAX_PREEMPTIONS` sets another
//! bound for longer runs. With `--nocapture` a model prints the number of interleavings.
//!
//! Rules for models:
//! 1. A value that is read only after all threads have ended uses [`PlainCounter`], a `std` type.
//!    Loom does not track it, so it adds no interleavings.
//! 2. A value that threads share while they run uses [`LoomCounter`]. Loom has to track it.
//! 3. Assertions are placed outside futures and callbacks that the tree runs, because the tree
//!    would catch their panics.

pub(crate) mod actor;
pub(crate) mod cancel;
pub(crate) mod critical_section;
pub(crate) mod dispatcher;
pub(crate) mod exit;
pub(crate) mod group;
pub(crate) mod hub;
pub(crate) mod mailbox;
pub(crate) mod observer;
pub(crate) mod reply;
pub(crate) mod reserve;
pub(crate) mod scope;
pub(crate) mod sending;
pub(crate) mod supervision;

use crate::actor::cell::Cell;
use crate::actor::props::Settings;
use crate::base::runtime::{BoxFuture, Runtime};
use crate::base::time::Instant;
use crate::ids::name::Name;
use crate::mailbox::receiver::Refill;
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
use loom::thread;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bound on preemptions if `LOOM_MAX_PREEMPTIONS` is not set.
const PREEMPTIONS_MAX: usize = 3;

/// Runs `model` in every interleaving within the bound.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(PREEMPTIONS_MAX));
    builder.max_branches = builder.max_branches.max(10_000);
    let interleavings = PlainCounter::default();
    let tried = interleavings.clone();
    builder.check(move || {
        tried.add();
        model();
    });
    std::println!("{} interleavings", interleavings.get());
}

/// Wakes a sleeping thread of a model. Loom also explores one spurious wake, which every future
/// must tolerate.
struct ThreadWaker(loom::sync::Notify);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
}

/// Polls `future` to completion and sleeps in between. If no thread is left to wake it, loom
/// reports a deadlock.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let thread = Arc::new(ThreadWaker(loom::sync::Notify::new()));
    let waker = Waker::from(Arc::clone(&thread));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread.0.wait();
    }
}

/// Polls `future` once, with a waker that does nothing.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    core::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A runtime that runs nothing on its own: the model decides which thread runs the spawned tasks,
/// and when. Its clock does not advance.
#[derive(Default)]
struct ManualRuntime {
    spawned: Mutex<VecDeque<BoxFuture<'static, ()>>>,
}

impl ManualRuntime {
    fn new() -> Arc<Self> {
        Arc::default()
    }

    fn token(self: &Arc<Self>) -> CancelToken {
        CancelToken::root(Arc::clone(self) as Arc<dyn Runtime>)
    }

    /// Runs all spawned tasks to completion on this thread, one after the other.
    fn run_spawned(&self) {
        while let Some(task) = self.take() {
            block_on(task);
        }
    }

    fn take(&self) -> Option<BoxFuture<'static, ()>> {
        self.spawned.lock().unwrap().pop_front()
    }
}

impl Runtime for ManualRuntime {
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

/// Creates an actor's cell without a task. The model acts as its receiver.
fn cell<M: Send + 'static>(mailbox: Mailbox) -> Arc<Cell<M>> {
    cell_in(&Tree::new(ManualRuntime::new()), mailbox)
}

fn cell_in<M: Send + 'static>(tree: &Arc<Tree>, mailbox: Mailbox) -> Arc<Cell<M>> {
    let id = tree.next_id();
    let settings = Settings { mailbox, ..Settings::default() };
    Arc::new(Cell::new(Node::new(NodeParent::Root(Arc::clone(tree)), id, Name::generated(id)), &settings))
}

/// Creates a cell whose mailbox is full with message 1.
fn full_cell() -> Arc<Cell<u32>> {
    let cell = cell(Mailbox::bounded(1));
    assert!(cell.mailbox().try_push(1).is_ok());
    cell
}

/// The receiver of a cell, in place of the actor's task. It checks control first, then takes a
/// message, otherwise parks.
struct Receiver<M> {
    cell: Arc<Cell<M>>,
    batch: Vec<M>,
    handled: Vec<M>,
    dead_letters: Vec<M>,
    /// Whether it parks while it takes a single message, and whether it has done so.
    parks_early: bool,
    parked: bool,
}

/// What a receiver found.
#[derive(Debug, PartialEq, Eq)]
enum Received {
    Message,
    Stop,
    End,
}

impl<M: Send + 'static> Receiver<M> {
    fn of(cell: &Arc<Cell<M>>) -> Self {
        let cell = Arc::clone(cell);
        Self { cell, batch: Vec::new(), handled: Vec::new(), dead_letters: Vec::new(), parks_early: false, parked: false }
    }

    /// Creates a receiver that parks while it takes a single message, and sleeps after it if
    /// nothing else has arrived.
    fn parking_early(cell: &Arc<Cell<M>>) -> Self {
        Self { parks_early: true, ..Self::of(cell) }
    }

    fn poll_next(&mut self, waker: &Waker) -> Poll<Received> {
        let mailbox = self.cell.mailbox();
        loop {
            let parked = core::mem::take(&mut self.parked);
            if mailbox.control_word() & control::STOP != 0 {
                return Poll::Ready(Received::Stop);
            }
            if parked && mailbox.is_still_parked() {
                return Poll::Pending;
            }
            if self.parks_early
                && self.batch.is_empty()
                && let Some(message) = mailbox.take_single(waker)
            {
                self.parked = true;
                self.handled.push(message);
                mailbox.count_handled();
                return Poll::Ready(Received::Message);
            }
            if let Some(message) = self.batch.pop() {
                mailbox.count_taken();
                self.handled.push(message);
                mailbox.count_handled();
                return Poll::Ready(Received::Message);
            }
            match mailbox.any().refill(&mut self.batch, true, waker) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Refill::Ended) => return Poll::Ready(Received::End),
                // As `apply_control` does: a backlog that has ended is reported once.
                Poll::Ready(Refill::Control) => drop(mailbox.any().clear_bits(control::DRAINED)),
                Poll::Ready(_) => {}
            }
        }
    }

    /// Handles the next message, or returns why there is none.
    fn next(&mut self) -> Received {
        block_on(poll_fn(|cx| self.poll_next(cx.waker())))
    }

    /// Handles messages until a stop or the end of input.
    fn drain(&mut self) -> Received {
        self.run(usize::MAX)
    }

    /// Handles messages in one task, until `enough` were handled, or until a stop or the end of
    /// input.
    fn run(&mut self, enough: usize) -> Received {
        block_on(poll_fn(|cx| {
            loop {
                match self.poll_next(cx.waker()) {
                    Poll::Ready(Received::Message) if self.handled.len() < enough => {}
                    polled => return polled,
                }
            }
        }))
    }

    /// Ends like an actor: closes the mailbox and turns the remaining messages into dead letters.
    fn leave(&mut self) {
        let mailbox = self.cell.mailbox();
        drop(mailbox.any().close());
        loop {
            while let Some(message) = self.batch.pop() {
                mailbox.any().count_removed();
                self.dead_letters.push(message);
            }
            if !block_on(poll_fn(|cx| mailbox.any().poll_remaining(&mut self.batch, cx.waker()))) {
                return;
            }
        }
    }
}

/// Runs `send`, the end of input and the receiver at the same time. The receiver handles all
/// messages. Returns what `send` returned.
fn send_against_close<T: Send + 'static>(receiver: &mut Receiver<u32>, send: impl FnOnce() -> T + Send + 'static) -> T {
    let sender = thread::spawn(send);
    let to = Arc::clone(&receiver.cell);
    let closer = thread::spawn(move || to.any().close());
    assert_eq!(receiver.drain(), Received::End);
    let sent = sender.join().unwrap();
    closer.join().unwrap();
    assert!(receiver.cell.mailbox().any().counts().is_settled() && receiver.cell.mailbox().any().is_empty());
    sent
}

/// Runs `send`, a stop and the receiver at the same time. The receiver leaves when it is stopped.
/// Checks that the message, if accepted, has one outcome.
fn send_against_stop<A: Send + 'static, E: Send + 'static>(
    receiver: &mut Receiver<u32>,
    send: impl FnOnce() -> Result<A, E> + Send + 'static,
) -> Result<A, E> {
    let sender = thread::spawn(send);
    let to = Arc::clone(&receiver.cell);
    let stopper = thread::spawn(move || to.any().raise(control::STOP));
    assert_eq!(receiver.drain(), Received::Stop);
    receiver.leave();
    let sent = sender.join().unwrap();
    stopper.join().unwrap();
    let accepted = usize::from(sent.is_ok());
    assert_eq!(receiver.handled.len() + receiver.dead_letters.len(), accepted);
    let counts = receiver.cell.mailbox().any().counts();
    assert!(counts.is_settled() && counts.accepted as usize == accepted, "{counts}");
    assert!(receiver.cell.mailbox().any().is_empty());
    sent
}

/// A counter that threads share while they run. Relaxed: the code under test has to provide the
/// ordering.
#[derive(Clone)]
struct LoomCounter(Arc<loom::sync::atomic::AtomicUsize>);

impl LoomCounter {
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

/// A counter that is read after all threads have ended. Loom does not track it.
#[derive(Clone, Default)]
struct PlainCounter(Arc<AtomicUsize>);

impl PlainCounter {
    fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts its drop, and so the drop of the future that owns it.
struct DropCounter(LoomCounter);

impl Drop for DropCounter {
    fn drop(&mut self) {
        self.0.add();
    }
}
