//! Messages that the runs of a worker refused: their health reports between two drives.
//!
//! A run that waits for a message is released, so it has no driver. Its reports stay with the
//! worker that drove it last, until that worker or another one drives it again, or it ends.
//!
//! Two cases need a look at the store:
//! 1. A worker that starts reports the runs that wait since before, so that a restart of the
//!    process hides nothing.
//! 2. The watch reads the own row of each kept run. A run that was claimed since then belongs to
//!    another driver, so its reports are withdrawn here.

use crate::control::{RunRefusals, WorkerRefusals};
use crate::durable::refusals::adopt;
use crate::store::{Filter, Held, RunCursor, RunInfo, RunStatus, StoreError};
use crate::worker::core::{CALL_MAX, WorkerCore};
use pleach_core::AnyRef;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most waiting runs whose reports are kept.
const KEPT_MAX: usize = 256;

/// The most rows that one look fails to read. Then the store seems to be down, and the look ends.
const UNREAD_MAX: usize = 4;

/// The most waiting runs that a starting worker looks at, the newest first, and the most whose
/// refused messages it reads.
const LISTED_AT_START: usize = 1_000;
const READ_AT_START: usize = 256;

/// How often a starting worker tries to read the refused messages of one run. With the growing
/// waits in between it tries for about half a minute.
const TRIES_MAX: u32 = 8;

/// The reports of the runs that a worker drove and that wait now.
pub(super) struct KeptRefusals {
    member: AnyRef,
    worker: Arc<WorkerRefusals>,
    runs: Mutex<BTreeMap<String, KeptRun>>,
}

struct KeptRun {
    refusals: Arc<RunRefusals>,
    instance: u64,
    /// The epoch of the last claim. A higher one belongs to another driver.
    epoch: u64,
    /// The last look could not read the row of the run.
    is_unread: bool,
}

impl KeptRefusals {
    pub(super) fn new(member: AnyRef) -> Self {
        let worker = Arc::new(WorkerRefusals::new(member.clone()));
        Self { member, worker, runs: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, KeptRun>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn blank(&self, run: &str) -> Arc<RunRefusals> {
        Arc::new(RunRefusals::new(run.into(), self.member.clone(), Some(Arc::clone(&self.worker))))
    }

    /// Returns the reports of a claimed run: the kept ones, if there are any. Opening the run
    /// withdraws those whose waits are over, and adds what another driver refused meanwhile.
    pub(super) fn claimed(&self, held: &Held) -> Arc<RunRefusals> {
        let kept = self.lock().remove(&held.run);
        match kept {
            Some(KeptRun { refusals, instance, epoch, .. }) if instance == held.instance => {
                if epoch + 1 != held.epoch {
                    refusals.outdate();
                }
                refusals
            }
            _ => self.blank(&held.run),
        }
    }

    /// Keeps the reports of a run that waits, unless those of a later claim are kept. Without
    /// reports there is nothing to keep.
    pub(super) fn keep(&self, held: &Held, refusals: Arc<RunRefusals>) {
        if refusals.is_empty() {
            return;
        }
        let Held { run, instance, epoch } = held.clone();
        let mut runs = self.lock();
        if runs.get(&run).is_some_and(|kept| kept.instance == instance && kept.epoch > epoch) {
            return;
        }
        if runs.len() < KEPT_MAX || runs.contains_key(&run) {
            let replaced = runs.insert(run, KeptRun { refusals, instance, epoch, is_unread: false });
            drop(runs);
            drop(replaced);
        } else {
            tracing::warn!(
                run,
                limit = KEPT_MAX,
                "too many waiting runs have refused messages, so the health no longer shows this one"
            );
        }
    }

    /// Withdraws all reports of waiting runs: the worker no longer looks.
    pub(super) fn withdraw(&self) {
        let runs = std::mem::take(&mut *self.lock());
        drop(runs);
    }

    /// Returns the runs that wait, as they were held last. The unread ones come last.
    fn held(&self) -> Vec<Held> {
        let runs = self.lock();
        let (unread, read): (Vec<_>, Vec<_>) = runs.iter().partition(|(_, kept)| kept.is_unread);
        let of = |(run, kept): (&String, &KeptRun)| Held { run: run.clone(), instance: kept.instance, epoch: kept.epoch };
        read.into_iter().chain(unread).map(of).collect()
    }

    /// Notes whether the row of a run could be read. Returns whether that changed.
    fn note_read(&self, run: &str, is_unread: bool) -> bool {
        let mut runs = self.lock();
        runs.get_mut(run).is_some_and(|kept| std::mem::replace(&mut kept.is_unread, is_unread) != is_unread)
    }

    /// Forgets a run, unless it was kept anew meanwhile.
    fn forget(&self, held: &Held) {
        let mut runs = self.lock();
        let is_same = runs.get(&held.run).is_some_and(|kept| (kept.instance, kept.epoch) == (held.instance, held.epoch));
        let forgotten = if is_same { runs.remove(&held.run) } else { None };
        drop(runs);
        drop(forgotten);
    }
}

/// The waiting runs that a starting worker has not looked at yet.
pub(super) struct Adoption {
    /// The graphs whose runs are not all listed, and where the list of the first one continues.
    graphs: Vec<String>,
    next: Option<RunCursor>,
    /// The listed runs that are not read yet, with the failed tries.
    runs: VecDeque<(RunInfo, u32)>,
    listed: usize,
    read: usize,
}

impl Adoption {
    fn is_over(&self) -> bool {
        self.read >= READ_AT_START || (self.runs.is_empty() && (self.graphs.is_empty() || self.listed >= LISTED_AT_START))
    }
}

impl WorkerCore {
    /// Withdraws the reports of runs that another driver has claimed, and of runs that have ended.
    /// The reports of a run whose row cannot be read stay.
    pub(super) async fn look_at_kept_refusals(&self) {
        let mut unread = 0;
        for held in self.refusals.held() {
            match self.bounded(CALL_MAX, self.store.head(&held.run)).await {
                Ok(info) if Held::of(&info) == held && !info.status.has_ended() => {
                    self.refusals.note_read(&held.run, false);
                }
                Ok(_) | Err(StoreError::RunNotFound { .. } | StoreError::Damaged { .. }) => self.refusals.forget(&held),
                Err(error) => {
                    if self.refusals.note_read(&held.run, true) {
                        tracing::warn!(run = held.run, %error, "the run could not be read, so the health keeps its refused messages");
                    }
                    unread += 1;
                    if unread >= UNREAD_MAX {
                        return;
                    }
                }
            }
        }
    }

    /// Begins to report the refused messages of runs that waited before this worker started.
    pub(super) fn adoption(&self) -> Adoption {
        let names: BTreeSet<&str> = self.graphs.iter().map(|known| known.export.graph.name.as_str()).collect();
        let graphs = names.into_iter().map(str::to_string).collect();
        Adoption { graphs, next: None, runs: VecDeque::new(), listed: 0, read: 0 }
    }

    /// Continues to report them, until all are read or the store fails. A run that cannot be read
    /// is skipped after [`TRIES_MAX`] tries.
    pub(super) async fn adopt_refusals(&self, adoption: &mut Adoption) -> Result<(), StoreError> {
        while !adoption.is_over() {
            let Some((info, tries)) = adoption.runs.pop_front() else {
                self.list_waiting(adoption).await?;
                continue;
            };
            if let Err(error) = self.adopt(&info).await {
                if tries + 1 < TRIES_MAX {
                    adoption.runs.push_back((info, tries + 1));
                } else {
                    tracing::warn!(run = info.id, %error, "the refused messages of the run could not be read, so the health does not show them until the run is driven again");
                }
                return Err(error);
            }
            adoption.read += 1;
        }
        Ok(())
    }

    /// Lists the next waiting runs that may have refused messages.
    async fn list_waiting(&self, adoption: &mut Adoption) -> Result<(), StoreError> {
        let Some(name) = adoption.graphs.last() else { return Ok(()) };
        let filters = vec![Filter::Status(RunStatus::Waiting), Filter::Graph(name.clone())];
        let count = LISTED_AT_START - adoption.listed;
        let page = self.bounded(CALL_MAX, self.store.list(filters, adoption.next, count)).await?;
        adoption.listed += page.runs.len();
        adoption.next = page.next;
        if adoption.next.is_none() {
            adoption.graphs.pop();
        }
        let is_known = |info: &RunInfo| self.graphs.iter().any(|known| known.drives(&info.graph, &info.version));
        let has_messages = |info: &RunInfo| info.last_message > 0 && info.owner.is_none();
        let runs = page.runs.into_iter().filter(|info| has_messages(info) && is_known(info));
        adoption.runs.extend(runs.map(|info| (info, 0)));
        Ok(())
    }

    async fn adopt(&self, info: &RunInfo) -> Result<(), StoreError> {
        let refusals = self.refusals.blank(&info.id);
        match self.bounded(CALL_MAX, Box::pin(adopt(&*self.store, info, &refusals))).await {
            Ok(true) => {
                let held = Held::of(info);
                self.refusals.keep(&held, refusals);
                // This worker may have claimed it meanwhile. Then its driver reports.
                let is_later = |(later, _): &(Held, _)| later.run == held.run && later.epoch > held.epoch;
                if self.held().iter().any(is_later) {
                    self.refusals.forget(&held);
                }
            }
            Ok(false) => {}
            // The run was deleted or pruned meanwhile, or cannot be read; its driver reports that.
            Err(error) if error.is_temporary() => return Err(error),
            Err(_) => {}
        }
        Ok(())
    }
}
