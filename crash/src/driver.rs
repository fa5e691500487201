//! A process that drives runs: it asks what to do, does it, and says how it ended, until it is told to quit or dies.

use crate::graph::{State, Variant, everything};
use crate::mutant::{self, Mutant};
use crate::outside::{Drive, Outside};
use crate::report::{Ending, Reply, Report, Spec};
use crate::witness::Witness;
use pleach::prelude::*;
use pleach::store::{RunStatus, Store};
use pleach::{Compensation, Hooks, RunEvent, RunOptions};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

/// How long a driver with nothing to do waits before it asks again.
const IDLE: Duration = Duration::from_millis(4);

/// Everything that drivers of one process share.
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
                    let (store, drive) = self.store_for(&run);
                    let options = self.graph.run(State::new(variant)).id(&*run).checkpoint(&store);
                    (run, self.drive(options, variant, drive).await)
                }
                Reply::GoOn { run, variant, take_over, answer } => {
                    let (store, drive) = self.store_for(&run);
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

    fn store_for(&self, run: &str) -> (Witness, Drive) {
        let drive = Drive::new(self.outside.clone(), Arc::clone(&self.store), run);
        let inside = mutant::apply(self.outside.spec(), Arc::clone(&self.store), &drive);
        let witness = Witness { inside, drive: drive.clone() };
        (witness.clone(), drive.posting_to(Arc::new(witness)))
    }

    async fn drive(&self, options: RunOptions<'static, State>, variant: Variant, drive: Drive) -> Ending {
        let heard = drive.clone();
        // Where a store answers too early, that is what is under test; else it is the engine that says what is durable.
        let is_heard = self.outside.spec().mutant != Some(Mutant::AdvanceBeforeCommit);
        let hooks = Hooks::new(move |event| {
            if let RunEvent::Checkpointed { sequence } = event
                && is_heard
            {
                heard.acknowledged(*sequence);
            }
        });
        let lease = Duration::from_millis(self.outside.spec().lease_millis);
        let options = options.lease(lease).keep_records(variant.records_kept()).hooks(hooks).extension(drive);
        match options.await {
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
        // A store that fails in the middle of the undos says so as a compensation that failed; the run's own status tells.
        (_, Some(Compensation::CompensationFailed { node, reason, .. })) if node.is_empty() => Ending::Stopped(reason.clone()),
        (RunFault::Fenced { .. } | RunFault::Held { .. } | RunFault::Exists { .. } | RunFault::Checkpoint(_), _) => {
            Ending::Stopped(error.to_string())
        }
        // An answer that had been taken before: somebody else was quicker.
        (RunFault::AnswerRefused { why, .. }, _) => Ending::Stopped(why.clone()),
        _ => Ending::Failed(error.to_string()),
    }
}
