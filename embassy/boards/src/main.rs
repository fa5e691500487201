//! Checks of pleach on emulated boards, with output over semihosting.
//!
//! `cargo xtask embedded` runs it. It prints a line for each check, and ends with the exit code 0
//! or, after a panic, 1.
#![no_std]
#![no_main]

extern crate alloc;

mod actors;
mod checks;
#[cfg_attr(target_arch = "arm", path = "cortex_m.rs")]
#[cfg_attr(target_arch = "riscv32", path = "riscv.rs")]
mod platform;
mod timer;

use core::panic::PanicInfo;
use embassy_executor::Spawner;
use embedded_alloc::LlffHeap;
use semihosting::{eprintln, println, process};

#[global_allocator]
static HEAP: LlffHeap = LlffHeap::empty();

const HEAP_SIZE: usize = 32 * 1024;

/// Gives the allocator its memory. Call it once, before anything is allocated.
fn init_heap() {
    static mut MEMORY: [u8; HEAP_SIZE] = [0; HEAP_SIZE];
    // SAFETY: it is called once, and nothing else refers to the memory.
    unsafe { HEAP.init(&raw mut MEMORY as usize, HEAP_SIZE) }
}

#[embassy_executor::task]
async fn run(spawner: Spawner) {
    checks::all(spawner).await;
    println!("all checks passed");
    process::exit(0);
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    eprintln!("{info}");
    process::exit(1)
}
