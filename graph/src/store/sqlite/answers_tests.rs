//! C2: who gives the answers of a batch, and that none is lost.

use super::clock::Clock;
use super::database::Failed;
use super::{LIGHT, SqliteStore};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Enough jobs for a batch whose answers are given together.
const JOBS: usize = 8;

type Call = Pin<Box<dyn Future<Output = Result<(), Failed>> + Send>>;

/// A call of a job that was queued.
struct Queued(Call);

/// A store whose writer is in the middle of a job.
///
/// The fields are dropped in order: the writer ends before the store waits for it.
struct Blocked {
    release: Sender<()>,
    store: SqliteStore,
    folder: PathBuf,
}

impl Blocked {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("pleach-answers-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let store = SqliteStore::open_with(&folder.join("store.db"), Clock::system()).unwrap();
        let ((started, has_started), (release, released)) = (channel(), channel());
        let released = Mutex::new(released);
        let first = Box::pin({
            let store = store.clone();
            async move {
                let wait = move |_: &super::WriteTransaction<'_>| {
                    started.send(()).unwrap();
                    released.lock().unwrap().recv().unwrap();
                    Ok(Ok(()))
                };
                store.try_write(LIGHT, wait).await
            }
        });
        drop(poll_once(first, Waker::noop()));
        has_started.recv().unwrap();
        Self { release, store, folder }
    }

    /// Queues a job in a task on a worker of `runtime`. Its call waits for the
    /// answer with `waker`.
    fn queue(&self, runtime: &Runtime, waker: &Waker) -> Queued {
        let (store, waker) = (self.store.clone(), waker.clone());
        let queue = async move { queue(store, &waker) };
        runtime.block_on(runtime.spawn(queue)).unwrap()
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// Queues a job on this thread. Its call waits for the answer with `waker`.
fn queue(store: SqliteStore, waker: &Waker) -> Queued {
    poll_once(Box::pin(async move { store.try_write(LIGHT, |_| Ok(Ok(()))).await }), waker)
}

fn poll_once(mut call: Call, waker: &Waker) -> Queued {
    assert!(call.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    Queued(call)
}

/// Notes on which thread it was woken.
struct Woken(Mutex<Sender<ThreadId>>);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.lock().unwrap().send(thread::current().id()).unwrap();
    }
}

fn waker() -> (Waker, Receiver<ThreadId>) {
    let (woken, on) = channel();
    (Arc::new(Woken(Mutex::new(woken))).into(), on)
}

/// Waits until all answers have arrived. Returns the threads that gave them.
fn wait_for(count: usize, woken: &Receiver<ThreadId>) -> Vec<ThreadId> {
    (0..count).map(|_| woken.recv_timeout(Duration::from_secs(10)).expect("every answer arrives")).collect()
}

fn one_worker() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).build().unwrap()
}

fn worker_of(runtime: &Runtime) -> ThreadId {
    runtime.block_on(runtime.spawn(async { thread::current().id() })).unwrap()
}

fn is_done(mut queued: Queued) -> bool {
    matches!(queued.0.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(())))
}

#[test]
fn c2_a_worker_of_the_callers_wakes_all_runs_of_a_batch() {
    let blocked = Blocked::new("worker");
    let runtime = one_worker();
    let (waker, woken) = waker();
    let answers: Vec<Queued> = (0..JOBS).map(|_| blocked.queue(&runtime, &waker)).collect();
    blocked.release.send(()).unwrap();
    assert_eq!(wait_for(JOBS, &woken), [worker_of(&runtime); JOBS]);
    assert!(answers.into_iter().all(is_done));
}

#[test]
fn c2_a_busy_runtime_does_not_delay_the_answers_of_others() {
    let blocked = Blocked::new("busy");
    let (busy, other) = (one_worker(), one_worker());
    let (waker, woken) = waker();
    let _of_busy: Vec<Queued> = (0..JOBS).map(|_| blocked.queue(&busy, Waker::noop())).collect();
    let mut answers: Vec<Queued> = (0..JOBS).map(|_| blocked.queue(&other, &waker)).collect();
    answers.push(queue(blocked.store.clone(), &waker));
    let ((started, has_started), (end, has_ended)) = (channel(), channel::<()>());
    busy.spawn(async move {
        started.send(()).unwrap();
        assert!(has_ended.recv().is_err(), "it is busy until the test ends");
    });
    has_started.recv().unwrap();
    blocked.release.send(()).unwrap();
    wait_for(answers.len(), &woken);
    assert!(answers.into_iter().all(is_done));
    drop(end);
}

#[test]
fn c2_answers_arrive_after_their_runtime_has_shut_down() {
    let blocked = Blocked::new("shut-down");
    let runtime = one_worker();
    let (waker, woken) = waker();
    let answers: Vec<Queued> = (0..JOBS).map(|_| blocked.queue(&runtime, &waker)).collect();
    drop(runtime);
    blocked.release.send(()).unwrap();
    wait_for(JOBS, &woken);
    assert!(answers.into_iter().all(is_done));
}

#[test]
fn c2_workers_that_wait_for_their_own_answers_get_them() {
    let blocked = Blocked::new("waiting");
    let runtime = one_worker();
    let (waker, woken) = waker();
    let (store, release) = (blocked.store.clone(), blocked.release.clone());
    let waits = runtime.spawn(async move {
        let answers: Vec<Queued> = (0..JOBS).map(|_| queue(store.clone(), &waker)).collect();
        release.send(()).unwrap();
        // The only worker waits here, as an executor of its own would.
        wait_for(JOBS, &woken);
        assert!(answers.into_iter().all(is_done));
    });
    runtime.block_on(waits).unwrap();
}
