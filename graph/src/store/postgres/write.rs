//! What is written. Every parameter is cast, and every statement is a constant.

use super::Failure;
use super::read::{columns, head as head_of, info, now, unchecked};
use crate::store::decide::check_free;
use crate::store::limits::check_text;
use crate::store::time::millis;
use crate::store::{
    Claim, CommandPost, Commit, Committed, Held, Lease, NewRun, Post, PostKind, Row, RunInfo, RunStatus, StoreError,
    TAKEOVERS_MAX, Timestamp, Wake,
};
use deadpool_postgres::{GenericClient, Object};
use std::time::Duration;
use tokio_postgres::types::ToSql;

const LOCK: &str = concat!("SELECT ", columns!(), ", ", now!(), " FROM pleach_run WHERE id = $1::text FOR UPDATE");

/// When a new run is due.
macro_rules! first_wake {
    () => {
        concat!("CASE WHEN $9::bool THEN ", now!(), " ELSE $10::bigint END")
    };
}

/// When a run is due after a commit.
macro_rules! next_wake {
    () => {
        concat!(
            "CASE WHEN COALESCE($5::text, status) NOT IN ('running', 'waiting') THEN NULL
                WHEN posted > $6::bigint OR $7::text = 'now' THEN ",
            now!(),
            " WHEN $7::text = 'at' THEN $8::bigint WHEN $7::text = 'post' THEN NULL ELSE wake_at END"
        )
    };
}

const CREATE: &str = concat!(
    "WITH made AS (
        INSERT INTO pleach_run (id, graph, fingerprint, schema, status, epoch, head, oldest, owner, lease_until, wake_at, takeovers, posted,
            from_run, from_seq, created, changed, sum)
        VALUES ($1::text, $2::text, $3::text, $4::bigint, $5::text, 1, $6::bigint, 1, $7::text, ",
    now!(),
    " + $8::bigint, ",
    first_wake!(),
    ", 0, 0, $11::text, $12::bigint, ",
    now!(),
    ", ",
    now!(),
    ", $17::bigint # ",
    now!(),
    " # COALESCE(",
    first_wake!(),
    ", -1) # COALESCE(",
    now!(),
    " + $8::bigint, -1)) ON CONFLICT (id) DO NOTHING RETURNING *
    ), logged AS (
        INSERT INTO pleach_log (run, seq, sum, header, body)
        SELECT made.no, r.seq, r.sum, r.header, r.body
        FROM made, unnest($13::bigint[], $14::bigint[], $15::bytea[], $16::bytea[]) AS r (seq, sum, header, body)
    )
    SELECT ",
    columns!(),
    ", created, CASE WHEN owner IS NULL THEN pg_notify('pleach', '')::text END FROM made"
);

/// The fence: the run's own row is changed where epoch and head match, and the rows come from that.
const COMMIT: &str = concat!(
    "WITH moved AS (
        UPDATE pleach_run SET head = $4::bigint, takeovers = 0, changed = ",
    now!(),
    ", status = COALESCE($5::text, status),
            wake_at = ",
    next_wake!(),
    ",
            ended_at = CASE WHEN COALESCE($5::text, status) IN ('running', 'waiting', 'stuck') THEN NULL ELSE ",
    now!(),
    " END,
            owner = CASE WHEN $9::bool THEN NULL ELSE owner END, lease_until = CASE WHEN $9::bool THEN NULL ELSE lease_until END,
            fingerprint = COALESCE($10::text, fingerprint), schema = COALESCE($11::bigint, schema),
            sum = sum # $3::bigint # $4::bigint # $18::bigint # COALESCE(wake_at, -1) # COALESCE(",
    next_wake!(),
    ", -1) # CASE WHEN $9::bool THEN COALESCE(lease_until, -1) # (-1) ELSE 0 END
        WHERE id = $1::text AND epoch = $2::bigint AND head = $3::bigint AND owner IS NOT NULL RETURNING no, posted
    ), logged AS (
        INSERT INTO pleach_log (run, seq, sum, header, body)
        SELECT moved.no, r.seq, r.sum, r.header, r.body
        FROM moved, unnest($12::bigint[], $13::bigint[], $14::bytea[], $15::bytea[]) AS r (seq, sum, header, body)
    ), took AS (
        UPDATE pleach_inbox i SET taken_seq = $4::bigint, payload = ''::bytea FROM moved
        WHERE i.run = moved.no AND i.n = ANY ($16::bigint[]) AND i.taken_seq IS NULL
    )
    SELECT posted, CASE WHEN $17::bool THEN pg_notify('pleach', '')::text END FROM moved"
);

const HAS_LANDED: &str = "SELECT r.posted FROM pleach_run r JOIN pleach_log l ON l.run = r.no AND l.seq = r.head
    WHERE r.id = $1::text AND r.epoch = $2::bigint AND r.head = $3::bigint AND l.header = $4::bytea";

const KEEP_CLAIM: &str =
    "UPDATE pleach_run SET status = $2::text, epoch = $3::bigint, owner = $4::text, lease_until = $5::bigint,
    wake_at = $6::bigint, takeovers = $7::bigint, sum = $8::bigint WHERE no = $1::bigint";

/// One that would be taken over once too often becomes stuck, and is given back as such.
const CLAIM_READY: &str = concat!(
    "WITH due AS (
        SELECT found.no, found.due, found.owner IS NOT NULL AND found.owner <> $3::text AND found.takeovers >= $6::bigint AS stuck,
            (found.owner IS NOT NULL AND found.owner <> $3::text)::int AS takeover
        FROM unnest($1::text[], $2::text[]) AS known (graph, fingerprint) CROSS JOIN LATERAL (
            SELECT r.no, r.owner, r.takeovers, GREATEST(r.wake_at, r.lease_until) AS due FROM pleach_run r
            WHERE r.graph = known.graph AND r.fingerprint = known.fingerprint AND r.wake_at IS NOT NULL
                AND GREATEST(r.wake_at, r.lease_until) <= ",
    now!(),
    " ORDER BY GREATEST(r.wake_at, r.lease_until) LIMIT $5::bigint FOR UPDATE SKIP LOCKED
        ) AS found ORDER BY found.due, found.no LIMIT $5::bigint
    )
    UPDATE pleach_run r SET status = CASE WHEN due.stuck THEN 'stuck' ELSE status END,
        wake_at = CASE WHEN due.stuck THEN NULL ELSE wake_at END, epoch = epoch + CASE WHEN due.stuck THEN 0 ELSE 1 END,
        owner = CASE WHEN due.stuck THEN NULL ELSE $3::text END,
        lease_until = CASE WHEN due.stuck THEN NULL ELSE ",
    now!(),
    " + $4::bigint END, takeovers = takeovers + CASE WHEN due.stuck THEN 0 ELSE due.takeover END,
        sum = sum # COALESCE(lease_until, -1) # CASE WHEN due.stuck THEN wake_at ELSE epoch # (epoch + 1) # (",
    now!(),
    " + $4::bigint) END
    FROM due WHERE r.no = due.no RETURNING r.no, r.id, r.graph, r.fingerprint, r.schema, r.status, r.epoch, r.head, r.oldest, r.owner,
        r.lease_until, r.wake_at, r.takeovers, r.posted, r.from_run, r.from_seq, r.created, r.changed, r.sum, ",
    now!(),
    ", due.due"
);

const RENEW: &str = concat!(
    "UPDATE pleach_run r SET owner = CASE WHEN $3::bigint = 0 THEN NULL ELSE owner END,
        lease_until = CASE WHEN $3::bigint = 0 THEN NULL ELSE ",
    now!(),
    " + $3::bigint END, sum = sum # COALESCE(lease_until, -1) # CASE WHEN $3::bigint = 0 THEN -1 ELSE ",
    now!(),
    " + $3::bigint END
    FROM unnest($1::text[], $2::bigint[]) AS held (id, epoch)
    WHERE r.id = held.id AND r.epoch = held.epoch AND r.owner IS NOT NULL
    RETURNING r.id, r.epoch, CASE WHEN $3::bigint = 0 THEN pg_notify('pleach', '')::text END"
);

const SAME_POST: &str = "SELECT n FROM pleach_inbox WHERE run = $1::bigint AND dedup = $2::text";
const UNTAKEN: &str = "SELECT count(*) FROM pleach_inbox WHERE run = $1::bigint AND taken_seq IS NULL
    AND (left(name, 7) = 'answer/') = $2::bool AND name NOT IN ('command/pause', 'command/resume', 'command/cancel')";
const COMMANDS: &str = "SELECT n, name FROM pleach_inbox WHERE run = $1::bigint AND taken_seq IS NULL
    AND name IN ('command/pause', 'command/resume', 'command/cancel') ORDER BY n";
const REMOVE: &str = "DELETE FROM pleach_inbox WHERE run = $1::bigint AND n = ANY ($2::bigint[])";
const POST: &str = "WITH posted AS (UPDATE pleach_run SET posted = $2::bigint, wake_at = $3::bigint, sum = $9::bigint
        WHERE no = $1::bigint)
    INSERT INTO pleach_inbox (run, n, at, name, dedup, sum, payload)
    VALUES ($1::bigint, $2::bigint, $4::bigint, $5::text, $6::text, $7::bigint, $8::bytea) RETURNING pg_notify('pleach', '')::text";

const PRUNE_ROWS: &str = "DELETE FROM pleach_log WHERE run = $1::bigint AND seq < $2::bigint AND seq <> ALL ($3::bigint[])";
const PRUNE_INBOX: &str = "DELETE FROM pleach_inbox WHERE run = $1::bigint AND taken_seq < $2::bigint";
const PRUNED: &str = "UPDATE pleach_run SET oldest = $2::bigint, sum = $3::bigint WHERE no = $1::bigint";
const PRUNE_ENDED: &str = concat!(
    "DELETE FROM pleach_run WHERE no IN (SELECT no FROM pleach_run WHERE ended_at IS NOT NULL AND ended_at <= ",
    now!(),
    " - $1::bigint AND (lease_until IS NULL OR lease_until <= ",
    now!(),
    ") ORDER BY ended_at, no LIMIT $2::bigint FOR UPDATE SKIP LOCKED)"
);

const HOLDER: &str = concat!("SELECT no, owner, lease_until, ", now!(), " FROM pleach_run WHERE id = $1::text FOR UPDATE");
const DELETE: &str = "DELETE FROM pleach_run WHERE no = $1::bigint";

const ALL_RUNS: &str = concat!("SELECT ", columns!(), " FROM pleach_run");
const SEAL: &str = "UPDATE pleach_run SET sum = $2::bigint WHERE no = $1::bigint";

/// Rows as columns, for `unnest`.
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

pub(super) async fn create(client: &mut Object, run: &NewRun, rows: &[Row]) -> Result<Claim, Failure> {
    let columns = Columns::new(rows);
    let status = if run.wake == Wake::Now { RunStatus::Running } else { RunStatus::Waiting }.as_str();
    let wake_at = run.wake.time(Timestamp::default()).map(Timestamp::as_millis);
    let (owner, length) = run.lease.as_ref().map(|lease| (&lease.owner, millis(lease.length))).unzip();
    let (from_run, from_seq) = run.from.as_ref().map(|from| (&from.run, from.sequence as i64)).unzip();
    // Times are the database's.
    let blank =
        RunInfo { wake_at: None, lease_until: None, ..RunInfo::new(run.clone(), rows.len() as u64, Timestamp::default()) };
    let sum = blank.sum();
    let parameters: [&(dyn ToSql + Sync); 17] = [
        &run.id,
        &run.graph,
        &run.version.fingerprint,
        &i64::from(run.version.schema),
        &status,
        &(rows.len() as i64),
        &owner,
        &length,
        &(run.wake == Wake::Now),
        &wake_at,
        &from_run,
        &from_seq,
        &columns.sequences,
        &columns.sums,
        &columns.headers,
        &columns.bodies,
        &sum,
    ];
    let statement = client.prepare_cached(CREATE).await?;
    if let Some(row) = client.query_opt(&statement, &parameters).await? {
        return claim_of(&row);
    }
    let there = lock(&client.transaction().await?, &run.id).await;
    if let Ok((_, info, now)) = there
        && run.lease.as_ref().is_some_and(|lease| info.owner.as_ref() == Some(&lease.owner))
        && has_landed(client, &run.id, 1, rows).await?.is_some()
    {
        return Ok(Claim { run: info, now });
    }
    Err(StoreError::Exists { run: run.id.clone() }.into())
}

pub(super) async fn commit(client: &Object, commit: &Commit, head: u64) -> Result<Committed, Failure> {
    let columns = Columns::new(&commit.rows);
    let (wake, wake_at) = match commit.wake {
        None => (None, None),
        Some(Wake::Now) => (Some("now"), None),
        Some(Wake::At(at)) => (Some("at"), Some(at.as_millis())),
        Some(Wake::OnPost) => (Some("post"), None),
    };
    let (fingerprint, schema) =
        commit.version.as_ref().map(|version| (&version.fingerprint, i64::from(version.schema))).unzip();
    let takes: Vec<i64> = commit.takes.iter().map(|number| i64::try_from(*number).unwrap_or(i64::MAX)).collect();
    let sum = match &commit.version {
        // As long as this driver is not fenced, nobody else changes the version.
        Some(version) => match head_of(client, &commit.run).await {
            Ok(before) => before.sum() ^ RunInfo { version: version.clone(), ..before.clone() }.sum(),
            Err(Failure::Refused(StoreError::Unknown { .. })) => 0,
            Err(failure) => return Err(failure),
        },
        None => 0,
    };
    let parameters: [&(dyn ToSql + Sync); 18] = [
        &commit.run,
        &(commit.epoch as i64),
        &(head as i64),
        &(head as i64 + commit.rows.len() as i64),
        &commit.status.map(RunStatus::as_str),
        &i64::try_from(commit.seen).unwrap_or(i64::MAX),
        &wake,
        &wake_at,
        &commit.release,
        &fingerprint,
        &schema,
        &columns.sequences,
        &columns.sums,
        &columns.headers,
        &columns.bodies,
        &takes,
        &commit.may_make_ready(),
        &sum,
    ];
    let statement = client.prepare_cached(COMMIT).await?;
    if let Some(row) = client.query_opt(&statement, &parameters).await? {
        return Ok(Committed { posted: row.try_get::<_, i64>(0)? as u64 });
    }
    let landed = has_landed(client, &commit.run, commit.epoch, &commit.rows).await?;
    landed.ok_or_else(|| StoreError::Fenced { run: commit.run.clone(), epoch: commit.epoch }.into())
}

/// Whether these rows are the last of the run, written under this epoch.
async fn has_landed(client: &Object, run: &str, epoch: u64, rows: &[Row]) -> Result<Option<Committed>, Failure> {
    let Some(last) = rows.last() else { return Ok(None) };
    let statement = client.prepare_cached(HAS_LANDED).await?;
    let parameters: [&(dyn ToSql + Sync); 4] = [&run, &(epoch as i64), &(last.sequence as i64), &&*last.header];
    let found = client.query_opt(&statement, &parameters).await?;
    Ok(found.map(|row| row.try_get::<_, i64>(0)).transpose()?.map(|posted| Committed { posted: posted as u64 }))
}

/// A run's key, its row and the time, with its row locked until the transaction ends.
async fn lock(transaction: &deadpool_postgres::Transaction<'_>, id: &str) -> Result<(i64, RunInfo, Timestamp), Failure> {
    check_text("run id", id)?;
    let statement = transaction.prepare_cached(LOCK).await?;
    let Some(row) = transaction.query_opt(&statement, &[&id]).await? else {
        return Err(StoreError::Unknown { run: id.to_string() }.into());
    };
    let (key, info) = info(&row)?;
    Ok((key, info, Timestamp::from_millis(row.try_get(19)?)))
}

fn claim_of(row: &tokio_postgres::Row) -> Result<Claim, Failure> {
    Ok(Claim { run: info(row)?.1, now: Timestamp::from_millis(row.try_get(19)?) })
}

pub(super) async fn claim_one(client: &mut Object, id: &str, force: bool, lease: &Lease) -> Result<Vec<Claim>, Failure> {
    let transaction = client.transaction().await?;
    let (key, mut info, now) = lock(&transaction, id).await?;
    let claimed = info.claim(lease, force, now);
    if !matches!(claimed, Err(StoreError::Held { .. })) {
        let (lease_until, wake_at) = (info.lease_until.map(Timestamp::as_millis), info.wake_at.map(Timestamp::as_millis));
        let (status, takeovers) = (info.status.as_str(), i64::from(info.takeovers));
        let parameters: [&(dyn ToSql + Sync); 8] =
            [&key, &status, &(info.epoch as i64), &info.owner, &lease_until, &wake_at, &takeovers, &info.sum()];
        let statement = transaction.prepare_cached(KEEP_CLAIM).await?;
        transaction.execute(&statement, &parameters).await?;
    }
    transaction.commit().await?;
    claimed?;
    Ok(vec![Claim { run: info, now }])
}

pub(super) async fn claim_ready(
    client: &Object,
    graphs: &[(String, String)],
    count: usize,
    lease: &Lease,
) -> Result<Vec<Claim>, Failure> {
    let mut known = graphs.to_vec();
    known.sort_unstable();
    known.dedup();
    let (names, prints): (Vec<String>, Vec<String>) = known.into_iter().unzip();
    let statement = client.prepare_cached(CLAIM_READY).await?;
    let mut claims: Vec<(i64, Claim)> = Vec::new();
    while claims.len() < count {
        let left = i64::try_from(count - claims.len()).unwrap_or(i64::MAX);
        let parameters: [&(dyn ToSql + Sync); 6] =
            [&names, &prints, &lease.owner, &millis(lease.length), &left, &i64::from(TAKEOVERS_MAX)];
        let found = client.query(&statement, &parameters).await?;
        let before = claims.len();
        for row in &found {
            match claim_of(row) {
                Ok(claim) if claim.run.status == RunStatus::Stuck => {}
                Ok(claim) => claims.push((row.try_get(20)?, claim)),
                // It is left alone until its lease ends, and does not keep others waiting. Whoever looks at it is told.
                Err(Failure::Refused(StoreError::Damaged { .. })) => {}
                Err(failure) => return Err(failure),
            }
        }
        // Those that became stuck made room for others.
        if claims.len() - before == found.len() {
            break;
        }
    }
    claims.sort_by_key(|(due, _)| *due);
    Ok(claims.into_iter().map(|(_, claim)| claim).collect())
}

pub(super) async fn renew(client: &Object, held: &[Held], lease: Duration) -> Result<Vec<Held>, Failure> {
    let runs: Vec<&str> = held.iter().map(|one| one.run.as_str()).filter(|run| !run.contains('\0')).collect();
    let epochs: Vec<i64> =
        held.iter().filter(|one| !one.run.contains('\0')).map(|one| i64::try_from(one.epoch).unwrap_or(i64::MAX)).collect();
    let statement = client.prepare_cached(RENEW).await?;
    let renewed = client.query(&statement, &[&runs, &epochs, &millis(lease)]).await?;
    let mut kept = std::collections::HashSet::new();
    for row in &renewed {
        kept.insert((row.try_get::<_, &str>(0)?, row.try_get::<_, i64>(1)? as u64));
    }
    Ok(held.iter().filter(|one| !kept.contains(&(one.run.as_str(), one.epoch))).cloned().collect())
}

pub(super) async fn post(client: &mut Object, id: &str, post: &Post) -> Result<u64, Failure> {
    let transaction = client.transaction().await?;
    let (key, mut info, now) = lock(&transaction, id).await?;
    if let Some(dedup) = &post.dedup {
        let statement = transaction.prepare_cached(SAME_POST).await?;
        if let Some(row) = transaction.query_opt(&statement, &[&key, dedup]).await? {
            return Ok(row.try_get::<_, i64>(0)? as u64);
        }
    }
    info.check_open()?;
    if post.kind() == PostKind::Command {
        let mut untaken = Vec::new();
        for row in transaction.query(&transaction.prepare_cached(COMMANDS).await?, &[&key]).await? {
            untaken.push((row.try_get::<_, i64>(0)? as u64, row.try_get(1)?));
        }
        match post.among(&untaken) {
            CommandPost::Known(number) => return Ok(number),
            CommandPost::Instead(others) => {
                let others: Vec<i64> = others.into_iter().map(|number| number as i64).collect();
                transaction.execute(&transaction.prepare_cached(REMOVE).await?, &[&key, &others]).await?;
            }
        }
    } else {
        let is_answer = post.kind() == PostKind::Answer;
        let statement = transaction.prepare_cached(UNTAKEN).await?;
        let untaken = transaction.query_one(&statement, &[&key, &is_answer]).await?;
        info.check_room(untaken.try_get::<_, i64>(0)? as usize)?;
    }
    info.post(now)?;
    let wake_at = info.wake_at.map(Timestamp::as_millis);
    let (number, sum, run_sum) = (info.posted as i64, i64::from(post.sum), info.sum());
    let parameters: [&(dyn ToSql + Sync); 9] =
        [&key, &number, &wake_at, &now.as_millis(), &post.name, &post.dedup, &sum, &post.payload, &run_sum];
    transaction.query_one(&transaction.prepare_cached(POST).await?, &parameters).await?;
    transaction.commit().await?;
    Ok(info.posted)
}

pub(super) async fn prune_rows(client: &mut Object, held: &Held, before: u64, keep: &[u64]) -> Result<u64, Failure> {
    let fenced = || StoreError::Fenced { run: held.run.clone(), epoch: held.epoch };
    let transaction = client.transaction().await?;
    let (key, mut info) = match lock(&transaction, &held.run).await {
        Ok((key, info, _)) if info.is_held_with(held.epoch) => (key, info),
        Err(Failure::Refused(damaged @ StoreError::Damaged { .. })) => return Err(damaged.into()),
        Ok(_) | Err(Failure::Refused(_)) => return Err(fenced().into()),
        Err(failure) => return Err(failure),
    };
    let before = before.min(info.head);
    info.oldest = info.oldest.max(before);
    let before = before as i64;
    let keep: Vec<i64> = keep.iter().filter_map(|sequence| i64::try_from(*sequence).ok()).collect();
    let removed = transaction.execute(&transaction.prepare_cached(PRUNE_ROWS).await?, &[&key, &before, &keep]).await?;
    transaction.execute(&transaction.prepare_cached(PRUNE_INBOX).await?, &[&key, &before]).await?;
    let pruned = transaction.prepare_cached(PRUNED).await?;
    transaction.execute(&pruned, &[&key, &(info.oldest as i64), &info.sum()]).await?;
    transaction.commit().await?;
    Ok(removed)
}

pub(super) async fn prune_ended(client: &Object, unchanged_for: Duration, count: usize) -> Result<u64, Failure> {
    let statement = client.prepare_cached(PRUNE_ENDED).await?;
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    Ok(client.execute(&statement, &[&millis(unchanged_for), &count]).await?)
}

/// Also a run whose row is damaged can be deleted.
pub(super) async fn delete(client: &mut Object, id: &str) -> Result<(), Failure> {
    check_text("run id", id)?;
    let transaction = client.transaction().await?;
    let Some(row) = transaction.query_opt(&transaction.prepare_cached(HOLDER).await?, &[&id]).await? else {
        return Err(StoreError::Unknown { run: id.to_string() }.into());
    };
    let until = row.try_get::<_, Option<i64>>(2)?.map(Timestamp::from_millis);
    check_free(id, row.try_get(1)?, until, Timestamp::from_millis(row.try_get(3)?))?;
    let key: i64 = row.try_get(0)?;
    transaction.execute(&transaction.prepare_cached(DELETE).await?, &[&key]).await?;
    transaction.commit().await?;
    Ok(())
}

/// Gives the rows of all runs the checksums that an earlier format had not.
pub(super) async fn seal_runs(transaction: &deadpool_postgres::Transaction<'_>) -> Result<(), Failure> {
    let runs = transaction.query(ALL_RUNS, &[]).await?;
    let statement = transaction.prepare(SEAL).await?;
    for row in &runs {
        let (key, info) = unchecked(row)?;
        transaction.execute(&statement, &[&key, &info.sum()]).await?;
    }
    Ok(())
}
