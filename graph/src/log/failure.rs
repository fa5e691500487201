//! Reads the failure that a record contains, without the state type of the graph.

use crate::error::StoredFault;
use crate::log::visit::VisitRecordBody;
use crate::store::{FailureKind, Header, Kind, Place, Record, RunFailure};

/// Returns whether records of this kind can contain a failure.
pub(crate) fn can_fail(kind: Kind) -> bool {
    matches!(kind, Kind::Attempt | Kind::End | Kind::Undo)
}

/// Returns the failure in a record, or `None` if the record has none.
pub(crate) fn failure_of(record: &Record) -> Option<RunFailure> {
    let header = &record.header;
    let failure = failure_in(header.kind, header.next.as_ref(), &header.node, header.attempt, &record.body)?;
    Some(with_place(failure, record.sequence, header))
}

/// Returns the failure in the body of a record.
pub(super) fn failure_in(kind: Kind, next: Option<&Place>, node: &str, attempt: u32, body: &[u8]) -> Option<RunFailure> {
    let fault = || serde_json::from_slice::<StoredFault>(body).ok().map(StoredFault::into_failure);
    match (kind, next) {
        (Kind::End, _) => fault().map(|failure| RunFailure { is_final: true, ..failure }),
        (Kind::Attempt, Some(Place::Failed(_))) => fault(),
        (Kind::Attempt | Kind::Undo, _) => {
            let VisitRecordBody { error, due, fault, .. } = serde_json::from_slice(body).ok()?;
            if let Some(fault) = fault {
                return Some(fault.into_failure());
            }
            let is_undo = kind == Kind::Undo;
            let kind = if is_undo { FailureKind::Undo } else { FailureKind::Node };
            let failure = RunFailure::new(kind, node.to_string(), attempt, error?);
            Some(RunFailure { retry_at: due, is_final: is_undo, ..failure })
        }
        _ => None,
    }
}

/// Adds the place of the record to its failure.
pub(super) fn with_place(mut failure: RunFailure, sequence: u64, header: &Header) -> RunFailure {
    (failure.sequence, failure.at) = (sequence, header.at);
    failure.branch.clone_from(&header.path);
    if failure.attempt == 0 && header.kind == Kind::Attempt {
        failure.attempt = header.attempt;
    }
    failure
}
