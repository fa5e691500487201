//! Claims runs.
//!
//! For one run, the row is read without a lock, `decide` decides, and one statement writes the
//! result if the row has not changed. Ready runs are claimed by one statement that skips locked
//! rows.

use super::fault::{Failure, TRIES_MAX};
use super::read::{KeyedRun, find};
use super::{run_row, sql};
use crate::store::error::StoreError;
use crate::store::limits::TAKEOVERS_MAX;
use crate::store::run_info::{GraphVersion, RunInfo, RunStatus};
use crate::store::time::{Timestamp, millis};
use crate::store::{Claim, Lease};
use deadpool_postgres::ClientWrapper;
use tokio_postgres::types::ToSql;

/// Claims one run by its id.
pub(super) async fn claim_one(client: &ClientWrapper, id: &str, force: bool, lease: &Lease) -> Result<Vec<Claim>, Failure> {
    for _ in 0..TRIES_MAX {
        let KeyedRun { key, info: was, now } = find(client, id).await?;
        let mut info = was.clone();
        let decided = match info.claim(lease, force, now) {
            Err(rejected) if info == was => return Err(rejected.into()),
            decided => decided,
        };
        // A run that became stuck is written too, although its claim is rejected.
        if let Some(claim) = write(client, key, &was, &info, lease).await? {
            decided?;
            return Ok(vec![claim]);
        }
    }
    Err(Failure::Contended)
}

/// Writes a claim. Returns `None` if the row has changed since it was read.
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

/// The runs that one call has claimed so far, each with the time since which it was due. The call
/// can fail later, so they are stored outside of it.
#[derive(Default)]
pub(super) struct Claimed(Vec<(i64, Claim)>);

impl Claimed {
    /// Returns the claimed runs, the longest due first. After some claims a failure is only logged;
    /// the next call will report it.
    pub(super) fn with(self, answer: Result<(), StoreError>) -> Result<Vec<Claim>, StoreError> {
        let Self(mut claims) = self;
        match answer {
            Err(error) if claims.is_empty() => return Err(error),
            Err(error) => {
                tracing::warn!(
                    %error,
                    claimed = claims.len(),
                    "the store failed after some runs were claimed; these runs are executed, and the next claim tries again"
                );
            }
            Ok(()) => {}
        }
        claims.sort_by_key(|(due, _)| *due);
        Ok(claims.into_iter().map(|(_, claim)| claim).collect())
    }
}

/// Claims runs until it has `count`, or no more are ready. After a failure, the claimed runs stay
/// in `claimed`.
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
                // A damaged run must not delay others. It stays unclaimed until the lease expires;
                // reading it reports the damage.
                Err(Failure::Rejected(StoreError::Damaged { .. })) => damaged.push(row.try_get("no")?),
                Err(failure) => failed = Some(failure),
            }
        }
        if let Some(failure) = failed {
            return Err(failure);
        }
        if !damaged.is_empty() {
            // If this fails, the damaged runs count as held until the lease expires. The others are
            // still claimed.
            let release = client.prepare_cached(&sql::RELEASE_DAMAGED).await?;
            drop(client.execute(&release, &[&damaged, &lease.owner]).await);
        }
        // Runs that became stuck or are damaged leave room for others.
        if claims.len() - before == found.len() {
            break;
        }
    }
    Ok(())
}
