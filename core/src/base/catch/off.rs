//! Without `std` there is no unwinding to catch: the `Result` road carries every failure.

use crate::Reason;

/// Runs user code. A panic ends the program, as the platform's panic handler says.
#[inline]
pub fn catch<R>(f: impl FnOnce() -> R) -> Result<R, Reason> {
    Ok(f())
}

/// What a panic carried: there is none.
pub(crate) struct Payload(core::convert::Infallible);

impl Payload {
    pub(crate) fn of(_reason: &Reason) -> Option<Self> {
        None
    }

    pub(crate) fn discard(self) {
        match self.0 {}
    }
}

/// As [`catch`].
#[inline]
pub(crate) fn catch_whole<R>(f: impl FnOnce() -> R) -> Result<R, (Reason, Payload)> {
    Ok(f())
}

/// There is nothing to go on with.
pub(crate) fn resume(payload: Payload) -> ! {
    match payload.0 {}
}

/// There is no hook to install.
pub fn install() {}
