//! `pleach why`: why a member of a process does not continue, the deepest cause first.

use super::args::{Place, WhyArgs};
use super::health::reason_json;
use super::tree::look_at_handlers;
use super::why_text::explain;
use crate::failure::{Failure, Status};
use crate::output::explanation::Explanation;
use crate::output::{Output, Report, Style, Version};
use crate::socket::{Socket, SocketPath, parse_path};
use pleach::actor::ActorPath;
use pleach::inspect::{Activity, HealthReason, InspectAction, MemberInfo, SnapshotRequest, Waiter, Why};
use serde::Serialize;
use std::time::Duration;

/// The wait before the second look at a handler of which the process does not know since when it
/// runs.
const SECOND_LOOK: Duration = Duration::from_millis(500);

/// How many members below a supervisor or scope are named.
const BELOW_MAX: usize = 20;

pub async fn run(args: WhyArgs, output: &Output) -> Result<(), Failure> {
    match args.target {
        Place::Socket(socket) => of_member(&socket, &args.name, args.timeout, output).await,
        Place::Store(store) => crate::runs::why::run(store, &args.name, output).await,
    }
}

async fn of_member(socket: &SocketPath, name: &str, limit: Duration, output: &Output) -> Result<(), Failure> {
    let path = parse_path(name).map_err(Failure::usage)?;
    let mut socket = socket.open(limit).await?;
    let facts = Facts::ask(&mut socket, path).await?;
    let explanation = explain(&facts);
    output.print(&WhyReport { facts, explanation })
}

/// What the process knows about a member that does not continue.
pub struct Facts {
    pub socket: String,
    pub path: ActorPath,
    /// The actions that the process allows.
    pub actions: Vec<InspectAction>,
    /// The member, then what it waits for, and so on. Empty if no member has the path.
    pub chain: Vec<MemberInfo>,
    pub is_cycle: bool,
    pub waiters: Vec<Waiter>,
    pub waiters_left_out: u64,
    /// The problems of the chain, of the members above it, and below the member.
    pub reasons: Vec<HealthReason>,
    /// Members below that are not well, for a member without code of its own.
    pub below: Vec<MemberInfo>,
    /// Whether the members below are not all listed.
    pub below_is_cut: bool,
}

impl Facts {
    async fn ask(socket: &mut Socket, path: ActorPath) -> Result<Self, Failure> {
        let mut facts = Self {
            socket: socket.path().name(),
            actions: socket.hello().actions.clone(),
            path,
            chain: Vec::new(),
            is_cycle: false,
            waiters: Vec::new(),
            waiters_left_out: 0,
            reasons: Vec::new(),
            below: Vec::new(),
            below_is_cut: false,
        };
        match facts.ask_why(socket).await {
            Ok(()) if facts.chain.iter().any(is_unmeasured) => {
                tokio::time::sleep(SECOND_LOOK).await;
                // It may have ended meanwhile: then the first look stays.
                drop(facts.ask_why(socket).await);
            }
            Err(failure) if failure.status != Status::NotFound => return Err(failure),
            Err(failure) => {
                facts.add_reasons(socket).await?;
                return if facts.reasons.is_empty() { Err(failure) } else { Ok(facts) };
            }
            Ok(()) => {}
        }
        facts.add_reasons(socket).await?;
        if facts.chain.len() == 1 && facts.chain[0].children > 0 {
            look_at_handlers(socket, &facts.path).await?;
            facts.add_below(socket).await?;
        }
        Ok(facts)
    }

    async fn ask_why(&mut self, socket: &mut Socket) -> Result<(), Failure> {
        let path = self.path.clone();
        let why = socket.ask(async |client| client.why(&path).await).await?;
        let Why { chain, is_cycle, reasons, waiters, waiters_left_out, .. } = why;
        (self.chain, self.is_cycle, self.reasons) = (chain, is_cycle, reasons);
        (self.waiters, self.waiters_left_out) = (waiters, waiters_left_out);
        Ok(())
    }

    /// Adds the problems at and below the path. Those of members that have ended are there too.
    async fn add_reasons(&mut self, socket: &mut Socket) -> Result<(), Failure> {
        let health = socket.ask(async |client| client.health().await).await?;
        let is_near =
            |about: &ActorPath| is_within(about, &self.path) || (self.chain.is_empty() && is_within(&self.path, about));
        let known: Vec<_> = self.reasons.iter().map(place).collect();
        let near = |reason: &&HealthReason| !known.contains(&place(reason)) && places(reason).into_iter().any(is_near);
        let more: Vec<_> = health.reasons().iter().filter(near).cloned().collect();
        self.reasons.extend(more);
        Ok(())
    }

    async fn add_below(&mut self, socket: &mut Socket) -> Result<(), Failure> {
        let mut request = SnapshotRequest::new();
        (request.path, request.not_well, request.limit) = (Some(self.path.clone()), true, Some(BELOW_MAX + 1));
        while self.below.len() <= BELOW_MAX {
            let page = socket.ask(async |client| client.snapshot(request.clone()).await).await?;
            self.below.extend(page.members.into_iter().filter(|member| member.path != self.path));
            request.cursor = page.next;
            if request.cursor.is_none() {
                break;
            }
        }
        self.below_is_cut = self.below.len() > BELOW_MAX;
        self.below.truncate(BELOW_MAX);
        Ok(())
    }
}

/// Returns whether it is not known how long a handler has been running, because nothing had looked
/// at it before.
fn is_unmeasured(member: &MemberInfo) -> bool {
    matches!(member.activity, Activity::Handling { for_at_least, is_exact: false } if for_at_least < SECOND_LOOK)
}

fn is_within(path: &ActorPath, above: &ActorPath) -> bool {
    path.segments().starts_with(above.segments())
}

/// Returns the members that a problem names.
pub fn places(reason: &HealthReason) -> Vec<&ActorPath> {
    match reason {
        HealthReason::GaveUp { supervisor, child, .. } => vec![supervisor, child],
        HealthReason::PoolShort { path, .. }
        | HealthReason::MailboxFull { path, .. }
        | HealthReason::LimitReached { path, .. }
        | HealthReason::HandlerStuck { path, .. } => vec![path],
        HealthReason::UnhandledFailures { origin, .. } => vec![origin],
        HealthReason::Reported { source, .. } => vec![source],
        _ => Vec::new(),
    }
}

/// Returns what tells a problem from others: its kind and the members that it names.
fn place(reason: &HealthReason) -> (std::mem::Discriminant<HealthReason>, Vec<ActorPath>, String) {
    let key = if let HealthReason::Reported { key, .. } = reason { key.clone() } else { String::new() };
    (std::mem::discriminant(reason), places(reason).into_iter().cloned().collect(), key)
}

struct WhyReport {
    facts: Facts,
    explanation: Explanation,
}

#[derive(Serialize)]
struct WhyJson<'a> {
    version: Version,
    socket: &'a str,
    path: &'a ActorPath,
    #[serde(flatten)]
    explanation: &'a Explanation,
    chain: &'a [MemberInfo],
    is_cycle: bool,
    waiters: &'a [Waiter],
    waiters_left_out: u64,
    reasons: Vec<serde_json::Value>,
    below: &'a [MemberInfo],
}

impl Serialize for WhyReport {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Facts { socket, path, chain, is_cycle, waiters, waiters_left_out, reasons, below, .. } = &self.facts;
        let (is_cycle, waiters_left_out) = (*is_cycle, *waiters_left_out);
        let reasons = reasons.iter().map(reason_json).collect();
        let explanation = &self.explanation;
        WhyJson { version: Version, socket, path, explanation, chain, is_cycle, waiters, waiters_left_out, reasons, below }
            .serialize(serializer)
    }
}

impl Report for WhyReport {
    fn text(&self, style: &Style) -> String {
        crate::output::explanation::text(&self.explanation, style)
    }
}
