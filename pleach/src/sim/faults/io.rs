//! [`Io`]: a stand-in for I/O, whose result or wake-ups can be late or lost.

use crate::runtime::{BoxFuture, Runtime};
use crate::sim::faults::FaultKind;
use crate::sim::faults::injector::Injector;
use crate::sim::faults::kind::SiteKind;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// The I/O of a simulation that has not completed, for the text of a stall. Sorted by name and
/// number.
#[derive(Default)]
pub(in crate::sim) struct PendingIo(Mutex<Vec<PendingCall>>);

/// The name of a call, its number, and its fault.
type PendingCall = (String, u64, Option<FaultKind>);

impl PendingIo {
    fn with<R>(&self, f: impl FnOnce(&mut Vec<PendingCall>) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds the next call of `name`, and returns its number.
    fn add(&self, name: &str, fault: Option<FaultKind>) -> u64 {
        self.with(|pending| {
            let end = pending.partition_point(|(known, ..)| known.as_str() <= name);
            let last = pending[..end].last().filter(|(known, ..)| known == name);
            let number = last.map_or(1, |(_, number, _)| number + 1);
            pending.insert(end, (name.to_string(), number, fault));
            number
        })
    }

    fn remove(&self, name: &str, number: u64) {
        self.with(|pending| {
            let found = pending.binary_search_by(|(known, other, _)| (known.as_str(), *other).cmp(&(name, number)));
            drop(found.map(|at| pending.remove(at)));
        });
    }

    /// Returns the name of each pending call, and its fault.
    pub(in crate::sim) fn list(&self) -> Vec<(String, Option<FaultKind>)> {
        self.with(|pending| pending.iter().map(|(name, _, fault)| (name.clone(), *fault)).collect())
    }
}

/// What a stand-in for I/O needs of its simulation.
#[derive(Clone)]
pub(in crate::sim) struct IoFaults {
    pub(in crate::sim) injector: Arc<Injector>,
    pub(in crate::sim) runtime: Arc<dyn Runtime>,
    pub(in crate::sim) pending: Arc<PendingIo>,
}

/// A handle that makes stand-ins for I/O; from [`Sim::io_site`](crate::sim::Sim::io_site). It does
/// not keep the simulation.
#[derive(Clone)]
pub struct IoSite {
    faults: IoFaults,
    name: Arc<str>,
}

impl IoSite {
    pub(in crate::sim) fn new(faults: IoFaults, name: &str) -> Self {
        Self { faults, name: name.into() }
    }

    /// Wraps a future, so that its result and its wake-ups can get faults; see
    /// [`Sim::io`](crate::sim::Sim::io).
    pub fn call<F: Future>(&self, future: F) -> Io<F> {
        Io::new(self.faults.clone(), &self.name, future)
    }
}

impl fmt::Debug for IoSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoSite").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A stand-in for I/O, which may be late or silent; made by [`Sim::io`](crate::sim::Sim::io).
///
/// Without a fault it is ready when its future is, at the same poll.
#[must_use = "futures do nothing unless awaited"]
pub struct Io<F: Future> {
    /// `None` once it is done, or if it is never started.
    future: Option<Pin<Box<F>>>,
    output: Option<F::Output>,
    fault: IoFault,
    /// The wait for a late result.
    wait: Option<BoxFuture<'static, ()>>,
    /// Between the future and the task, if wake-ups may get faults.
    waker: Option<Arc<IoWaker>>,
    entry: PendingEntry,
}

/// What the seed has chosen for one call.
#[derive(Clone, Copy)]
enum IoFault {
    None,
    Late(Duration),
    Silent,
}

/// The entry of a call in the list of pending I/O.
struct PendingEntry {
    name: String,
    number: u64,
    faults: IoFaults,
}

impl Drop for PendingEntry {
    fn drop(&mut self) {
        self.faults.pending.remove(&self.name, self.number);
    }
}

// Its future is boxed, and nothing else in it is pinned.
impl<F: Future> Unpin for Io<F> {}

impl<F: Future> Io<F> {
    fn new(faults: IoFaults, name: &str, future: F) -> Self {
        let decision = faults.injector.decide(SiteKind::Io, name, false, faults.runtime.now());
        let (fault, starts) = match &decision {
            Some(decision) if decision.kind == FaultKind::IoLate => (IoFault::Late(decision.delay), true),
            Some(decision) => (IoFault::Silent, decision.coin),
            None => (IoFault::None, true),
        };
        let waker = faults.injector.may_hit(SiteKind::Wake).then(|| Arc::new(IoWaker::new(faults.clone(), name)));
        let number = faults.pending.add(name, decision.map(|decision| decision.kind));
        let entry = PendingEntry { name: name.to_string(), number, faults };
        Self { future: starts.then(|| Box::pin(future)), output: None, fault, wait: None, waker, entry }
    }

    /// Polls the future, if it has not completed.
    fn poll_future(&mut self, cx: &mut Context<'_>) {
        let Some(future) = &mut self.future else { return };
        let polled = match &self.waker {
            None => future.as_mut().poll(cx),
            Some(waker) => {
                waker.set_task(cx.waker());
                future.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(waker))))
            }
        };
        if let Poll::Ready(output) = polled {
            self.output = Some(output);
            self.future = None;
        }
    }
}

impl<F: Future> Future for Io<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        this.poll_future(cx);
        if this.output.is_none() {
            return Poll::Pending;
        }
        match this.fault {
            IoFault::Silent => return Poll::Pending,
            IoFault::Late(delay) => {
                let runtime = &this.entry.faults.runtime;
                let wait = this.wait.get_or_insert_with(|| runtime.sleep_until(runtime.now() + delay));
                if wait.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
            }
            IoFault::None => {}
        }
        this.output.take().map_or(Poll::Pending, Poll::Ready)
    }
}

impl<F: Future> fmt::Debug for Io<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Io").field("name", &self.entry.name).finish_non_exhaustive()
    }
}

/// Passes wake-ups of the I/O on to the task, unless one gets a fault.
struct IoWaker {
    faults: IoFaults,
    name: String,
    task: Mutex<Option<Waker>>,
}

impl IoWaker {
    fn new(faults: IoFaults, name: &str) -> Self {
        Self { faults, name: name.to_string(), task: Mutex::new(None) }
    }

    fn set_task(&self, waker: &Waker) {
        let waker = waker.clone();
        drop(self.task.lock().unwrap_or_else(PoisonError::into_inner).replace(waker));
    }

    fn wake_task(&self) {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(task) = task {
            task.wake();
        }
    }
}

impl Wake for IoWaker {
    fn wake(self: Arc<Self>) {
        let IoFaults { injector, runtime, .. } = &self.faults;
        match injector.decide(SiteKind::Wake, &self.name, false, runtime.now()) {
            None => self.wake_task(),
            Some(lost) if lost.kind == FaultKind::WakeLost => {}
            Some(late) => {
                let sleep = runtime.sleep_until(runtime.now() + late.delay);
                let waker = Arc::clone(&self);
                runtime.spawn(Box::pin(async move {
                    sleep.await;
                    waker.wake_task();
                }));
            }
        }
    }
}
