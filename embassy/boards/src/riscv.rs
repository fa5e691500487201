//! RISC-V on QEMU's `virt` board: the timer and the software interrupt of the CLINT.

use crate::{checks, init_heap, run, timer};
use embassy_executor::{Executor, SendSpawner};
use riscv::register::{mie, mstatus};
use riscv_rt::{core_interrupt, entry};

/// The registers of the CLINT on this board, for hart 0.
const SOFTWARE_INTERRUPT: *mut u32 = 0x0200_0000 as *mut u32;
const COMPARE: *mut u32 = 0x0200_4000 as *mut u32;
const TIME: *mut u32 = 0x0200_BFF8 as *mut u32;

/// The timer of this board counts 10 MHz.
const CYCLES_PER_TICK: u32 = 10_000;

#[entry]
fn main() -> ! {
    init_heap();
    set_next_tick();
    // SAFETY: the handlers share data only inside of critical sections.
    unsafe {
        mie::set_mtimer();
        mie::set_msoft();
        mstatus::set_mie();
    }
    let executor = alloc::boxed::Box::leak(alloc::boxed::Box::new(Executor::new()));
    executor.run(|spawner| spawner.spawn(run(spawner).expect("the task is free")))
}

fn set_next_tick() {
    // SAFETY: the addresses are those of the timer on this board. The high half is 0 for 7 minutes.
    unsafe {
        COMPARE.add(1).write_volatile(0);
        COMPARE.write_volatile(TIME.read_volatile() + CYCLES_PER_TICK);
    }
}

/// Makes the sending interrupt pending: it runs before the next instruction.
pub fn interrupt() {
    // SAFETY: the register raises the software interrupt of this hart.
    unsafe { SOFTWARE_INTERRUPT.write_volatile(1) }
}

/// Starts the executor that runs in an interrupt. `None` where the platform has none.
pub fn second_executor() -> Option<SendSpawner> {
    None
}

#[core_interrupt(riscv::interrupt::Interrupt::MachineTimer)]
fn on_timer() {
    set_next_tick();
    timer::tick();
    checks::on_timer();
}

#[core_interrupt(riscv::interrupt::Interrupt::MachineSoft)]
fn on_software_interrupt() {
    // SAFETY: the register clears the software interrupt of this hart.
    unsafe { SOFTWARE_INTERRUPT.write_volatile(0) }
    checks::on_interrupt();
}
