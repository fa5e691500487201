//! Reads a run: its own row, its log and its inbox.

use super::batcher::CallResult;
use super::fault::Failure;
use super::{run_row, sql};
use crate::store::error::StoreError;
use crate::store::limits::{READ_BYTES_MAX, READ_ROWS_MAX, check_text};
use crate::store::query::{Answer, RowQuery};
use crate::store::row::{InboxMessage, NewMessage, Row, sum_of_row};
use crate::store::run_info::RunInfo;
use crate::store::time::Timestamp;
use crate::store::{Parts, RefusedMessage, Rows};
use deadpool_postgres::ClientWrapper;
use std::sync::Arc;

/// A run's key, its row and the time of the database.
pub(super) struct KeyedRun {
    pub(super) key: i64,
    pub(super) info: RunInfo,
    pub(super) now: Timestamp,
}

/// Finds a run by its id and checks its row.
pub(super) async fn find(client: &ClientWrapper, id: &str) -> Result<KeyedRun, Failure> {
    check_text("run id", id)?;
    let found = client.query_opt(&client.prepare_cached(&sql::RUN).await?, &[&id]).await?;
    let Some(row) = found else { return Err(StoreError::RunNotFound { run: id.to_string() }.into()) };
    let (key, info) = run_row::info(&row)?;
    Ok(KeyedRun { key, info, now: Timestamp::from_millis(row.try_get("now")?) })
}

pub(super) async fn head(client: &ClientWrapper, id: &str) -> Result<RunInfo, Failure> {
    Ok(find(client, id).await?.info)
}

/// Reads rows of a log, as [`Store::read`](crate::store::Store::read) describes.
pub(super) async fn rows(client: &ClientWrapper, id: &str, which: Rows, parts: Parts) -> Result<Vec<Row>, Failure> {
    let query = RowQuery::new(which)?;
    let before = head(client, id).await?;
    let sequences = query.of_run(id, before.head, before.oldest)?;
    let wanted: Vec<i64> = sequences.iter().map(|sequence| *sequence as i64).collect();
    let statement = client.prepare_cached(&sql::ROWS).await?;
    let found = client.query(&statement, &[&id, &wanted, &(parts == Parts::Whole), &(READ_BYTES_MAX as i64)]).await?;
    let mut found = found.iter().map(|row| log_row(id, row, "sum"));
    let mut answer = Answer::new(id, before.oldest);
    let (mut bytes, mut next) = (0, found.next().transpose()?);
    for sequence in sequences {
        let row = next.take_if(|row| row.sequence == sequence);
        if row.is_none() {
            if bytes > READ_BYTES_MAX {
                break;
            }
            // The row was pruned since `before` was read, or is missing.
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

/// Returns the one row that such a read wants, by its sequence; `None` if it wants several.
pub(super) fn single_row(id: &str, which: &Rows, parts: Parts) -> Option<SingleRow> {
    let sequence = match which {
        Rows::Each(sequences) if sequences.len() == 1 => i64::try_from(sequences[0]).ok()?,
        _ => return None,
    };
    let is_known = parts == Parts::Whole && check_text("run id", id).is_ok();
    is_known.then(|| SingleRow { run: id.to_string(), sequence })
}

/// One row of one log.
pub(super) struct SingleRow {
    pub(super) run: String,
    pub(super) sequence: i64,
}

/// Reads one row for each of several runs. What is not there, damaged or too much is left to the
/// single reads.
pub(super) async fn rows_many(client: &ClientWrapper, wanted: &[Arc<SingleRow>]) -> Result<Vec<CallResult<Vec<Row>>>, Failure> {
    let runs: Vec<&str> = wanted.iter().map(|one| one.run.as_str()).collect();
    let sequences: Vec<i64> = wanted.iter().map(|one| one.sequence).collect();
    let statement = client.prepare_cached(&sql::ROWS_MANY).await?;
    let found = client.query(&statement, &[&runs, &sequences, &(READ_BYTES_MAX as i64)]).await?;
    let mut results: Vec<_> = wanted.iter().map(|_| CallResult::Alone).collect();
    for row in &found {
        let at = row.try_get::<_, i64>("place")? as usize - 1;
        if run_row::info(row).is_ok()
            && let Ok(row) = log_row(&wanted[at].run, row, "row_sum")
        {
            results[at] = CallResult::Done(vec![row]);
        }
    }
    Ok(results)
}

fn log_row(id: &str, row: &tokio_postgres::Row, sum: &str) -> Result<Row, Failure> {
    let sequence = row.try_get::<_, i64>("seq")? as u64;
    let (header, body): (Vec<u8>, Vec<u8>) = (row.try_get("header")?, row.try_get("body")?);
    // An out-of-range checksum must not match by chance after a conversion.
    let sum = u32::try_from(row.try_get::<_, i64>(sum)?).unwrap_or_else(|_| !sum_of_row(id, sequence, &header));
    Ok(Row { sequence, header, body, sum })
}

/// Reads untaken messages, as [`Store::inbox`](crate::store::Store::inbox) describes.
pub(super) async fn inbox(client: &ClientWrapper, id: &str, after: u64) -> Result<Vec<InboxMessage>, Failure> {
    head(client, id).await?;
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let statement = client.prepare_cached(&sql::INBOX).await?;
    let found = client.query(&statement, &[&id, &after, &(READ_ROWS_MAX as i64), &(READ_BYTES_MAX as i64)]).await?;
    let (mut messages, mut bytes) = (Vec::new(), 0);
    for row in &found {
        let message = inbox_message(id, row)?;
        bytes += message.message.payload.len();
        if !messages.is_empty() && bytes > READ_BYTES_MAX {
            break;
        }
        messages.push(message);
    }
    Ok(messages)
}

/// Returns whether a message waits, as [`Store::is_untaken`](crate::store::Store::is_untaken)
/// describes.
pub(super) async fn is_untaken(client: &ClientWrapper, id: &str, number: u64) -> Result<bool, Failure> {
    check_text("run id", id)?;
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    let found = client.query_opt(&client.prepare_cached(&sql::UNTAKEN).await?, &[&id, &number]).await?;
    let Some(row) = found else { return Err(StoreError::RunNotFound { run: id.to_string() }.into()) };
    Ok(row.try_get("untaken")?)
}

/// Reads the refused messages, as [`Store::refused`](crate::store::Store::refused) describes.
pub(super) async fn refused(client: &ClientWrapper, id: &str) -> Result<Vec<RefusedMessage>, Failure> {
    head(client, id).await?;
    let found = client.query(&client.prepare_cached(&sql::REFUSED).await?, &[&id]).await?;
    let refused = found.iter().map(|row| {
        let at = Timestamp::from_millis(row.try_get("at")?);
        let number = row.try_get::<_, i64>("n")? as u64;
        let refused = RefusedMessage::new(number, row.try_get("name")?, row.try_get("refused")?, at);
        Ok(refused.with_stored_cause(row.try_get("cause")?))
    });
    refused.collect()
}

/// Returns a stored message. A damaged message gets a wrong checksum, so that [`NewMessage::open`]
/// reports the damage.
fn inbox_message(id: &str, row: &tokio_postgres::Row) -> Result<InboxMessage, Failure> {
    let mut message =
        NewMessage::seal(id, row.try_get::<_, String>("name")?, row.try_get("dedup")?, row.try_get::<_, Vec<u8>>("payload")?);
    message.sum = u32::try_from(row.try_get::<_, i64>("sum")?).unwrap_or(!message.sum);
    let number = row.try_get::<_, i64>("n")? as u64;
    Ok(InboxMessage { number, at: Timestamp::from_millis(row.try_get("at")?), message })
}
