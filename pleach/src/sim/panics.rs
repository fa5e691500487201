//! Where a test panicked, and silence while a failure is made small.
//!
//! A panic hook is installed once, by the first exploration. It acts only in threads that explore,
//! and passes all other panics on.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::Location;
use std::sync::Once;

/// What the hook does in this thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Watch {
    /// Nothing: another hook prints the panic.
    Off,
    /// It records the location, and the panic is printed.
    Record,
    /// It records the location, and the panic is not printed.
    Quiet,
}

thread_local! {
    static WATCH: Cell<Watch> = const { Cell::new(Watch::Off) };
    static LOCATION: RefCell<Option<String>> = const { RefCell::new(None) };
    /// Replaces the location of the panic that begins now.
    static CALLER: Cell<Option<&'static Location<'static>>> = const { Cell::new(None) };
}

/// Panics with `text` on behalf of `caller`: its location is recorded, and begins the text. For a
/// future, which cannot track its caller.
pub(super) fn panic_for(caller: &'static Location<'static>, text: fmt::Arguments<'_>) -> ! {
    if WATCH.get() != Watch::Off {
        CALLER.set(Some(caller));
    }
    panic!("{caller}: {text}")
}

/// Runs `f` with the hook in this thread set to `watch`. Returns also where the last panic was.
pub(super) fn watched<R>(watch: Watch, f: impl FnOnce() -> R) -> (R, Option<String>) {
    install();
    let reset = Reset(WATCH.replace(watch));
    LOCATION.set(None);
    let output = f();
    drop(reset);
    (output, LOCATION.take())
}

/// Restores the earlier setting, also after a panic.
struct Reset(Watch);

impl Drop for Reset {
    fn drop(&mut self) {
        WATCH.set(self.0);
    }
}

fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let watch = WATCH.get();
            if watch != Watch::Off {
                LOCATION.set(CALLER.take().or(info.location()).map(ToString::to_string));
            }
            if watch != Watch::Quiet {
                previous(info);
            }
        }));
    });
}
