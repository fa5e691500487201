//! A simulated process. Its tasks can be stopped, as by SIGSTOP or a suspended machine, and its
//! clocks can be set.

use pleach::runtime::{BoxFuture, Instant, Runtime};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A runtime for the tasks of one process.
#[derive(Clone)]
pub struct Process(Arc<Inner>);

struct Inner {
    outside: Arc<dyn Runtime>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_stopped: bool,
    /// The total time for which the process clock was stopped.
    stopped_for: Duration,
    /// The offset of the time of day.
    forward: Duration,
    waiting: Vec<Waker>,
}

impl Process {
    pub fn new(outside: Arc<dyn Runtime>) -> Self {
        Self(Arc::new(Inner { outside, state: Mutex::default() }))
    }

    pub fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::new(self.clone())
    }

    /// Stops polling the tasks of the process.
    pub fn stop(&self) {
        self.0.state.lock().unwrap().is_stopped = true;
    }

    /// Resumes polling.
    pub fn continue_now(&self) {
        let waiting = {
            let mut state = self.0.state.lock().unwrap();
            state.is_stopped = false;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Suspends the process for this long. Its clock stops; the time of day continues.
    pub async fn suspend(&self, time: Duration) {
        self.stop();
        let until = self.0.outside.now() + time;
        self.0.state.lock().unwrap().stopped_for += time;
        self.0.outside.sleep_until(until).await;
        self.continue_now();
    }

    /// Moves the time of day forward.
    pub fn set_forward(&self, time: Duration) {
        self.0.state.lock().unwrap().forward += time;
    }

    /// Wraps a future as a task of this process.
    pub fn task<F: Future>(&self, future: F) -> Task<F> {
        Task { process: self.clone(), future: Box::pin(future) }
    }
}

impl Runtime for Process {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.0.outside.spawn(Box::pin(self.task(task)));
    }

    fn now(&self) -> Instant {
        let stopped_for = self.0.state.lock().unwrap().stopped_for;
        Instant::after_start(self.0.outside.now().since_start().saturating_sub(stopped_for))
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        let process = self.clone();
        Box::pin(async move {
            while process.now() < at {
                let stopped_for = process.0.state.lock().unwrap().stopped_for;
                process.0.outside.sleep_until(at + stopped_for).await;
            }
        })
    }

    fn random(&self) -> u64 {
        self.0.outside.random()
    }

    fn time_of_day(&self) -> Option<Duration> {
        let forward = self.0.state.lock().unwrap().forward;
        Some(self.0.outside.now().since_start() + forward)
    }
}

/// A task of a process.
pub struct Task<F> {
    process: Process,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Task<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        {
            let mut state = self.process.0.state.lock().unwrap();
            if state.is_stopped {
                state.waiting.push(cx.waker().clone());
                return Poll::Pending;
            }
        }
        self.future.as_mut().poll(cx)
    }
}
