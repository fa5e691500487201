//! Cortex-M: SysTick is the timer, and two interrupts of the NVIC send messages and run actors.

use crate::{checks, init_heap, run, timer};
use cortex_m::interrupt::InterruptNumber;
use cortex_m::peripheral::scb::VectActive;
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m::peripheral::{NVIC, Peripherals, SCB, scb};
use cortex_m_rt::{entry, exception};
use embassy_executor::{Executor, InterruptExecutor, SendSpawner};

/// The clock that QEMU gives SysTick: 12.5 MHz on `lm3s6965evb`, 25 MHz on `mps2`.
const CYCLES_PER_TICK: u32 = 12_500;

static HIGH: InterruptExecutor = InterruptExecutor::new();

#[derive(Clone, Copy)]
enum Irq {
    /// Sends messages, at the lowest priority of the interrupts.
    Sender = 0,
    /// Runs actors.
    Executor = 1,
}

// SAFETY: the numbers are those of two interrupts that no device of the board uses here.
unsafe impl InterruptNumber for Irq {
    fn number(self) -> u16 {
        self as u16
    }
}

#[entry]
fn main() -> ! {
    init_heap();
    // Each exception has a number, so none sees the actor of the code that it interrupted.
    pleach_core::identify_cores(|| match SCB::vect_active() {
        VectActive::ThreadMode => 0,
        VectActive::Exception(exception) => usize::try_from(16 + i32::from(exception.irqn())).unwrap_or(0),
        VectActive::Interrupt { irqn } => 16 + usize::from(irqn),
    });
    let mut parts = Peripherals::take().expect("it is called once");
    // SAFETY: the handlers share data only inside of critical sections.
    unsafe {
        parts.NVIC.set_priority(Irq::Sender, 0xC0);
        parts.NVIC.set_priority(Irq::Executor, 0x80);
        parts.SCB.set_priority(scb::SystemHandler::SysTick, 0x40);
        NVIC::unmask(Irq::Sender);
    }
    parts.SYST.set_clock_source(SystClkSource::Core);
    parts.SYST.set_reload(CYCLES_PER_TICK - 1);
    parts.SYST.clear_current();
    parts.SYST.enable_counter();
    parts.SYST.enable_interrupt();
    let executor = alloc::boxed::Box::leak(alloc::boxed::Box::new(Executor::new()));
    executor.run(|spawner| spawner.spawn(run(spawner).expect("the task is free")))
}

/// Makes the sending interrupt pending: it runs before the next instruction.
pub fn interrupt() {
    NVIC::pend(Irq::Sender);
}

/// Starts the executor that runs in an interrupt. `None` where the platform has none.
pub fn second_executor() -> Option<SendSpawner> {
    Some(HIGH.start(Irq::Executor))
}

#[exception]
fn SysTick() {
    timer::tick();
    checks::on_timer();
}

// SAFETY: `exception` demands `unsafe` here. The board calls it, and only for interrupts.
#[exception]
unsafe fn DefaultHandler(number: i16) {
    match number {
        0 => checks::on_interrupt(),
        // SAFETY: it is the handler of the interrupt with which the executor was started.
        1 => unsafe { HIGH.on_interrupt() },
        _ => panic!("interrupt {number} has no handler"),
    }
}
