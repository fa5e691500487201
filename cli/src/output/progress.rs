//! [`Progress`]: one line on a terminal while a command works for long.

use std::cell::Cell;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// How long nothing is shown, and the time between two updates.
const UPDATE_EVERY: Duration = Duration::from_millis(500);

/// Counts work, and shows the count on standard error if that is a terminal. The line is removed at
/// the end.
pub struct Progress {
    what: &'static str,
    is_terminal: bool,
    count: Cell<u64>,
    shown: Cell<Instant>,
    is_shown: Cell<bool>,
}

impl Progress {
    pub fn new(what: &'static str) -> Self {
        let is_terminal = io::stderr().is_terminal();
        Self { what, is_terminal, count: Cell::new(0), shown: Cell::new(Instant::now()), is_shown: Cell::new(false) }
    }

    /// Counts `more`. Work of less than half a second shows nothing.
    pub fn add(&self, more: u64) {
        self.count.set(self.count.get() + more);
        if self.is_terminal && self.shown.get().elapsed() >= UPDATE_EVERY {
            let _ = write!(io::stderr().lock(), "\r\x1b[K{} {}", self.count.get(), self.what);
            self.shown.set(Instant::now());
            self.is_shown.set(true);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown.get() {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}
