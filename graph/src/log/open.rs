//! Creates a run, or claims it and reads its position.
//!
//! Reading takes the head, the last full frontier before it, and the records that live tokens point
//! to. The cost depends on the width of the run, not on the length of its history.

use crate::lease::{ClaimCall, Moment, RunLease, owner};
use crate::log::codec::StoredUndo;
use crate::log::failure::failure_of;
use crate::log::frontier::{Frontier, undo_path};
use crate::log::pruning::UndoChain;
use crate::log::signals::RecordedSignals;
use crate::log::tags::LogTags;
use crate::log::{LogOptions, LogState, NewRecord, RunLog, codec};
use crate::store::{
    Claim, Commit, GraphVersion, Header, InboxMessage, Kind, Lease, NewRun, Origin, Parts, READ_ROWS_MAX, Record, Row, Rows,
    RunFailure, RunInfo, RunStatus, Store, StoreError, Tags, Timestamp, Wake, Wanted,
};
use pleach_core::Runtime;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The first and the longest wait before a held run is claimed again.
const CLAIM_RETRY_WAIT: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// The shortest wait for a lease that is logged and reported to hooks.
const REPORTED_WAIT_MIN: Duration = Duration::from_secs(1);

/// A run that this driver holds.
pub(crate) struct OpenedRun {
    pub(crate) log: Arc<RunLog>,
    pub(crate) info: RunInfo,
    /// The messages in the inbox that were not taken.
    pub(crate) messages: Vec<InboxMessage>,
    /// The record of the failure, if the run is being undone.
    pub(crate) failed_at: Option<u64>,
    /// The nodes undone since that record, in order.
    pub(crate) undone: Vec<String>,
}

/// The position of a run after one of its records.
pub(crate) struct LogPosition {
    pub(crate) frontier: Frontier,
    /// The last record that lists the whole frontier.
    pub(crate) base: u64,
    pub(crate) head: Header,
    pub(crate) is_undoing: bool,
    /// The nodes undone since the base, in order.
    pub(crate) undone: Vec<String>,
    /// The last undo record since the base, if that undo failed.
    pub(crate) undo_failed: Option<u64>,
}

/// What the commit of a rewrite or revival does besides writing its records.
#[derive(Default)]
pub(crate) struct CommitExtras {
    /// The inbox messages that it takes.
    pub(crate) takes: Vec<u64>,
    /// Whether it releases the run, so that a worker continues it.
    pub(crate) releases: bool,
}

/// Creates a run with its first record. With an `owner` this driver holds it; without one, any
/// worker can claim it.
pub(crate) async fn create(
    options: LogOptions,
    runtime: Arc<dyn Runtime>,
    run: Arc<str>,
    graph: (String, GraphVersion),
    first: NewRecord,
    owner: Option<String>,
    tags: Tags,
) -> Result<OpenedRun, StoreError> {
    let log = blank(options, runtime, run, graph, tags);
    let packed = first.pack(log.options.body_bytes_max)?;
    let numbered = log.number(&mut log.lock(), packed, None);
    let row = numbered.seal(&log.run)?;
    create_with(log, vec![row], None, owner).await
}

/// Returns the log of a run that does not exist in the store yet.
pub(super) fn blank(
    options: LogOptions,
    runtime: Arc<dyn Runtime>,
    run: Arc<str>,
    graph: (String, GraphVersion),
    tags: Tags,
) -> RunLog {
    let state = LogState { tags: LogTags::stored(tags), ..LogState::new(0, Frontier::default()) };
    // The first records are sealed before the store reports its time; a history shows when the run
    // was created.
    let time_of_day = runtime.time_of_day().map(|time| Timestamp::default().after(time));
    let now = time_of_day.unwrap_or_else(|| std::time::SystemTime::now().into());
    let ((graph, version), durable) = (graph, AtomicU64::new(0));
    // Databases have signed integers, and 0 marks runs from before instances existed.
    let instance = (runtime.random() >> 1).max(1);
    let lease = Arc::new(RunLease::own(Arc::clone(&runtime), options.lease, Moment::now(&*runtime), now));
    RunLog {
        run,
        epoch: 1,
        instance,
        graph,
        version,
        runtime,
        lease,
        deadline: None,
        durable,
        state: Mutex::new(state),
        options,
    }
}

/// Creates a run with its first sealed rows.
pub(super) async fn create_with(
    log: RunLog,
    rows: Vec<Row>,
    from: Option<Origin>,
    owner: Option<String>,
) -> Result<OpenedRun, StoreError> {
    let asked_at = Moment::now(&*log.runtime);
    let head = rows.len() as u64;
    let lease = owner.map(|owner| Lease { owner, length: log.options.lease });
    let (id, graph, version) = (log.run.to_string(), log.graph.clone(), log.version.clone());
    let instance = log.instance;
    let (deadline, tags) = (log.options.timeout.left(asked_at.at), log.tags());
    let new = NewRun { id, graph, version, instance, from, lease, wake: Wake::Now, deadline, tags };
    let created = ClaimCall::create(&log.options.store, &log.runtime, new, rows).await?.pop();
    let Claim { run: info, now } = created.ok_or_else(|| StoreError::RunNotFound { run: log.run.to_string() })?;
    let lease = Arc::new(RunLease::own(Arc::clone(&log.runtime), log.options.lease, asked_at, now));
    let (durable, deadline) = (AtomicU64::new(head), info.deadline);
    let log = RunLog { durable, lease, deadline, ..log };
    Ok(OpenedRun { log: Arc::new(log), info, messages: Vec::new(), failed_at: None, undone: Vec::new() })
}

/// Claims a run. Waits as long as the lease of another driver lasts, then fails with
/// [`Held`](StoreError::Held).
pub(crate) async fn claim(
    options: &LogOptions,
    runtime: &Arc<dyn Runtime>,
    run: &str,
    force: bool,
) -> Result<(Claim, Moment), StoreError> {
    let lease = Lease { owner: owner(runtime), length: options.lease };
    let (mut until, mut wait) = (None, CLAIM_RETRY_WAIT.0);
    loop {
        let asked_at = Moment::now(&**runtime);
        let wanted = Wanted::One { run: run.to_string(), force };
        match ClaimCall::claim(&options.store, runtime, wanted, lease.clone()).await {
            Ok(mut claims) if claims.len() == 1 => return Ok((claims.remove(0), asked_at)),
            Ok(_) => return Err(StoreError::RunNotFound { run: run.to_string() }),
            Err(StoreError::Held { run, owner, left, until: ends }) => {
                if until.is_none() && left > REPORTED_WAIT_MIN {
                    options.monitor.lease_awaited(&owner, left);
                }
                let until = *until.get_or_insert(runtime.now() + left);
                let now = runtime.now();
                if now > until {
                    return Err(StoreError::Held { run, owner, left, until: ends });
                }
                // One attempt directly after the lease has expired.
                let at = (now + wait).min(until + Duration::from_millis(1));
                runtime.sleep_until(at).await;
                wait = (wait * 2).min(CLAIM_RETRY_WAIT.1);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Reads the position of a claimed run, for a graph of this version.
pub(crate) async fn open(
    options: LogOptions,
    runtime: Arc<dyn Runtime>,
    claim: (Claim, Moment),
    version: GraphVersion,
) -> Result<OpenedRun, StoreError> {
    let info = &claim.0.run;
    let (store, run) = (&*options.store, info.id.as_str());
    // Most runs have one token, placed by the last record; then nothing else is read.
    let mut restored = records(store, run, vec![info.head]).await?;
    let position = position_at(store, run, info.head, restored.get(&info.head).map(|last| last.header.clone())).await?;
    // The record from which the run is undone holds the failure.
    let failed_at = position.is_undoing.then_some(position.base);
    let wanted: HashSet<u64> = position.frontier.rows().chain(failed_at).collect();
    restored.retain(|sequence, _| wanted.contains(sequence));
    let missing = wanted.into_iter().filter(|sequence| !restored.contains_key(sequence)).collect();
    restored.extend(records(store, run, missing).await?);
    let Header { visits, undo, .. } = position.head;
    let (base, undos, status) = (position.base, UndoChain::from(undo), info.status);
    let has_ended = failed_at.is_some() && continues_undo(status);
    let (keys_of, undone, signals) = (keys_of(&restored), position.undone, RecordedSignals::of(restored.values()));
    let position = LogState::new(info.head, position.frontier);
    let state = LogState { base, visits, undo, undos, status, restored, keys_of, has_ended, signals, ..position };
    Ok(OpenedRun { failed_at, undone, ..hold(options, runtime, claim, version, state) })
}

/// Sets a failed run to running before any node runs. From then on it takes messages, and other
/// drivers take it over if this one dies.
pub(crate) async fn revive(mut opened: OpenedRun, extras: CommitExtras) -> Result<OpenedRun, StoreError> {
    let status = opened.info.status;
    if !matches!(status, RunStatus::Failed | RunStatus::CompensationFailed) {
        return Ok(opened);
    }
    let log = Arc::clone(&opened.log);
    // A run that is being undone stays so for the next driver, so this record belongs to its next
    // undo.
    opened.failed_at = opened.failed_at.filter(|_| continues_undo(status));
    let path = opened.failed_at.map_or_else(Vec::new, |_| undo_path(log.undo()));
    let packed = NewRecord::new(Kind::Wake, path, "").pack(log.options.body_bytes_max)?;
    let numbered = log.number(&mut log.lock(), packed, None);
    let (sequence, row) = (numbered.sequence, numbered.seal(&log.run)?);
    let CommitExtras { takes, releases: release } = extras;
    let (status, wake) = (Some(RunStatus::Running), Some(Wake::Now));
    let commit = Commit { status, wake, takes, release, ..Commit::new(log.held(), vec![row]) };
    let last_message = log.options.store.commit(commit).await?.last_message;
    log.durable.store(sequence, Ordering::Release);
    log.lock().status = RunStatus::Running;
    let info = &mut opened.info;
    (info.status, info.last_message, info.head) = (RunStatus::Running, info.last_message.max(last_message), sequence);
    Ok(opened)
}

/// Returns true if a run with this status continues its undo.
pub(crate) fn continues_undo(status: RunStatus) -> bool {
    matches!(status, RunStatus::Running | RunStatus::CompensationFailed)
}

/// Returns the records that a migration rewrote, with the records whose idempotency keys they keep.
pub(super) fn keys_of(records: &HashMap<u64, Record>) -> HashMap<u64, u64> {
    let rewritten = records.iter().filter(|(_, record)| record.header.keys_of > 0);
    rewritten.map(|(sequence, record)| (*sequence, record.header.keys_of)).collect()
}

/// Returns a claimed run with this log state.
pub(super) fn hold(
    options: LogOptions,
    runtime: Arc<dyn Runtime>,
    (Claim { run: info, now }, asked_at): (Claim, Moment),
    version: GraphVersion,
    state: LogState,
) -> OpenedRun {
    let own = || Arc::new(RunLease::own(Arc::clone(&runtime), options.lease, asked_at, now));
    let lease = options.worker_lease.clone().unwrap_or_else(own);
    let (deadline, to_store) = options.timeout.of_claim(&info, now, asked_at.at);
    let tags = LogTags::stored(info.tags.clone());
    let mut state = LogState { oldest: info.oldest, deadline: to_store, tags, ..state };
    state.undos.unscanned = info.head;
    let log = RunLog {
        run: info.id.as_str().into(),
        epoch: info.epoch,
        instance: info.instance,
        graph: info.graph.clone(),
        version,
        runtime,
        lease,
        deadline,
        durable: AtomicU64::new(info.head),
        state: Mutex::new(state),
        options,
    };
    OpenedRun { log: Arc::new(log), info, messages: Vec::new(), failed_at: None, undone: Vec::new() }
}

/// Reads the messages of a run that were not taken, at least up to the number `last_message`.
pub(crate) async fn untaken(store: &dyn Store, run: &str, last_message: u64) -> Result<Vec<InboxMessage>, StoreError> {
    let (mut messages, mut read) = (Vec::new(), 0);
    while read < last_message {
        let some = store.inbox(run, read).await?;
        let Some(last) = some.last() else { break };
        read = last.number;
        messages.extend(some);
    }
    Ok(messages)
}

/// Reads the position of a run after the record `at`.
pub(crate) async fn position(store: &dyn Store, run: &str, at: u64) -> Result<LogPosition, StoreError> {
    let head = headers(store, run, at, at).await?.pop();
    position_at(store, run, at, head.map(|(_, header)| header)).await
}

/// Reads the position of a run after the record `at`, whose header was already read.
async fn position_at(store: &dyn Store, run: &str, at: u64, head: Option<Header>) -> Result<LogPosition, StoreError> {
    let damaged = |reason| StoreError::Damaged { run: run.to_string(), sequence: at, reason };
    let head = head.ok_or_else(|| damaged("it is not there"))?;
    let base = match (&head.frontier, head.base) {
        (Some(_), _) => at,
        (None, Some(base)) if base < at => base,
        // Part of a rewrite: the run was never at this position.
        (None, Some(base)) if base > at => return Box::pin(position(store, run, base)).await,
        _ => return Err(damaged("it has no frontier and names no earlier record that has one")),
    };
    let (mut frontier, mut is_undoing) = (Frontier::default(), false);
    let (mut undone, mut undo_failed) = (Vec::new(), None);
    let since = if base == at { vec![(at, head.clone())] } else { headers(store, run, base, at).await? };
    for (sequence, header) in since {
        if sequence == base && header.frontier.is_none() {
            return Err(damaged("its base record has no frontier"));
        }
        frontier.apply(sequence, &header);
        is_undoing = header.kind == Kind::End || (is_undoing && header.is_of_undo());
        if header.kind == Kind::Undo {
            let has_failed = header.undo == header.parent;
            undo_failed = has_failed.then_some(sequence);
            undone.extend((!has_failed).then_some(header.node));
        }
    }
    let frontier = frontier.without_strays();
    Ok(LogPosition { frontier, base, head, is_undoing, undone, undo_failed })
}

/// Reads the headers of a range of records.
pub(super) async fn headers(store: &dyn Store, run: &str, first: u64, last: u64) -> Result<Vec<(u64, Header)>, StoreError> {
    let (mut headers, mut next) = (Vec::new(), first);
    while next <= last {
        let rows = store.read(run, Rows::Range(next..=last), Parts::Headers).await?;
        if rows.is_empty() {
            break;
        }
        for row in rows {
            next = row.sequence + 1;
            headers.push((row.sequence, row.open_header(run)?));
        }
    }
    Ok(headers)
}

/// Reads the failure in a record. Returns `None` if the record has none, is damaged, or was pruned.
pub(crate) async fn failure_at(store: &dyn Store, run: &str, sequence: u64) -> Result<Option<RunFailure>, StoreError> {
    match records(store, run, vec![sequence]).await {
        Ok(records) => Ok(records.get(&sequence).and_then(failure_of)),
        Err(StoreError::Damaged { .. } | StoreError::Pruned { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads these records, by sequence number.
pub(crate) async fn records(store: &dyn Store, run: &str, mut wanted: Vec<u64>) -> Result<HashMap<u64, Record>, StoreError> {
    wanted.sort_unstable();
    wanted.dedup();
    let mut records = HashMap::with_capacity(wanted.len());
    let mut left = VecDeque::from(wanted);
    while !left.is_empty() {
        let some = left.iter().take(READ_ROWS_MAX).copied().collect();
        let rows: Vec<Row> = store.read(run, Rows::Each(some), Parts::Whole).await?;
        if rows.is_empty() {
            return Err(StoreError::Damaged { run: run.to_string(), sequence: left[0], reason: "it is not there" });
        }
        for row in rows {
            // Rows are returned in order.
            if left.front() == Some(&row.sequence) {
                left.pop_front();
            }
            records.insert(row.sequence, row.open(run)?);
        }
    }
    Ok(records)
}

/// Reads a record that can be undone, with its payload.
pub(crate) async fn undo_of(log: &RunLog, sequence: u64) -> Result<(Record, StoredUndo), StoreError> {
    match log.unwritten(sequence) {
        Some(numbered) => with_undo(numbered.seal(&log.run)?.open(&log.run)?),
        None => undo_at(&*log.options.store, &log.run, sequence).await,
    }
}

/// Reads a record that can be undone from the store, with its payload.
pub(crate) async fn undo_at(store: &dyn Store, run: &str, sequence: u64) -> Result<(Record, StoredUndo), StoreError> {
    let damaged = |reason| StoreError::Damaged { run: run.to_string(), sequence, reason };
    let mut records = records(store, run, vec![sequence]).await?;
    with_undo(records.remove(&sequence).ok_or_else(|| damaged("it is not there"))?)
}

fn with_undo(record: Record) -> Result<(Record, StoredUndo), StoreError> {
    let undo = codec::undo_in(&record.body).ok().flatten();
    let (run, sequence, reason) = (&record.run, record.sequence, "it has no undo payload");
    let mut undo = undo.ok_or_else(|| StoreError::Damaged { run: run.clone(), sequence, reason })?;
    undo.before = undo.before.max(record.header.undo_before);
    Ok((record, undo))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c7_previous_undo_is_found_in_old_bodies_and_in_headers() {
        let record = |undo_before: &str, before: &str| {
            let header =
                format!(r#"{{"graph":"g","fingerprint":"f","epoch":1,"kind":"step","visits":1,"at":0,"undo":9{undo_before}}}"#);
            let header: Header = serde_json::from_str(&header).unwrap();
            let body = format!(r#"{{"state":1,"undo":{{"payload":"x"{before}}}}}"#).into_bytes();
            with_undo(Record { run: "r".into(), sequence: 9, header, body }).unwrap().1
        };
        assert_eq!(record("", r#","before":7"#).before, 7);
        assert_eq!(record("", r#","before":0"#).before, 0);
        assert_eq!(record(r#","undo_before":7"#, "").before, 7);
        assert_eq!((record("", "").before, record("", "").payload.get()), (0, r#""x""#));
    }
}
