//! Tests of memory use: actors, groups and runs, measured by the allocator of the process.

mod actor_memory;
mod graph_memory;
mod graph_wide;
mod group_memory;
mod restart_memory;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Allowance for the threads of the test harness.
const HARNESS_BYTES_MAX: isize = 65_536;

/// Allows one measurement at a time, because the allocator counts for the whole process.
fn exclusive() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bytes that `work` allocated and did not free.
fn kept(work: impl FnOnce()) -> isize {
    let before = ALLOCATOR.stats();
    work();
    let change = ALLOCATOR.stats() - before;
    change.bytes_allocated as isize - change.bytes_deallocated as isize
}
