//! Adds messages to an inbox.
//!
//! The state of the inbox is read without a lock, and decides what to do. Then one statement writes
//! the message if the decision is still valid: for a command, no message was added since; for a
//! signal or an answer, no more messages were added than the inbox had room for. Otherwise the
//! whole operation is repeated.

use super::fault::{Failure, TRIES_MAX};
use super::{ring, run_row, sql};
use crate::store::error::StoreError;
use crate::store::limits::{INBOX_MAX, check_text};
use crate::store::message_kind::{CommandAction, InboxMessageKind, STRAY_MESSAGE};
use crate::store::row::NewMessage;
use deadpool_postgres::ClientWrapper;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

/// The names that PostgreSQL gives to the unique keys of the inbox.
const DEDUP_KEY: &str = "pleach_inbox_run_dedup_key";
const NUMBER_KEY: &str = "pleach_inbox_pkey";

/// Returns whether a row with the same value of this key exists.
fn is_taken(error: &tokio_postgres::Error, key: &str) -> bool {
    error.as_db_error().is_some_and(|report| *report.code() == SqlState::UNIQUE_VIOLATION && report.constraint() == Some(key))
}

/// How to add a message.
enum Decision {
    /// Add nothing: the message with this number is the same.
    Known(u64),
    /// Add it to the run with this key, whose inbox had `last_message` messages.
    Add { key: i64, last_message: u64, room: usize, replaces: Vec<i64> },
}

/// Adds a message to an inbox, unless it is a duplicate, and makes the run due.
pub(super) async fn add_message(client: &ClientWrapper, id: &str, message: &NewMessage) -> Result<u64, Failure> {
    check_text("run id", id)?;
    for _ in 0..TRIES_MAX {
        let (key, last_message, room, replaces) = match decide(client, id, message).await? {
            Decision::Known(number) => return Ok(number),
            Decision::Add { key, last_message, room, replaces } => (key, last_message, room, replaces),
        };
        let NewMessage { name, dedup, payload, sum } = message;
        let parameters: [&(dyn ToSql + Sync); 8] =
            [&key, &(last_message as i64), &(room as i64), &replaces, name, dedup, &i64::from(*sum), payload];
        match ring::query_and_ring(client, &sql::ADD_MESSAGE, &parameters).await.map(|mut added| added.pop()) {
            Ok(Some(row)) => return Ok(row.try_get::<_, i64>("n")? as u64),
            Ok(None) => {}
            // A message with the same dedup text came first.
            Err(error) if is_taken(&error, DEDUP_KEY) => {}
            // The run's row is locked when a number is assigned, so no caller added this message.
            Err(error) if is_taken(&error, NUMBER_KEY) => {
                return Err(StoreError::Damaged { run: id.to_string(), sequence: 0, reason: STRAY_MESSAGE }.into());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::Contended)
}

async fn decide(client: &ClientWrapper, id: &str, message: &NewMessage) -> Result<Decision, Failure> {
    let kind = message.kind();
    let parameters: [&(dyn ToSql + Sync); 4] =
        [&id, &message.dedup, &(kind == InboxMessageKind::Command), &(kind == InboxMessageKind::Answer)];
    let found = client.query_opt(&client.prepare_cached(&sql::INBOX_STATE).await?, &parameters).await?;
    let Some(row) = found else { return Err(StoreError::RunNotFound { run: id.to_string() }.into()) };
    let (key, info) = run_row::info(&row)?;
    if let Some(number) = row.try_get::<_, Option<i64>>("same")? {
        return Ok(Decision::Known(number as u64));
    }
    info.check_open()?;
    let last_message = info.last_message;
    if kind != InboxMessageKind::Command {
        let untaken = row.try_get::<_, Option<i64>>("untaken")?.unwrap_or(0) as usize;
        info.check_room(untaken)?;
        return Ok(Decision::Add { key, last_message, room: INBOX_MAX - untaken, replaces: Vec::new() });
    }
    let numbers: Vec<i64> = row.try_get::<_, Option<_>>("commands")?.unwrap_or_default();
    let names: Vec<String> = row.try_get::<_, Option<_>>("command_names")?.unwrap_or_default();
    let untaken: Vec<(u64, String)> = numbers.into_iter().map(|number| number as u64).zip(names).collect();
    Ok(match message.against_queued(&untaken) {
        CommandAction::AlreadyQueued(number) => Decision::Known(number),
        CommandAction::Replace(others) => {
            Decision::Add { key, last_message, room: 1, replaces: others.into_iter().map(|number| number as i64).collect() }
        }
    })
}
