//! Panics with `std`: a panic of user code becomes a [`Reason`].

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

/// Runs user code and returns a panic as a [`Reason`].
///
/// The reason has the location of the panic once `install_panic_hook` was called, which every tree
/// does when it is created.
///
/// This is for crates that build on this one. The caller must discard everything that the code may
/// have left half-done, or pass it only to code that expects this. Within this crate
/// `AssertUnwindSafe` is correct for that reason: the handler's future is dropped, and the actor's
/// state is replaced unless its supervisor answers `Resume`.
#[inline]
pub fn catch<R>(f: impl FnOnce() -> R) -> Result<R, Reason> {
    catch_unwind(AssertUnwindSafe(f)).map_err(describe)
}

/// The payload of a caught panic, which can be raised again.
pub(crate) struct PanicPayload(std::boxed::Box<dyn Any + Send>);

impl PanicPayload {
    /// Rebuilds a payload from a reason: the message of a panic, `None` for an error.
    pub(crate) fn of(reason: &Reason) -> Option<Self> {
        match reason {
            Reason::Panic { message, .. } => Some(Self(std::boxed::Box::new(message.clone()))),
            Reason::Error(_) => None,
        }
    }

    /// Drops the payload. It belongs to user code: a panic in its `Drop` is contained here.
    pub(crate) fn discard(self) {
        drop(catch_unwind(AssertUnwindSafe(|| drop(self.0))));
    }
}

/// Like [`catch`], and also returns the payload.
#[inline]
pub(crate) fn catch_with_payload<R>(f: impl FnOnce() -> R) -> Result<R, (Reason, PanicPayload)> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| (reason(&*payload), PanicPayload(payload)))
}

/// The payload of a raised error.
struct RaisedError(String);

/// Unwinds to the next [`catch`], which returns [`Reason::Error`] with this text.
pub(crate) fn raise_error(text: String) -> ! {
    std::panic::resume_unwind(std::boxed::Box::new(RaisedError(text)))
}

/// Panics with this text, without a call of the panic hook.
pub(crate) fn raise_panic(text: String) -> ! {
    std::panic::resume_unwind(std::boxed::Box::new(text))
}

/// Raises a caught panic again. The panic hook does not run a second time.
pub(crate) fn resume(payload: PanicPayload) -> ! {
    std::panic::resume_unwind(payload.0)
}

/// Installs a panic hook that records the location of each panic, because `catch_unwind` alone
/// returns only the payload.
///
/// Every tree calls it when it is created; only the first call of a process has an effect. The
/// previous hook still runs.
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
    PanicPayload(payload).discard();
    reason
}

#[cold]
fn reason(payload: &(dyn Any + Send)) -> Reason {
    if let Some(RaisedError(text)) = payload.downcast_ref() {
        return Reason::Error(text.as_str().into());
    }
    let location = LOCATION.take();
    // The `Display` of an error may panic too.
    let said = catch_unwind(AssertUnwindSafe(|| text(payload))).ok().flatten();
    let message = said.unwrap_or_else(|| "a panic whose payload is of a type that has no known text".to_string());
    Reason::Panic { message, location }
}

/// Returns the text of a payload: strings and errors as they are, numbers and similar values with
/// their type. `Any` does not name its type, so this tries all common ones.
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
    fn panic_becomes_a_reason_with_its_location() {
        install();
        let reason = catch(|| panic!("no {}", "luck")).unwrap_err();
        let Reason::Panic { message, location } = reason else { panic!("not a panic") };
        assert_eq!(message, "no luck");
        assert!(location.unwrap().contains("on.rs:"));
    }

    #[test]
    fn s7_panic_without_text_shows_its_payload() {
        use std::boxed::Box;
        use std::panic::panic_any;
        let message_of = |panics: fn()| match catch(panics).unwrap_err() {
            Reason::Panic { message, .. } => message,
            Reason::Error(error) => panic!("{error}"),
        };
        assert_eq!(message_of(|| panic_any(42_u64)), "42 (u64)");
        assert_eq!(message_of(|| panic_any(-7_i32)), "-7 (i32)");
        assert_eq!(message_of(|| panic_any(true)), "true (bool)");
        assert_eq!(message_of(|| panic_any('x')), "'x' (char)");
        assert_eq!(message_of(|| panic_any(Cow::from("a cow"))), "a cow");
        assert_eq!(message_of(|| panic_any(Box::<str>::from("a box"))), "a box");
        assert_eq!(message_of(|| panic_any(BoxError::from("an error"))), "an error");
        assert_eq!(message_of(|| panic_any(std::io::Error::other("no disk"))), "no disk");
        assert_eq!(message_of(|| panic_any("x".parse::<u8>().unwrap_err())), "invalid digit found in string");
        #[derive(Debug)]
        struct Mute;
        impl fmt::Display for Mute {
            fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
                panic!("no words")
            }
        }
        impl Error for Mute {}
        assert!(message_of(|| panic_any(BoxError::from(Mute))).contains("no known text"));
        struct Unknown;
        assert!(message_of(|| panic_any(Unknown)).contains("no known text"));
    }

    #[test]
    fn payload_panic_on_drop_is_contained() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("again");
            }
        }
        assert!(catch(|| std::panic::panic_any(Bomb)).is_err());
    }
}
