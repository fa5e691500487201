//! [`WaitIndex`]: which members wait for which other ones, as of a pass over the whole tree.
//!
//! A pass takes long in a large tree, and several clients ask again and again. So all clients share
//! one pass, which is kept for [`KEPT_PER_COST`] times as long as it took, at most [`KEPT_MAX`]. In
//! a small tree that is no time at all.
//!
//! Invariants:
//! 1. Nothing is done until a client asks.
//! 2. At most one shared pass is made at a time.

use crate::inspect::protocol::{Failure, Waiter};
use crate::inspect::serve::not_found;
use crate::inspect::{MemberInfo, SnapshotQuery, WaitInfo};
use pleach_core::{ActorPath, Instant, RootContext, Runtime};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::sync::Mutex;

/// How many members are read before other tasks run.
const PART: usize = 256;

/// How many members a pass asks for what they wait.
const ASKED_MAX: usize = 200_000;

/// How many waiting members one answer names.
const WAITERS_MAX: usize = 32;

/// How many waiting members are kept for one member, and for all. A pass that finds more for all
/// is of no use to other clients.
const KEPT_FOR_ONE: usize = 64;
const KEPT_FOR_ALL: usize = 4_096;

/// A pass is kept for this many times as long as it took.
const KEPT_PER_COST: u32 = 100;
const KEPT_MAX: Duration = Duration::from_secs(5);

/// The pass that all clients of a socket share.
#[derive(Default)]
pub(super) struct WaitIndex(Mutex<Option<(Pass, Instant)>>);

impl WaitIndex {
    /// Returns the members outside of `chain` that wait for a member of it, and how many more there
    /// are.
    pub(super) async fn waiters(
        &self,
        chain: &[MemberInfo],
        root: &RootContext,
        runtime: &dyn Runtime,
    ) -> Result<(Vec<Waiter>, u64), Failure> {
        let ids: BTreeSet<u64> = chain.iter().map(|member| member.id).collect();
        let mut shared = self.0.lock().await;
        if shared.as_ref().is_none_or(|(_, until)| runtime.now() >= *until) {
            let begun = runtime.now();
            let pass = Pass::over(root, None).await?;
            let now = runtime.now();
            *shared = Some((pass, now + kept_for(now.since(begun))));
        }
        match &*shared {
            Some((pass, _)) if pass.is_whole => Ok(pass.waiters(&ids)),
            _ => {
                // Others need not wait for a pass that only this client can use.
                drop(shared);
                Ok(Pass::over(root, Some(&ids)).await?.waiters(&ids))
            }
        }
    }
}

fn kept_for(cost: Duration) -> Duration {
    (cost * KEPT_PER_COST).min(KEPT_MAX)
}

/// What one pass has found.
struct Pass {
    /// Each wait: the member that is waited for, and the member that waits.
    waits: Vec<(u64, u64)>,
    /// Some of the members that wait, by the member that they wait for. The number is their order
    /// in the tree.
    waiters: BTreeMap<u64, Vec<(usize, Waiter)>>,
    /// How many members are in `waiters`.
    kept: usize,
    /// Whether `waiters` has enough for every member.
    is_whole: bool,
}

impl Pass {
    fn new() -> Self {
        Self { waits: Vec::new(), waiters: BTreeMap::new(), kept: 0, is_whole: true }
    }

    /// Asks the members for what they wait. `ids`: only waits for these count.
    async fn over(root: &RootContext, ids: Option<&BTreeSet<u64>>) -> Result<Self, Failure> {
        let mut pass = Self::new();
        let (mut query, mut asked) = (SnapshotQuery::new().limit(PART), 0);
        while asked < ASKED_MAX {
            let page = root.snapshot(&query).map_err(|error| not_found(&error))?;
            asked += page.members.len();
            for member in &page.members {
                pass.add(&member.path, member.id, &member.waits, ids);
            }
            let Some(next) = page.next else { break };
            query = query.after(next);
            tokio::task::yield_now().await;
        }
        Ok(pass)
    }

    /// Adds the waits of a member.
    fn add(&mut self, path: &ActorPath, id: u64, waits: &[WaitInfo], ids: Option<&BTreeSet<u64>>) {
        for wait in waits.iter().filter(|wait| ids.is_none_or(|ids| ids.contains(&wait.id))) {
            self.waits.push((wait.id, id));
            let kept = self.waiters.entry(wait.id).or_default();
            if kept.len() >= KEPT_FOR_ONE {
                continue;
            }
            if self.kept >= KEPT_FOR_ALL {
                self.is_whole = false;
                continue;
            }
            self.kept += 1;
            let waiter = Waiter { path: path.clone(), id, wait: wait.clone() };
            kept.push((self.waits.len(), waiter));
        }
    }

    /// Returns the members outside of `ids` that wait for one of these, and how many are not named.
    fn waiters(&self, ids: &BTreeSet<u64>) -> (Vec<Waiter>, u64) {
        let of = |id| self.waiters.get(id).into_iter().flatten();
        let mut found: Vec<_> = ids.iter().flat_map(of).filter(|(_, waiter)| !ids.contains(&waiter.id)).collect();
        found.sort_by_key(|(order, _)| *order);
        let waiters: Vec<Waiter> = found.into_iter().take(WAITERS_MAX).map(|(_, waiter)| waiter.clone()).collect();
        let all = self.waits.iter().filter(|(on, by)| ids.contains(on) && !ids.contains(by)).count();
        let left_out = all.saturating_sub(waiters.len()) as u64;
        (waiters, left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pass in which each member of `by` waits for the member that `on` says.
    fn pass(by: std::ops::Range<u64>, on: impl Fn(u64) -> u64, ids: Option<&BTreeSet<u64>>) -> Pass {
        let mut pass = Pass::new();
        for id in by {
            let wait = serde_json::json!({ "kind": "answer", "on": "/user/bank", "id": on(id) });
            let path = format!("/user/a{id}").parse().unwrap();
            pass.add(&path, id, &[serde_json::from_value(wait).unwrap()], ids);
        }
        pass
    }

    #[test]
    fn o1_a_pass_over_waits_is_kept_for_long_only_if_it_took_long() {
        assert_eq!(kept_for(Duration::ZERO), Duration::ZERO);
        assert_eq!(kept_for(Duration::from_micros(200)), Duration::from_millis(20));
        assert_eq!(kept_for(Duration::from_secs(1)), KEPT_MAX);
    }

    #[test]
    fn o1_waiters_are_named_in_the_order_of_the_tree_and_counted_beyond_the_limit() {
        let waits = pass(10..510, |id| id % 2, None);
        assert!(waits.is_whole);
        let (waiters, left_out) = waits.waiters(&BTreeSet::from([0, 1]));
        let named: Vec<u64> = waiters.iter().map(|waiter| waiter.id).collect();
        assert_eq!((named, left_out), ((10..42).collect(), 468));
        // A member of the chain is no waiter.
        let (waiters, left_out) = waits.waiters(&BTreeSet::from([0, 10, 12]));
        assert_eq!((waiters[0].id, waiters.len(), left_out), (14, 32, 248 - 32));
    }

    #[test]
    fn o1_waits_for_too_many_members_are_asked_again_for_the_wanted_ones() {
        let on = |id| id;
        let waits = pass(0..5_000, on, None);
        assert!(!waits.is_whole && waits.kept == KEPT_FOR_ALL);
        let wanted = BTreeSet::from([4_999]);
        let waits = pass(0..5_000, |id| if id == 0 { 4_999 } else { id }, Some(&wanted));
        assert!(waits.is_whole);
        assert_eq!(waits.waiters(&wanted).0[0].id, 0);
    }
}
