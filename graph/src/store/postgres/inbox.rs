//! Posting to an inbox.
//!
//! What decides about a post is read without a lock. Then one statement writes it, if nothing that was read can have changed the decision: for a
//! command nothing may have been posted since, for a signal or an answer no more than there was room for. Else all of it is done again.

use super::fault::{Failure, TRIES_MAX};
use super::{run_row, sql};
use crate::store::error::StoreError;
use crate::store::limits::{INBOX_MAX, check_text};
use crate::store::message_kind::{CommandAction, InboxMessageKind, STRAY_MESSAGE};
use crate::store::row::NewMessage;
use deadpool_postgres::ClientWrapper;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

/// The names that PostgreSQL has given to the keys of the inbox.
const DEDUP_KEY: &str = "pleach_inbox_run_dedup_key";
const NUMBER_KEY: &str = "pleach_inbox_pkey";

/// Whether there is a row already with the same value of this key.
fn is_taken(error: &tokio_postgres::Error, key: &str) -> bool {
    error.as_db_error().is_some_and(|said| *said.code() == SqlState::UNIQUE_VIOLATION && said.constraint() == Some(key))
}

/// What to do about a post.
enum Decision {
    /// Nothing: it is there already.
    Known(u64),
    /// Add it to the run with this key, which had so many messages.
    Add { key: i64, posted: u64, room: usize, replaces: Vec<i64> },
}

pub(super) async fn post(client: &ClientWrapper, id: &str, post: &NewMessage) -> Result<u64, Failure> {
    check_text("run id", id)?;
    for _ in 0..TRIES_MAX {
        let (key, posted, room, replaces) = match decide(client, id, post).await? {
            Decision::Known(number) => return Ok(number),
            Decision::Add { key, posted, room, replaces } => (key, posted, room, replaces),
        };
        let parameters: [&(dyn ToSql + Sync); 8] =
            [&key, &(posted as i64), &(room as i64), &replaces, &post.name, &post.dedup, &i64::from(post.sum), &post.payload];
        match client.query_opt(&client.prepare_cached(&sql::POST).await?, &parameters).await {
            Ok(Some(row)) => return Ok(row.try_get::<_, i64>("n")? as u64),
            Ok(None) => {}
            // Another post with the same dedup text came first.
            Err(error) if is_taken(&error, DEDUP_KEY) => {}
            // Numbers are given with the run's row locked, so nobody posted this one.
            Err(error) if is_taken(&error, NUMBER_KEY) => {
                return Err(StoreError::Damaged { run: id.to_string(), sequence: 0, why: STRAY_MESSAGE }.into());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::Contended)
}

async fn decide(client: &ClientWrapper, id: &str, post: &NewMessage) -> Result<Decision, Failure> {
    let kind = post.kind();
    let parameters: [&(dyn ToSql + Sync); 4] =
        [&id, &post.dedup, &(kind == InboxMessageKind::Command), &(kind == InboxMessageKind::Answer)];
    let found = client.query_opt(&client.prepare_cached(&sql::BEFORE_POST).await?, &parameters).await?;
    let Some(row) = found else { return Err(StoreError::Unknown { run: id.to_string() }.into()) };
    let (key, info) = run_row::info(&row)?;
    if let Some(number) = row.try_get::<_, Option<i64>>("same")? {
        return Ok(Decision::Known(number as u64));
    }
    info.check_open()?;
    let posted = info.posted;
    if kind != InboxMessageKind::Command {
        let untaken = row.try_get::<_, Option<i64>>("untaken")?.unwrap_or(0) as usize;
        info.check_room(untaken)?;
        return Ok(Decision::Add { key, posted, room: INBOX_MAX - untaken, replaces: Vec::new() });
    }
    let numbers: Vec<i64> = row.try_get::<_, Option<_>>("commands")?.unwrap_or_default();
    let names: Vec<String> = row.try_get::<_, Option<_>>("command_names")?.unwrap_or_default();
    let untaken: Vec<(u64, String)> = numbers.into_iter().map(|number| number as u64).zip(names).collect();
    Ok(match post.among(&untaken) {
        CommandAction::Known(number) => Decision::Known(number),
        CommandAction::Instead(others) => {
            Decision::Add { key, posted, room: 1, replaces: others.into_iter().map(|number| number as i64).collect() }
        }
    })
}
