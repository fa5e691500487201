//! Which node of a run was done last, for a replay of it.

use super::opening;
use crate::store::{Fork, Header, Kind, Store, StoreError};

/// How many headers are looked at at a time, on the way back to the last step.
const HEADERS_AT_A_TIME: u64 = 64;

/// The last node that was done.
pub(super) struct LastStep {
    pub(super) sequence: u64,
    pub(super) path: Vec<Fork>,
    /// The outermost line of control that moved with it, or because of it: a join may have followed.
    pub(super) since: Vec<Fork>,
    /// The last record with the paths of that time: the run was rewound to it since, or it is the head.
    pub(super) until: u64,
}

impl LastStep {
    /// The last one up to this head; `None` if there is none since the run was made.
    pub(super) async fn find(store: &dyn Store, run: &str, head: u64) -> Result<Option<Self>, StoreError> {
        let (mut last, mut later, mut moved, mut until) = (head, None::<(u64, Header)>, Vec::<Vec<Fork>>::new(), head);
        while last > 0 {
            let first = last.saturating_sub(HEADERS_AT_A_TIME - 1).max(1);
            let first = first.max(store.head(run).await?.oldest.min(last));
            let headers = opening::headers(store, run, first, last).await?;
            last = first - 1;
            for (sequence, header) in headers.into_iter().rev() {
                // Only a record after which more visits are over is of a node.
                if let Some((of, step)) = later.take()
                    && step.visits > header.visits
                    && matches!(step.kind, Kind::Step | Kind::Arrive)
                {
                    let around = moved.into_iter().filter(|path| step.path.starts_with(path)).min_by_key(Vec::len);
                    let since = around.unwrap_or_else(|| step.path.clone());
                    return Ok(Some(Self { sequence: of, path: step.path, since, until }));
                }
                if header.kind == Kind::Rewind && header.next.is_some() {
                    (last, until, moved) = (header.parent, header.parent, Vec::new());
                    break;
                }
                if header.next.is_some() {
                    moved.push(header.path.clone());
                }
                later = Some((sequence, header));
            }
        }
        Ok(None)
    }
}
