//! Renewing leases and giving runs up. A statement for several runs never waits for a row: rows that others have locked are skipped.

use super::fault::Failure;
use super::sql::{self, Statement};
use crate::store::limits::cut_reason;
use crate::store::time::millis;
use crate::store::{Held, Release, Renewed, StoreError, TAKEOVERS_MAX, Timestamp};
use deadpool_postgres::ClientWrapper;
use std::collections::HashMap;
use std::time::Duration;
use tokio_postgres::types::ToSql;

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

pub(super) async fn renew(client: &ClientWrapper, held: &[Held], lease: Duration) -> Result<Renewed, Failure> {
    let Columns { runs, instances, epochs } = Columns::new(held);
    let statement = client.prepare_cached(&sql::RENEW).await?;
    let found = client.query(&statement, &[&runs, &instances, &epochs, &millis(lease)]).await?;
    let now = match found.first() {
        Some(row) => Timestamp::from_millis(row.try_get("now")?),
        None => return Err(StoreError::unavailable("the renewal of leases was answered without a time").into()),
    };
    let Left { lost, busy } = sort(held, &found)?;
    Ok(Renewed { lost, busy, now })
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
