//! Reading a run: its row, its log, its inbox.

use super::fault::Failure;
use super::{run_row, sql};
use crate::store::error::StoreError;
use crate::store::limits::{READ_BYTES_MAX, READ_ROWS_MAX, check_text};
use crate::store::query::{Answer, RowQuery};
use crate::store::row::{InboxMessage, NewMessage, Row, sum_of_row};
use crate::store::run_info::RunInfo;
use crate::store::time::Timestamp;
use crate::store::{Parts, Rows};
use deadpool_postgres::ClientWrapper;

/// A run's key, its row and the database's time.
pub(super) struct Found {
    pub(super) key: i64,
    pub(super) info: RunInfo,
    pub(super) now: Timestamp,
}

pub(super) async fn find(client: &ClientWrapper, id: &str) -> Result<Found, Failure> {
    check_text("run id", id)?;
    let found = client.query_opt(&client.prepare_cached(&sql::RUN).await?, &[&id]).await?;
    let Some(row) = found else { return Err(StoreError::Unknown { run: id.to_string() }.into()) };
    let (key, info) = run_row::info(&row)?;
    Ok(Found { key, info, now: Timestamp::from_millis(row.try_get("now")?) })
}

pub(super) async fn head(client: &ClientWrapper, id: &str) -> Result<RunInfo, Failure> {
    Ok(find(client, id).await?.info)
}

pub(super) async fn rows(client: &ClientWrapper, id: &str, which: Rows, parts: Parts) -> Result<Vec<Row>, Failure> {
    let sought = RowQuery::new(which)?;
    let before = head(client, id).await?;
    let sequences = sought.of_run(id, before.head, before.oldest)?;
    let wanted: Vec<i64> = sequences.iter().map(|sequence| *sequence as i64).collect();
    let statement = client.prepare_cached(&sql::ROWS).await?;
    let found = client.query(&statement, &[&id, &wanted, &(parts == Parts::Whole), &(READ_BYTES_MAX as i64)]).await?;
    let mut found = found.iter().map(|row| log_row(id, row));
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

fn log_row(id: &str, row: &tokio_postgres::Row) -> Result<Row, Failure> {
    let sequence = row.try_get::<_, i64>("seq")? as u64;
    let (header, body): (Vec<u8>, Vec<u8>) = (row.try_get("header")?, row.try_get("body")?);
    // A checksum that no row can have must not become one by chance.
    let sum = u32::try_from(row.try_get::<_, i64>("sum")?).unwrap_or_else(|_| !sum_of_row(id, sequence, &header));
    Ok(Row { sequence, header, body, sum })
}

pub(super) async fn inbox(client: &ClientWrapper, id: &str, after: u64) -> Result<Vec<InboxMessage>, Failure> {
    head(client, id).await?;
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let statement = client.prepare_cached(&sql::INBOX).await?;
    let found = client.query(&statement, &[&id, &after, &(READ_ROWS_MAX as i64), &(READ_BYTES_MAX as i64)]).await?;
    let (mut mail, mut bytes) = (Vec::new(), 0);
    for row in &found {
        let one = message(id, row)?;
        bytes += one.post.payload.len();
        if !mail.is_empty() && bytes > READ_BYTES_MAX {
            break;
        }
        mail.push(one);
    }
    Ok(mail)
}

/// A message as it is stored. A damaged one is given too, with a checksum that is wrong: [`NewMessage::open`] then says so.
fn message(id: &str, row: &tokio_postgres::Row) -> Result<InboxMessage, Failure> {
    let mut post =
        NewMessage::seal(id, row.try_get::<_, String>("name")?, row.try_get("dedup")?, row.try_get::<_, Vec<u8>>("payload")?);
    post.sum = u32::try_from(row.try_get::<_, i64>("sum")?).unwrap_or(!post.sum);
    let number = row.try_get::<_, i64>("n")? as u64;
    Ok(InboxMessage { number, at: Timestamp::from_millis(row.try_get("at")?), post })
}
