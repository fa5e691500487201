//! [`StoreUnderTest`]: one store with its ledger, its checks and its driver processes. All tests
//! use it.

use crate::check::{Checker, Reference};
use crate::graph::Variant;
use crate::ledger::Ledger;
use crate::ledger_client::lock;
use crate::mutant::Mutant;
use crate::processes::{DriverProcess, Processes};
use crate::report::{KillPoint, Spec};
use crate::store_address::StoreAddress;
use pleach::store::RunStatus;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;
use tokio::runtime::Handle;

/// Time limit of a driver for one run.
const CASE_MAX: Duration = Duration::from_secs(40);

pub struct StoreUnderTest {
    /// The store as drivers reach it.
    pub address: StoreAddress,
    pub ledger: Ledger,
    pub processes: Processes,
    pub checker: Mutex<Checker>,
    pub reference: HashMap<Variant, Reference>,
    pub lease: Duration,
}

impl StoreUnderTest {
    /// Drivers use the store at `address`; the checks use `direct`.
    pub fn open(
        address: StoreAddress,
        direct: &StoreAddress,
        processes: &Processes,
        handle: &Handle,
        seed: u64,
    ) -> Result<Self, String> {
        let store = handle.block_on(direct.open()).map_err(|error| error.to_string())?;
        let ledger = Ledger::start(store, handle.clone(), seed).map_err(|error| error.to_string())?;
        let (checker, reference) = (Mutex::default(), HashMap::new());
        Ok(Self { address, ledger, processes: processes.clone(), checker, reference, lease: Duration::from_millis(250) })
    }

    /// Drives undisturbed runs, which all others are compared with.
    pub fn run_references(&mut self) -> Result<(), String> {
        for variant in [Variant::Full, Variant::Undone, Variant::Refused, Variant::Long] {
            let run = format!("reference {variant:?}");
            self.case(&run, variant, &[], None)?;
            let reading = lock(&self.checker).read(&self.ledger, &run).ok_or("the reference run is not in the store")?;
            let expected = if variant.is_undone() { RunStatus::Compensated } else { RunStatus::Finished };
            if reading.info.status != expected {
                return Err(format!("the undisturbed reference {variant:?} ended as {}", reading.info.status));
            }
            let state = self.ledger.with(|book| book.assignments.runs[&run].state.clone());
            let visits = reading.records.last().map_or(0, |record| record.visits);
            self.reference.insert(variant, Reference { state, visits });
        }
        let did =
            |what: &str| self.reference[&Variant::Full].state.iter().flat_map(|state| &state.done).any(|done| done == what);
        match ["in2", "item2", "gather", "charge", "heard 7", "approved true", "rest", "last"].iter().find(|what| !did(what)) {
            Some(missing) => Err(format!("the reference did not reach {missing:?}")),
            None => Ok(()),
        }
    }

    /// The settings of a driver of this set.
    pub fn spec(&self, set: &str) -> Spec {
        Spec {
            ledger_port: self.ledger.port,
            address: self.address.clone(),
            set: set.into(),
            preferred: None,
            lease_millis: self.lease.as_millis() as u64,
            is_worker: false,
            slots: 1,
            dies_at: None,
            pauses_at: None,
            mutant: None,
        }
    }

    /// Checks the runs of a dead process before anything else is started. Returns whether it died
    /// in the middle of a step.
    pub fn check_after_death(&self, pid: u32) -> bool {
        let runs = self.ledger.with(|book| book.assignments.runs_of(pid));
        self.ledger.drain(pid);
        let mut checker = lock(&self.checker);
        let mut was_busy = false;
        for run in runs {
            let is_created = checker.read(&self.ledger, &run).is_some();
            self.ledger.with(|book| {
                book.assignments.runs.get_mut(&run).into_iter().for_each(|tracked| tracked.is_created |= is_created);
            });
            was_busy |= checker.was_busy(&self.ledger, &run, pid);
        }
        was_busy
    }

    /// Drives one run: by processes that die at these points, one after the other, and then by one
    /// that does not die. Returns the number of deaths.
    pub fn case(&self, run: &str, variant: Variant, deaths: &[KillPoint], mutant: Option<Mutant>) -> Result<usize, String> {
        self.ledger.with(|book| book.assignments.add_single(run, variant));
        let mut died = 0;
        for dies_at in deaths.iter().map(Some).chain([None]) {
            let mut driver = self.processes.start(&Spec { dies_at: dies_at.cloned(), mutant, ..self.spec(run) })?;
            let status = driver.wait(CASE_MAX).map_err(|late| format!("{run}: {late}: {}", self.describe(run)))?;
            self.check_after_death(driver.pid);
            if status.success() {
                break;
            }
            died += 1;
            if status.code().is_some() {
                return Err(format!("{run}: a driver failed: {status}"));
            }
        }
        if !self.reference.is_empty() {
            drop(lock(&self.checker).finish(&self.ledger, run, &self.reference));
        }
        Ok(died)
    }

    /// The recorded state of a run, for error texts.
    pub fn describe(&self, run: &str) -> String {
        self.ledger.with(|book| format!("{:?}", book.assignments.runs.get(run)))
    }

    pub fn start(&self, spec: &Spec) -> Result<DriverProcess, String> {
        self.processes.start(spec)
    }
}
