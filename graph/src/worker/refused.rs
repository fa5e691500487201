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
use crate::store::{Filter, Held, RunInfo, RunStatus, StoreError};
use crate::worker::core::{CALL_MAX, WorkerCore};
use pleach_core::AnyRef;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most waiting runs whose reports are kept.
const KEPT_MAX: usize = 256;

/// The most waiting runs that a starting worker looks at, the newest first, and the most whose
/// refused messages it reads.
const LISTED_AT_START: usize = 1_000;
const READ_AT_START: usize = 256;

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
    /// withdraws those whose waits are over.
    pub(super) fn claimed(&self, held: &Held) -> Arc<RunRefusals> {
        let kept = self.lock().remove(&held.run);
        match kept {
            Some(KeptRun { refusals, instance, .. }) if instance == held.instance => refusals,
            _ => self.blank(&held.run),
        }
    }

    /// Keeps the reports of a run that waits. Without reports there is nothing to keep.
    pub(super) fn keep(&self, held: &Held, refusals: Arc<RunRefusals>) {
        if refusals.is_empty() {
            return;
        }
        let Held { run, instance, epoch } = held.clone();
        let mut runs = self.lock();
        if runs.len() < KEPT_MAX || runs.contains_key(&run) {
            runs.insert(run, KeptRun { refusals, instance, epoch });
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

    /// Returns the runs that wait, as they were held last.
    fn held(&self) -> Vec<Held> {
        let of = |(run, kept): (&String, &KeptRun)| Held { run: run.clone(), instance: kept.instance, epoch: kept.epoch };
        self.lock().iter().map(of).collect()
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

impl WorkerCore {
    /// Withdraws the reports of runs that another driver has claimed, and of runs that have ended.
    pub(super) async fn look_at_kept_refusals(&self) -> Result<(), StoreError> {
        for held in self.refusals.held() {
            match self.bounded(CALL_MAX, self.store.head(&held.run)).await {
                Ok(info) if Held::of(&info) == held && !info.status.has_ended() => {}
                Ok(_) | Err(StoreError::RunNotFound { .. } | StoreError::Damaged { .. }) => self.refusals.forget(&held),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reports the refused messages of runs that waited before this worker started.
    pub(super) async fn adopt_refusals(&self) -> Result<(), StoreError> {
        let (mut listed, mut read) = (0, 0);
        let names: BTreeSet<&str> = self.graphs.iter().map(|known| known.export.graph.name.as_str()).collect();
        for name in names {
            let mut next = None;
            while listed < LISTED_AT_START && read < READ_AT_START {
                let filters = vec![Filter::Status(RunStatus::Waiting), Filter::Graph(name.to_string())];
                let page = self.bounded(CALL_MAX, self.store.list(filters, next, LISTED_AT_START - listed)).await?;
                listed += page.runs.len();
                for info in page.runs.iter().filter(|info| info.last_message > 0 && info.owner.is_none()) {
                    if read < READ_AT_START && self.graphs.iter().any(|known| known.drives(&info.graph, &info.version)) {
                        read += 1;
                        self.adopt(info).await?;
                    }
                }
                next = page.next;
                if next.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn adopt(&self, info: &RunInfo) -> Result<(), StoreError> {
        let refusals = self.refusals.blank(&info.id);
        match self.bounded(CALL_MAX, Box::pin(adopt(&*self.store, info, &refusals))).await {
            Ok(true) => self.refusals.keep(&Held::of(info), refusals),
            Ok(false) => {}
            // The run was deleted or pruned meanwhile, or cannot be read; its driver reports that.
            Err(error) if error.is_temporary() => return Err(error),
            Err(_) => {}
        }
        Ok(())
    }
}
