//! What these tests share: an actor that does what its messages say, logs, gates, and a panic hook that is quiet about injected panics.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

#[cfg(feature = "graph")]
pub mod bank;
pub mod clerk;
pub mod counter;
#[cfg(feature = "graph")]
pub mod counting;
#[cfg(feature = "graph")]
pub mod flaky;
#[cfg(feature = "graph")]
pub mod kept;
pub mod logged;
#[cfg(feature = "graph")]
pub mod mortal;
pub mod outside;
#[cfg(feature = "graph")]
pub mod process;
#[cfg(feature = "graph")]
pub mod shift;
#[cfg(feature = "graph")]
pub mod slow;
pub mod tasks;
pub mod texts;

use pleach::prelude::*;
use pleach::{BoxError, BoxFuture, DeadLetterReason, Mailbox, System};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Once};
use std::task::{Poll, Waker};

/// The text every panic injected by a test begins with.
pub const INJECTED: &str = "injected";

/// Keeps panics that a test injects off the screen. All others are printed as ever.
pub fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = info.payload().downcast_ref::<&str>().copied();
            let text = text.or_else(|| info.payload().downcast_ref::<String>().map(String::as_str));
            if !text.is_some_and(|text| text.starts_with(INJECTED)) {
                loud(info);
            }
        }));
    });
}

/// Something that was seen, in the order it was.
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

    /// All entries, which are gone from the log afterwards.
    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// All entries, which stay in the log.
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
    pub fn note(&self, entry: impl ToString) {
        self.push(entry.to_string());
    }
}

/// Every failure that is told of from now on.
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

/// Every dead letter from now on: whose, what, why.
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

/// Something to wait for until the test opens it; each opening lets one through.
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

type Action = Box<dyn FnOnce(&mut Context<Doer>) + Send>;
type Work = Box<dyn FnOnce(ActorRef<Job>) -> BoxFuture<'static, Result<(), BoxError>> + Send>;

/// What a [`Doer`] is told to do.
pub enum Job {
    /// Write this down.
    Note(u32),
    /// Wait at the gate, then write this down.
    Pass(Gate, u32),
    /// Return this as an error.
    Fail(&'static str),
    /// Panic with this, which should begin with [`INJECTED`].
    Panic(&'static str),
    /// Answer.
    Answer(Reply<u32>, u32),
    /// Finish well without an answer.
    Lose(Reply<u32>),
    /// Keep the reply in the state.
    Keep(Reply<u32>),
    /// Lose the reply, then fail.
    LoseAndFail(Reply<u32>),
    /// Do this.
    Do(Action),
    /// Await this.
    Await(Work),
}

impl Job {
    pub fn act(action: impl FnOnce(&mut Context<Doer>) + Send + 'static) -> Self {
        Self::Do(Box::new(action))
    }

    pub fn work<F>(work: impl FnOnce(ActorRef<Job>) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        Self::Await(Box::new(move |me| Box::pin(work(me))))
    }
}

/// An actor that does what it is told and writes down what happens to it: `started 0`, `7`, `restarting 0`, `stopped 0 failed`.
pub struct Doer {
    log: Log<String>,
    kept: Vec<Reply<u32>>,
}

impl Doer {
    pub fn props(log: &Log<String>) -> Props<Self> {
        let log = log.clone();
        Props::new(move || Self { log: log.clone(), kept: Vec::new() }).mailbox(Mailbox::unbounded()).describe(describe)
    }
}

fn describe(job: &Job) -> String {
    match job {
        Job::Note(n) | Job::Pass(_, n) => n.to_string(),
        _ => "job".to_string(),
    }
}

impl Actor for Doer {
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
            Job::Lose(reply) => drop(reply),
            Job::Keep(reply) => self.kept.push(reply),
            Job::LoseAndFail(reply) => {
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
