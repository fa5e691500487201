//! The worker process of the demo: an actor system with an inspection socket, and durable runs.
//!
//! | file | owns |
//! |---|---|
//! | `mod` | the life of the process |
//! | `cast` | the actors, and the account of their messages |
//! | `load` | who sends them messages |
//! | `orders` | the durable runs |
//! | `pace` | the clock that can be stopped; random numbers |
//! | `notes` | what is written to the show |
//!
//! The process ends in order after [`Order::Finish`], and at once when its input ends: then the
//! show has died.

mod cast;
mod load;
mod notes;
pub mod orders;
mod pace;

use super::folder::Places;
use super::protocol::{Decided, Directive, FinalAccount, Note, Order};
use super::till::Till;
use crate::failure::{Failure, Status};
use cast::{Cast, Job, PLANNED_PANIC};
use notes::Notes;
use orders::{Orders, Shop};
use pace::{Mode, Pace};
use pleach::prelude::*;
use pleach::supervise::Reason;
use std::io::BufRead as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::mpsc;

/// The time between two reports of the account.
const PULSE: Duration = Duration::from_millis(200);

/// How long the actors may take to handle what is queued at the end.
const SHUTDOWN: Duration = Duration::from_secs(3);

/// How many orders wait at most. The show sends one per key.
const ORDERS_MAX: usize = 64;

/// The time limits of health, short enough for a show.
#[cfg(unix)]
const FULL_FOR: Duration = Duration::from_secs(1);

/// Runs the worker process until the order to finish.
pub async fn run(folder: PathBuf, seed: u64) -> Result<(), Failure> {
    let places = Places::of(folder);
    let failed = |error: BoxError| Failure::new(Status::Failed, format_args!("the worker of the demo failed: {error}"));
    let orders = read_orders();
    let _lock = places.lock_for_worker().map_err(|error| failed(error.into()))?;
    let (notes, writer) = Notes::start();
    serve(&places, seed, &notes, orders).await.map_err(failed)?;
    notes.finish();
    drop(tokio::task::spawn_blocking(move || writer.join()).await);
    Ok(())
}

type BoxError = pleach::BoxError;

async fn serve(places: &Places, seed: u64, notes: &Notes, mut orders: mpsc::Receiver<Order>) -> Result<(), BoxError> {
    hide_planned_panics();
    let store = SqliteStore::open(places.store()).await?;
    let picked_up = orders::picked_up(&store).await?;
    let system = build(places)?;
    let pace = Pace::new();
    let cast = Cast::start(&system, &pace)?;
    let observed = observe(&system, &cast, notes);

    let customers = system.scope("customers")?;
    load::start(&customers, &cast, &pace, seed)?;
    let shop = Shop { till: Till::at(places.till()), pace: pace.clone(), notes: notes.clone() };
    let scope = system.scope("orders")?;
    let runs = Orders::start(&scope, &store, &shop, seed)?;
    notes.send_surely(Note::Ready { picked_up });

    let (mut pulse, mut dead_letters) = (tokio::time::interval(PULSE), Vec::new());
    loop {
        let order = tokio::select! {
            order = orders.recv() => order,
            _ = pulse.tick() => {
                notes.send(Note::Pulse(cast.total()));
                for (path, count, are_dropped) in cast.dead_letters(&mut dead_letters) {
                    notes.send(Note::DeadLetters { path, count, are_dropped });
                }
                continue;
            }
        };
        match order {
            None | Some(Order::Finish) => break,
            Some(Order::Pause) => pace.set(Mode::Paused),
            Some(Order::Continue) => pace.set(Mode::Running),
            Some(Order::Poison { path }) => {
                if cast.at(&path).is_some_and(|member| !member.tell(Job::Poison)) {
                    notes.send(Note::Returned { path });
                }
            }
            Some(Order::Overload { path }) => {
                if let Some((sent, returned)) = cast.at(&path).map(cast::Member::overload) {
                    notes.send(Note::Overloaded { path, sent, returned });
                }
            }
        }
    }
    // First the runs: without rests, their steps would race through the graph.
    runs.close().await;
    pace.set(Mode::Finishing);
    drop(customers.wait_all().await);
    if let Err(late) = system.shutdown(SHUTDOWN).await {
        // Such as an actor that a tool has suspended. Its messages are dead letters now.
        eprintln!("{late}");
    }
    notes.send_surely(Note::Final(Box::new(account(&system, &cast, &observed))));
    Ok(())
}

/// Builds the system, with a socket for tools where there is one.
fn build(places: &Places) -> Result<ActorSystem, pleach::Error> {
    let builder = ActorSystem::builder("demo");
    #[cfg(unix)]
    let builder = {
        use pleach::inspect::{HealthLimits, InspectAction, InspectOptions};
        let actions = [InspectAction::Stop, InspectAction::Restart, InspectAction::Suspend, InspectAction::Resume];
        builder
            .health_limits(HealthLimits::default().mailbox_full(FULL_FOR))
            .inspect(InspectOptions::at(places.socket()).allow(actions))
    };
    #[cfg(not(unix))]
    let _ = places;
    builder.build()
}

/// What the final account needs of the events.
#[derive(Default)]
struct Observed {
    decided: AtomicU64,
    unhandled: AtomicU64,
}

/// Passes what supervisors do to the show.
fn observe(system: &ActorSystem, cast: &Cast, notes: &Notes) -> Arc<Observed> {
    let observed = Arc::new(Observed::default());
    let (seen, cast, notes) = (Arc::clone(&observed), cast.clone(), notes.clone());
    system.on_event(move |event| match event {
        Event::Failed(failure) => cast.note_failure(failure.path()),
        Event::Decided { failure, directive, .. } => {
            let decided = decided(failure, *directive);
            if !decided.is_escalated {
                seen.decided.fetch_add(1, Relaxed);
            }
            notes.send(Note::Decided(decided));
        }
        Event::Restarted { path, .. } => {
            cast.note_restart(path);
            notes.send(Note::Restarted { path: path.to_string() });
        }
        Event::GaveUp(gave_up) => notes.send(Note::GaveUp {
            supervisor: gave_up.supervisor.to_string(),
            child: gave_up.child.to_string(),
            restarts: gave_up.restarts,
            window_ms: millis(gave_up.window),
        }),
        Event::Unhandled(_) => drop(seen.unhandled.fetch_add(1, Relaxed)),
        _ => {}
    });
    observed
}

fn decided(failure: &FailureInfo, directive: SupervisorDirective) -> Decided {
    Decided {
        path: failure.path().to_string(),
        directive: match directive {
            SupervisorDirective::Restart => Directive::Restart,
            SupervisorDirective::Stop => Directive::Stop,
            SupervisorDirective::Escalate => Directive::Escalate,
            _ => Directive::Other,
        },
        reason: match failure.reason() {
            Reason::Panic { message, .. } => message.replace(PLANNED_PANIC, ""),
            reason => reason.to_string(),
        },
        is_panic: matches!(failure.reason(), Reason::Panic { .. }),
        is_escalated: failure.path() != failure.origin(),
        restarts: failure.restarts(),
        delay_ms: failure.restart_delay().map_or(0, millis),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn account(system: &ActorSystem, cast: &Cast, observed: &Observed) -> FinalAccount {
    FinalAccount {
        actors: cast.accounts(),
        total: cast.total(),
        system: system.counts(),
        decided: observed.decided.load(Relaxed),
        unhandled: observed.unhandled.load(Relaxed),
    }
}

/// Reads orders on a thread. When the input ends, the show has died, and the process ends at once:
/// other workers resume the runs after their last record.
fn read_orders() -> mpsc::Receiver<Order> {
    let (sender, receiver) = mpsc::channel(ORDERS_MAX);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            let Ok(order) = serde_json::from_str::<Order>(&line) else { continue };
            // After the last order no task receives, but the end of the input still counts.
            drop(sender.blocking_send(order));
        }
        end_without_show();
    });
    receiver
}

fn end_without_show() -> ! {
    std::process::exit(Status::Failed as i32)
}

/// Hides planned panics, which would fill the log. Other panics are printed as usual.
fn hide_planned_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let text = info.payload().downcast_ref::<String>();
        if !text.is_some_and(|text| text.starts_with(PLANNED_PANIC)) {
            print(info);
        }
    }));
}
