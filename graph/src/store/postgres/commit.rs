//! Creates runs and appends to their logs, with one statement each.

use super::fault::Failure;
use super::read::{KeyedRun, find};
use super::{ring, run_row, sql};
use crate::store::error::StoreError;
use crate::store::limits::{REFUSED_MAX, cut_reason};
use crate::store::row::{Row, STRAY_ROW};
use crate::store::run_info::{RunInfo, RunStatus};
use crate::store::time::{Timestamp, millis};
use crate::store::{Claim, Commit, Committed, Deadline, NewRun, Refusal, Tags, Wake};
use deadpool_postgres::ClientWrapper;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

/// The rows of a log as columns, for `unnest`.
struct Columns<'a> {
    sequences: Vec<i64>,
    sums: Vec<i64>,
    headers: Vec<&'a [u8]>,
    bodies: Vec<&'a [u8]>,
}

impl<'a> Columns<'a> {
    fn new(rows: &'a [Row]) -> Self {
        Self {
            sequences: rows.iter().map(|row| row.sequence as i64).collect(),
            sums: rows.iter().map(|row| i64::from(row.sum)).collect(),
            headers: rows.iter().map(|row| &*row.header).collect(),
            bodies: rows.iter().map(|row| &*row.body).collect(),
        }
    }
}

/// Creates a run with its first rows.
pub(super) async fn create(client: &ClientWrapper, run: &NewRun, rows: &[Row]) -> Result<Claim, Failure> {
    let columns = Columns::new(rows);
    let (owner, lease) = run.lease.as_ref().map(|lease| (&lease.owner, millis(lease.length))).unzip();
    let (from_run, from_seq) = run.from.as_ref().map(|from| (&from.run, from.sequence as i64)).unzip();
    let new = RunInfo::new(run.clone(), rows.len() as u64, Timestamp::default());
    let (keys, values) = tag_columns(&run.tags);
    let tags = run.tags.stored();
    let parameters: [&(dyn ToSql + Sync); 22] = [
        &run.id,
        &run.graph,
        &run.version.fingerprint,
        &i64::from(run.version.schema),
        &(run.instance as i64),
        &new.status.as_str(),
        &(rows.len() as i64),
        &owner,
        &lease,
        &(run.wake == Wake::Now),
        &run.wake.time(Timestamp::default()).map(Timestamp::as_millis),
        &run.deadline.map(millis),
        &from_run,
        &from_seq,
        &sum_without_times(new.clone()),
        &columns.sequences,
        &columns.sums,
        &columns.headers,
        &columns.bodies,
        &tags,
        &keys,
        &values,
    ];
    let (statement, parameters) = match run.tags.is_empty() {
        true => (&sql::CREATE, &parameters[..20]),
        false => (&sql::CREATE_TAGGED, &parameters[..]),
    };
    let created = match run.lease.is_none() {
        true => ring::query_and_ring(client, statement, parameters).await?.pop(),
        false => client.query_opt(&client.prepare_cached(statement).await?, parameters).await?,
    };
    if let Some(row) = created {
        return run_row::claim(&row);
    }
    let exists = || Failure::from(StoreError::Exists { run: run.id.clone() });
    let KeyedRun { info, now, .. } = match find(client, &run.id).await {
        Ok(found) => found,
        Err(Failure::Rejected(damaged @ StoreError::Damaged { .. })) => return Err(damaged.into()),
        // It was deleted meanwhile.
        Err(Failure::Rejected(_)) => return Err(exists()),
        Err(failure) => return Err(failure),
    };
    let is_same_owner = run.lease.as_ref().is_some_and(|lease| info.owner.as_ref() == Some(&lease.owner));
    if is_same_owner && find_committed(client, &run.id, run.instance, 1, rows).await?.is_some() {
        return Ok(Claim { run: info, now });
    }
    Err(exists())
}

/// Returns the checksum of a new run without its times, which the database adds.
fn sum_without_times(info: RunInfo) -> i64 {
    let no_times = RunInfo { wake_at: None, lease_until: None, deadline: None, created: Timestamp::default(), ..info };
    // The two missing times are -1 each and cancel each other.
    no_times.sum()
}

/// The changes of the run's own row by a commit, as the database stores them.
pub(super) struct Changes {
    pub(super) status: Option<&'static str>,
    pub(super) seen: i64,
    pub(super) wake: Option<&'static str>,
    pub(super) wake_at: Option<i64>,
    pub(super) deadline_is: Option<&'static str>,
    pub(super) deadline: Option<i64>,
    pub(super) failure: Option<String>,
}

impl Changes {
    pub(super) fn of(commit: &Commit) -> Self {
        let (wake, wake_at) = match commit.wake {
            None => (None, None),
            Some(Wake::Now) => (Some("now"), None),
            Some(Wake::At(at)) => (Some("at"), Some(at.as_millis())),
            Some(Wake::OnMessage) => (Some("message"), None),
        };
        let (deadline_is, deadline) = match commit.deadline {
            None => (None, None),
            Some(Deadline::Never) => (Some("never"), None),
            Some(Deadline::At(at)) => (Some("at"), Some(at.as_millis())),
        };
        let status = commit.status.map(RunStatus::as_str);
        let seen = i64::try_from(commit.seen).unwrap_or(i64::MAX);
        let failure = commit.failure.clone().map(|failure| failure.shortened().stored());
        Self { status, seen, wake, wake_at, deadline_is, deadline, failure }
    }
}

/// Returns whether a task on another machine may sleep until this commit: a worker that could claim
/// the run, or a caller that waits for its end. A run that stays held cannot be claimed.
pub(super) fn rings(commit: &Commit) -> bool {
    commit.release || commit.status.is_some_and(|status| !status.is_live())
}

/// Appends the rows of a commit and updates the run's row, if the fence allows it.
pub(super) async fn commit(client: &ClientWrapper, commit: &Commit, head: u64) -> Result<Committed, Failure> {
    let columns = Columns::new(&commit.rows);
    let changes = Changes::of(commit);
    let (fingerprint, schema) =
        commit.version.as_ref().map(|version| (&version.fingerprint, i64::from(version.schema))).unzip();
    let takes: Vec<i64> = commit.takes.iter().map(|number| i64::try_from(*number).unwrap_or(i64::MAX)).collect();
    let tags = commit.tags.clone().unwrap_or_default();
    let ((keys, values), stored_tags) = (tag_columns(&tags), tags.stored());
    let RefusedColumns { numbers: refused, reasons, causes } = refused_columns(&commit.refuses);
    let parameters: [&(dyn ToSql + Sync); 29] = [
        &commit.run,
        &(commit.instance as i64),
        &(commit.epoch as i64),
        &(head as i64),
        &(head as i64 + commit.rows.len() as i64),
        &changes.status,
        &changes.seen,
        &changes.wake,
        &changes.wake_at,
        &changes.deadline_is,
        &changes.deadline,
        &commit.release,
        &fingerprint,
        &schema,
        &sum_change(client, commit).await?,
        &takes,
        &columns.sequences,
        &columns.sums,
        &columns.headers,
        &columns.bodies,
        &changes.failure,
        &commit.tags.is_some(),
        &stored_tags,
        &keys,
        &values,
        &refused,
        &reasons,
        &causes,
        &(REFUSED_MAX.saturating_sub(refused.len()) as i64),
    ];
    let (statement, parameters) = match commit.tags.is_none() && commit.refuses.is_empty() {
        true => (&sql::COMMIT, &parameters[..21]),
        false => (&sql::COMMIT_MORE, &parameters[..]),
    };
    let found = match rings(commit) {
        true => ring::query_and_ring(client, statement, parameters).await.map(|mut found| found.pop()),
        false => client.query_opt(&client.prepare_cached(statement).await?, parameters).await,
    };
    match found {
        Ok(Some(row)) => return committed(&row),
        Ok(None) => {}
        // This driver holds the run, so no other driver wrote a row above the head.
        Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
            return Err(StoreError::Damaged { run: commit.run.clone(), sequence: head + 1, reason: STRAY_ROW }.into());
        }
        Err(error) => return Err(error.into()),
    }
    let committed = find_committed(client, &commit.run, commit.instance, commit.epoch, &commit.rows).await?;
    committed.ok_or_else(|| StoreError::Fenced { run: commit.run.clone(), epoch: commit.epoch }.into())
}

/// Returns the keys and the values of tags, for `unnest`.
fn tag_columns(tags: &Tags) -> (Vec<&str>, Vec<&str>) {
    tags.iter().unzip()
}

/// The numbers of refused messages with reasons and causes, for `unnest`.
struct RefusedColumns {
    numbers: Vec<i64>,
    reasons: Vec<Option<String>>,
    causes: Vec<Option<String>>,
}

/// Returns the columns of refused messages. A message above the limit has no reason: it is only
/// taken.
fn refused_columns(refuses: &[Refusal]) -> RefusedColumns {
    let unlisted = refuses.len().saturating_sub(REFUSED_MAX);
    let listed = |at: usize| at >= unlisted;
    let of_each = refuses.iter().enumerate();
    RefusedColumns {
        numbers: refuses.iter().map(|refusal| i64::try_from(refusal.number).unwrap_or(i64::MAX)).collect(),
        reasons: of_each.clone().map(|(at, refusal)| listed(at).then(|| cut_reason(refusal.reason.clone()))).collect(),
        causes: of_each.map(|(at, refusal)| listed(at).then(|| refusal.stored_cause())).collect(),
    }
}

/// Returns the change of the checksum by a new version and by new tags. Only the driver changes
/// them, unless it is fenced.
async fn sum_change(client: &ClientWrapper, commit: &Commit) -> Result<i64, Failure> {
    if commit.version.is_none() && commit.tags.is_none() {
        return Ok(0);
    }
    match find(client, &commit.run).await {
        Ok(KeyedRun { info, .. }) => {
            let version = commit.version.clone().unwrap_or_else(|| info.version.clone());
            let tags = commit.tags.clone().unwrap_or_else(|| info.tags.clone());
            Ok(info.sum() ^ RunInfo { version, tags, ..info }.sum())
        }
        Err(Failure::Rejected(StoreError::RunNotFound { .. })) => Ok(0),
        Err(failure) => Err(failure),
    }
}

/// Returns the confirmation, if these rows are the last of the run and were written with this
/// epoch.
async fn find_committed(
    client: &ClientWrapper,
    run: &str,
    instance: u64,
    epoch: u64,
    rows: &[Row],
) -> Result<Option<Committed>, Failure> {
    let Some(last) = rows.last() else { return Ok(None) };
    let statement = client.prepare_cached(&sql::FIND_COMMITTED).await?;
    let parameters: [&(dyn ToSql + Sync); 5] =
        [&run, &(instance as i64), &(epoch as i64), &(last.sequence as i64), &&*last.header];
    client.query_opt(&statement, &parameters).await?.as_ref().map(committed).transpose()
}

fn committed(row: &tokio_postgres::Row) -> Result<Committed, Failure> {
    let (last_message, now) = (row.try_get::<_, i64>("posted")? as u64, Timestamp::from_millis(row.try_get("now")?));
    Ok(Committed { last_message, now })
}
