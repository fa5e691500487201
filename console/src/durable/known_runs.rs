//! [`KnownRuns`]: whether a store has a run with an id, remembered for a moment: the tree of a process
//! is shown four times a second.

use crate::failure::Failure;
use crate::report::NamedStore;
use pleach::store::StoreError;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long it is remembered that there is a run, and that there is none.
const KEPT_FOR: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(3));

/// How many runs are remembered.
const RUNS_MAX: usize = 2_000;

/// What the store has said about runs lately.
#[derive(Default)]
pub(super) struct KnownRuns(Mutex<BTreeMap<String, Known>>);

#[derive(Clone, Copy)]
struct Known {
    is_there: bool,
    until: Instant,
}

impl KnownRuns {
    /// Returns whether the store has the run.
    pub(super) async fn has(&self, store: &NamedStore, run: &str) -> Result<bool, Failure> {
        let now = Instant::now();
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known().get(run).filter(|known| now < known.until) {
            return Ok(known.is_there);
        }
        let is_there = match store.store().head(run).await {
            Ok(_) | Err(StoreError::Damaged { .. }) => true,
            Err(StoreError::RunNotFound { .. }) => false,
            Err(error) => return Err(error.into()),
        };
        let until = now + if is_there { KEPT_FOR.0 } else { KEPT_FOR.1 };
        let mut known = known();
        if known.len() >= RUNS_MAX {
            known.retain(|_, known| now < known.until);
        }
        if known.len() < RUNS_MAX {
            known.insert(run.to_string(), Known { is_there, until });
        }
        Ok(is_there)
    }
}
