//! With `std`: a panic in user code becomes a value.

use crate::base::reason::{BoxError, Reason};
use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use core::error::Error;
use core::fmt;
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
    let location = LOCATION.take();
    // An error's own text may panic in turn.
    let said = catch_unwind(AssertUnwindSafe(|| text(payload))).ok().flatten();
    let message = said.unwrap_or_else(|| "a panic whose payload is of a type that has no known text".to_string());
    Reason::Panic { message, location }
}

/// What a payload says: texts and errors as they are, numbers and the like with their types. A payload does not tell its type, so it is asked for
/// each that is common.
fn text(payload: &(dyn Any + Send)) -> Option<String> {
    macro_rules! first_of {
        ($($text:ty),* ; $($value:ty),*) => {
            $(if let Some(text) = payload.downcast_ref::<$text>() {
                return Some(text.to_string());
            })*
            $(if let Some(value) = payload.downcast_ref::<$value>() {
                return Some(std::format!("{value:?} ({})", stringify!($value)));
            })*
        };
    }
    first_of!(
        &'static str, String, std::boxed::Box<str>, std::sync::Arc<str>, Cow<'static, str>,
        BoxError, std::boxed::Box<dyn Error + Send>, std::sync::Arc<dyn Error + Send + Sync>, fmt::Error, std::io::Error, std::io::ErrorKind,
        std::num::ParseIntError, std::num::ParseFloatError, std::num::TryFromIntError, std::str::Utf8Error, std::string::FromUtf8Error,
        std::env::VarError, std::net::AddrParseError, std::time::SystemTimeError, std::sync::mpsc::RecvError;
        i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize, f32, f64, bool, char
    );
    None
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
    fn s7_a_panic_that_carries_no_text_says_what_it_carries() {
        use std::boxed::Box;
        use std::panic::panic_any;
        let said = |panics: fn()| match catch(panics).unwrap_err() {
            Reason::Panic { message, .. } => message,
            Reason::Error(error) => panic!("{error}"),
        };
        assert_eq!(said(|| panic_any(42_u64)), "42 (u64)");
        assert_eq!(said(|| panic_any(-7_i32)), "-7 (i32)");
        assert_eq!(said(|| panic_any(true)), "true (bool)");
        assert_eq!(said(|| panic_any('x')), "'x' (char)");
        assert_eq!(said(|| panic_any(Cow::from("a cow"))), "a cow");
        assert_eq!(said(|| panic_any(Box::<str>::from("a box"))), "a box");
        assert_eq!(said(|| panic_any(BoxError::from("an error"))), "an error");
        assert_eq!(said(|| panic_any(std::io::Error::other("no disk"))), "no disk");
        assert_eq!(said(|| panic_any("x".parse::<u8>().unwrap_err())), "invalid digit found in string");
        #[derive(Debug)]
        struct Mute;
        impl fmt::Display for Mute {
            fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
                panic!("no words")
            }
        }
        impl Error for Mute {}
        assert!(said(|| panic_any(BoxError::from(Mute))).contains("no known text"));
        struct Unknown;
        assert!(said(|| panic_any(Unknown)).contains("no known text"));
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
