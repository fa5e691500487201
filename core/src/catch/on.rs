//! With `std`: a panic in user code becomes a value.

use crate::Reason;
use alloc::string::{String, ToString};
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

std::thread_local! {
    static LOCATION: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs user code. A panic comes back as the reason of a failure, with the place it came from once `note_panic_places` was called.
///
/// For those who build further parts on this crate. What the code may have left half-done must be thrown away, or handed to code that
/// expects it. `AssertUnwindSafe` is right within this crate because everything the code could have left half-done is thrown away or handed to the user's
/// own hooks: the handler's future is dropped, and the actor's state is replaced unless its supervisor says Resume.
#[inline]
pub fn catch<R>(f: impl FnOnce() -> R) -> Result<R, Reason> {
    catch_unwind(AssertUnwindSafe(f)).map_err(describe)
}

/// What a panic carried, to be thrown again.
pub(crate) struct Payload(std::boxed::Box<dyn Any + Send>);

impl Payload {
    /// What a panic may have carried that is known by its reason alone.
    pub(crate) fn of(reason: &Reason) -> Option<Self> {
        match reason {
            Reason::Panic { message, .. } => Some(Self(std::boxed::Box::new(message.clone()))),
            Reason::Error(_) => None,
        }
    }

    /// Drops it. It is a user's value: one that panics in its own drop must not take the caller with it.
    pub(crate) fn discard(self) {
        drop(catch_unwind(AssertUnwindSafe(|| drop(self.0))));
    }
}

/// As [`catch`], keeping what the panic carried.
#[inline]
pub(crate) fn catch_whole<R>(f: impl FnOnce() -> R) -> Result<R, (Reason, Payload)> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| (reason(&*payload), Payload(payload)))
}

/// Goes on with a panic that was caught. The panic hook does not run again.
pub(crate) fn resume(payload: Payload) -> ! {
    std::panic::resume_unwind(payload.0)
}

/// Lets panics tell their place: `catch_unwind` alone gives the payload only. Called when a tree is made, done once a process; the
/// hook that was there before still runs.
pub fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(std::boxed::Box::new(move |info| {
            LOCATION.set(info.location().map(ToString::to_string));
            previous(info);
        }));
    });
}

#[cold]
fn describe(payload: std::boxed::Box<dyn Any + Send>) -> Reason {
    let reason = reason(&*payload);
    Payload(payload).discard();
    reason
}

#[cold]
fn reason(payload: &(dyn Any + Send)) -> Reason {
    let message = match payload.downcast_ref::<&str>() {
        Some(text) => (*text).to_string(),
        None => payload.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic with no text".to_string()),
    };
    Reason::Panic { message, location: LOCATION.take() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_reason_with_its_place() {
        install();
        let reason = catch(|| panic!("no {}", "luck")).unwrap_err();
        let Reason::Panic { message, location } = reason else { panic!("not a panic") };
        assert_eq!(message, "no luck");
        assert!(location.unwrap().contains("on.rs:"));
    }

    #[test]
    fn a_payload_that_panics_in_its_drop_is_contained() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("again");
            }
        }
        assert!(catch(|| std::panic::panic_any(Bomb)).is_err());
    }
}
