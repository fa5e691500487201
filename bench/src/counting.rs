//! The global allocator: the system's, with a count of allocations and live bytes.
//!
//! It owns the three counters below. Outside of a count, an allocation costs one relaxed load, so
//! the timed workloads and the worst push use the system's allocator with its growth in place.
//! Counts are process-wide and do not nest: only one measurement runs at a time.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

#[global_allocator]
static GLOBAL: Counting = Counting;

static RUNNING: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);

struct Counting;

/// The allocations since [`start`].
pub struct Count {
    pub allocations: u64,
    /// Negative if more old memory was freed than new memory allocated.
    pub live_bytes: i64,
}

pub fn start() {
    ALLOCATIONS.store(0, Relaxed);
    LIVE_BYTES.store(0, Relaxed);
    RUNNING.store(true, Relaxed);
}

pub fn stop() -> Count {
    RUNNING.store(false, Relaxed);
    Count { allocations: ALLOCATIONS.load(Relaxed), live_bytes: LIVE_BYTES.load(Relaxed) }
}

fn note(allocations: u64, bytes: i64) {
    if RUNNING.load(Relaxed) {
        ALLOCATIONS.fetch_add(allocations, Relaxed);
        LIVE_BYTES.fetch_add(bytes, Relaxed);
    }
}

// SAFETY: every method passes its arguments unchanged to `System` and returns the result of
// `System`. `note` uses only atomics, so it neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(1, layout.size() as i64);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same for `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(1, layout.size() as i64);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`, which is the same for `System`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note(1, new_size as i64 - layout.size() as i64);
        // SAFETY: every block comes from `System`, and the caller keeps the contract of `realloc`.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(0, -(layout.size() as i64));
        // SAFETY: every block comes from `System`, and the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(block, layout) }
    }
}
