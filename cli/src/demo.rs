//! The demo: a supervised crew under load, and what became of every message.

use crate::crew::{Character, PLANNED_PANIC};
use crate::table::{Decision, Fate, Report};
use pleach::prelude::*;
use std::collections::HashMap;
use std::panic;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// What the demo hears of while it runs.
#[derive(Default)]
struct Heard {
    restarts: HashMap<ActorPath, u32>,
    /// What was decided, of whose failures, how often, and the last of them.
    decisions: Vec<Decision>,
    unhandled: Option<FailureInfo>,
}

impl Heard {
    fn note_decision(&mut self, failure: &FailureInfo, directive: SupervisorDirective) {
        let known = self.decisions.iter_mut().find(|known| known.is_like(failure, directive));
        match known {
            Some(known) => known.add(failure),
            None => self.decisions.push(Decision::first(failure, directive)),
        }
    }
}

/// A worker, and the messages that came back to whoever sent them.
struct Hired {
    character: Character,
    worker: ActorRef<u32>,
    given_back: Arc<AtomicU32>,
}

/// Runs the crew to its end. `Err` if something went wrong that was not planned, or a message is unaccounted for.
pub async fn run() -> Result<Report, String> {
    keep_planned_panics_quiet();
    let report = run_crew().await.map_err(|error| format!("the demo went wrong: {error}"))?;
    match report.fault() {
        Some(fault) => Err(format!("{report}\nnot every message is accounted for: {fault}")),
        None => Ok(report),
    }
}

async fn run_crew() -> Result<Report, pleach::Error> {
    let system = ActorSystem::new("demo")?;
    let heard = listen(&system);

    // One supervisor with patience, and one with the default: three restarts in five seconds.
    let crew = system.supervisor("crew", OneForOne::new().intensity(1_000, Duration::from_secs(60)))?;
    let strict = system.supervisor("strict", OneForOne::new())?;

    let load = system.scope("load")?;
    let mut hired = Vec::new();
    for character in Character::ALL {
        let boss = if character == Character::Hopeless { &strict } else { &crew };
        let worker = boss.spawn(character.name(), character.props())?;
        let given_back = Arc::new(AtomicU32::new(0));
        load.task().named(character.name()).launch(give_work(character, worker.clone(), Arc::clone(&given_back)))?;
        hired.push(Hired { character, worker, given_back });
    }
    load.wait_all().await?;
    system.shutdown(Duration::from_secs(5)).await?;

    let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
    let fates = hired.iter().map(|hired| hired.fate(&heard)).collect();
    let top = heard.unhandled.as_ref().map(ToString::to_string);
    let decisions = std::mem::take(&mut heard.decisions);
    Ok(Report { fates, total: system.counts(), failures: system.failures() as u64, decisions, top })
}

/// Offers a worker all its jobs, and does half-way or at the end what its character asks for.
async fn give_work(character: Character, worker: ActorRef<u32>, given_back: Arc<AtomicU32>) {
    for job in 1..=character.jobs() {
        // Whoever is slow is not waited for; the others are.
        let sent = if character == Character::Slow { worker.tell(job) } else { worker.send(job).await };
        if sent.is_err() {
            given_back.fetch_add(1, Relaxed);
        }
        if character == Character::Stopped && job == character.jobs() / 2 {
            worker.stop();
        }
        // A pause, so that the slow one gets somewhere, and the one to be stopped has done something by then.
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

impl Hired {
    fn fate(&self, heard: &Heard) -> Fate {
        Fate {
            worker: self.character.name(),
            offered: u64::from(self.character.jobs()),
            given_back: u64::from(self.given_back.load(Relaxed)),
            counts: self.worker.counts(),
            restarts: heard.restarts.get(&self.worker.path()).copied().unwrap_or(0),
            exit: self.worker.exit(),
        }
    }
}

fn listen(system: &ActorSystem) -> Arc<Mutex<Heard>> {
    let heard = Arc::new(Mutex::new(Heard::default()));
    let notes = Arc::clone(&heard);
    system.on_event(move |event| match event {
        Event::Restarted { path, incarnation } => {
            notes.lock().unwrap_or_else(PoisonError::into_inner).restarts.insert(path.clone(), *incarnation);
        }
        Event::Decided { failure, directive } => {
            notes.lock().unwrap_or_else(PoisonError::into_inner).note_decision(failure, *directive);
        }
        Event::Unhandled(failure) => {
            notes.lock().unwrap_or_else(PoisonError::into_inner).unhandled = Some(failure.clone());
        }
        _ => {}
    });
    heard
}

/// Panics that are part of the demo would flood the terminal; any other is told as ever.
fn keep_planned_panics_quiet() {
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let text = info.payload().downcast_ref::<String>();
        if !text.is_some_and(|text| text.starts_with(PLANNED_PANIC)) {
            tell(info);
        }
    }));
}
