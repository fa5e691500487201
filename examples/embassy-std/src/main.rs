//! Sensors, a supervised worker and a watchdog on Embassy, as firmware would have them.
//!
//! It runs on Embassy's std platform: `cargo run` in this folder. Only `main` and the sensors that
//! invent readings would differ on a board; see `examples/rp2040`.
//!
//! - Two sensors send readings to a worker. One of them fails at first, and restarts with a growing
//!   delay until its bus works.
//! - A thread plays an interrupt: it sends button presses through a channel of `embassy-sync`.
//! - The second press breaks the bus permanently. The supervisor gives up, the sensor reports no
//!   more, and the watchdog is not fed. A board would reset now; the example ends.

mod sensor;
mod worker;

use core::time::Duration;
use embassy_executor::{Executor, Spawner};
use embassy_sync::blocking_mutex::raw::CriticalSectionRawMutex;
use embassy_sync::channel::Channel;
use embassy_sync::signal::Signal;
use pleach_core::{Event, ExponentialBackoff, OneForOne, Props, SupervisorDirective, System};
use pleach_embassy::{NoSignOfLife, Watchdog};
use sensor::{Bus, Sensor};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use worker::{Job, Worker};

/// Button presses, filled by the interrupt.
static PRESSES: Channel<CriticalSectionRawMutex, Job, 4> = Channel::new();
/// The hardware watchdog was not fed in time.
static RESET: Signal<CriticalSectionRawMutex, ()> = Signal::new();
/// Periods since the hardware watchdog was fed.
static UNFED: AtomicU32 = AtomicU32::new(0);

const PERIOD: Duration = Duration::from_millis(200);

fn build(spawner: Spawner) -> Result<System, Box<dyn std::error::Error>> {
    let runtime = pleach_embassy::start(spawner)?;
    let system = System::builder("board", runtime).on_event(print_event).build()?;
    let watchdog = system.spawn("watchdog", Watchdog::props(&["thermometer", "barometer"], PERIOD, feed))?;

    // A failing sensor restarts after 10 ms, 20 ms, 40 ms and so on: at most 4 times in a minute.
    let backoff = ExponentialBackoff::new(Duration::from_millis(10), Duration::from_secs(1)).jitter(0.0);
    let strategy = OneForOne::new().restart_limit(4, Duration::from_secs(60)).backoff(backoff);
    let sensors = system.supervisor("sensors", strategy)?;
    let bus = Arc::new(Bus::broken_for(3));
    let worker_bus = Arc::clone(&bus);
    let worker = Props::new(move || Worker::new(Arc::clone(&worker_bus))).with_stream(PRESSES.receiver());
    let worker = system.spawn("worker", worker)?;
    for (party, name, bus) in [(0, "thermometer", Arc::new(Bus::broken_for(0))), (1, "barometer", bus)] {
        let (to, watchdog) = (worker.clone(), watchdog.clone());
        let new = move || Sensor { party, bus: Arc::clone(&bus), to: to.clone(), watchdog: watchdog.clone() };
        sensors.spawn(name, Props::new(new))?;
    }
    Ok(system)
}

/// Feeds the hardware watchdog.
fn feed() {
    UNFED.store(0, Ordering::Relaxed);
}

fn print_event(event: &Event) {
    match event {
        Event::Decided { failure, directive: SupervisorDirective::Restart, .. } => {
            println!(
                "{} failed: {}; restart in {:?}",
                failure.path(),
                failure.reason(),
                failure.restart_delay().unwrap_or_default()
            );
        }
        // The watchdog reports late parties as failures, without failing itself.
        Event::Failed(failure) if failure.error::<NoSignOfLife>().is_some() => println!("{}", failure.reason()),
        Event::GaveUp(gave_up) => println!("{gave_up}"),
        _ => {}
    }
}

#[embassy_executor::task]
async fn run(spawner: Spawner) {
    let system = build(spawner).expect("a new system has all names and tasks free");
    std::thread::spawn(|| [Job::Press, Job::Press].into_iter().for_each(press));
    RESET.wait().await;
    println!("reset; {}", system.counts());
    std::process::exit(0);
}

/// An interrupt: it never waits.
fn press(job: Job) {
    std::thread::sleep(Duration::from_millis(500));
    if PRESSES.try_send(job).is_err() {
        println!("button press lost: the channel is full");
    }
}

/// The hardware: resets the board three periods after it was last fed.
#[embassy_executor::task]
async fn hardware() {
    loop {
        embassy_time::Timer::after_millis(PERIOD.as_millis() as u64).await;
        if UNFED.fetch_add(1, Ordering::Relaxed) == 3 {
            RESET.signal(());
        }
    }
}

fn main() {
    let executor: &'static mut Executor = Box::leak(Box::new(Executor::new()));
    executor.run(|spawner| {
        spawner.spawn(run(spawner).expect("the task is free"));
        spawner.spawn(hardware().expect("the task is free"));
    });
}
