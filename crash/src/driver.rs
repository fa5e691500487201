//! A process that drives runs: it asks for a run, drives it and reports the end, until it gets
//! `Quit` or dies.

use crate::graph::{State, Variant, everything};
use crate::ledger_client::LedgerClient;
use crate::mutant::{self, Mutant};
use crate::report::{Ending, Reply, Report, Spec};
use crate::reporting_store::ReportingStore;
use crate::run_reporter::RunReporter;
use pleach::graph::{Compensation, RunOptions};
use pleach::prelude::*;
use pleach::store::{RunStatus, Store};
use pleach::worker::{Worker, WorkerEvent};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

/// How long an idle driver waits before it asks again.
const IDLE: Duration = Duration::from_millis(4);

/// The poll interval of a worker.
const POLL_EVERY: Duration = Duration::from_millis(50);

/// Shared by all slots of one process.
#[derive(Clone)]
struct Driver {
    ledger: LedgerClient,
    store: Arc<dyn Store>,
    graph: CompiledGraph<State>,
}

pub fn main(spec: &str) -> Result<(), Box<dyn Error>> {
    let spec: Spec = serde_json::from_str(spec)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let ledger = LedgerClient::connect(spec)?;
        let Spec { address, slots, .. } = ledger.spec().clone();
        let store = address.open().await?;
        let driver = Driver { ledger, store, graph: everything()? };
        if driver.ledger.spec().is_worker {
            return driver.serve().await;
        }
        let slots: Vec<_> = (0..slots).map(|_| tokio::spawn(driver.clone().work())).collect();
        for slot in slots {
            slot.await?;
        }
        Ok(())
    })
}

impl Driver {
    async fn work(self) {
        let Spec { set, preferred, .. } = self.ledger.spec().clone();
        loop {
            let (run, how) = match self.ledger.say(&Report::Next { set: set.clone(), preferred }) {
                Reply::Quit => return,
                Reply::Begin { run, variant } => {
                    let (store, reporter) = self.store_for();
                    let options = self.graph.run(State::new(variant)).id(&*run).checkpoint(&store);
                    (run, self.drive(options, variant, reporter).await)
                }
                Reply::Resume { run, variant, take_over, answer } => {
                    let (store, reporter) = self.store_for();
                    let resume = self.graph.resume(&*run);
                    let resume = if take_over { resume.take_over() } else { resume };
                    let resume = if answer { resume.resume_with("approve", &true) } else { resume };
                    (run, self.drive(resume.checkpoint(&store), variant, reporter).await)
                }
                Reply::Idle | Reply::Noted => {
                    tokio::time::sleep(IDLE).await;
                    continue;
                }
            };
            if matches!(how, Ending::Stopped(_)) {
                tokio::time::sleep(IDLE).await;
            }
            self.ledger.say(&Report::Ended { run, how });
            self.ledger.pass("ended");
        }
    }

    /// Drives runs from the store as a worker, until none is left.
    async fn serve(self) -> Result<(), Box<dyn Error>> {
        let Spec { set, lease_millis, slots, .. } = self.ledger.spec().clone();
        let reporting = ReportingStore { inner: Arc::clone(&self.store), ledger: self.ledger.clone() };
        let (ledger, store) = (self.ledger.clone(), reporting.clone());
        let options = move |run: RunOptions<'static, State>| {
            let reporter = RunReporter::new(ledger.clone(), &store);
            // Few enough that long runs are pruned. Other runs have fewer records.
            run.keep_records(Variant::Long.records_kept()).hooks(reporter.hooks()).extension(reporter)
        };
        let ledger = self.ledger.clone();
        let on_event = move |event: &WorkerEvent| {
            if let WorkerEvent::Ended { run, .. } = event {
                ledger.say(&Report::Ended { run: run.clone(), how: Ending::ReleasedByWorker });
                ledger.pass("ended");
            }
        };
        let worker = Worker::new(&reporting).graph_with(&self.graph, options).limit(slots).on_event(on_event);
        let worker = worker.lease(Duration::from_millis(lease_millis)).poll_every(POLL_EVERY).start()?;
        while !matches!(self.ledger.say(&Report::Next { set: set.clone(), preferred: None }), Reply::Quit) {
            tokio::time::sleep(IDLE * 5).await;
        }
        worker.close(Duration::from_secs(1)).await;
        Ok(())
    }

    /// The store for one run, and the reporter of its nodes.
    fn store_for(&self) -> (ReportingStore, RunReporter) {
        let inner = mutant::apply(&self.ledger, Arc::clone(&self.store));
        let reporting = ReportingStore { inner, ledger: self.ledger.clone() };
        (reporting.clone(), RunReporter::new(self.ledger.clone(), &reporting))
    }

    async fn drive(&self, options: RunOptions<'static, State>, variant: Variant, reporter: RunReporter) -> Ending {
        let lease = Duration::from_millis(self.ledger.spec().lease_millis);
        let options = options.lease(lease).keep_records(variant.records_kept());
        // For this mutant the store itself reports durable records.
        let says_itself = self.ledger.spec().mutant == Some(Mutant::AdvanceBeforeCommit);
        let options = if says_itself { options } else { options.hooks(reporter.hooks()) };
        match options.extension(reporter).await {
            Ok(state) => Ending::Finished(Box::new(state)),
            Err(error) => ending_of(&error),
        }
    }
}

fn ending_of(error: &RunError<State>) -> Ending {
    match (error.fault(), error.compensation()) {
        (_, Some(Compensation::Compensated { .. })) => Ending::Compensated,
        (RunFault::Ended { status: RunStatus::Compensated, .. }, _) => Ending::Compensated,
        (RunFault::Paused { .. }, _) => Ending::Paused,
        // A store that fails during the undos ends as a failed compensation without a node. The
        // status of the run is right.
        (_, Some(Compensation::CompensationFailed { node, reason, .. })) if node.is_empty() => Ending::Stopped(reason.clone()),
        (RunFault::Fenced { .. } | RunFault::Held { .. } | RunFault::Exists { .. } | RunFault::Checkpoint(_), _) => {
            Ending::Stopped(error.to_string())
        }
        // Another driver took the answer first.
        (RunFault::AnswerRejected { reason, .. }, _) => Ending::Stopped(reason.clone()),
        _ => Ending::Failed(error.to_string()),
    }
}
