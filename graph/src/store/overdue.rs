//! [`OverdueRuns`]: due runs that no driver has claimed for some time, by graph version.

use super::{DamagedRun, Filter, GraphVersion, LIST_MAX, RunInfo, RunStatus, Store, StoreError, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// The largest number of graph versions that [`Store::overdue`] returns.
pub const OVERDUE_VERSIONS_MAX: usize = 1_000;

/// The largest number of pages that the default implementation reads for each status.
const PAGES_MAX: usize = 10;

/// Runs of one graph version that are due and that no driver has claimed for some time.
///
/// Returned by [`Store::overdue`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverdueRuns {
    /// The name of the graph of these runs.
    pub graph: String,
    /// The fingerprint and schema of that graph.
    pub version: GraphVersion,
    /// The runs, the longest due first, at most as many as the caller asked for.
    pub runs: Vec<OverdueRun>,
    /// The runs among them whose own rows are damaged. No driver can claim them.
    pub damaged: Vec<DamagedRun>,
    /// Whether the version has more overdue runs than the ones listed.
    pub has_more: bool,
}

/// One overdue run, with the time since which it could have been claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverdueRun {
    /// The id of the run, unique within its store.
    pub id: String,
    /// Since when the run is due and unclaimed, by the store's clock.
    pub since: Timestamp,
}

/// Collects overdue runs by version, the longest due first in each.
#[derive(Default)]
pub(super) struct Collector {
    by_version: BTreeMap<(String, String, u32), OverdueRuns>,
    count: usize,
}

impl Collector {
    pub(super) fn new(count: usize) -> Self {
        Self { by_version: BTreeMap::new(), count: count.min(LIST_MAX) }
    }

    /// Adds a run or a damaged row. Rows after the requested count only set `has_more`.
    pub(super) fn add(&mut self, graph: String, version: GraphVersion, found: Result<OverdueRun, DamagedRun>) {
        let key = (graph.clone(), version.fingerprint.clone(), version.schema);
        if self.by_version.len() >= OVERDUE_VERSIONS_MAX && !self.by_version.contains_key(&key) {
            return;
        }
        let entry = self.by_version.entry(key).or_insert_with(|| OverdueRuns {
            graph,
            version,
            runs: Vec::new(),
            damaged: Vec::new(),
            has_more: false,
        });
        if entry.runs.len() + entry.damaged.len() >= self.count {
            entry.has_more = true;
            return;
        }
        match found {
            Ok(run) => entry.runs.push(run),
            Err(damaged) => entry.damaged.push(damaged),
        }
    }

    pub(super) fn finish(self) -> Vec<OverdueRuns> {
        self.by_version.into_values().collect()
    }
}

impl RunInfo {
    /// Returns since when the run is due and unclaimed; `None` if it is not due, or is held.
    pub(super) fn overdue_since(&self, now: Timestamp) -> Option<Timestamp> {
        let at = self.wake_at.filter(|_| self.status.is_live())?.max(self.lease_until.unwrap_or_default());
        (at <= now && self.check_free(now).is_ok()).then_some(at)
    }
}

/// Returns the time that lies `time` before `now`.
pub(super) fn before(now: Timestamp, time: Duration) -> Timestamp {
    Timestamp::from_millis(now.as_millis().saturating_sub(super::time::millis(time)))
}

/// The default implementation of [`Store::overdue`]: reads the lists of live runs, up to a limit.
pub(super) async fn by_list<S: Store + ?Sized>(
    store: &S,
    due_for: Duration,
    count: usize,
) -> Result<Vec<OverdueRuns>, StoreError> {
    let now = Timestamp::from(std::time::SystemTime::now());
    let latest = before(now, due_for);
    let mut found = Vec::new();
    for status in [RunStatus::Running, RunStatus::Waiting] {
        let mut after = None;
        for _ in 0..PAGES_MAX {
            let page = store.list(vec![Filter::Status(status)], after, LIST_MAX).await?;
            let overdue = |run: RunInfo| Some((run.overdue_since(now).filter(|since| *since <= latest)?, run));
            found.extend(page.runs.into_iter().filter_map(overdue));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    found.sort_by_key(|(since, _)| *since);
    let mut collector = Collector::new(count);
    for (since, RunInfo { id, graph, version, .. }) in found {
        collector.add(graph, version, Ok(OverdueRun { id, since }));
    }
    Ok(collector.finish())
}
