//! A process of the simulation: its tasks can be stopped for a while, as by SIGSTOP or by a machine that is suspended, and its clocks can be set.

use pleach::{BoxFuture, Instant, Runtime};
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
    /// For how long the clock of the process stood still.
    stood_still: Duration,
    /// By how much the time of day was set forward.
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

    /// Polls none of its tasks from now on.
    pub fn stop(&self) {
        self.0.state.lock().unwrap().is_stopped = true;
    }

    /// Polls its tasks again.
    pub fn go_on(&self) {
        let waiting = {
            let mut state = self.0.state.lock().unwrap();
            state.is_stopped = false;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Stops it for so long. While it is suspended, its clock stands still, and the time of day goes on.
    pub async fn suspend(&self, time: Duration) {
        self.stop();
        let until = self.0.outside.now() + time;
        self.0.state.lock().unwrap().stood_still += time;
        self.0.outside.sleep_until(until).await;
        self.go_on();
    }

    /// Sets the time of day forward.
    pub fn set_forward(&self, time: Duration) {
        self.0.state.lock().unwrap().forward += time;
    }

    /// A future as part of this process.
    pub fn task<F: Future>(&self, future: F) -> Task<F> {
        Task { process: self.clone(), future: Box::pin(future) }
    }
}

impl Runtime for Process {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.0.outside.spawn(Box::pin(self.task(task)));
    }

    fn now(&self) -> Instant {
        let stood_still = self.0.state.lock().unwrap().stood_still;
        Instant::after_start(self.0.outside.now().since_start().saturating_sub(stood_still))
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        let process = self.clone();
        Box::pin(async move {
            while process.now() < at {
                let stood_still = process.0.state.lock().unwrap().stood_still;
                process.0.outside.sleep_until(at + stood_still).await;
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
