//! A process that drives runs: it asks for a run, drives it and reports the end, until it gets
//! `Quit` or dies.

use crate::drive::Drive;
use crate::graph::{State, Variant, everything};
use crate::mutant::{self, Mutant};
use crate::outside::Outside;
use crate::report::{Ending, Reply, Report, Spec};
use crate::witness::Witness;
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
    outside: Outside,
    store: Arc<dyn Store>,
    graph: CompiledGraph<State>,
}

pub fn main(spec: &str) -> Result<(), Box<dyn Error>> {
    let spec: Spec = serde_json::from_str(spec)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let outside = Outside::connect(spec)?;
        let Spec { place, slots, .. } = outside.spec().clone();
        let store = place.open().await?;
        let driver = Driver { outside, store, graph: everything()? };
        if driver.outside.spec().is_worker {
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
        let Spec { lot, wish, .. } = self.outside.spec().clone();
        loop {
            let (run, how) = match self.outside.say(&Report::Next { lot: lot.clone(), wish }) {
                Reply::Quit => return,
                Reply::Begin { run, variant } => {
                    let (store, drive) = self.store_for();
                    let options = self.graph.run(State::new(variant)).id(&*run).checkpoint(&store);
                    (run, self.drive(options, variant, drive).await)
                }
                Reply::GoOn { run, variant, take_over, answer } => {
                    let (store, drive) = self.store_for();
                    let resume = self.graph.resume(&*run);
                    let resume = if take_over { resume.take_over() } else { resume };
                    let resume = if answer { resume.resume_with("approve", &true) } else { resume };
                    (run, self.drive(resume.checkpoint(&store), variant, drive).await)
                }
                Reply::Idle | Reply::Noted => {
                    tokio::time::sleep(IDLE).await;
                    continue;
                }
            };
            if matches!(how, Ending::Stopped(_)) {
                tokio::time::sleep(IDLE).await;
            }
            self.outside.say(&Report::Ended { run, how });
            self.outside.pass("ended");
        }
    }

    /// Drives runs from the store as a worker, until none is left.
    async fn serve(self) -> Result<(), Box<dyn Error>> {
        let Spec { lot, lease_millis, slots, .. } = self.outside.spec().clone();
        let witness = Witness { inside: Arc::clone(&self.store), outside: self.outside.clone() };
        let (outside, store) = (self.outside.clone(), witness.clone());
        let options = move |run: RunOptions<'static, State>| {
            let drive = Drive::new(outside.clone(), &store);
            // Few enough that long runs are pruned. Other runs have fewer records.
            run.keep_records(Variant::Long.records_kept()).hooks(drive.hooks()).extension(drive)
        };
        let outside = self.outside.clone();
        let hears = move |event: &WorkerEvent| {
            if let WorkerEvent::Ended { run, .. } = event {
                outside.say(&Report::Ended { run: run.clone(), how: Ending::LetGo });
                outside.pass("ended");
            }
        };
        let worker = Worker::new(&witness).graph_with(&self.graph, options).limit(slots).on_event(hears);
        let worker = worker.lease(Duration::from_millis(lease_millis)).poll_every(POLL_EVERY).start()?;
        while !matches!(self.outside.say(&Report::Next { lot: lot.clone(), wish: None }), Reply::Quit) {
            tokio::time::sleep(IDLE * 5).await;
        }
        worker.close(Duration::from_secs(1)).await;
        Ok(())
    }

    /// The store for one run, and the drive of its nodes.
    fn store_for(&self) -> (Witness, Drive) {
        let inside = mutant::apply(&self.outside, Arc::clone(&self.store));
        let witness = Witness { inside, outside: self.outside.clone() };
        (witness.clone(), Drive::new(self.outside.clone(), &witness))
    }

    async fn drive(&self, options: RunOptions<'static, State>, variant: Variant, drive: Drive) -> Ending {
        let lease = Duration::from_millis(self.outside.spec().lease_millis);
        let options = options.lease(lease).keep_records(variant.records_kept());
        // For this mutant the store itself reports durable records.
        let says_itself = self.outside.spec().mutant == Some(Mutant::AdvanceBeforeCommit);
        let options = if says_itself { options } else { options.hooks(drive.hooks()) };
        match options.extension(drive).await {
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
        (RunFault::AnswerRefused { why, .. }, _) => Ending::Stopped(why.clone()),
        _ => Ending::Failed(error.to_string()),
    }
}
