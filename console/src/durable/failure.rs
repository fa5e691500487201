//! From the errors of a store to what the page shows.
//!
//! | code | meaning |
//! |---|---|
//! | `not_found` | no such run, record or question |
//! | `refused` | the run has ended, is held, or has another status |
//! | `bad_request` | a parameter is wrong |
//! | `damaged` | the stored bytes differ from the written ones |
//! | `unreachable` | the store does not answer, or has another format |
//! | `failed` | anything else |

use crate::failure::Failure;
use pleach::durable::RunControlError;
use pleach::graph::RunFault;
use pleach::store::StoreError;

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::RunNotFound { .. } | StoreError::NoSuchRow { .. } | StoreError::Pruned { .. } => "not_found",
            StoreError::Ended { .. }
            | StoreError::Held { .. }
            | StoreError::Stuck { .. }
            | StoreError::Fenced { .. }
            | StoreError::InboxFull { .. }
            | StoreError::Exists { .. } => "refused",
            StoreError::NewerFormat { .. } | StoreError::OlderFormat { .. } | StoreError::Unusable { .. } => "unreachable",
            StoreError::TooLarge { .. } | StoreError::Invalid { .. } => "bad_request",
            StoreError::Damaged { .. } => "damaged",
            error if error.is_temporary() => "unreachable",
            _ => "failed",
        };
        Self::new(code, error)
    }
}

impl From<RunControlError> for Failure {
    fn from(error: RunControlError) -> Self {
        let code = match &error {
            RunControlError::Ended { .. } | RunControlError::Refused { .. } | RunControlError::Full { .. } => "refused",
            RunControlError::Json(_) => "bad_request",
            RunControlError::Store(error) => return error.clone().into(),
            _ => "failed",
        };
        Self::new(code, error)
    }
}

impl From<RunFault> for Failure {
    fn from(fault: RunFault) -> Self {
        let code = match &fault {
            RunFault::Held { .. } | RunFault::Exists { .. } | RunFault::Ended { .. } | RunFault::Fenced { .. } => "refused",
            RunFault::Resume(_) | RunFault::Mismatch(_) => "refused",
            RunFault::Checkpoint(error) => match error.store_error() {
                Some(error) => return error.clone().into(),
                None => "failed",
            },
            _ => "failed",
        };
        Self::new(code, fault)
    }
}
