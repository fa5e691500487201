//! The jobs of an inbox: adds, takes and refuses messages, within the transaction of the batch.

use super::database::{Done, WriteTransaction};
use super::read::{self, Run};
use super::write::is_constraint;
use crate::store::Refusal;
use crate::store::error::StoreError;
use crate::store::limits::{REFUSED_MAX, cut_reason};
use crate::store::message_kind::{CommandAction, InboxMessageKind, STRAY_MESSAGE};
use crate::store::row::NewMessage;
use rusqlite::{Connection, OptionalExtension as _, params};

/// Finds an earlier message with the same dedup text. A damaged message may have a number of
/// another type.
const FIND_DUPLICATE: &str = "SELECT n FROM inbox WHERE run = ?1 AND dedup = ?2 AND typeof(n) = 'integer' AND n > 0";
const COUNT_UNTAKEN: &str =
    "SELECT count(*) FROM inbox WHERE run = ?1 AND taken_seq IS NULL AND (substr(name, 1, 7) = 'answer/') = ?2
    AND name NOT IN ('command/pause', 'command/resume', 'command/cancel')";
const COMMANDS: &str = "SELECT n, name FROM inbox WHERE run = ?1 AND taken_seq IS NULL AND typeof(n) = 'integer' AND n > 0
    AND name IN ('command/pause', 'command/resume', 'command/cancel') ORDER BY n";
const REMOVE_MESSAGE: &str = "DELETE FROM inbox WHERE run = ?1 AND n = ?2";
const INSERT_MESSAGE: &str = "INSERT INTO inbox (run, n, at, name, dedup, sum, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const UPDATE_POSTED: &str = "UPDATE run SET posted = ?2, wake_at = ?3, sum = ?4 WHERE no = ?1";
const TAKE: &str = "UPDATE inbox SET taken_seq = ?3, payload = x'' WHERE run = ?1 AND n = ?2 AND taken_seq IS NULL";
const REFUSE: &str =
    "UPDATE inbox SET taken_seq = ?3, refused = ?4, cause = ?5, payload = x'' WHERE run = ?1 AND n = ?2 AND taken_seq IS NULL";
/// Keeps the last refused messages in the list. The others count as taken.
const FORGET_REFUSED: &str = "UPDATE inbox SET refused = NULL, cause = NULL WHERE run = ?1 AND refused IS NOT NULL AND n <=
    (SELECT n FROM inbox WHERE run = ?1 AND refused IS NOT NULL ORDER BY n DESC LIMIT 1 OFFSET ?2)";

/// Marks a message as taken. A damaged message that cannot be updated is removed.
pub(super) fn take(db: &Connection, key: i64, number: i64, sequence: i64) -> rusqlite::Result<()> {
    match db.prepare_cached(TAKE)?.execute([key, number, sequence]) {
        Err(error) if is_constraint(&error) => db.prepare_cached(REMOVE_MESSAGE)?.execute([key, number]).map(drop),
        taken => taken.map(drop),
    }
}

/// Takes messages that the run refuses, and keeps why.
pub(super) fn refuse(db: &Connection, key: i64, refuses: &[Refusal], sequence: i64) -> rusqlite::Result<()> {
    for refusal in refuses {
        let number = i64::try_from(refusal.number).unwrap_or(i64::MAX);
        let values = params![key, number, sequence, cut_reason(refusal.reason.clone()), refusal.stored_cause()];
        match db.prepare_cached(REFUSE)?.execute(values) {
            // A damaged message that cannot be updated is removed.
            Err(error) if is_constraint(&error) => drop(db.prepare_cached(REMOVE_MESSAGE)?.execute([key, number])?),
            refused => drop(refused?),
        }
    }
    if !refuses.is_empty() {
        db.prepare_cached(FORGET_REFUSED)?.execute(params![key, REFUSED_MAX as i64])?;
    }
    Ok(())
}

/// Returns the commands that wait to be taken, with their numbers.
fn commands(db: &Connection, run: i64) -> rusqlite::Result<Vec<(u64, String)>> {
    let mut statement = db.prepare_cached(COMMANDS)?;
    let commands = statement.query_map([run], |row| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?)))?;
    commands.collect()
}

/// Adds a message to an inbox, unless it is a duplicate, and makes the run due.
pub(super) fn add_message(batch: &WriteTransaction<'_>, id: &str, message: &NewMessage) -> Done<u64> {
    let db = batch.db;
    let Run { key: run, mut info, read_wake, holder } = match read::run(db, batch.now, id)? {
        Ok(run) => run,
        Err(rejected) => return Ok(Err(rejected)),
    };
    if let Some(dedup) = &message.dedup
        && let Some(first) =
            db.prepare_cached(FIND_DUPLICATE)?.query_row(params![run, dedup], |row| row.get::<_, i64>(0)).optional()?
    {
        return Ok(Ok(first as u64));
    }
    if let Err(ended) = info.check_open() {
        return Ok(Err(ended));
    }
    let mut replaced = Vec::new();
    if message.kind() == InboxMessageKind::Command {
        match message.against_queued(&commands(db, run)?) {
            CommandAction::AlreadyQueued(number) => return Ok(Ok(number)),
            CommandAction::Replace(others) => replaced = others,
        }
    } else {
        let is_answer = message.kind() == InboxMessageKind::Answer;
        let untaken: i64 = db.prepare_cached(COUNT_UNTAKEN)?.query_row(params![run, is_answer], |row| row.get(0))?;
        if let Err(full) = info.check_room(untaken as usize) {
            return Ok(Err(full));
        }
    }
    let now = batch.now;
    if let Err(ended) = info.count_message(now.wall) {
        return Ok(Err(ended));
    }
    let number = info.last_message as i64;
    let values = params![run, number, now.wall.as_millis(), message.name, message.dedup, message.sum, message.payload];
    match db.prepare_cached(INSERT_MESSAGE)?.execute(values) {
        Err(error) if is_constraint(&error) => {
            return Ok(Err(StoreError::Damaged { run: id.to_string(), sequence: 0, reason: STRAY_MESSAGE }));
        }
        inserted => inserted?,
    };
    for number in replaced {
        db.prepare_cached(REMOVE_MESSAGE)?.execute(params![run, number as i64])?;
    }
    let (last_message, run) = (info.last_message, Run { key: run, info, holder, read_wake });
    db.prepare_cached(UPDATE_POSTED)?.execute(params![run.key, number, run.wake_at(now), run.sum(now)])?;
    Ok(Ok(last_message))
}
