//! [`Reason`]: why user code failed, either with a returned error or with a panic.

use alloc::boxed::Box;
use alloc::string::String;
use core::error::Error;
use core::fmt;

/// A boxed error that can be sent and shared between threads.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Why user code failed. The `Display` text is the error, or the panic message with its location.
///
/// # Examples
///
/// ```
/// use pleach::runtime::catch_panic;
/// use pleach::supervise::Reason;
///
/// let reason = catch_panic(|| panic!("disk full")).unwrap_err();
/// assert!(matches!(&reason, Reason::Panic { message, .. } if message == "disk full"));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Reason {
    /// User code returned this error from a handler, hook or task.
    Error(BoxError),
    /// User code panicked, and the panic was caught.
    Panic {
        /// The text of the panic. A payload that is an error or a number is shown as text. For a
        /// payload of an unknown type the message says so.
        message: String,
        /// Where the panic happened, as `file:line:column`. `None` if another panic hook has
        /// replaced the one of pleach.
        location: Option<String>,
    },
}

impl Reason {
    /// Returns a value for a place that has no reason. It needs no memory.
    pub(crate) const fn none() -> Self {
        Self::Panic { message: String::new(), location: None }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => write!(f, "{error}"),
            Self::Panic { message, location: Some(location) } => write!(f, "panicked at {location}: {message}"),
            Self::Panic { message, location: None } => write!(f, "panicked: {message}"),
        }
    }
}
