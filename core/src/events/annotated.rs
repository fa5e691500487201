//! [`AnnotatedError`]: an error with metadata that the failing code adds.

use crate::base::reason::BoxError;
use alloc::collections::BTreeMap;
use alloc::string::String;
use core::error::Error;
use core::fmt;

/// An error with metadata. Returned from a handler, a task or a hook, it becomes a failure whose
/// [`metadata`](crate::FailureInfo::metadata) holds the pairs and whose reason is the error itself.
///
/// ```
/// use pleach::{Actor, BoxError, Context};
/// use pleach::supervise::AnnotatedError;
///
/// struct Uplink;
///
/// impl Actor for Uplink {
///     type Msg = String;
///     type Error = BoxError;
///
///     async fn handle(&mut self, endpoint: String, _cx: &mut Context<Self>) -> Result<(), BoxError> {
///         let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
///         Err(AnnotatedError::new(refused).with_metadata("endpoint", endpoint).into())
///     }
/// }
/// # drop(Uplink);
/// ```
#[derive(Debug)]
pub struct AnnotatedError {
    error: BoxError,
    metadata: BTreeMap<String, String>,
}

impl AnnotatedError {
    /// Wraps `error`. The metadata starts empty.
    pub fn new(error: impl Into<BoxError>) -> Self {
        Self { error: error.into(), metadata: BTreeMap::new() }
    }

    /// Adds one pair. An existing key gets the new value.
    #[must_use]
    pub fn with_metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Returns the metadata added so far.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// Unwraps all levels of annotation: returns the innermost error and the merged metadata. The
    /// outermost value of a key wins.
    pub(crate) fn split(mut error: BoxError) -> (BoxError, BTreeMap<String, String>) {
        let mut metadata = BTreeMap::new();
        loop {
            match error.downcast::<Self>() {
                Ok(annotated) => {
                    for (key, value) in annotated.metadata {
                        metadata.entry(key).or_insert(value);
                    }
                    error = annotated.error;
                }
                Err(plain) => return (plain, metadata),
            }
        }
    }
}

impl fmt::Display for AnnotatedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl Error for AnnotatedError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}
