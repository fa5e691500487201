//! The answers that explain: what a member waits for, who waits for it, and which members are not
//! well. Each visits members in parts, lets other tasks run in between, and is bounded.

use crate::inspect::protocol::{Failure, Target, Why};
use crate::inspect::serve::{Inspected, not_found};
use crate::inspect::{Cursor, HealthReason, MemberInfo, SnapshotQuery};
use pleach_core::ActorPath;
use std::collections::BTreeMap;

/// How many members are read before other tasks run.
const PART: usize = 256;

/// How many members one request for members that are not well looks at.
const LOOKED_AT_MAX: usize = 50_000;

/// The longest chain of waits that `why` follows.
const CHAIN_MAX: usize = 32;

impl Inspected {
    /// Follows the first wait of each member, from the target on, and finds who else waits there.
    pub(super) async fn why(&self, target: &Target) -> Result<Why, Failure> {
        let mut chain = vec![self.find(target)?.info()];
        let mut is_cycle = false;
        while let Some(wait) = chain.last().and_then(|last| last.waits.first()).filter(|_| chain.len() < CHAIN_MAX) {
            if chain.iter().any(|member| member.id == wait.id) {
                is_cycle = true;
                break;
            }
            let Some(next) = self.root.lookup_any(&wait.on).filter(|next| next.id().get() == wait.id) else { break };
            chain.push(next.info());
        }
        let health = self.root.health();
        let concerns =
            |reason: &&HealthReason| reason_path(reason).is_some_and(|path| chain.iter().any(|one| is_within(&one.path, path)));
        let reasons = health.reasons().iter().filter(concerns).cloned().collect();
        let (waiters, waiters_left_out) = self.waits.waiters(&chain, &self.root, &*self.runtime).await?;
        Ok(Why { chain, is_cycle, reasons, waiters, waiters_left_out })
    }

    /// Returns the next members that are not well, at most `limit`, and where the next page begins.
    pub(super) async fn not_well(
        &self,
        mut query: SnapshotQuery,
        limit: usize,
    ) -> Result<(Vec<MemberInfo>, Option<Cursor>), Failure> {
        let health = self.root.health();
        let named: BTreeMap<&ActorPath, ()> = health.reasons().iter().filter_map(reason_path).map(|path| (path, ())).collect();
        let (mut found, mut looked_at) = (Vec::new(), 0);
        loop {
            // A part that fits, because a page cannot end within it.
            let part = PART.min(limit - found.len());
            let page = self.root.snapshot(&query.clone().limit(part)).map_err(|error| not_found(&error))?;
            looked_at += part;
            found.extend(page.members.into_iter().filter(|member| !member.is_well() || named.contains_key(&member.path)));
            let Some(next) = page.next else { return Ok((found, None)) };
            if found.len() >= limit || looked_at >= LOOKED_AT_MAX {
                return Ok((found, Some(next)));
            }
            query = query.after(next);
            tokio::task::yield_now().await;
        }
    }
}

/// Returns the member that a reason is about.
pub(super) fn reason_path(reason: &HealthReason) -> Option<&ActorPath> {
    match reason {
        HealthReason::GaveUp { supervisor, .. } => Some(supervisor),
        HealthReason::PoolShort { path, .. }
        | HealthReason::MailboxFull { path, .. }
        | HealthReason::LimitReached { path, .. }
        | HealthReason::HandlerStuck { path, .. } => Some(path),
        HealthReason::UnhandledFailures { origin, .. } => Some(origin),
        HealthReason::Reported { source, .. } => Some(source),
        _ => None,
    }
}

/// Returns whether `path` is `above` or below it.
pub(super) fn is_within(path: &ActorPath, above: &ActorPath) -> bool {
    path.segments().starts_with(above.segments())
}
