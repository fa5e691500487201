//! Panics without `std`: unwinding is not available, so every failure is a returned error.

use crate::base::reason::Reason;

/// Runs user code. A panic calls the platform's panic handler, so this never returns `Err`.
#[inline]
pub fn catch<R>(f: impl FnOnce() -> R) -> Result<R, Reason> {
    Ok(f())
}

/// The payload of a panic. It never exists in this build.
pub(crate) struct PanicPayload(core::convert::Infallible);

impl PanicPayload {
    pub(crate) fn of(_reason: &Reason) -> Option<Self> {
        None
    }

    pub(crate) fn discard(self) {
        match self.0 {}
    }
}

/// Like [`catch`], with the payload.
#[inline]
pub(crate) fn catch_with_payload<R>(f: impl FnOnce() -> R) -> Result<R, (Reason, PanicPayload)> {
    Ok(f())
}

/// Unreachable: no payload exists.
pub(crate) fn resume(payload: PanicPayload) -> ! {
    match payload.0 {}
}

/// Does nothing: this build has no panic hook to install.
pub fn install() {}
