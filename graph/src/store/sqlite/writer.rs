//! [`Writer`]: the one thread that writes to the file.
//!
//! The thread takes the waiting jobs, runs them in one transaction, and answers after COMMIT.
//!
//! Invariants:
//! 1. A rejected job (fenced, held, ...) has changed nothing. The other jobs of its batch continue.
//! 2. An error of the database fails the whole batch, and everything in it is rolled back. If a job
//!    found a damaged page, each job runs again in its own transaction, because the page may belong
//!    to one run.
//! 3. After a failed COMMIT the result is unknown. The connection is closed and reopened, and the
//!    batch fails.
//! 4. A job succeeds only after COMMIT has returned and the file is still in place.

use super::clock::{Clock, Now};
use super::file::DbFile;
use super::holders::Holders;
use super::read::is_corruption;
use crate::store::error::StoreError;
use crate::store::hint::Hints;
use futures_channel::oneshot;
use rusqlite::Connection;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

/// The largest number of jobs in one transaction.
const JOBS_PER_BATCH_MAX: usize = 256;

/// The number of bytes after which a batch takes no further job.
const BYTES_PER_BATCH: usize = 4 << 20;

/// The largest number of waiting jobs.
const JOBS_WAITING_MAX: usize = 65_536;

/// The result of a job: an answer or a rejection, or an error of the database.
pub(super) type Done<T> = rusqlite::Result<Result<T, StoreError>>;

/// The error of a job, and whether it found a damaged page.
#[derive(Clone)]
pub(super) struct Failed {
    pub(super) error: StoreError,
    /// Whether the job found a damaged page of the file.
    pub(super) is_corrupt: bool,
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self { error, is_corrupt: false }
    }
}

/// The cost of a job, which the writer needs before it runs the job.
#[derive(Clone, Copy)]
pub(super) struct Weight {
    pub(super) bytes: usize,
    /// Whether the job may make a run ready, so that a hint is sent.
    pub(super) sends_hint: bool,
}

/// The context of a job: the transaction of its batch, the time, and this store as a holder of
/// leases.
pub(super) struct WriteTransaction<'a> {
    pub(super) db: &'a Connection,
    pub(super) now: Now,
    pub(super) holders: &'a Holders,
}

/// The sending half of the writer thread. Dropping it waits for the thread.
pub(super) struct Writer {
    jobs: Option<Sender<Box<dyn Job>>>,
    waiting: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(file: DbFile, clock: Arc<Clock>, hints: Arc<Hints>) -> Result<Self, StoreError> {
        let holders = Holders::join(file.path(), clock.boot_id());
        let db = file.open(&holders, &clock)?;
        let (jobs, inbox) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let mut queue = WriteQueue { db: Some(db), file, clock, holders, inbox, waiting: Arc::clone(&waiting), hints };
        let thread = thread::Builder::new().name("pleach-sqlite".into()).spawn(move || queue.work());
        Ok(Self { jobs: Some(jobs), waiting, thread: Some(thread.map_err(StoreError::unavailable)?) })
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
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= JOBS_WAITING_MAX {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(StoreError::unreachable("65,536 writes wait for the disk; try again later"));
        }
        let job = Box::new(WriteJob { weight, act, done: None, reply });
        match self.jobs.as_ref().map(|jobs| jobs.send(job)) {
            Some(Ok(())) => Ok(answer),
            _ => {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
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
}

impl<T: Send, F: FnMut(&WriteTransaction<'_>) -> Done<T> + Send> Job for WriteJob<T, F> {
    fn weight(&self) -> Weight {
        self.weight
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

/// The state of the writer thread. Its fields are dropped in order: the file is closed before the
/// holder ends.
struct WriteQueue {
    /// `None` after a failed COMMIT, if the file could not be reopened.
    db: Option<Connection>,
    holders: Holders,
    file: DbFile,
    clock: Arc<Clock>,
    inbox: Receiver<Box<dyn Job>>,
    waiting: Arc<AtomicUsize>,
    hints: Arc<Hints>,
}

impl WriteQueue {
    fn work(&mut self) {
        while let Ok(first) = self.inbox.recv() {
            let mut batch = self.batch(first);
            match self.write(&mut batch) {
                Err(failed) if failed.is_corrupt && batch.len() > 1 => {
                    for mut job in batch {
                        let written = self.write(std::slice::from_mut(&mut job));
                        self.answer(vec![job], written);
                    }
                }
                written => self.answer(batch, written),
            }
        }
    }

    fn answer(&self, batch: Vec<Box<dyn Job>>, written: Result<(), Failed>) {
        let sends_hint = written.is_ok() && batch.iter().any(|job| job.weight().sends_hint);
        batch.into_iter().for_each(|job| job.answer(written.as_ref().err()));
        if sends_hint {
            self.hints.notify();
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
        self.waiting.fetch_sub(batch.len(), Ordering::Relaxed);
        batch
    }

    fn write(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), Failed> {
        let db = match self.db.take() {
            Some(db) => db,
            None => self.file.open(&self.holders, &self.clock)?,
        };
        let begun = run(&db, "BEGIN IMMEDIATE").map_err(|error| self.file.failure(error));
        let done = begun.and_then(|()| self.file.check_format(&db)).map_err(Failed::from).and_then(|()| {
            let batch = WriteTransaction { db: &db, now: self.clock.now(), holders: &self.holders };
            jobs.iter_mut().try_for_each(|job| job.act(&batch)).map_err(|error| {
                let is_corrupt = is_corruption(&error) && self.file.check_in_place().is_ok();
                Failed { error: self.file.failure(error), is_corrupt }
            })
        });
        if let Err(error) = done {
            // Some errors have already ended the transaction.
            if db.is_autocommit() || run(&db, "ROLLBACK").is_ok() {
                self.db = Some(db);
            }
            return Err(error);
        }
        if let Err(error) = run(&db, "COMMIT") {
            drop(db);
            self.db = self.file.open(&self.holders, &self.clock).ok();
            return Err(self.file.failure(error).into());
        }
        // Writes to a deleted file are lost. The connection is not used again.
        self.file.check_in_place()?;
        self.db = Some(db);
        Ok(())
    }
}

fn run(db: &Connection, statement: &'static str) -> rusqlite::Result<()> {
    db.prepare_cached(statement)?.execute([]).map(drop)
}
