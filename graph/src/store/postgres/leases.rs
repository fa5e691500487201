//! Renews leases and releases runs.
//!
//! A statement for several runs never waits for a row. It skips locked rows, and one statement for
//! each of them follows. Only those statements may wait.

use super::fault::Failure;
use super::ring;
use super::sql::{self, Statement};
use crate::store::error::StoreError;
use crate::store::limits::{TAKEOVERS_MAX, cut_reason};
use crate::store::time::{Timestamp, millis};
use crate::store::{Held, Release, Renewed};
use deadpool_postgres::ClientWrapper;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

/// A renewal waits for locked rows for this fraction of the lease in total, and at most
/// [`BUSY_WAIT_MAX`].
const BUSY_WAIT_PART: u32 = 8;
const BUSY_WAIT_MAX: Duration = Duration::from_secs(1);

/// The runs of a call for which nothing was done.
#[derive(Clone, Default)]
pub(super) struct NotDone {
    /// The caller does not hold these runs.
    pub(super) lost: Vec<Held>,
    /// The rows of these runs are locked.
    pub(super) busy: Vec<Held>,
}

/// Runs as columns, for `unnest`. Skips ids with a NUL, which no run has and PostgreSQL does not
/// accept.
#[derive(Default)]
struct Columns<'a> {
    runs: Vec<&'a str>,
    instances: Vec<i64>,
    epochs: Vec<i64>,
}

impl<'a> Columns<'a> {
    fn extend(&mut self, held: &'a [Held]) {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        for one in held.iter().filter(|one| !one.run.contains('\0')) {
            self.runs.push(&one.run);
            self.instances.push(number(one.instance));
            self.epochs.push(number(one.epoch));
        }
    }
}

/// The leases that one caller renews, and for how long.
pub(super) struct Renewal {
    pub(super) held: Vec<Held>,
    pub(super) lease: Duration,
}

/// Renews the leases whose rows are not locked, of several callers. Returns for each caller what
/// was not done, and the time.
pub(super) async fn renew_free<'a>(
    client: &ClientWrapper,
    renewals: impl Iterator<Item = &'a Renewal> + Clone,
) -> Result<Vec<(NotDone, Timestamp)>, Failure> {
    let (mut columns, mut leases) = (Columns::default(), Vec::new());
    for renewal in renewals.clone() {
        columns.extend(&renewal.held);
        leases.resize(columns.runs.len(), millis(renewal.lease));
    }
    let statement = client.prepare_cached(&sql::RENEW).await?;
    let found = client.query(&statement, &[&columns.runs, &columns.instances, &columns.epochs, &leases]).await?;
    let now = match found.first() {
        Some(row) => Timestamp::from_millis(row.try_get("now")?),
        None => return Err(StoreError::unavailable("the renewal of the leases returned no time; try again").into()),
    };
    let done = done(&found)?;
    Ok(renewals.map(|renewal| (NotDone::of(&renewal.held, &done), now)).collect())
}

/// Renews leases whose rows were locked, one by one. Such rows are locked often, but for short
/// times.
pub(super) async fn renew_busy(
    client: &ClientWrapper,
    not_done: &NotDone,
    lease: Duration,
    now: Timestamp,
) -> Result<Renewed, Failure> {
    let NotDone { mut lost, busy: skipped } = not_done.clone();
    let until = Instant::now() + (lease / BUSY_WAIT_PART).min(BUSY_WAIT_MAX);
    let (mut busy, mut skipped) = (Vec::new(), skipped.into_iter());
    while let Some(time) = until.checked_duration_since(Instant::now()).filter(|_| skipped.len() > 0) {
        // Each run gets an equal share of the remaining time, so that one suspended client does not
        // use it all.
        let timeout = time / skipped.len() as u32;
        let Some(one) = skipped.next() else { break };
        match renew_one(client, &one, lease, timeout).await {
            Ok(true) => {}
            Ok(false) => lost.push(one),
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => busy.push(one),
            Err(error) => return Err(error.into()),
        }
    }
    // No time is left for these.
    busy.extend(skipped);
    Ok(Renewed { lost, busy, now })
}

/// Renews one lease, and waits for its row up to `timeout`. Returns false if the caller does not
/// hold the run.
async fn renew_one(
    client: &ClientWrapper,
    held: &Held,
    lease: Duration,
    timeout: Duration,
) -> Result<bool, tokio_postgres::Error> {
    // 0 would mean no limit.
    let timeout = format!("{}ms", timeout.as_millis().max(1));
    let statement = client.prepare_cached(&sql::RENEW_ONE).await?;
    let parameters: [&(dyn ToSql + Sync); 5] =
        [&held.run, &(held.instance as i64), &(held.epoch as i64), &millis(lease), &timeout];
    Ok(client.execute(&statement, &parameters).await? == 1)
}

/// Releases the runs whose rows are not locked, and returns the others.
pub(super) async fn release(client: &ClientWrapper, held: &[Held], how: &Release) -> Result<NotDone, Failure> {
    release_with(client, &sql::RELEASE, held, how).await
}

/// Releases one run, and waits for its row if it is locked.
pub(super) async fn release_one(client: &ClientWrapper, held: &Held, how: &Release) -> Result<NotDone, Failure> {
    release_with(client, &sql::RELEASE_ONE, std::slice::from_ref(held), how).await
}

async fn release_with(client: &ClientWrapper, statement: &Statement, held: &[Held], how: &Release) -> Result<NotDone, Failure> {
    let mut columns = Columns::default();
    columns.extend(held);
    let Columns { runs, instances, epochs } = columns;
    let (reason, delay) = match how {
        Release::AsIs => (None, None),
        Release::ForOthers { delay } => (None, Some(millis(*delay))),
        Release::Failed { reason, delay } => (Some(cut_reason(reason.clone())), Some(millis(*delay))),
    };
    let parameters: [&(dyn ToSql + Sync); 7] =
        [&runs, &instances, &epochs, &reason.is_some(), &reason, &delay, &i64::from(TAKEOVERS_MAX)];
    let found = ring::query_and_ring(client, statement, &parameters).await?;
    Ok(NotDone::of(held, &done(&found)?))
}

/// The found runs by id, instance and epoch, and whether they were changed.
type Done<'a> = HashMap<(&'a str, u64, u64), bool>;

fn done(found: &[tokio_postgres::Row]) -> Result<Done<'_>, Failure> {
    let mut done = Done::new();
    for row in found {
        let Some(id) = row.try_get::<_, Option<&str>>("id")? else { continue };
        let key = (id, row.try_get::<_, i64>("instance")? as u64, row.try_get::<_, i64>("epoch")? as u64);
        done.insert(key, row.try_get::<_, bool>("done")?);
    }
    Ok(done)
}

impl NotDone {
    /// The runs that were not found, and the runs that were found and not changed.
    fn of(held: &[Held], done: &Done<'_>) -> Self {
        let mut not_done = Self::default();
        for one in held {
            match done.get(&(one.run.as_str(), one.instance, one.epoch)) {
                Some(true) => {}
                Some(false) => not_done.busy.push(one.clone()),
                None => not_done.lost.push(one.clone()),
            }
        }
        not_done
    }
}
