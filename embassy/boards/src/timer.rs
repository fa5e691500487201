//! The time driver: ticks of 1 ms, which the timer interrupt of the platform counts.

use core::cell::{Cell, RefCell};
use core::task::Waker;
use critical_section::Mutex;
use embassy_time_driver::Driver;
use embassy_time_queue_utils::Queue;

pub struct Ticks {
    now: Mutex<Cell<u64>>,
    queue: Mutex<RefCell<Queue>>,
}

embassy_time_driver::time_driver_impl!(static TICKS: Ticks = Ticks {
    now: Mutex::new(Cell::new(0)),
    queue: Mutex::new(RefCell::new(Queue::new())),
});

impl Driver for Ticks {
    fn now(&self) -> u64 {
        critical_section::with(|section| self.now.borrow(section).get())
    }

    fn schedule_wake(&self, at: u64, waker: &Waker) {
        critical_section::with(|section| {
            let mut queue = self.queue.borrow_ref_mut(section);
            if queue.schedule_wake(at, waker) {
                queue.next_expiration(self.now.borrow(section).get());
            }
        });
    }
}

/// Counts one tick and wakes what is due. The timer interrupt calls it.
pub fn tick() {
    critical_section::with(|section| {
        let now = TICKS.now.borrow(section);
        now.set(now.get() + 1);
        TICKS.queue.borrow_ref_mut(section).next_expiration(now.get());
    });
}
