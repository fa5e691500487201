//! [`RunReporter`]: reports what one run does, from its start or resume in this process until the
//! process stops driving it. Its nodes use it.

use crate::ledger_client::{LedgerClient, lock};
use crate::report::Report;
use crate::reporting_store::ReportingStore;
use pleach::graph::{Hooks, RunEvent};
use pleach::store::Store;
use std::sync::{Arc, Mutex, OnceLock};

#[derive(Clone)]
pub struct RunReporter {
    ledger: LedgerClient,
    store: Arc<dyn Store>,
    known: Arc<Known>,
}

/// The run of this reporter. For a worker it is known only when the first node starts.
#[derive(Default)]
struct Known {
    run: OnceLock<(String, u64)>,
    /// Acknowledged records from before the run was known.
    early: Mutex<Vec<u64>>,
}

impl RunReporter {
    pub fn new(ledger: LedgerClient, store: &ReportingStore) -> Self {
        Self { ledger, store: Arc::new(store.clone()), known: Arc::default() }
    }

    /// Sets the run and its epoch, that of the last claim.
    pub fn set_run(&self, run: &str) {
        self.known.run.get_or_init(|| (run.to_string(), self.ledger.epoch_of(run)));
        let early = std::mem::take(&mut *lock(&self.known.early));
        early.into_iter().for_each(|sequence| self.acknowledged(sequence));
    }

    /// The store as this run sees it.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub fn pass(&self, class: &'static str) {
        self.ledger.pass(class);
    }

    pub fn chance(&self, max: u64) -> u64 {
        self.ledger.chance(max)
    }

    pub fn begins(&self, fact: String, rests_on: Vec<String>, once: bool) {
        let (run, epoch) = self.known.run.get().cloned().unwrap_or_default();
        let stalled = self.ledger.has_stalled();
        self.ledger.say_in_time(&Report::Began { run, fact, epoch, rests_on, once, stalled });
    }

    fn acknowledged(&self, sequence: u64) {
        match self.known.run.get() {
            Some((run, epoch)) => self.ledger.acknowledged(run, *epoch, sequence),
            None => lock(&self.known.early).push(sequence),
        }
    }

    /// Hooks that report durable records.
    pub fn hooks<S: 'static>(&self) -> Hooks<S> {
        let reporter = self.clone();
        Hooks::new(move |event| {
            if let RunEvent::Checkpointed { sequence, .. } = event {
                reporter.acknowledged(*sequence);
            }
        })
    }
}
