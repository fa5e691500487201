//! Firmware for a Cortex-M3 board with 256 KB of flash and 64 KB of memory, emulated by QEMU as
//! `lm3s6965evb`. In this folder: `cargo run --release`.
//!
//! - A sensor fails at first, and restarts with a growing delay until it works.
//! - The timer interrupt sends the reading of a second sensor to the worker.
//! - After 20 readings the sensor breaks. The supervisor gives up, so the sensor reports no more to
//!   the watchdog, which is not fed. A board would reset now; the example ends.
#![no_std]
#![no_main]

extern crate alloc;

mod board;
mod sensor;
mod worker;

use alloc::boxed::Box;
use core::time::Duration;
use cortex_m_rt::entry;
use embassy_executor::{Executor, Spawner};
use pleach_core::{Event, EventKinds, ExponentialBackoff, Mailbox, OneForOne, Props, SupervisorDirective, System};
use pleach_embassy::Watchdog;
use semihosting::{println, process};
use sensor::Sensor;
use worker::Worker;

#[embassy_executor::task]
async fn run(spawner: Spawner) {
    let runtime = pleach_embassy::start(spawner).expect("no runtime was started before");
    let system = System::builder("board", runtime).build().expect("the name is valid");
    let _listener = system.hub().listen_to(EventKinds::DECISIONS | EventKinds::GAVE_UP, print_event);

    // Feeds the hardware every 100 ms in which the sensor has reported.
    let watchdog = Watchdog::props(&["sensor"], Duration::from_millis(100), board::feed_watchdog);
    let watchdog = system.spawn("watchdog", watchdog).expect("the name is free");
    let worker = Props::new(Worker::default).mailbox(Mailbox::bounded(8));
    let worker = system.spawn("worker", worker).expect("the name is free");
    board::send_readings_to(worker.clone());

    // A failing sensor restarts after 10 ms, 20 ms, 40 ms and so on: at most 4 times in a minute.
    let backoff = ExponentialBackoff::new(Duration::from_millis(10), Duration::from_secs(1)).jitter(0.0);
    let strategy = OneForOne::new().restart_limit(4, Duration::from_secs(60)).backoff(backoff);
    let sensors = system.supervisor("sensors", strategy).expect("the name is free");
    let sensor = Props::new(move || Sensor { to: worker.clone(), watchdog: watchdog.clone() });
    sensors.spawn("sensor", sensor).expect("the name is free");

    board::watchdog_expired().await;
    println!("the watchdog resets the board; {}", system.counts());
    process::exit(0);
}

fn print_event(event: &Event) {
    match event {
        Event::Decided { failure, directive: SupervisorDirective::Restart, .. } => {
            println!("{}; restart in {:?}", failure.reason(), failure.restart_delay().unwrap_or_default());
        }
        Event::GaveUp(gave_up) => println!("{gave_up}"),
        _ => {}
    }
}

#[entry]
fn main() -> ! {
    board::init();
    let executor: &'static mut Executor = Box::leak(Box::new(Executor::new()));
    executor.run(|spawner| spawner.spawn(run(spawner).expect("the task is free")))
}
