//! What is read.

use super::Failure;
use crate::store::asked::{Answer, Query, Sought};
use crate::store::limits::{LIST_MAX, READ_BYTES_MAX, READ_ROWS_MAX, check_text};
use crate::store::{
    Filter, GraphVersion, Mail, Origin, Parts, Post, Row, Rows, RunInfo, RunList, RunStatus, StoreError, Timestamp,
};
use deadpool_postgres::GenericClient;
use tokio_postgres::types::ToSql;

/// The columns of a run's row, as [`info`] reads them.
macro_rules! columns {
    () => {
        "no, id, graph, fingerprint, schema, status, epoch, head, oldest, owner, lease_until, wake_at, takeovers, posted, from_run, \
         from_seq, created, changed, sum"
    };
}

/// The database's clock when the statement began, in milliseconds.
macro_rules! now {
    () => {
        "(extract(epoch FROM statement_timestamp()) * 1000)::bigint"
    };
}

pub(super) use {columns, now};

const RUN: &str = concat!("SELECT ", columns!(), " FROM pleach_run WHERE id = $1::text");

const LIST: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM pleach_run WHERE ($1::bigint IS NULL OR no < $1::bigint) AND ($2::text IS NULL OR status = $2::text)
    AND ($3::text IS NULL OR graph = $3::text) AND ($4::bigint IS NULL OR created >= $4::bigint)
    AND ($5::bigint IS NULL OR created < $5::bigint) AND ($6::bigint IS NULL OR changed >= $6::bigint)
    AND ($7::bigint IS NULL OR changed < $7::bigint) ORDER BY no DESC LIMIT $8::bigint"
);

/// Rows as long as those before them are not too many bytes.
const ROWS: &str = "SELECT seq, sum, header, body FROM (
        SELECT l.seq, l.sum, l.header, CASE WHEN $3::bool THEN l.body ELSE ''::bytea END AS body,
            sum(octet_length(l.header) + CASE WHEN $3::bool THEN octet_length(l.body) ELSE 0 END)
                OVER (ORDER BY l.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
        FROM pleach_log l WHERE l.run = (SELECT no FROM pleach_run WHERE id = $1::text) AND l.seq = ANY ($2::bigint[])
    ) AS found WHERE before IS NULL OR before <= $4::bigint ORDER BY seq";

const INBOX: &str = "SELECT n, at, name, dedup, sum, payload FROM (
        SELECT i.*, sum(octet_length(i.payload)) OVER (ORDER BY i.n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
        FROM pleach_inbox i WHERE i.run = (SELECT no FROM pleach_run WHERE id = $1::text) AND i.n > $2::bigint AND i.taken_seq IS NULL
        ORDER BY i.n LIMIT $3::bigint
    ) AS found WHERE before IS NULL OR before <= $4::bigint ORDER BY n";

pub(super) async fn head(client: &impl GenericClient, id: &str) -> Result<RunInfo, Failure> {
    check_text("run id", id)?;
    let found = client.query_opt(&client.prepare_cached(RUN).await?, &[&id]).await?;
    match found {
        Some(row) => Ok(info(&row)?.1),
        None => Err(StoreError::Unknown { run: id.to_string() }.into()),
    }
}

pub(super) async fn rows(client: &impl GenericClient, id: &str, which: Rows, parts: Parts) -> Result<Vec<Row>, Failure> {
    let sought = Sought::new(which)?;
    let before = head(client, id).await?;
    let sequences = sought.of_run(id, before.head, before.oldest)?;
    let wanted: Vec<i64> = sequences.iter().map(|sequence| *sequence as i64).collect();
    let statement = client.prepare_cached(ROWS).await?;
    let found = client.query(&statement, &[&id, &wanted, &(parts == Parts::Whole), &(READ_BYTES_MAX as i64)]).await?;
    let mut found = found.into_iter().map(|row| -> Result<Row, Failure> {
        let sum = u32::try_from(row.try_get::<_, i64>(1)?).unwrap_or(0);
        Ok(Row { sequence: row.try_get::<_, i64>(0)? as u64, sum, header: row.try_get(2)?, body: row.try_get(3)? })
    });
    let mut answer = Answer::new(id, before.oldest);
    let (mut bytes, mut next) = (0, found.next().transpose()?);
    for sequence in sequences {
        let row = next.take_if(|row| row.sequence == sequence);
        if row.is_none() {
            if bytes > READ_BYTES_MAX {
                break;
            }
            // It was pruned meanwhile, or is missing.
            let after = head(client, id).await?;
            Answer::new(id, after.oldest).add(sequence, None)?;
        }
        bytes += row.as_ref().map_or(0, Row::size);
        if !answer.add(sequence, row)? {
            break;
        }
        next = found.next().transpose()?;
    }
    Ok(answer.into_rows())
}

pub(super) async fn list(
    client: &impl GenericClient,
    filters: Vec<Filter>,
    after: Option<u64>,
    count: usize,
) -> Result<RunList, Failure> {
    let Some(query) = Query::new(filters) else { return Ok(RunList::default()) };
    let millis = |time: Option<Timestamp>| time.map(Timestamp::as_millis);
    let count = count.min(LIST_MAX);
    let after = after.map(|after| i64::try_from(after).unwrap_or(i64::MAX));
    let times =
        [millis(query.created_since), millis(query.created_before), millis(query.changed_since), millis(query.changed_before)];
    let (status, limit) = (query.status.map(RunStatus::as_str), count as i64 + 1);
    let parameters: [&(dyn ToSql + Sync); 8] =
        [&after, &status, &query.graph, &times[0], &times[1], &times[2], &times[3], &limit];
    let found = client.query(&client.prepare_cached(LIST).await?, &parameters).await?;
    let more = found.len() > count;
    let mut runs = Vec::new();
    let mut next = None;
    for row in found.iter().take(count) {
        let (key, info) = info(row)?;
        next = more.then_some(key as u64);
        runs.push(info);
    }
    Ok(RunList { runs, next })
}

pub(super) async fn inbox(client: &impl GenericClient, id: &str, after: u64) -> Result<Vec<Mail>, Failure> {
    head(client, id).await?;
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let statement = client.prepare_cached(INBOX).await?;
    let found = client.query(&statement, &[&id, &after, &(READ_ROWS_MAX as i64), &(READ_BYTES_MAX as i64)]).await?;
    let (mut mail, mut bytes) = (Vec::new(), 0);
    for row in found {
        let sum = u32::try_from(row.try_get::<_, i64>(4)?).unwrap_or(0);
        let post = Post { name: row.try_get(2)?, dedup: row.try_get(3)?, sum, payload: row.try_get(5)? };
        bytes += post.payload.len();
        if !mail.is_empty() && bytes > READ_BYTES_MAX {
            break;
        }
        mail.push(Mail { number: row.try_get::<_, i64>(0)? as u64, at: Timestamp::from_millis(row.try_get(1)?), post });
    }
    Ok(mail)
}

/// A run's key and its row, after it was checked.
pub(super) fn info(row: &tokio_postgres::Row) -> Result<(i64, RunInfo), Failure> {
    let (key, info) = unchecked(row)?;
    Ok((key, info.checked(row.try_get(18)?)?))
}

/// A run's key and its row, in the order of the columns.
pub(super) fn unchecked(row: &tokio_postgres::Row) -> Result<(i64, RunInfo), Failure> {
    let id: String = row.try_get(1)?;
    let damaged = |why| Failure::Refused(StoreError::Damaged { run: id.clone(), sequence: 0, why });
    let number = |column: usize| -> Result<u64, Failure> {
        u64::try_from(row.try_get::<_, i64>(column)?).map_err(|_| damaged("a number of its row is negative"))
    };
    let small = |column: usize| -> Result<u32, Failure> {
        u32::try_from(row.try_get::<_, i64>(column)?).map_err(|_| damaged("a number of its row is out of range"))
    };
    let time = |column: usize| -> Result<Option<Timestamp>, Failure> {
        Ok(row.try_get::<_, Option<i64>>(column)?.map(Timestamp::from_millis))
    };
    let status = RunStatus::parse(row.try_get(5)?).ok_or_else(|| damaged("its status is none"))?;
    let from = match row.try_get::<_, Option<String>>(14)? {
        Some(run) => Some(Origin { run, sequence: number(15)? }),
        None => None,
    };
    let info = RunInfo {
        graph: row.try_get(2)?,
        version: GraphVersion { fingerprint: row.try_get(3)?, schema: small(4)? },
        status,
        epoch: number(6)?,
        head: number(7)?,
        oldest: number(8)?,
        owner: row.try_get(9)?,
        lease_until: time(10)?,
        wake_at: time(11)?,
        takeovers: small(12)?,
        posted: number(13)?,
        from,
        created: Timestamp::from_millis(row.try_get(16)?),
        changed: Timestamp::from_millis(row.try_get(17)?),
        id,
    };
    Ok((row.try_get(0)?, info))
}
