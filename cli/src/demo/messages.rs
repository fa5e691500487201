//! The first part of the demo: supervised workers under load, and an account of every message.

use super::report::{Decision, Report, WorkerRow};
use super::workers::{Character, PLANNED_PANIC};
use pleach::prelude::*;
use std::collections::HashMap;
use std::panic;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// The events of the system that the report needs.
#[derive(Default)]
struct Observed {
    restarts: HashMap<ActorPath, u32>,
    /// The decisions of supervisors, counted by path and directive.
    decisions: Vec<Decision>,
    unhandled: Option<FailureInfo>,
}

impl Observed {
    fn note_decision(&mut self, failure: &FailureInfo, directive: SupervisorDirective) {
        let known = self.decisions.iter_mut().find(|known| known.is_like(failure, directive));
        match known {
            Some(known) => known.add(failure),
            None => self.decisions.push(Decision::first(failure, directive)),
        }
    }
}

/// A worker, and the number of messages that were returned to their sender.
struct WorkerEntry {
    character: Character,
    worker: ActorRef<u32>,
    returned: Arc<AtomicU32>,
}

/// Runs the workers until all have ended.
///
/// # Errors
/// Returns a text if an unplanned error occurs, or if a message is not accounted for.
pub async fn run() -> Result<Report, String> {
    hide_planned_panics();
    let report = run_workers().await.map_err(|error| format!("the demo failed: {error}"))?;
    match report.fault() {
        Some(fault) => Err(format!("{report}\nsome messages or failures are not accounted for: {fault}")),
        None => Ok(report),
    }
}

async fn run_workers() -> Result<Report, pleach::Error> {
    let system = ActorSystem::new("demo")?;
    let observed = listen(&system);

    // One supervisor with a high restart limit, and one with the default: three restarts in 5 s.
    let team = system.supervisor("team", OneForOne::new().restart_limit(1_000, Duration::from_secs(60)))?;
    let strict = system.supervisor("strict", OneForOne::new())?;

    let load = system.scope("load")?;
    let mut entries = Vec::new();
    for character in Character::ALL {
        let supervisor = if character == Character::Hopeless { &strict } else { &team };
        let worker = supervisor.spawn(character.name(), character.props())?;
        let returned = Arc::new(AtomicU32::new(0));
        load.task().named(character.name()).launch(send_jobs(character, worker.clone(), Arc::clone(&returned)))?;
        entries.push(WorkerEntry { character, worker, returned });
    }
    load.wait_all().await?;
    system.shutdown(Duration::from_secs(5)).await?;

    let mut observed = observed.lock().unwrap_or_else(PoisonError::into_inner);
    let rows = entries.iter().map(|entry| entry.row(&observed)).collect();
    let top = observed.unhandled.as_ref().map(ToString::to_string);
    let decisions = std::mem::take(&mut observed.decisions);
    Ok(Report { rows, total: system.counts(), failures: system.failures() as u64, decisions, top })
}

/// Sends a worker all its jobs, and stops or cancels it if its character requires that.
async fn send_jobs(character: Character, worker: ActorRef<u32>, returned: Arc<AtomicU32>) {
    for job in 1..=character.jobs() {
        // A full mailbox rejects jobs for the slow worker; the others are waited for.
        let sent = if character == Character::Slow { worker.tell(job) } else { worker.send(job).await };
        if sent.is_err() {
            returned.fetch_add(1, Relaxed);
        }
        if character == Character::Stopped && job == character.jobs() / 2 {
            worker.stop();
        }
        // A pause, so that the slow worker handles some jobs, and the stopped worker has done some
        // before it is stopped.
        if character == Character::Slow && job.is_multiple_of(4)
            || character == Character::Stopped && job == character.jobs() / 4
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    if character == Character::Stuck {
        tokio::time::sleep(Duration::from_millis(50)).await;
        worker.cancel("it hung in one job");
    }
}

impl WorkerEntry {
    fn row(&self, observed: &Observed) -> WorkerRow {
        WorkerRow {
            worker: self.character.name(),
            sent: u64::from(self.character.jobs()),
            returned: u64::from(self.returned.load(Relaxed)),
            counts: self.worker.counts(),
            restarts: observed.restarts.get(&self.worker.path()).copied().unwrap_or(0),
            exit: self.worker.exit(),
        }
    }
}

fn listen(system: &ActorSystem) -> Arc<Mutex<Observed>> {
    let observed = Arc::new(Mutex::new(Observed::default()));
    let writer = Arc::clone(&observed);
    system.on_event(move |event| match event {
        Event::Restarted { path, incarnation } => {
            writer.lock().unwrap_or_else(PoisonError::into_inner).restarts.insert(path.clone(), *incarnation);
        }
        Event::Decided { failure, directive } => {
            writer.lock().unwrap_or_else(PoisonError::into_inner).note_decision(failure, *directive);
        }
        Event::Unhandled(failure) => {
            writer.lock().unwrap_or_else(PoisonError::into_inner).unhandled = Some(failure.clone());
        }
        _ => {}
    });
    observed
}

/// Hides planned panics, which would flood the terminal. Other panics are printed as usual.
fn hide_planned_panics() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let text = info.payload().downcast_ref::<String>();
        if !text.is_some_and(|text| text.starts_with(PLANNED_PANIC)) {
            print(info);
        }
    }));
}
