//! [`Writer`]: the queue of jobs for the [`Database`], and the thread that works through it.
//!
//! The thread takes the waiting jobs, runs them in one transaction, and answers after COMMIT. If
//! many jobs came from the workers of one Tokio runtime, a task of that runtime gives the answers:
//! there a wake-up needs no system call, and the writer begins the next batch meanwhile.
//!
//! A commit of a run that is alone does not go through the thread: [`Writer::do_here`] makes it on
//! the thread of its caller and so saves two thread switches. It does so only if
//! - the caller may block its thread (`blocking`),
//! - no job waits and no transaction is open, also in other processes,
//! - the last transaction had one job and was short. A slow disk is left to the thread.
//!
//! Invariants:
//! 1. A rejected job (fenced, held, ...) has changed nothing. The other jobs of its batch continue.
//! 2. If a transaction of several jobs found a damaged page, each job runs again in its own
//!    transaction, because the page may belong to one run.
//! 3. A job succeeds only after its transaction has.
//! 4. No caller waits for the lock of the database. So a queued job is never overtaken by more than
//!    the transaction that is open when it is queued.

use super::blocking::{WorkerRuntime, may_block};
use super::clock::Clock;
use super::database::{Database, Done, Failed, WriteTransaction};
use super::file::DbFile;
use crate::store::error::StoreError;
use crate::store::hint::Hints;
use futures_channel::oneshot;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The largest number of jobs in one transaction.
const JOBS_PER_BATCH_MAX: usize = 256;

/// The number of bytes after which a batch takes no further job.
const BYTES_PER_BATCH: usize = 4 << 20;

/// The smallest batch whose answers are given by a task. A few wake-ups cost less than the task.
const ANSWERS_TOGETHER_MIN: usize = 4;

/// How long a runtime may take to give the answers of a batch. Then the writer gives them: all
/// workers of the runtime may wait for an answer themselves.
const ANSWERED_WITHIN: Duration = Duration::from_millis(500);

/// The largest number of waiting jobs.
const JOBS_WAITING_MAX: usize = 65_536;

/// A job runs on the thread of its caller only after a transaction that took less than this.
const SHORT: Duration = Duration::from_millis(1);

/// A job of more bytes never runs on the thread of its caller.
const BYTES_HERE_MAX: usize = 256 << 10;

/// The cost of a job, which the writer needs before it runs the job.
#[derive(Clone, Copy)]
pub(super) struct Weight {
    pub(super) bytes: usize,
    /// Whether the job may make a run ready, so that a hint is sent.
    pub(super) sends_hint: bool,
    /// Whether the job may run on the thread of its caller.
    pub(super) may_run_here: bool,
}

/// The sending half of the writer thread. Dropping it waits for the thread.
pub(super) struct Writer {
    jobs: Option<Sender<Box<dyn Job>>>,
    access: Arc<WriteAccess>,
    thread: Option<JoinHandle<()>>,
}

/// What the writer thread and the callers share.
struct WriteAccess {
    /// The number of queued jobs.
    waiting: AtomicUsize,
    database: Mutex<Database>,
    /// Whether the last transaction had one job and was short.
    is_calm: AtomicBool,
    hints: Arc<Hints>,
}

impl Writer {
    pub(super) fn start(file: DbFile, clock: Arc<Clock>, hints: Arc<Hints>) -> Result<Self, StoreError> {
        let database = Mutex::new(Database::open(file, clock)?);
        let (jobs, inbox) = channel();
        let access = Arc::new(WriteAccess { waiting: AtomicUsize::new(0), database, is_calm: AtomicBool::new(false), hints });
        let mut queue = WriteQueue { access: Arc::clone(&access), inbox, given: Vec::new() };
        let thread = thread::Builder::new().name("pleach-sqlite".into()).spawn(move || queue.work());
        Ok(Self { jobs: Some(jobs), access, thread: Some(thread.map_err(StoreError::unavailable)?) })
    }

    #[cfg(test)]
    pub(super) fn set_calm(&self, is_calm: bool) {
        self.access.is_calm.store(is_calm, Ordering::Relaxed);
    }

    /// Does a job on this thread, if that is short and no other job waits. The answer is durable.
    /// Returns `None` if the job must be [queued](Self::send).
    pub(super) fn do_here<T>(
        &self,
        weight: Weight,
        act: &mut impl FnMut(&WriteTransaction<'_>) -> Done<T>,
    ) -> Option<Result<T, Failed>> {
        let access = &*self.access;
        let is_calm = access.is_calm.load(Ordering::Relaxed) && access.waiting.load(Ordering::Relaxed) == 0;
        if !is_calm || !weight.may_run_here || weight.bytes > BYTES_HERE_MAX {
            return None;
        }
        let block = may_block()?;
        let mut database = access.database.try_lock().ok()?;
        let mut answer = None;
        let written = block.run(|| {
            database.write_at_once(|transaction| {
                answer = Some(act(transaction)?);
                Ok(())
            })
        })??;
        access.note(1, database.last_took);
        drop(database);
        if written.is_ok() && weight.sends_hint {
            access.hints.notify();
        }
        match written {
            Ok(()) => answer.map(|answer| answer.map_err(Failed::from)),
            Err(failed) => Some(Err(failed)),
        }
    }

    /// Queues a job. The answer comes after the job is durable.
    ///
    /// The job runs even if the receiver is dropped. `act` is called again if its batch was rolled
    /// back.
    pub(super) fn send<T: Send + 'static>(
        &self,
        weight: Weight,
        act: impl FnMut(&WriteTransaction<'_>) -> Done<T> + Send + 'static,
    ) -> Result<oneshot::Receiver<Result<T, Failed>>, StoreError> {
        let (reply, answer) = oneshot::channel();
        if self.access.waiting.fetch_add(1, Ordering::Relaxed) >= JOBS_WAITING_MAX {
            self.access.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(StoreError::unreachable("65,536 writes wait for the disk; try again later"));
        }
        let job = Box::new(WriteJob { weight, act, done: None, reply, runtime: WorkerRuntime::current() });
        match self.jobs.as_ref().map(|jobs| jobs.send(job)) {
            Some(Ok(())) => Ok(answer),
            _ => {
                self.access.waiting.fetch_sub(1, Ordering::Relaxed);
                Err(StoreError::unreachable("the writer thread has ended; open the store again"))
            }
        }
    }
}

/// Waits for the queued jobs, so that the file is closed when the store is dropped.
impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// A write in the queue.
trait Job: Send {
    fn weight(&self) -> Weight;

    /// Returns the runtime of the caller, if its task runs on a worker.
    fn runtime(&self) -> Option<&WorkerRuntime>;

    /// Runs the job within the transaction of the batch, and stores the answer.
    fn act(&mut self, batch: &WriteTransaction<'_>) -> rusqlite::Result<()>;

    /// Sends the answer, after the batch is durable or has failed.
    fn answer(self: Box<Self>, failed: Option<&Failed>);
}

struct WriteJob<T, F> {
    weight: Weight,
    act: F,
    done: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, Failed>>,
    runtime: Option<WorkerRuntime>,
}

impl<T: Send, F: FnMut(&WriteTransaction<'_>) -> Done<T> + Send> Job for WriteJob<T, F> {
    fn weight(&self) -> Weight {
        self.weight
    }

    fn runtime(&self) -> Option<&WorkerRuntime> {
        self.runtime.as_ref()
    }

    fn act(&mut self, batch: &WriteTransaction<'_>) -> rusqlite::Result<()> {
        self.done = Some((self.act)(batch)?);
        Ok(())
    }

    fn answer(self: Box<Self>, failed: Option<&Failed>) {
        let answer = match (failed, self.done) {
            (None, Some(done)) => done.map_err(Failed::from),
            (Some(failed), _) => Err(failed.clone()),
            (None, None) => return,
        };
        // The caller may have dropped the receiver.
        drop(self.reply.send(answer));
    }
}

impl WriteAccess {
    /// Notes a transaction with this number of jobs.
    fn note(&self, jobs: usize, took: Duration) {
        self.is_calm.store(jobs == 1 && took < SHORT, Ordering::Relaxed);
    }
}

/// Jobs that were run. Dropping them sends their answers, so a runtime that shuts down and drops
/// its tasks loses no answer to a caller elsewhere.
struct Answers {
    jobs: Vec<Box<dyn Job>>,
    failed: Option<Failed>,
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.jobs.drain(..).for_each(|job| job.answer(self.failed.as_ref()));
    }
}

/// Answers that a task of a runtime gives when it is dropped, after it ran or without that. The
/// writer takes them back if that does not happen.
struct GivenAnswers(Arc<Mutex<Option<Answers>>>);

impl GivenAnswers {
    fn take(&self) -> Option<Answers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for GivenAnswers {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// Sends the answers of a batch. A runtime answers only its own tasks, because it may be busy.
/// Returns what it was given.
fn answer(batch: Vec<Box<dyn Job>>, failed: Option<Failed>) -> Option<GivenAnswers> {
    let runtime = batch.iter().find_map(|job| job.runtime().cloned());
    let Some(runtime) = runtime.filter(|_| batch.len() >= ANSWERS_TOGETHER_MIN) else {
        drop(Answers { jobs: batch, failed });
        return None;
    };
    let (there, elsewhere) = batch.into_iter().partition(|job| job.runtime().is_some_and(|other| runtime.is_same(other)));
    let answers = Arc::new(Mutex::new(Some(Answers { jobs: there, failed: failed.clone() })));
    runtime.drop_there(GivenAnswers(Arc::clone(&answers)));
    drop(Answers { jobs: elsewhere, failed });
    Some(GivenAnswers(answers))
}

/// The state of the writer thread.
struct WriteQueue {
    access: Arc<WriteAccess>,
    inbox: Receiver<Box<dyn Job>>,
    /// Answers of former batches, and when a runtime got them.
    given: Vec<(Instant, GivenAnswers)>,
}

impl WriteQueue {
    fn work(&mut self) {
        while let Some(first) = self.next() {
            let access = Arc::clone(&self.access);
            let mut database = access.database.lock().unwrap_or_else(PoisonError::into_inner);
            // Under the lock: jobs that were queued while it was taken are part of the batch.
            let mut batch = self.batch(first);
            let written = write(&mut database, &mut batch);
            access.note(batch.len(), database.last_took);
            match written {
                Err(failed) if failed.is_corrupt && batch.len() > 1 => {
                    for mut job in batch {
                        let written = write(&mut database, std::slice::from_mut(&mut job));
                        self.answer(vec![job], written);
                    }
                }
                written => {
                    drop(database);
                    self.answer(batch, written);
                }
            }
        }
    }

    /// Waits for a job. Returns `None` at the end of the store.
    fn next(&mut self) -> Option<Box<dyn Job>> {
        loop {
            // The second reference is that of the task. Dropping late answers gives them here.
            self.given.retain(|(since, answers)| Arc::strong_count(&answers.0) > 1 && since.elapsed() < ANSWERED_WITHIN);
            if self.given.is_empty() {
                return self.inbox.recv().ok();
            }
            match self.inbox.recv_timeout(ANSWERED_WITHIN) {
                Ok(job) => return Some(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    fn answer(&mut self, batch: Vec<Box<dyn Job>>, written: Result<(), Failed>) {
        let sends_hint = written.is_ok() && batch.iter().any(|job| job.weight().sends_hint);
        self.given.extend(answer(batch, written.err()).map(|answers| (Instant::now(), answers)));
        if sends_hint {
            self.access.hints.notify();
        }
    }

    fn batch(&self, first: Box<dyn Job>) -> Vec<Box<dyn Job>> {
        let mut bytes = first.weight().bytes;
        let mut batch = vec![first];
        while batch.len() < JOBS_PER_BATCH_MAX && bytes < BYTES_PER_BATCH {
            let Ok(job) = self.inbox.try_recv() else { break };
            bytes += job.weight().bytes;
            batch.push(job);
        }
        self.access.waiting.fetch_sub(batch.len(), Ordering::Relaxed);
        batch
    }
}

fn write(database: &mut Database, jobs: &mut [Box<dyn Job>]) -> Result<(), Failed> {
    database.write(|transaction| jobs.iter_mut().try_for_each(|job| job.act(transaction)))
}
