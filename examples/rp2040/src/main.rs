//! Firmware for a Raspberry Pi Pico: a supervised LED and a supervised button, with the hardware
//! watchdog. Put a button between GPIO 15 and ground. In this folder: `cargo run --release`, with
//! `probe-rs` and a debug probe.
//!
//! - Each press makes the LED blink once more in a row, up to 4 times.
//! - The next press is a failure: the supervisor restarts the blinker, which starts again with 1.
//! - After 3 restarts in 30 s the supervisor gives up. Then no actor reports to the watchdog, and
//!   the hardware resets the board.
#![no_std]
#![no_main]

extern crate alloc;

mod blinker;

use blinker::{Blinker, Msg};
use core::panic::PanicInfo;
use core::time::Duration;
use embassy_executor::Spawner;
use embassy_rp::gpio::{Input, Level, Output, Pull};
use embassy_rp::watchdog::Watchdog as Hardware;
use embedded_alloc::LlffHeap;
use pleach_core::{ActorRef, OneForOne, Props, System};
use pleach_embassy::Watchdog;

#[global_allocator]
static HEAP: LlffHeap = LlffHeap::empty();

const HEAP_SIZE: usize = 64 * 1024;
const HARDWARE_TIMEOUT: embassy_time::Duration = embassy_time::Duration::from_secs(4);

/// Gives the allocator its memory. Call it once, before anything is allocated.
fn init_heap() {
    static mut MEMORY: [u8; HEAP_SIZE] = [0; HEAP_SIZE];
    // SAFETY: it is called once, and nothing else refers to the memory.
    unsafe { HEAP.init(&raw mut MEMORY as usize, HEAP_SIZE) }
}

#[embassy_executor::main]
async fn main(spawner: Spawner) {
    init_heap();
    let chip = embassy_rp::init(Default::default());
    let runtime = pleach_embassy::start(spawner).expect("no runtime was started before");
    let system = System::builder("pico", runtime).build().expect("the name is valid");

    // Feeds the hardware every second in which the blinker has reported.
    let mut hardware = Hardware::new(chip.WATCHDOG);
    hardware.start(HARDWARE_TIMEOUT);
    let watchdog = Watchdog::props(&["blinker"], Duration::from_secs(1), move || hardware.feed(HARDWARE_TIMEOUT));
    let watchdog = system.spawn("watchdog", watchdog).expect("the name is free");

    let strategy = OneForOne::new().restart_limit(3, Duration::from_secs(30));
    let workers = system.supervisor("workers", strategy).expect("the name is free");
    let led = blinker::shared(Output::new(chip.PIN_25, Level::Low));
    let blinker = Props::new(move || Blinker::new(led.clone(), watchdog.clone()));
    let blinker = workers.spawn("blinker", blinker).expect("the name is free");

    spawner.spawn(watch_button(Input::new(chip.PIN_15, Pull::Up), blinker).expect("the task is free"));
    drop(system.ended().await);
}

/// Sends each press of the button to the blinker.
#[embassy_executor::task]
async fn watch_button(mut button: Input<'static>, blinker: ActorRef<Msg>) {
    loop {
        button.wait_for_falling_edge().await;
        // After a give-up no actor takes it, and the hardware resets the board.
        drop(blinker.tell(Msg::Press));
        embassy_time::Timer::after_millis(50).await;
    }
}

/// A panic stops the board, and the hardware watchdog resets it.
#[panic_handler]
fn panic(_info: &PanicInfo<'_>) -> ! {
    loop {
        cortex_m::asm::nop();
    }
}
