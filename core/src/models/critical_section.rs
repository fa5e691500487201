//! The lock of a build without `std`: what an implementation of `critical-section` must provide on
//! several cores, and what goes wrong without it.
//!
//! Loom knows no interrupts. A handler that interrupts a thread on the same core runs between two
//! of its steps, which is one of the interleavings of two threads; a section that masks interrupts
//! excludes it as a mutex does. So the models need only tell cores apart.
//!
//! Proves: D6 (with a section that excludes the other cores, and nests on its own core, the value
//! of a lock is accessed by one core at a time; the reference count without compare-and-swap, which
//! is built on it, frees once). The last model shows the fault of a section that only masks the
//! interrupts of its own core.

use crate::models::{PlainCounter, explore};
use alloc::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

/// The number of no core.
const NO_CORE: usize = 0;

/// A section as the crates of chips with several cores implement it: interrupts of the own core are
/// masked, then a hardware lock is taken. A nested section of the same core enters at once.
struct Section {
    owner: AtomicUsize,
    /// False for an implementation that is meant for one core.
    excludes_other_cores: bool,
}

impl Section {
    fn new(excludes_other_cores: bool) -> Self {
        Self { owner: AtomicUsize::new(NO_CORE), excludes_other_cores }
    }

    fn with<R>(&self, core: usize, f: impl FnOnce() -> R) -> R {
        let is_nested = self.owner.load(Ordering::Relaxed) == core;
        if is_nested || !self.excludes_other_cores {
            return f();
        }
        while self.owner.compare_exchange(NO_CORE, core, Ordering::Acquire, Ordering::Relaxed).is_err() {
            thread::yield_now();
        }
        let result = f();
        self.owner.store(NO_CORE, Ordering::Release);
        result
    }
}

/// A value behind a section, as `base::lock` keeps it without `std`. It is read and written with
/// relaxed steps of its own, so every access that the section does not order shows.
struct Locked {
    section: Section,
    value: AtomicUsize,
}

impl Locked {
    fn new(excludes_other_cores: bool, value: usize) -> Arc<Self> {
        Arc::new(Self { section: Section::new(excludes_other_cores), value: AtomicUsize::new(value) })
    }

    fn with<R>(&self, core: usize, f: impl FnOnce(&mut usize) -> R) -> R {
        self.section.with(core, || {
            let mut value = self.value.load(Ordering::Relaxed);
            let result = f(&mut value);
            self.value.store(value, Ordering::Relaxed);
            result
        })
    }
}

fn both_cores_add(locked: &Arc<Locked>) {
    let other = Arc::clone(locked);
    let second = thread::spawn(move || {
        other.with(2, |value| *value += 1);
    });
    locked.with(1, |value| *value += 1);
    second.join().unwrap();
}

#[test]
fn loom_d6_section_excludes_the_other_core() {
    explore(|| {
        let locked = Locked::new(true, 0);
        both_cores_add(&locked);
        assert_eq!(locked.with(1, |value| *value), 2);
    });
}

#[test]
fn loom_d6_nested_section_keeps_the_outer_one() {
    explore(|| {
        let locked = Locked::new(true, 0);
        let other = Arc::clone(&locked);
        let second = thread::spawn(move || other.with(2, |value| *value += 1));
        // An atomic of a target without compare-and-swap opens a section inside of a lock.
        locked.section.with(1, || {
            let before = locked.with(1, |value| *value);
            assert_eq!(locked.with(1, |value| *value), before, "the other core came in between");
        });
        second.join().unwrap();
        assert_eq!(locked.with(1, |value| *value), 1);
    });
}

/// The reference count of a shared pointer without compare-and-swap: each step is a section.
#[test]
fn loom_d6_count_without_cas_frees_once() {
    explore(|| {
        let (count, freed) = (Locked::new(true, 2), PlainCounter::default());
        let release = |core: usize, count: &Locked, freed: &PlainCounter| {
            let is_last = count.with(core, |count| {
                *count -= 1;
                *count == 0
            });
            if is_last {
                freed.add();
            }
        };
        let (other, also_freed) = (Arc::clone(&count), freed.clone());
        let second = thread::spawn(move || release(2, &other, &also_freed));
        release(1, &count, &freed);
        second.join().unwrap();
        assert_eq!(freed.get(), 1);
    });
}

/// Masking the interrupts of one core is not enough: loom finds both cores inside.
#[test]
#[should_panic(expected = "an addition is lost")]
fn loom_d6_section_for_one_core_fails_on_two() {
    explore(|| {
        let locked = Locked::new(false, 0);
        both_cores_add(&locked);
        assert_eq!(locked.with(1, |value| *value), 2, "an addition is lost");
    });
}
