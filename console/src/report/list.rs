//! Pages of runs, the newest first.

use super::info::InfoJson;
use super::{NamedStore, Version};
use pleach::store::{Filter, RunCursor, RunList, StoreError};
use serde::Serialize;

/// Reads up to `count` runs. One call of the store can return fewer.
///
/// # Errors
/// The store failed.
pub async fn read(
    store: &NamedStore,
    filters: Vec<Filter>,
    mut after: Option<RunCursor>,
    count: usize,
) -> Result<RunList, StoreError> {
    let mut all = RunList::default();
    loop {
        let page = store.store().list(filters.clone(), after, count - all.runs.len()).await?;
        all.runs.extend(page.runs);
        all.damaged.extend(page.damaged);
        (after, all.next) = (page.next, page.next);
        if after.is_none() || all.runs.len() >= count {
            return Ok(all);
        }
    }
}

/// A page of runs: the object *list* of `docs/cli.md`.
#[derive(Debug, Serialize)]
pub struct ListJson<'a> {
    version: Version,
    store: &'a str,
    runs: Vec<InfoJson<'a>>,
    damaged: Vec<DamagedJson<'a>>,
    next: Option<String>,
}

#[derive(Debug, Serialize)]
struct DamagedJson<'a> {
    id: &'a str,
    reason: &'a str,
}

impl<'a> ListJson<'a> {
    /// Builds the object from a page. `next` is the cursor of the next page.
    pub fn of(store: &'a str, page: &'a RunList, next: Option<String>) -> Self {
        let damaged = page.damaged.iter().map(|run| DamagedJson { id: &run.run, reason: run.reason });
        let runs = page.runs.iter().map(InfoJson::of).collect();
        Self { version: Version, store, runs, damaged: damaged.collect(), next }
    }
}
