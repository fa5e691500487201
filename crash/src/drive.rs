//! [`Drive`]: one run, from its start or resume in this process until the process stops driving it.
//! Its nodes use it to report.

use crate::outside::{Outside, lock};
use crate::report::Report;
use crate::witness::Witness;
use pleach::graph::{Hooks, RunEvent};
use pleach::store::Store;
use std::sync::{Arc, Mutex, OnceLock};

#[derive(Clone)]
pub struct Drive {
    outside: Outside,
    store: Arc<dyn Store>,
    known: Arc<Known>,
}

/// The run of this drive. For a worker it is known only when the first node starts.
#[derive(Default)]
struct Known {
    run: OnceLock<(String, u64)>,
    /// Acknowledged records from before the run was known.
    early: Mutex<Vec<u64>>,
}

impl Drive {
    pub fn new(outside: Outside, store: &Witness) -> Self {
        Self { outside, store: Arc::new(store.clone()), known: Arc::default() }
    }

    /// Sets the run and its epoch, that of the last claim.
    pub fn is_of(&self, run: &str) {
        self.known.run.get_or_init(|| (run.to_string(), self.outside.epoch_of(run)));
        let early = std::mem::take(&mut *lock(&self.known.early));
        early.into_iter().for_each(|sequence| self.acknowledged(sequence));
    }

    /// The store as this run sees it.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub fn pass(&self, class: &'static str) {
        self.outside.pass(class);
    }

    pub fn chance(&self, max: u64) -> u64 {
        self.outside.chance(max)
    }

    pub fn begins(&self, thing: String, rests_on: Vec<String>, once: bool) {
        let (run, epoch) = self.known.run.get().cloned().unwrap_or_default();
        let stalled = self.outside.has_stalled();
        self.outside.say_in_time(&Report::Began { run, thing, epoch, rests_on, once, stalled });
    }

    fn acknowledged(&self, sequence: u64) {
        match self.known.run.get() {
            Some((run, epoch)) => self.outside.acknowledged(run, *epoch, sequence),
            None => lock(&self.known.early).push(sequence),
        }
    }

    /// Hooks that report durable records.
    pub fn hooks<S: 'static>(&self) -> Hooks<S> {
        let drive = self.clone();
        Hooks::new(move |event| {
            if let RunEvent::Checkpointed { sequence } = event {
                drive.acknowledged(*sequence);
            }
        })
    }
}
