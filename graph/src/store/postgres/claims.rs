//! Claiming runs. One run: its row is read without a lock, `decide` says what follows, and one statement writes it where the row is still the same.
//! What is ready: one statement that skips locked rows.

use super::fault::{Failure, TRIES_MAX};
use super::read::{Found, find};
use super::{run_row, sql};
use crate::store::error::StoreError;
use crate::store::limits::TAKEOVERS_MAX;
use crate::store::run_info::{GraphVersion, RunInfo, RunStatus};
use crate::store::time::{Timestamp, millis};
use crate::store::{Claim, Lease};
use deadpool_postgres::ClientWrapper;
use tokio_postgres::types::ToSql;

pub(super) async fn claim_one(client: &ClientWrapper, id: &str, force: bool, lease: &Lease) -> Result<Vec<Claim>, Failure> {
    for _ in 0..TRIES_MAX {
        let Found { key, info: was, now } = find(client, id).await?;
        let mut info = was.clone();
        let decided = match info.claim(lease, force, now) {
            Err(refused) if info == was => return Err(refused.into()),
            decided => decided,
        };
        // A run that has become stuck is written too, although its claim is refused.
        if let Some(claim) = write(client, key, &was, &info, lease).await? {
            decided?;
            return Ok(vec![claim]);
        }
    }
    Err(Failure::Contended)
}

/// `None` if the row has changed since it was read.
async fn write(
    client: &ClientWrapper,
    key: i64,
    was: &RunInfo,
    info: &RunInfo,
    lease: &Lease,
) -> Result<Option<Claim>, Failure> {
    let time = |time: Option<Timestamp>| time.map(Timestamp::as_millis);
    let length = info.owner.is_some().then(|| millis(lease.length));
    let parameters: [&(dyn ToSql + Sync); 13] = [
        &key,
        &info.status.as_str(),
        &(info.epoch as i64),
        &info.owner,
        &length,
        &time(info.wake_at),
        &i64::from(info.takeovers),
        &was.status.as_str(),
        &(was.epoch as i64),
        &was.owner,
        &time(was.lease_until),
        &time(was.wake_at),
        &i64::from(was.takeovers),
    ];
    let written = client.query_opt(&client.prepare_cached(&sql::CLAIM).await?, &parameters).await?;
    written.as_ref().map(run_row::claim).transpose()
}

/// The runs that one call has claimed so far, each with the time since which it is due. They are kept apart from the call, which may fail later.
#[derive(Default)]
pub(super) struct Claimed(Vec<(i64, Claim)>);

impl Claimed {
    /// What the caller is told: of what was claimed, those due longest first. A failure after that counts for nothing: the next call will meet it.
    pub(super) fn with(self, answer: Result<(), StoreError>) -> Result<Vec<Claim>, StoreError> {
        let Self(mut claims) = self;
        match answer {
            Err(error) if claims.is_empty() => return Err(error),
            Err(error) => {
                tracing::warn!(%error, claimed = claims.len(), "a claim failed after some runs were claimed; they are driven");
            }
            Ok(()) => {}
        }
        claims.sort_by_key(|(due, _)| *due);
        Ok(claims.into_iter().map(|(_, claim)| claim).collect())
    }
}

/// Claims runs until there are `count` or no more are ready. What was claimed before a failure stays in `claimed`.
pub(super) async fn claim_ready(
    client: &ClientWrapper,
    graphs: &[(String, GraphVersion)],
    count: usize,
    lease: &Lease,
    claimed: &mut Claimed,
) -> Result<(), Failure> {
    let mut known: Vec<(&str, &str, i64)> =
        graphs.iter().map(|(name, version)| (name.as_str(), version.fingerprint.as_str(), version.schema.into())).collect();
    known.sort_unstable();
    known.dedup();
    let names: Vec<&str> = known.iter().map(|one| one.0).collect();
    let prints: Vec<&str> = known.iter().map(|one| one.1).collect();
    let schemas: Vec<i64> = known.iter().map(|one| one.2).collect();
    let statement = client.prepare_cached(&sql::CLAIM_READY).await?;
    let Claimed(claims) = claimed;
    while claims.len() < count {
        let left = i64::try_from(count - claims.len()).unwrap_or(i64::MAX);
        let parameters: [&(dyn ToSql + Sync); 7] =
            [&names, &prints, &schemas, &lease.owner, &millis(lease.length), &left, &i64::from(TAKEOVERS_MAX)];
        let found = client.query(&statement, &parameters).await?;
        let before = claims.len();
        let (mut damaged, mut failed): (Vec<i64>, _) = (Vec::new(), None);
        for row in &found {
            match run_row::claim(row) {
                Ok(claim) if claim.run.status == RunStatus::Stuck => {}
                Ok(claim) => claims.push((row.try_get("due").unwrap_or_default(), claim)),
                // A damaged run is left alone until its lease ends, and does not keep others waiting. Reading it names the damage.
                Err(Failure::Refused(StoreError::Damaged { .. })) => damaged.push(row.try_get("no")?),
                Err(failure) => failed = Some(failure),
            }
        }
        if let Some(failure) = failed {
            return Err(failure);
        }
        if !damaged.is_empty() {
            // If this fails, they count as held until the lease ends. The others are claimed all the same.
            let disown = client.prepare_cached(&sql::DISOWN).await?;
            drop(client.execute(&disown, &[&damaged, &lease.owner]).await);
        }
        // Those that became stuck or are damaged made room for others.
        if claims.len() - before == found.len() {
            break;
        }
    }
    Ok(())
}
