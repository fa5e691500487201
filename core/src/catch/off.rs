//! Without `std` there is no unwinding to catch: the `Result` road carries every failure.

use crate::Reason;

/// Runs user code. A panic ends the program, as the platform's panic handler says.
#[inline]
pub(crate) fn catch<R>(f: impl FnOnce() -> R) -> Result<R, Reason> {
    Ok(f())
}

/// There is no hook to install.
pub(crate) fn install() {}
