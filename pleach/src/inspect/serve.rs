//! Answers the requests of a connection.
//!
//! An answer that visits many members does so in parts, and lets other tasks run in between. Every
//! answer is bounded: by count, and by about 1 MiB of text.

use crate::inspect::health_watch::LastLook;
use crate::inspect::options::{InspectAction, InspectOptions};
use crate::inspect::protocol::{Failure, Hello, Operation, PROTOCOL_VERSION, SnapshotRequest, SocketStats, Target};
use crate::inspect::protocol::{Top, TopBy, TopRequest, TopRow, TopSums};
use crate::inspect::samplers::{BorrowedSampler, Samplers};
use crate::inspect::supervision::Supervision;
use crate::inspect::waits::WaitIndex;
use crate::inspect::{ActionError, ActorInfo, MemberInfo, MemberKind, SnapshotError, SnapshotQuery};
use pleach_core::{AnyRef, Counts, RootContext, Runtime, System};
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The largest answer, in bytes, up to one member.
const ANSWER_LEN_MAX: usize = 1024 * 1024;
const SNAPSHOT_LIMIT_DEFAULT: usize = 100;
const SNAPSHOT_LIMIT_MAX: usize = 1_000;
/// Members that are not well are described at length, so fewer fit an answer.
const NOT_WELL_LIMIT_MAX: usize = 250;
const TOP_LIMIT_DEFAULT: usize = 20;
const TOP_LIMIT_MAX: usize = 1_000;
/// How many members `top` compares at most.
const COMPARED_MAX: u64 = 2_000_000;
/// How many members are read before other tasks run.
const PART: usize = 500;

/// What all connections of one socket share.
pub(super) struct Inspected {
    pub(super) name: String,
    pub(super) root: RootContext,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) options: InspectOptions,
    pub(super) samplers: Samplers,
    pub(super) waits: WaitIndex,
    pub(super) counters: Counters,
    pub(super) last_look: LastLook,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) connections: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) too_slow: AtomicU64,
    pub(super) idle: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) missed_events: AtomicU64,
}

type Answer = Result<Value, Failure>;

impl Inspected {
    pub(super) fn new(system: &System, options: InspectOptions) -> Self {
        Self {
            name: system.name().to_string(),
            root: system.root(),
            runtime: Arc::clone(system.shutdown_token().runtime()),
            options,
            samplers: Samplers::default(),
            waits: WaitIndex::default(),
            counters: Counters::default(),
            last_look: LastLook::default(),
        }
    }

    pub(super) fn hello(&self) -> Hello {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { connections, refused, too_slow, idle, requests, missed_events } = &self.counters;
        Hello {
            protocol: PROTOCOL_VERSION,
            name: self.name.clone(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            actions: self.options.actions.iter().copied().collect(),
            socket: Some(self.options.path.display().to_string()).filter(|path| !path.is_empty()),
            stats: SocketStats {
                connections: count(connections),
                refused: count(refused),
                too_slow: count(too_slow),
                idle: count(idle),
                requests: count(requests),
                missed_events: count(missed_events),
            },
        }
    }

    /// Answers an operation. Following events is left to the connection.
    pub(super) async fn answer(&self, operation: Operation) -> Answer {
        match operation {
            Operation::Hello => to_value(&self.hello()),
            Operation::Snapshot(request) => self.snapshot(request).await,
            Operation::Rows(request) => to_value(&self.rows(request).await?),
            Operation::Member(target) => to_value(&self.find(&target)?.info()),
            Operation::Top(request) => self.top(request).await,
            Operation::Why(target) => to_value(&self.why(&target).await?),
            Operation::Supervision(target) => to_value(&Supervision::of(&self.find(&target)?)),
            Operation::Health => to_value(&self.root.health()),
            Operation::Rates(target) => self.rates(&target).await,
            Operation::Stop(target) => self.act(InspectAction::Stop, &target, |member| {
                member.stop();
                Ok(())
            }),
            Operation::Restart(target) => self.act(InspectAction::Restart, &target, AnyRef::restart),
            Operation::Suspend(target) => self.act(InspectAction::Suspend, &target, AnyRef::suspend),
            Operation::Resume(target) => self.act(InspectAction::Resume, &target, AnyRef::resume),
            Operation::LogLevel { level } => self.set_log_level(&level),
            Operation::Follow(_) | Operation::Unfollow => Ok(done()),
        }
    }

    pub(super) fn find(&self, target: &Target) -> Result<AnyRef, Failure> {
        let found = self.root.lookup_any(&target.path);
        let found = found.ok_or_else(|| not_found(&SnapshotError::NotFound(target.path.clone())))?;
        match target.member_id {
            Some(id) if id != found.id().get() => {
                let text =
                    format!("the member at {} has id {} now, not {id}; look at it again first", target.path, found.id().get());
                Err(Failure::new("changed", text))
            }
            _ => Ok(found),
        }
    }

    async fn snapshot(&self, request: SnapshotRequest) -> Answer {
        let SnapshotRequest { path, depth, limit, mut cursor, kinds, not_well } = request;
        let limit = limit.unwrap_or(SNAPSHOT_LIMIT_DEFAULT).clamp(1, SNAPSHOT_LIMIT_MAX);
        let mut query = SnapshotQuery::at(path.unwrap_or_default());
        query = depth.map_or(query.clone(), |depth| query.depth(depth));
        query = kinds.map_or(query.clone(), |kinds| query.kinds(kinds));
        if not_well {
            query = cursor.map_or(query.clone(), |cursor| query.clone().after(cursor));
            let (members, next) = self.not_well(query, limit.min(NOT_WELL_LIMIT_MAX)).await?;
            return Ok(serde_json::json!({ "members": members, "next": next.map(|next| next.to_string()) }));
        }
        let (mut members, mut len) = (Vec::new(), 0);
        loop {
            // Small pages, so that the text of one page over the limit is bounded too.
            let part = query.clone().limit((limit - members.len()).min(16));
            let part = cursor.map_or(part.clone(), |cursor| part.after(cursor));
            let page = self.root.snapshot(&part).map_err(|error| not_found(&error))?;
            for member in &page.members {
                let value = to_value(member)?;
                len += value.to_string().len();
                members.push(value);
            }
            cursor = page.next;
            if cursor.is_none() || members.len() >= limit || len >= ANSWER_LEN_MAX {
                break;
            }
            tokio::task::yield_now().await;
        }
        Ok(serde_json::json!({ "members": members, "next": cursor.map(|cursor| cursor.to_string()) }))
    }

    async fn rates(&self, target: &Target) -> Answer {
        let member = self.find(target)?;
        let sampled = self.samplers.sampled(&member, &*self.runtime).await;
        to_value(&sampled.map_or_else(|| self.samplers.known(&member), |sampler| sampler.rates()))
    }

    async fn top(&self, request: TopRequest) -> Answer {
        let TopRequest { by, path, limit, kinds, contains } = request;
        let wanted = contains.map(|text| text.to_lowercase());
        let is_wanted =
            |member: &MemberInfo| wanted.as_ref().is_none_or(|text| member.path.to_string().to_lowercase().contains(text));
        let limit = limit.unwrap_or(TOP_LIMIT_DEFAULT).clamp(1, TOP_LIMIT_MAX);
        let path = path.unwrap_or_default();
        let start = self.find(&Target { path: path.clone(), member_id: None })?;
        let sampler = match by {
            TopBy::Rate => self.samplers.sampled(&start, &*self.runtime).await,
            _ => None,
        };
        let mut query = SnapshotQuery::at(path).limit(PART).kinds(kinds.unwrap_or_else(|| vec![MemberKind::Actor]));
        let (mut best, mut sums, mut compared, mut is_complete) = (Best::new(limit), TopSums::default(), 0, false);
        while compared < COMPARED_MAX {
            let page = self.root.snapshot(&query).map_err(|error| not_found(&error))?;
            compared += page.members.len() as u64;
            for member in page.members.into_iter().filter(is_wanted) {
                sums.add(&self.root, &member);
                best.offer(key(by, &member, sampler.as_ref()), member);
            }
            match page.next {
                Some(next) => query = query.after(next),
                None => {
                    is_complete = true;
                    break;
                }
            }
            tokio::task::yield_now().await;
        }
        let (rows, is_cut) = best.into_rows(sampler.as_ref());
        to_value(&Top { rows, is_cut, compared, is_complete, sums: Some(sums) })
    }

    fn act(&self, action: InspectAction, target: &Target, order: impl FnOnce(&AnyRef) -> Result<(), ActionError>) -> Answer {
        self.check_allowed(action)?;
        let member = self.find(target)?;
        let segments = target.path.segments();
        if segments.len() < 2 || segments.first().is_some_and(|first| *first == "system") {
            let text = format!("{} belongs to the system itself; only members below /user can be changed", target.path);
            return Err(Failure::new("protected", text));
        }
        tracing::info!(action = ?action, path = %target.path, "{action:?} of {} ordered through the inspection socket", target.path);
        order(&member).map(|()| done()).map_err(|error| Failure::new("not_possible", error.to_string()))
    }

    fn set_log_level(&self, level: &str) -> Answer {
        self.check_allowed(InspectAction::LogLevel)?;
        let Some(set) = &self.options.set_log_level else {
            return Err(Failure::new("not_possible", "the program provides no function to set the log level"));
        };
        set(level).map(|()| done()).map_err(|text| Failure::new("not_possible", text))
    }

    fn check_allowed(&self, action: InspectAction) -> Result<(), Failure> {
        if self.options.actions.contains(&action) {
            return Ok(());
        }
        let text = format!("this process does not allow {action:?}; it must add it to `InspectOptions::allow`");
        Err(Failure::new("not_allowed", text))
    }
}

/// The members with the largest keys.
struct Best {
    limit: usize,
    /// At most twice the limit.
    rows: Vec<(u64, MemberInfo)>,
    /// The smallest key among the largest so far, once there are enough.
    floor: Option<u64>,
}

impl Best {
    fn new(limit: usize) -> Self {
        Self { limit, rows: Vec::new(), floor: None }
    }

    fn offer(&mut self, key: u64, member: MemberInfo) {
        if self.floor.is_some_and(|floor| key <= floor) {
            return;
        }
        self.rows.push((key, member));
        if self.rows.len() >= 2 * self.limit {
            self.cut();
        }
    }

    /// Sorts by key, then by id, so that equal members keep their order.
    fn cut(&mut self) {
        self.rows.sort_by_key(|(key, member)| (Reverse(*key), member.id));
        self.rows.truncate(self.limit);
        self.floor = self.rows.get(self.limit - 1).map(|(key, _)| *key);
    }

    /// Returns the rows that fit into one answer, and whether there are more.
    fn into_rows(mut self, sampler: Option<&BorrowedSampler<'_>>) -> (Vec<TopRow>, bool) {
        self.cut();
        let (mut len, count) = (0, self.rows.len());
        let rows = self.rows.into_iter().map(|(_, member)| {
            let rate = sampler.and_then(|sampler| sampler.rate_of(member.id));
            TopRow { accepted_per_s: rate.map(|rate| rate.0), handled_per_s: rate.map(|rate| rate.1), member }
        });
        let fits = |row: &TopRow| {
            len += serde_json::to_string(row).map_or(0, |text| text.len());
            len < ANSWER_LEN_MAX
        };
        let rows: Vec<TopRow> = rows.take_while(fits).collect();
        let is_cut = rows.len() < count;
        (rows, is_cut)
    }
}

/// How often the counts of a member are read again if they do not add up: its task may count while
/// they are read.
const READ_AGAIN: usize = 8;

impl TopSums {
    fn add(&mut self, root: &RootContext, member: &MemberInfo) {
        self.members += 1;
        let Some(actor) = &member.actor else { return };
        let (mut actor, mut rest) = (Cow::Borrowed(actor), Rest::of(actor));
        for _ in 0..READ_AGAIN {
            if rest.difference == 0 {
                break;
            }
            let again = root.lookup_any(&member.path).filter(|again| again.id().get() == member.id);
            let Some(again) = again.and_then(|again| again.info().actor) else {
                // It has ended meanwhile, so it is no member any more.
                self.members -= 1;
                return;
            };
            rest = Rest::of(&again);
            actor = Cow::Owned(again);
        }
        self.queued += actor.queued;
        self.stashed += actor.stashed;
        self.in_handler += rest.in_handler;
        self.difference += rest.difference;
        self.waiting_senders += actor.waiting_senders;
        self.counts += actor.counts;
    }
}

/// Accepted messages of an actor that are not settled, queued or stashed: one in the handler, and
/// what does not add up.
#[derive(Default)]
struct Rest {
    in_handler: u64,
    difference: i64,
}

impl Rest {
    fn of(actor: &ActorInfo) -> Self {
        let Counts { accepted, handled, failed, dead_lettered } = actor.counts;
        let known = handled + failed + dead_lettered + actor.queued + actor.stashed;
        let rest = i64::try_from(i128::from(accepted) - i128::from(known)).unwrap_or(i64::MAX);
        let in_handler = rest.clamp(0, 1);
        Self { in_handler: in_handler.unsigned_abs(), difference: rest - in_handler }
    }
}

/// Returns what `top` sorts by, in whole units.
fn key(by: TopBy, member: &MemberInfo, sampler: Option<&BorrowedSampler<'_>>) -> u64 {
    let actor = member.actor.as_ref();
    match by {
        TopBy::Queued => actor.map_or(0, |actor| actor.queued),
        TopBy::Rate => sampler.and_then(|sampler| sampler.rate_of(member.id)).map_or(0, |rate| (rate.1 * 1e3) as u64),
        TopBy::Restarts => member.restarts.map_or(0, |restarts| u64::from(restarts.used)),
        TopBy::Handling => member.handling_for().map_or(0, |running| running.as_nanos() as u64 + 1),
        TopBy::Failed => actor.map_or(0, |actor| actor.counts.failed),
        TopBy::Children => member.children,
    }
}

fn done() -> Value {
    Value::Object(serde_json::Map::new())
}

pub(super) fn not_found(error: &SnapshotError) -> Failure {
    Failure::new("not_found", error.to_string())
}

fn to_value(value: &impl Serialize) -> Answer {
    serde_json::to_value(value).map_err(|error| Failure::new("internal", error.to_string()))
}
