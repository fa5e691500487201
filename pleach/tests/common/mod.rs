//! Shared by all tests: an actor that executes jobs, logs, gates, and a panic hook that hides
//! injected panics.
#![allow(dead_code, reason = "no test binary uses all of this")]

pub mod adapters;
#[cfg(feature = "graph")]
pub mod bank;
pub mod counter;
#[cfg(feature = "graph")]
pub mod counting;
pub mod counting_clock;
#[cfg(feature = "graph")]
pub mod failing_connection;
#[cfg(feature = "graph")]
pub mod flaky_store;
pub mod logged;
pub mod no_text;
#[cfg(feature = "graph")]
pub mod nodes;
pub mod pool_worker;
#[cfg(feature = "graph")]
pub mod process;
#[cfg(feature = "graph")]
pub mod shared_runs;
#[cfg(feature = "graph")]
pub mod side_effects;
#[cfg(feature = "graph")]
pub mod slow_store;
#[cfg(feature = "graph")]
pub mod stored;
pub mod tasks;

use pleach::events::DeadLetterReason;
use pleach::prelude::*;
use pleach::runtime::BoxFuture;
use pleach::sim::Sim;
use pleach::system::System;
use pleach::{BoxError, Mailbox};
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::task::{Poll, Wake, Waker};

/// Prefix of the message of every panic that a test injects.
pub const INJECTED: &str = "injected";

/// Hides panics whose message starts with [`INJECTED`]. All other panics are printed.
pub fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = info.payload().downcast_ref::<&str>().copied();
            let text = text.or_else(|| info.payload().downcast_ref::<String>().map(String::as_str));
            if !text.is_some_and(|text| text.starts_with(INJECTED)) {
                print(info);
            }
        }));
    });
}

/// Runs `test` with each seed, on all cores. Fails if one of them fails.
pub fn on_all_cores(seeds: Range<u64>, test: impl Fn(u64) + Sync) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    std::thread::scope(|scope| {
        for first in 0..cores {
            let (seeds, test) = (seeds.clone(), &test);
            scope.spawn(move || seeds.skip(first as usize).step_by(cores as usize).for_each(test));
        }
    });
}

/// A shared list of entries, in the order in which they were added.
pub struct Log<T>(Arc<Mutex<Vec<T>>>);

impl<T> Clone for Log<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Log<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Log<T> {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn push(&self, entry: T) {
        self.0.lock().unwrap().push(entry);
    }

    /// Removes and returns all entries.
    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// Returns a copy of all entries.
    pub fn seen(&self) -> Vec<T>
    where
        T: Clone,
    {
        self.0.lock().unwrap().clone()
    }

    pub fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

impl Log<String> {
    /// Appends the text of `entry`.
    pub fn note(&self, entry: impl ToString) {
        self.push(entry.to_string());
    }
}

/// Records every failure that the system reports from now on.
pub fn failures(system: &System) -> Log<FailureInfo> {
    let log = Log::new();
    let seen = log.clone();
    system.on_event(move |event| {
        if let Event::Failed(failure) = event {
            seen.push(failure.clone());
        }
    });
    log
}

/// Records every dead letter from now on: message and reason.
pub fn dead_letters(system: &System) -> Log<(String, DeadLetterReason)> {
    let log = Log::new();
    let seen = log.clone();
    system.on_event(move |event| {
        if let Event::DeadLetter(letter) = event {
            seen.push((letter.message.to_string(), letter.reason));
        }
    });
    log
}

/// Polls a future once, with a waker that does nothing.
pub fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut std::task::Context::from_waker(Waker::noop()))
}

/// Yields once: other tasks run before it continues.
pub async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A waker that counts its wakes.
#[derive(Default)]
pub struct CountingWaker(AtomicUsize);

impl CountingWaker {
    pub fn wakes(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A gate that the test opens. Each call of `open` lets one waiter pass.
#[derive(Clone, Default)]
pub struct Gate(Arc<tokio::sync::Notify>);

impl Gate {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn open(&self) {
        self.0.notify_one();
    }

    pub fn pass(&self) -> BoxFuture<'static, ()> {
        let notify = Arc::clone(&self.0);
        Box::pin(async move { notify.notified().await })
    }
}

/// Panics when it is dropped.
pub struct PanicOnDrop;

impl Drop for PanicOnDrop {
    fn drop(&mut self) {
        std::panic::panic_any(INJECTED);
    }
}

type Action = Box<dyn FnOnce(&mut Context<TestActor>) + Send>;
type Work = Box<dyn FnOnce(ActorRef<Job>) -> BoxFuture<'static, Result<(), BoxError>> + Send>;

/// The messages of a [`TestActor`].
pub enum Job {
    /// Logs the number.
    Note(u32),
    /// Waits at the gate, then logs the number.
    Pass(Gate, u32),
    /// Returns the text as an error.
    Fail(&'static str),
    /// Panics with the text, which should start with [`INJECTED`].
    Panic(&'static str),
    /// Replies with the number.
    Answer(Reply<u32>, u32),
    /// Drops the reply and succeeds.
    DropReply(Reply<u32>),
    /// Keeps the reply in the actor's state.
    KeepReply(Reply<u32>),
    /// Drops the reply, then fails.
    DropReplyAndFail(Reply<u32>),
    /// Calls the closure with the actor's context.
    Do(Action),
    /// Awaits the future that the closure returns.
    Await(Work),
}

impl Job {
    pub fn act(action: impl FnOnce(&mut Context<TestActor>) + Send + 'static) -> Self {
        Self::Do(Box::new(action))
    }

    pub fn work<F>(work: impl FnOnce(ActorRef<Job>) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        Self::Await(Box::new(move |me| Box::pin(work(me))))
    }
}

/// An actor that executes [`Job`]s and logs what happens to it: `started 0`, `7`, `restarting 0`,
/// `stopped 0 failed`.
pub struct TestActor {
    log: Log<String>,
    kept: Vec<Reply<u32>>,
}

impl TestActor {
    /// Props of an actor with an unbounded mailbox that writes to `log`.
    pub fn props(log: &Log<String>) -> Props<Self> {
        let log = log.clone();
        Props::new(move || Self { log: log.clone(), kept: Vec::new() }).mailbox(Mailbox::unbounded()).describe(describe)
    }

    /// Spawns an actor whose log the test does not read.
    pub fn spawn(system: &System, name: &str) -> ActorRef<Job> {
        system.spawn(name, Self::props(&Log::new())).unwrap()
    }
}

/// Spawns an actor that waits at the gate in its first message, so that the following messages are
/// queued. That first message logs 1000.
pub fn busy_actor(sim: &Sim, system: &System, mailbox: Mailbox) -> (ActorRef<Job>, Log<String>, Gate) {
    let (log, gate) = (Log::new(), Gate::new());
    let actor = system.spawn_unnamed(TestActor::props(&log).mailbox(mailbox)).unwrap();
    actor.tell(Job::Pass(gate.clone(), 1_000)).unwrap();
    sim.settle();
    assert_eq!(log.take(), ["started 0"]);
    (actor, log, gate)
}

fn describe(job: &Job) -> String {
    match job {
        Job::Note(n) | Job::Pass(_, n) => n.to_string(),
        _ => "job".to_string(),
    }
}

impl Actor for TestActor {
    type Msg = Job;
    type Error = BoxError;

    async fn handle(&mut self, job: Job, cx: &mut Context<Self>) -> Result<(), BoxError> {
        match job {
            Job::Note(n) => self.log.note(n),
            Job::Pass(gate, n) => {
                gate.pass().await;
                self.log.note(n);
            }
            Job::Fail(why) => return Err(why.into()),
            Job::Panic(why) => std::panic::panic_any(why),
            Job::Answer(reply, answer) => reply.send(answer),
            Job::DropReply(reply) => drop(reply),
            Job::KeepReply(reply) => self.kept.push(reply),
            Job::DropReplyAndFail(reply) => {
                drop(reply);
                return Err("lost it".into());
            }
            Job::Do(action) => action(cx),
            Job::Await(work) => work(cx.me()).await?,
        }
        Ok(())
    }

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.log.note(format!("started {}", cx.incarnation()));
        Ok(())
    }

    async fn restarting(&mut self, failure: &FailureInfo, cx: &mut Context<Self>) -> Result<(), BoxError> {
        assert_eq!(failure.incarnation(), cx.incarnation());
        self.log.note(format!("restarting {}", cx.incarnation()));
        Ok(())
    }

    async fn stopped(&mut self, exit: &Exit, cx: &mut Context<Self>) -> Result<(), BoxError> {
        let exit = exit.to_string();
        let kind = exit.split(':').next().unwrap_or_default();
        self.log.note(format!("stopped {} {kind}", cx.incarnation()));
        Ok(())
    }

    async fn signal(&mut self, signal: Signal, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        match signal {
            Signal::Terminated(end) => self.log.note(format!("terminated {} {}", end.path, end.exit)),
            Signal::Failure(failure) => self.log.note(format!("failure {}", failure.path())),
            Signal::Escalate(failure) => self.log.note(format!("escalate {}", failure.origin())),
            _ => {}
        }
        Ok(())
    }
}
