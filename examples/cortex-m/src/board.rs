//! The board: memory, time, a bus that fails, an interrupt that sends, and a watchdog.
//!
//! On a real board the crate of the chip replaces most of it.

#[path = "../../../embassy/boards/src/timer.rs"]
mod timer;

use crate::worker::Reading;
use core::cell::{Cell, RefCell};
use core::panic::PanicInfo;
use cortex_m::peripheral::Peripherals;
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m_rt::exception;
use critical_section::Mutex;
use embassy_sync::blocking_mutex::raw::CriticalSectionRawMutex;
use embassy_sync::signal::Signal;
use embedded_alloc::LlffHeap;
use pleach_core::ActorRef;
use semihosting::{eprintln, process};

#[global_allocator]
static HEAP: LlffHeap = LlffHeap::empty();

const HEAP_SIZE: usize = 32 * 1024;
const CYCLES_PER_MILLISECOND: u32 = 12_500;
/// The hardware watchdog resets the board this long after it was last fed.
const WATCHDOG_MILLIS: u32 = 300;
/// The reads that fail at first, and the reads after which all fail.
const FAILING_READS: u32 = 2;
const READS_MAX: u32 = 40;

static READS: Mutex<Cell<u32>> = Mutex::new(Cell::new(0));
static SINCE_FED: Mutex<Cell<u32>> = Mutex::new(Cell::new(0));
static EXPIRED: Signal<CriticalSectionRawMutex, ()> = Signal::new();
/// Where the interrupt sends readings to.
static WORKER: Mutex<RefCell<Option<ActorRef<Reading>>>> = Mutex::new(RefCell::new(None));

/// Gives the allocator its memory and starts the timer. Call it once, before everything else.
pub fn init() {
    static mut MEMORY: [u8; HEAP_SIZE] = [0; HEAP_SIZE];
    // SAFETY: it is called once, and nothing else refers to the memory.
    unsafe { HEAP.init(&raw mut MEMORY as usize, HEAP_SIZE) }
    let mut timer = Peripherals::take().expect("it is called once").SYST;
    timer.set_clock_source(SystClkSource::Core);
    timer.set_reload(CYCLES_PER_MILLISECOND - 1);
    timer.clear_current();
    timer.enable_counter();
    timer.enable_interrupt();
}

/// Reads the bus. `None` while it does not answer.
pub fn read_bus() -> Option<u32> {
    critical_section::with(|section| {
        let reads = READS.borrow(section);
        reads.set(reads.get() + 1);
        (FAILING_READS + 1..=READS_MAX).contains(&reads.get()).then_some(21)
    })
}

/// Lets the timer interrupt send a reading every 50 ms.
pub fn send_readings_to(worker: ActorRef<Reading>) {
    critical_section::with(|section| WORKER.borrow_ref_mut(section).replace(worker));
}

pub fn feed_watchdog() {
    critical_section::with(|section| SINCE_FED.borrow(section).set(0));
}

/// Waits until the hardware watchdog was not fed in time.
pub async fn watchdog_expired() {
    EXPIRED.wait().await;
}

#[exception]
fn SysTick() {
    timer::tick();
    let (worker, since_fed) = critical_section::with(|section| {
        let since_fed = SINCE_FED.borrow(section);
        since_fed.set(since_fed.get() + 1);
        (WORKER.borrow_ref(section).clone(), since_fed.get())
    });
    if since_fed == WATCHDOG_MILLIS {
        EXPIRED.signal(());
    }
    if since_fed % 50 == 0
        && let Some(worker) = worker
    {
        // An interrupt never waits: a full mailbox returns the reading.
        drop(worker.try_send(Reading(21)));
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    eprintln!("{info}");
    process::exit(1)
}
