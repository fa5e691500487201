//! [`Ledger`]: where the accepted messages of a subtree are, and whether they add up.
//!
//! The process adds the counts of all members of the subtree, which takes time for large ones. So a
//! ledger of a subtree is kept for a moment, longer if it took long.

use crate::failure::Failure;
use crate::process::link::Session;
use pleach::actor::ActorPath;
use pleach::inspect::{Client, ClientError, MemberInfo, Top, TopBy, TopRequest};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long a ledger is kept, at least.
const KEPT_FOR: Duration = Duration::from_secs(2);

/// It is also kept for this many times as long as it took.
const KEPT_PER_COST: u32 = 50;

/// How many ledgers are kept.
const LEDGERS_MAX: usize = 32;

/// Where the accepted messages of a subtree are.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Ledger {
    /// How many actors were counted.
    pub(super) members: u64,
    accepted: u64,
    handled: u64,
    failed: u64,
    dead_lettered: u64,
    queued: u64,
    stashed: u64,
    in_handler: u64,
    /// Accepted messages that are nowhere. 0 adds up.
    pub(super) difference: i64,
    /// Whether all members were counted.
    pub(super) is_complete: bool,
}

impl Ledger {
    /// Reads the ledger from sums. `None` from a process that sends none.
    pub(super) fn of(top: &Top) -> Option<Self> {
        let sums = top.sums?;
        Some(Self {
            members: sums.members,
            accepted: sums.counts.accepted,
            handled: sums.counts.handled,
            failed: sums.counts.failed,
            dead_lettered: sums.counts.dead_lettered,
            queued: sums.queued,
            stashed: sums.stashed,
            in_handler: sums.in_handler,
            difference: sums.difference,
            is_complete: top.is_complete,
        })
    }

    /// Asks for the ledger of a subtree.
    pub(super) async fn ask(client: &mut Client, path: &ActorPath) -> Result<Option<Self>, ClientError> {
        let mut request = TopRequest::by(TopBy::Queued);
        (request.path, request.limit) = (Some(path.clone()), Some(1));
        Ok(Self::of(&client.top(request).await?))
    }
}

/// Ledgers of large subtrees that were asked for lately.
#[derive(Default)]
pub(super) struct Ledgers(Mutex<BTreeMap<ActorPath, Known>>);

struct Known {
    ledger: Option<Ledger>,
    until: Instant,
}

impl Ledgers {
    /// Returns the ledger of a member and everything below it.
    pub(super) async fn of(&self, session: &mut Session<'_>, member: &MemberInfo) -> Result<Option<Ledger>, Failure> {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if member.children == 0 {
            return session.ask(|client| Ledger::ask(client, &member.path)).await;
        }
        let begun = Instant::now();
        if let Some(known) = known().get(&member.path).filter(|known| begun < known.until) {
            return Ok(known.ledger.clone());
        }
        let ledger = session.ask(|client| Ledger::ask(client, &member.path)).await?;
        let until = Instant::now() + KEPT_FOR.max(begun.elapsed() * KEPT_PER_COST);
        let mut known = known();
        known.retain(|_, known| begun < known.until);
        if known.len() >= LEDGERS_MAX {
            known.pop_first();
        }
        known.insert(member.path.clone(), Known { ledger: ledger.clone(), until });
        Ok(ledger)
    }
}
