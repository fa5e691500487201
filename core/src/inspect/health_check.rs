//! Finds the reasons of a system's [`Health`](crate::Health).
//!
//! Nothing is measured for it in advance. Rare events are kept when they happen: supervisors that
//! gave up, failures that reached the root, problems that members report. The rest is found by
//! looking at members when the health is asked for: a full mailbox, a long handler, a pool that
//! lacks workers.
//!
//! One call looks at up to [`MEMBERS_PER_CALL`] members, and continues there at the next call. It
//! looks again at members that were not well before, up to [`SUSPECTS_MAX`].

use crate::base::sorted::SortedMap;
use crate::base::sync::{Arc, Weak};
use crate::base::time::Instant;
use crate::events::give_ups::GiveUp;
use crate::inspect::health::HealthReason;
use crate::inspect::info::{Activity, ActorInfo, MemberInfo};
use crate::tree::Tree;
use crate::tree::child;
use crate::tree::facts::{ActorFacts, MemberKind, Work};
use crate::tree::member::Member;
use crate::tree::observed::HealthLimits;
use crate::tree::walk::{Step, Walk};
use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;

/// How many members one call looks at. A system with more is covered by several calls.
const MEMBERS_PER_CALL: usize = 20_000;

/// How many members that were not well are looked at again by every call.
const SUSPECTS_MAX: usize = 256;

/// Returns all reasons of the system below `root`.
pub(super) fn reasons(root: &Arc<dyn Member>) -> Vec<HealthReason> {
    let (tree, now) = (root.node().tree(), root.node().runtime().now());
    let mut reasons = kept_reasons(root, tree, now);
    let (found, left_out) = look_at_members(root, tree, now);
    reasons.extend(found);
    if left_out > 0 {
        reasons.push(HealthReason::More { count: left_out });
    }
    reasons
}

/// Returns the reasons that were kept when they happened.
fn kept_reasons(root: &Arc<dyn Member>, tree: &Tree, now: Instant) -> Vec<HealthReason> {
    tree.give_ups.forget(|give_up| is_over(root, give_up));
    let (gave_up, dropped) = tree.give_ups.list();
    let mut reasons: Vec<_> = gave_up.into_iter().map(|one| HealthReason::of_give_up(one.gave_up, now.since(one.at))).collect();
    if let Some((first, count)) = tree.unhandled.kept() {
        reasons.push(HealthReason::of_unhandled(&first, count));
    }
    let (reports, left_out) = tree.health_reports.list();
    reasons.extend(reports.into_iter().map(|open| HealthReason::Reported {
        source: open.source,
        key: open.problem.key().to_string(),
        text: open.problem.text().to_string(),
        advice: open.problem.advice_text().to_string(),
        blocks_readiness: open.problem.is_blocking(),
        reported_for: now.since(open.since),
    }));
    let (refused, refused_left_out) = tree.seal.refused();
    reasons.extend(refused.into_iter().map(|refused| HealthReason::LimitReached {
        path: refused.limit.member.clone(),
        text: refused.limit.to_string(),
        times: refused.times,
        ago: now.since(refused.last),
    }));
    let left_out = left_out + refused_left_out;
    if dropped + left_out > 0 {
        reasons.push(HealthReason::More { count: dropped + left_out });
    }
    reasons
}

/// Returns whether what a supervisor gave up runs again: another life of the child, or all workers
/// of the pool.
fn is_over(root: &Arc<dyn Member>, give_up: &GiveUp) -> bool {
    let live = |path| child::descend(root, path).filter(|member| member.node().exit().is_none());
    if live(&give_up.gave_up.child).is_some_and(|child| runs_again(&child, give_up)) {
        return true;
    }
    live(&give_up.gave_up.supervisor).is_some_and(|pool| {
        let facts = pool.node().facts(pool.node().runtime().now());
        facts.is_open && facts.pool_size.is_some_and(|size| facts.children >= size)
    })
}

/// Returns whether the member is another one than the child that was given up, or a later
/// incarnation of it. A child that is about to stop is neither.
fn runs_again(member: &Arc<dyn Member>, give_up: &GiveUp) -> bool {
    let node = member.node();
    let facts = member.facts();
    let is_given_up = node.parent().is_some_and(|parent| parent.node().has_given_up_on(node.id()));
    let is_other = node.number() != give_up.child;
    match facts.actor {
        Some(actor) => is_other || (!is_given_up && actor.incarnation > give_up.incarnation),
        // A supervisor has no incarnations: it runs again if it is not stopping.
        None => is_other || (!is_given_up && node.takes_children() && !node.is_failing()),
    }
}

/// Looks at the members that were not well, and at the next ones of the tree. Returns the reasons,
/// and how many do not fit.
fn look_at_members(root: &Arc<dyn Member>, tree: &Tree, now: Instant) -> (Vec<HealthReason>, u64) {
    // The suspects stay in the list meanwhile, for a call that comes at the same time.
    let (position, before) = tree.observed.sweep.with(|sweep| {
        let sweep = sweep.get_or_insert_default();
        (sweep.position.take(), sweep.suspects.clone())
    });
    let mut look = Look { tree, now, suspects: SortedMap::new(), reasons: Vec::new(), left_out: 0 };
    for member in before.values().filter_map(Weak::upgrade) {
        if member.node().exit().is_none() {
            look.examine(&member, true);
        }
    }
    let mut walk = match &position {
        None => Walk::new(Arc::clone(root), usize::MAX),
        Some(position) => Walk::resume(Arc::clone(root), usize::MAX, position),
    };
    let mut next = None;
    for steps in 0.. {
        match walk.step() {
            Step::Visit(member, _) if look.suspects.contains_key(&member.node().number()) => {}
            Step::Visit(member, _) => look.examine(&member, before.contains_key(&member.node().number())),
            Step::Nothing => {}
            Step::End => break,
        }
        if steps >= MEMBERS_PER_CALL {
            next = walk.position();
            break;
        }
    }
    let Look { suspects, reasons, left_out, .. } = look;
    tree.observed.sweep.with(|sweep| {
        let sweep = sweep.get_or_insert_default();
        sweep.position = next;
        // Only what this call has looked at changes. At most twice the limit, if calls come at the
        // same time.
        sweep.suspects.retain(|number, _| !before.contains_key(number) || suspects.contains_key(number));
        if sweep.suspects.len() < SUSPECTS_MAX {
            sweep.suspects.extend(suspects);
        }
    });
    (reasons, left_out)
}

/// One look at members.
struct Look<'a> {
    tree: &'a Tree,
    now: Instant,
    suspects: SortedMap<u64, Weak<dyn Member>>,
    reasons: Vec<HealthReason>,
    left_out: u64,
}

impl Look<'_> {
    /// Looks at one member. `was_suspect`: it was not well when it was looked at before.
    fn examine(&mut self, member: &Arc<dyn Member>, was_suspect: bool) {
        let facts = member.facts();
        let number = member.node().number();
        let is_full = facts.actor.as_ref().is_some_and(ActorFacts::is_full);
        let is_handling = matches!(facts.work, Work::Handling(_));
        if was_suspect && !is_full {
            self.tree.observed.not_full(number);
        }
        if !is_full && !is_handling && facts.kind != MemberKind::Pool {
            return;
        }
        let info = MemberInfo::of(member, 0, self.now);
        let limits = self.tree.health_limits;
        let mut found = Vec::from_iter(pool_short(&info).into_iter().chain(stuck(&info, &limits)));
        let has_room = self.suspects.len() < SUSPECTS_MAX;
        if is_full && has_room {
            let full_for = self.now.since(self.tree.observed.full_since(number, self.now));
            self.suspects.insert(number, Arc::downgrade(member));
            found.extend(
                info.actor.as_ref().filter(|_| full_for >= limits.mailbox_full).map(|actor| full(&info, actor, full_for)),
            );
        }
        if found.is_empty() {
            return;
        }
        if has_room {
            self.suspects.insert(number, Arc::downgrade(member));
            self.reasons.extend(found);
        } else {
            self.left_out += found.len() as u64;
        }
    }
}

fn pool_short(info: &MemberInfo) -> Option<HealthReason> {
    let size = info.pool_size.filter(|size| info.children < *size)?;
    let is_open = info.activity == Activity::Open;
    is_open.then(|| HealthReason::PoolShort { path: info.path.clone(), workers: info.children, size })
}

fn stuck(info: &MemberInfo, limits: &HealthLimits) -> Option<HealthReason> {
    let for_at_least = info.handling_for().filter(|running| *running >= limits.handler_stuck)?;
    let message_type = info.actor.as_ref()?.message_type.clone();
    let waits_for = info.waits.first().map(|wait| wait.on.clone());
    Some(HealthReason::HandlerStuck { path: info.path.clone(), message_type, waits_for, for_at_least })
}

fn full(info: &MemberInfo, actor: &ActorInfo, for_at_least: Duration) -> HealthReason {
    let (queued, waiting_senders) = (actor.queued, actor.waiting_senders);
    HealthReason::MailboxFull { path: info.path.clone(), queued, waiting_senders, for_at_least }
}
