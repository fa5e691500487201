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

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::panic::PanicInfo;
use critical_section::Mutex;
use embassy_executor::Spawner;
use embedded_alloc::LlffHeap;
use semihosting::{eprintln, println, process};

#[global_allocator]
static HEAP: CountingHeap = CountingHeap { heap: LlffHeap::empty(), allocations: Mutex::new(Cell::new(0)) };

/// The heap, and how often it was asked for memory.
struct CountingHeap {
    heap: LlffHeap,
    allocations: Mutex<Cell<u32>>,
}

impl CountingHeap {
    /// Returns the bytes in use.
    fn used(&self) -> usize {
        self.heap.used()
    }

    /// Returns how many allocations there were.
    fn allocations(&self) -> u32 {
        critical_section::with(|section| self.allocations.borrow(section).get())
    }
}

// SAFETY: every call goes to the heap with the same arguments.
unsafe impl GlobalAlloc for CountingHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        critical_section::with(|section| {
            let allocations = self.allocations.borrow(section);
            allocations.set(allocations.get().wrapping_add(1));
        });
        // SAFETY: the caller keeps the contract of `alloc`, which is the same for the heap.
        unsafe { self.heap.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: every block comes from the heap, and the caller keeps the contract of `dealloc`.
        unsafe { self.heap.dealloc(block, layout) }
    }
}

const HEAP_SIZE: usize = 32 * 1024;

/// Gives the allocator its memory. Call it once, before anything is allocated.
fn init_heap() {
    static mut MEMORY: [u8; HEAP_SIZE] = [0; HEAP_SIZE];
    // SAFETY: it is called once, and nothing else refers to the memory.
    unsafe { HEAP.heap.init(&raw mut MEMORY as usize, HEAP_SIZE) }
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
