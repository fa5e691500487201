//! [`Reason`]: why user code failed. An error that it returned, or a panic.

use alloc::boxed::Box;
use alloc::string::String;
use core::error::Error;
use core::fmt;

/// Any error that can travel between threads.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Why it failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Reason {
    /// User code returned this error.
    Error(BoxError),
    /// User code panicked.
    Panic {
        /// What the panic said: its text, or the text of an error, a number or the like that it carried. Of other types nothing can be said.
        message: String,
        /// Where it panicked, as `file:line:column`, if the panic hook is still ours.
        location: Option<String>,
    },
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
