//! Renewing leases and giving runs up. A statement for several runs never waits for a row: rows that others have locked are skipped, and done
//! after it, one statement each. Only those may wait.

use super::fault::Failure;
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

/// A renewal waits for locked rows for this part of the lease, and for [`BUSY_WAIT_MAX`] at most, all of them together.
const BUSY_WAIT_PART: u32 = 8;
const BUSY_WAIT_MAX: Duration = Duration::from_secs(1);

/// Those of several runs for which nothing was done.
#[derive(Default)]
pub(super) struct Left {
    /// The caller does not hold them.
    pub(super) lost: Vec<Held>,
    /// Others have locked their rows.
    pub(super) busy: Vec<Held>,
}

/// Runs as columns, for `unnest`. No run has an id with a NUL, and PostgreSQL cannot be asked for one.
struct Columns<'a> {
    runs: Vec<&'a str>,
    instances: Vec<i64>,
    epochs: Vec<i64>,
}

impl<'a> Columns<'a> {
    fn new(held: &'a [Held]) -> Self {
        let known = || held.iter().filter(|one| !one.run.contains('\0'));
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        Self {
            runs: known().map(|one| one.run.as_str()).collect(),
            instances: known().map(|one| number(one.instance)).collect(),
            epochs: known().map(|one| number(one.epoch)).collect(),
        }
    }
}

/// Renews the leases whose rows nobody has locked, then the others one by one. Rows of busy runs are locked nearly all the time, but shortly.
pub(super) async fn renew(client: &ClientWrapper, held: &[Held], lease: Duration) -> Result<Renewed, Failure> {
    let Columns { runs, instances, epochs } = Columns::new(held);
    let statement = client.prepare_cached(&sql::RENEW).await?;
    let found = client.query(&statement, &[&runs, &instances, &epochs, &millis(lease)]).await?;
    let now = match found.first() {
        Some(row) => Timestamp::from_millis(row.try_get("now")?),
        None => return Err(StoreError::unavailable("the renewal of leases was answered without a time").into()),
    };
    let Left { mut lost, busy: skipped } = sort(held, &found)?;
    let until = Instant::now() + (lease / BUSY_WAIT_PART).min(BUSY_WAIT_MAX);
    let (mut busy, mut skipped) = (Vec::new(), skipped.into_iter());
    while let Some(time) = until.checked_duration_since(Instant::now()).filter(|_| skipped.len() > 0) {
        // Each has an equal part of the time that is left, so that a frozen client's row leaves enough for the others.
        let patience = time / skipped.len() as u32;
        let Some(one) = skipped.next() else { break };
        match renew_one(client, &one, lease, patience).await {
            Ok(true) => {}
            Ok(false) => lost.push(one),
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => busy.push(one),
            Err(error) => return Err(error.into()),
        }
    }
    // There is no time left for these.
    busy.extend(skipped);
    Ok(Renewed { lost, busy, now })
}

/// Renews one lease, and waits for its row for so long. Returns false if the caller does not hold it.
async fn renew_one(
    client: &ClientWrapper,
    held: &Held,
    lease: Duration,
    patience: Duration,
) -> Result<bool, tokio_postgres::Error> {
    // 0 would be no limit.
    let patience = format!("{}ms", patience.as_millis().max(1));
    let statement = client.prepare_cached(&sql::RENEW_ONE).await?;
    let parameters: [&(dyn ToSql + Sync); 5] =
        [&held.run, &(held.instance as i64), &(held.epoch as i64), &millis(lease), &patience];
    Ok(client.execute(&statement, &parameters).await? == 1)
}

/// Gives up those whose rows nobody has locked, and tells which are busy.
pub(super) async fn release(client: &ClientWrapper, held: &[Held], how: &Release) -> Result<Left, Failure> {
    release_with(client, &sql::RELEASE, held, how).await
}

/// Gives one run up, and waits for its row if it must.
pub(super) async fn release_one(client: &ClientWrapper, held: &Held, how: &Release) -> Result<Left, Failure> {
    release_with(client, &sql::RELEASE_ONE, std::slice::from_ref(held), how).await
}

async fn release_with(client: &ClientWrapper, statement: &Statement, held: &[Held], how: &Release) -> Result<Left, Failure> {
    let Columns { runs, instances, epochs } = Columns::new(held);
    let (reason, rest) = match how {
        Release::AsIs => (None, None),
        Release::LeftToOthers { rest } => (None, Some(millis(*rest))),
        Release::Troubled { reason, rest } => (Some(cut_reason(reason.clone())), Some(millis(*rest))),
    };
    let parameters: [&(dyn ToSql + Sync); 7] =
        [&runs, &instances, &epochs, &reason.is_some(), &reason, &rest, &i64::from(TAKEOVERS_MAX)];
    let found = client.query(&client.prepare_cached(statement).await?, &parameters).await?;
    sort(held, &found)
}

/// Which were not found, and which were not done.
fn sort(held: &[Held], found: &[tokio_postgres::Row]) -> Result<Left, Failure> {
    let mut done = HashMap::new();
    for row in found {
        let Some(id) = row.try_get::<_, Option<&str>>("id")? else { continue };
        let key = (id, row.try_get::<_, i64>("instance")? as u64, row.try_get::<_, i64>("epoch")? as u64);
        done.insert(key, row.try_get::<_, bool>("done")?);
    }
    let mut sorted = Left::default();
    for one in held {
        match done.get(&(one.run.as_str(), one.instance, one.epoch)) {
            Some(true) => {}
            Some(false) => sorted.busy.push(one.clone()),
            None => sorted.lost.push(one.clone()),
        }
    }
    Ok(sorted)
}
