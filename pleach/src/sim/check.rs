//! Assertions on a system: its members, and what became of its messages.

use crate::actor::Counts;
use crate::inspect::{Activity, MemberInfo, SnapshotError, SnapshotQuery};
use crate::system::System;

/// Checks that exactly these members are below `path`. They are written relative to it, in any
/// order.
///
/// ```
/// use pleach::prelude::*;
/// use pleach::sim::{Sim, assert_tree};
///
/// let sim = Sim::new(1);
/// let system = sim.system("shop");
/// let workers = system.supervisor("workers", OneForOne::new()).unwrap();
/// workers.spawn("packer", Props::from_fn(|| (), |_, _: u32| Ok::<(), pleach::BoxError>(()))).unwrap();
/// assert_tree(&system, "/user", &["workers", "workers/packer"]);
/// ```
///
/// # Panics
/// If the members differ. The text names each missing and each unexpected one.
#[track_caller]
pub fn assert_tree(system: &System, path: &str, expected: &[&str]) {
    let start = path.parse().unwrap_or_else(|error| panic!("{path:?} is no path in a tree: {error}"));
    let members = read(system, SnapshotQuery::at(start)).unwrap_or_else(|error| panic!("cannot check the tree: {error}"));
    let prefix = format!("{}/", path.trim_end_matches('/'));
    let mut found: Vec<(String, &MemberInfo)> = members
        .iter()
        .filter_map(|member| Some((member.path.to_string().strip_prefix(&prefix)?.to_string(), member)))
        .filter(|(below, _)| !below.is_empty())
        .collect();
    found.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    let is_found = |name: &str| found.binary_search_by(|(known, _)| known.as_str().cmp(name)).is_ok();
    let missing = expected.iter().filter(|name| !is_found(name)).map(|name| format!("  missing: {name}"));
    let unexpected = found.iter().filter(|(name, _)| !expected.contains(&name.as_str()));
    let unexpected = unexpected.map(|(name, member)| format!("  unexpected: {name} ({}, {:?})", member.kind, member.activity));
    let differences: Vec<String> = missing.chain(unexpected).collect();
    assert!(differences.is_empty(), "the members below {path} differ:\n{}", differences.join("\n"));
}

/// Checks what became of all messages of a system so far.
///
/// # Panics
/// If a count differs. The text names each one that does.
#[track_caller]
pub fn assert_counts(system: &System, expected: Counts) {
    let found = system.counts();
    let rows = [
        ("accepted", found.accepted, expected.accepted),
        ("handled", found.handled, expected.handled),
        ("failed", found.failed, expected.failed),
        ("dead-lettered", found.dead_lettered, expected.dead_lettered),
    ];
    let differences = rows.into_iter().filter(|(_, found, expected)| found != expected);
    let differences: Vec<String> =
        differences.map(|(name, found, expected)| format!("  {name}: {found}, expected {expected}")).collect();
    assert!(differences.is_empty(), "the counts of the system {:?} differ:\n{}", system.name(), differences.join("\n"));
}

/// Checks that no message was lost or counted twice: in each live actor and in the whole system,
/// accepted = handled + failed + dead-lettered + queued.
///
/// "Queued" includes stashed messages and the one that is being handled. Call it between two steps
/// of a simulation; while threads send and handle messages, the counts are of different moments.
///
/// # Panics
/// If an equation does not hold. The text has the numbers of each actor whose does not.
#[track_caller]
pub fn assert_conserved(system: &System) {
    let members = read(system, SnapshotQuery::new()).unwrap_or_default();
    let (mut wrong, mut open) = (Vec::new(), 0);
    for member in &members {
        let Some(actor) = &member.actor else { continue };
        let current = u64::from(matches!(member.activity, Activity::Handling { .. }));
        let queued = actor.queued + actor.stashed + current;
        open += queued;
        if settled(&actor.counts) + queued != actor.counts.accepted {
            wrong.push(format!("  {}: {}", member.path, equation(&actor.counts, queued)));
        }
    }
    let all = system.counts();
    if settled(&all) + open != all.accepted {
        wrong.push(format!("  the whole system {:?}: {}", system.name(), equation(&all, open)));
    }
    assert!(wrong.is_empty(), "messages were lost or counted twice:\n{}", wrong.join("\n"));
}

fn settled(counts: &Counts) -> u64 {
    counts.handled + counts.failed + counts.dead_lettered
}

fn equation(counts: &Counts, queued: u64) -> String {
    let Counts { accepted, handled, failed, dead_lettered } = counts;
    format!("{accepted} accepted, but {handled} handled + {failed} failed + {dead_lettered} dead-lettered + {queued} queued")
}

/// The members of a system at one moment, to find what a test leaves behind.
///
/// ```
/// use pleach::prelude::*;
/// use pleach::sim::{Baseline, Sim};
///
/// let sim = Sim::new(1);
/// let system = sim.system("shop");
/// let before = Baseline::of(&system);
/// let till = system.spawn("till", Props::from_fn(|| (), |_, _: u32| Ok::<(), pleach::BoxError>(()))).unwrap();
/// till.stop();
/// sim.settle();
/// before.assert_unchanged(&system);
/// ```
#[derive(Clone, Debug)]
pub struct Baseline {
    /// The number of each member, in order, and its path.
    members: Vec<(u64, String)>,
}

impl Baseline {
    /// Remembers the members that the system has now.
    pub fn of(system: &System) -> Self {
        let members = read(system, SnapshotQuery::new()).unwrap_or_default();
        let mut members: Vec<_> = members.iter().map(|member| (member.id, member.path.to_string())).collect();
        members.sort_unstable();
        Self { members }
    }

    /// Checks that the system has the same members again. A restarted actor is the same member.
    ///
    /// # Panics
    /// If the members differ. The text names the ones left behind and the missing ones.
    #[track_caller]
    pub fn assert_unchanged(&self, system: &System) {
        let now = read(system, SnapshotQuery::new()).unwrap_or_default();
        let is_known = |member: &&MemberInfo| self.members.binary_search_by_key(&member.id, |(id, _)| *id).is_ok();
        let new = now.iter().filter(|member| !is_known(member));
        let new = new.map(|member| format!("  left behind: {} ({}, {:?})", member.path, member.kind, member.activity));
        let gone = self.members.iter().filter(|(id, _)| !now.iter().any(|member| member.id == *id));
        let gone = gone.map(|(_, path)| format!("  gone: {path}"));
        let differences: Vec<String> = new.chain(gone).collect();
        assert!(differences.is_empty(), "the members of the system {:?} changed:\n{}", system.name(), differences.join("\n"));
    }
}

/// Reads all pages of a snapshot.
fn read(system: &System, query: SnapshotQuery) -> Result<Vec<MemberInfo>, SnapshotError> {
    let mut members = Vec::new();
    let mut page = system.snapshot(&query)?;
    loop {
        members.append(&mut page.members);
        let Some(next) = page.next else { return Ok(members) };
        page = system.snapshot(&query.clone().after(next))?;
    }
}
