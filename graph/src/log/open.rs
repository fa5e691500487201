//! Creates a run, or claims it and reads its position.
//!
//! Reading takes the head, the last full frontier before it, and the records that live tokens point
//! to. The cost depends on the width of the run, not on the length of its history.

use crate::lease::{ClaimCall, Moment, RunLease, owner};
use crate::log::codec::StoredUndo;
use crate::log::frontier::{Frontier, undo_path};
use crate::log::pruning::UndoChain;
use crate::log::signals::RecordedSignals;
use crate::log::{Batch, LogOptions, LogState, NewRecord, RunLog, codec};
use crate::store::{
    Claim, Commit, GraphVersion, Header, InboxMessage, Kind, Lease, NewRun, Origin, Parts, READ_ROWS_MAX, Record, Row, Rows,
    RunInfo, RunStatus, Store, StoreError, Timestamp, Wake, Wanted,
};
use pleach_core::Runtime;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How soon a run that is held is asked for again, at first and at most.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// A wait for a lease that is longer than this is logged, and told to hooks.
const TOLD_WAIT_MIN: Duration = Duration::from_secs(1);

/// A run that this driver holds.
pub(crate) struct OpenedRun {
    pub(crate) log: Arc<RunLog>,
    pub(crate) info: RunInfo,
    /// What was posted to it and not taken.
    pub(crate) messages: Vec<InboxMessage>,
    /// The record of its failure, if it is being undone.
    pub(crate) failed_at: Option<u64>,
    /// The nodes that were undone since that record, in this order.
    pub(crate) undone: Vec<String>,
}

/// Where a run stands.
pub(crate) struct LogPosition {
    pub(crate) frontier: Frontier,
    pub(crate) base: u64,
    pub(crate) head: Header,
    pub(crate) is_undoing: bool,
    /// The nodes that were undone since the base, in this order.
    pub(crate) undone: Vec<String>,
    /// The last undo since the base, if it failed.
    pub(crate) undo_failed: Option<u64>,
}

/// Makes a run with its first record, and holds it; or leaves it to whoever claims it.
pub(crate) async fn create(
    options: LogOptions,
    runtime: Arc<dyn Runtime>,
    run: Arc<str>,
    graph: (String, GraphVersion),
    entry: NewRecord,
    owner: Option<String>,
) -> Result<OpenedRun, StoreError> {
    let log = blank(options, runtime, run, graph);
    let packed = entry.pack(log.options.body_bytes_max)?;
    let row = log.seal(&mut log.lock(), packed, None)?.1;
    create_with(log, vec![row], None, owner).await
}

/// The log of a run that is not there yet.
pub(super) fn blank(options: LogOptions, runtime: Arc<dyn Runtime>, run: Arc<str>, graph: (String, GraphVersion)) -> RunLog {
    let state = LogState::new(0, Frontier::default());
    // The first records are sealed before the store has said what time it is; a history shows when the run was created.
    let time_of_day = runtime.time_of_day().map(|time| Timestamp::default().after(time));
    let now = time_of_day.unwrap_or_else(|| std::time::SystemTime::now().into());
    let ((graph, version), durable) = (graph, AtomicU64::new(0));
    // Databases have signed numbers, and 0 is for runs that were made before there was an instance.
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

/// Makes a run with its first rows, which its log has sealed.
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
    let new =
        NewRun { id, graph, version, instance, from, lease, wake: Wake::Now, deadline: log.options.timeout.left(asked_at.at) };
    let made = ClaimCall::create(&log.options.store, &log.runtime, new, rows).await?.pop();
    let Claim { run: info, now } = made.ok_or_else(|| StoreError::Unknown { run: log.run.to_string() })?;
    let lease = Arc::new(RunLease::own(Arc::clone(&log.runtime), log.options.lease, asked_at, now));
    let (durable, deadline) = (AtomicU64::new(head), info.deadline);
    let log = RunLog { durable, lease, deadline, ..log };
    Ok(OpenedRun { log: Arc::new(log), info, messages: Vec::new(), failed_at: None, undone: Vec::new() })
}

/// Claims a run. One whose holder lives on is [`Held`](StoreError::Held), after as long as its lease lasted.
pub(crate) async fn claim(
    options: &LogOptions,
    runtime: &Arc<dyn Runtime>,
    run: &str,
    force: bool,
) -> Result<(Claim, Moment), StoreError> {
    let lease = Lease { owner: owner(runtime), length: options.lease };
    let (mut until, mut wait) = (None, ASK_AGAIN.0);
    loop {
        let asked_at = Moment::now(&**runtime);
        let wanted = Wanted::One { run: run.to_string(), force };
        match ClaimCall::claim(&options.store, runtime, wanted, lease.clone()).await {
            Ok(mut claims) if claims.len() == 1 => return Ok((claims.remove(0), asked_at)),
            Ok(_) => return Err(StoreError::Unknown { run: run.to_string() }),
            Err(StoreError::Held { run, owner, left, until: ends }) => {
                if until.is_none() && left > TOLD_WAIT_MIN {
                    options.watch.lease_awaited(&owner, left);
                }
                let until = *until.get_or_insert(runtime.now() + left);
                let now = runtime.now();
                if now > until {
                    return Err(StoreError::Held { run, owner, left, until: ends });
                }
                // A moment after the lease has ended, too.
                let at = (now + wait).min(until + Duration::from_millis(1));
                runtime.sleep_until(at).await;
                wait = (wait * 2).min(ASK_AGAIN.1);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Reads where a claimed run stands, as the graph of this version.
pub(crate) async fn open(
    options: LogOptions,
    runtime: Arc<dyn Runtime>,
    claim: (Claim, Moment),
    version: GraphVersion,
) -> Result<OpenedRun, StoreError> {
    let info = &claim.0.run;
    let (store, run) = (&*options.store, info.id.as_str());
    // Most runs have one token, which their last record placed: then that is all there is to read.
    let mut restored = records(store, run, vec![info.head]).await?;
    let stands = standpoint_by(store, run, info.head, restored.get(&info.head).map(|last| last.header.clone())).await?;
    // How it failed is in the record that it is undone from.
    let failed_at = stands.is_undoing.then_some(stands.base);
    let wanted: HashSet<u64> = stands.frontier.rows().chain(failed_at).collect();
    restored.retain(|sequence, _| wanted.contains(sequence));
    let missing = wanted.into_iter().filter(|sequence| !restored.contains_key(sequence)).collect();
    restored.extend(records(store, run, missing).await?);
    let Header { visits, undo, .. } = stands.head;
    let (base, undos, status) = (stands.base, UndoChain::from(undo), info.status);
    let has_ended = failed_at.is_some() && is_undone_further(status);
    let (keys_of, undone, signals) = (keys_of(&restored), stands.undone, RecordedSignals::of(restored.values()));
    let stands = LogState::new(info.head, stands.frontier);
    let state = LogState { base, visits, undo, undos, status, restored, keys_of, has_ended, signals, ..stands };
    Ok(OpenedRun { failed_at, undone, ..hold(options, runtime, claim, version, state) })
}

/// Lets a run that had failed live again, before anything of it runs: from now on it takes messages, and others take it over if this driver dies.
pub(crate) async fn revive(mut opened: OpenedRun) -> Result<OpenedRun, StoreError> {
    let status = opened.info.status;
    if !matches!(status, RunStatus::Failed | RunStatus::CompensationFailed) {
        return Ok(opened);
    }
    let log = Arc::clone(&opened.log);
    // A run that is being undone goes on with that, whoever has it next: so the record is one of its next undo.
    opened.failed_at = opened.failed_at.filter(|_| is_undone_further(status));
    let path = opened.failed_at.map_or_else(Vec::new, |_| undo_path(log.undo()));
    let packed = NewRecord::new(Kind::Wake, path, "").pack(log.options.body_bytes_max)?;
    let (sequence, row) = log.seal(&mut log.lock(), packed, None)?;
    let commit = Commit { status: Some(RunStatus::Running), wake: Some(Wake::Now), ..Commit::new(log.held(), vec![row]) };
    let posted = log.options.store.commit(commit).await?.posted;
    log.durable.store(sequence, Ordering::Release);
    log.lock().status = RunStatus::Running;
    let info = &mut opened.info;
    (info.status, info.posted, info.head) = (RunStatus::Running, info.posted.max(posted), sequence);
    Ok(opened)
}

/// Whether a run with this status goes on being undone, if it was being undone.
pub(crate) fn is_undone_further(status: RunStatus) -> bool {
    matches!(status, RunStatus::Running | RunStatus::CompensationFailed)
}

/// The records that a migration wrote anew, and those whose idempotency keys they go on with.
pub(super) fn keys_of(records: &HashMap<u64, Record>) -> HashMap<u64, u64> {
    let moved = records.iter().filter(|(_, record)| record.header.keys_of > 0);
    moved.map(|(sequence, record)| (*sequence, record.header.keys_of)).collect()
}

/// A claimed run that stands so.
pub(super) fn hold(
    options: LogOptions,
    runtime: Arc<dyn Runtime>,
    (Claim { run: info, now }, asked_at): (Claim, Moment),
    version: GraphVersion,
    state: LogState,
) -> OpenedRun {
    let own = || Arc::new(RunLease::own(Arc::clone(&runtime), options.lease, asked_at, now));
    let lease = options.kept_lease.clone().unwrap_or_else(own);
    let (deadline, to_store) = options.timeout.of_claim(&info, now, asked_at.at);
    let mut state = LogState { oldest: info.oldest, deadline: to_store, ..state };
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

/// What was posted to a run and not taken, up to the number `posted` at least.
pub(crate) async fn untaken(store: &dyn Store, run: &str, posted: u64) -> Result<Vec<InboxMessage>, StoreError> {
    let (mut messages, mut read) = (Vec::new(), 0);
    while read < posted {
        let some = store.inbox(run, read).await?;
        let Some(last) = some.last() else { break };
        read = last.number;
        messages.extend(some);
    }
    Ok(messages)
}

/// Where a run stood after the record `at`.
pub(crate) async fn position(store: &dyn Store, run: &str, at: u64) -> Result<LogPosition, StoreError> {
    let head = headers(store, run, at, at).await?.pop();
    standpoint_by(store, run, at, head.map(|(_, header)| header)).await
}

/// Where a run stood after the record `at`, which has this header.
async fn standpoint_by(store: &dyn Store, run: &str, at: u64, head: Option<Header>) -> Result<LogPosition, StoreError> {
    let damaged = |why| StoreError::Damaged { run: run.to_string(), sequence: at, why };
    let head = head.ok_or_else(|| damaged("it is not there"))?;
    let base = match (&head.frontier, head.base) {
        (Some(_), _) => at,
        (None, Some(base)) if base < at => base,
        // Part of a whole: the run never stood here.
        (None, Some(base)) if base > at => return Box::pin(position(store, run, base)).await,
        _ => return Err(damaged("it has no frontier, and does not say where one is")),
    };
    let (mut frontier, mut is_undoing) = (Frontier::default(), false);
    let (mut undone, mut undo_failed) = (Vec::new(), None);
    let since = if base == at { vec![(at, head.clone())] } else { headers(store, run, base, at).await? };
    for (sequence, header) in since {
        if sequence == base && header.frontier.is_none() {
            return Err(damaged("the record that it builds on has no frontier"));
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

/// These records, by their sequences.
pub(crate) async fn records(store: &dyn Store, run: &str, mut wanted: Vec<u64>) -> Result<HashMap<u64, Record>, StoreError> {
    wanted.sort_unstable();
    wanted.dedup();
    let mut records = HashMap::with_capacity(wanted.len());
    let mut left = VecDeque::from(wanted);
    while !left.is_empty() {
        let some = left.iter().take(READ_ROWS_MAX).copied().collect();
        let rows: Vec<Row> = store.read(run, Rows::Each(some), Parts::Whole).await?;
        if rows.is_empty() {
            return Err(StoreError::Damaged { run: run.to_string(), sequence: left[0], why: "it is not there" });
        }
        for row in rows {
            // They come in order.
            if left.front() == Some(&row.sequence) {
                left.pop_front();
            }
            records.insert(row.sequence, row.open(run)?);
        }
    }
    Ok(records)
}

/// A record that can be undone, and what its undo is given.
pub(crate) async fn undo_of(log: &RunLog, sequence: u64) -> Result<(Record, StoredUndo), StoreError> {
    match log.unwritten(sequence) {
        Some(row) => with_undo(row.open(&log.run)?),
        None => undo_at(&*log.options.store, &log.run, sequence).await,
    }
}

pub(crate) async fn undo_at(store: &dyn Store, run: &str, sequence: u64) -> Result<(Record, StoredUndo), StoreError> {
    let damaged = |why| StoreError::Damaged { run: run.to_string(), sequence, why };
    let mut records = records(store, run, vec![sequence]).await?;
    with_undo(records.remove(&sequence).ok_or_else(|| damaged("it is not there"))?)
}

fn with_undo(record: Record) -> Result<(Record, StoredUndo), StoreError> {
    let undo = codec::undo_in(&record.body).ok().flatten();
    let (run, sequence, why) = (&record.run, record.sequence, "it does not say what undoes it");
    let mut undo = undo.ok_or_else(|| StoreError::Damaged { run: run.clone(), sequence, why })?;
    undo.before = undo.before.max(record.header.undo_before);
    Ok((record, undo))
}

impl LogState {
    pub(super) fn new(head: u64, frontier: Frontier) -> Self {
        Self {
            head,
            frontier,
            base: 0,
            visits: 0,
            undo: 0,
            undos: UndoChain::default(),
            unwritten: BTreeMap::new(),
            oldest: 1,
            status: RunStatus::Running,
            parked: None,
            next: Batch::default(),
            deadline: None,
            seen: 0,
            to_take: Vec::new(),
            signals: RecordedSignals::default(),
            restored: HashMap::new(),
            keys_of: HashMap::new(),
            waiting: BTreeMap::new(),
            driver: None,
            is_lost: false,
            has_ended: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c7_the_undo_before_is_found_in_bodies_of_the_first_format_and_in_headers() {
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
