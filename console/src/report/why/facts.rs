//! What is read to explain a run. Nothing is written.

use crate::report::NamedStore;
use pleach::durable::{RunControlError, RunRemote, RunView};
use pleach::store::{Filter, GraphVersion, Kind, LIST_MAX, RunFailure, RunInfo, RunStatus, StoreError, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// The records before the head in which the first failure of an undone run is looked for.
const RECORDS_SEARCHED: u64 = 500;

/// The newest runs of a graph among which other versions are looked for.
const NEIGHBOURS_MAX: usize = 200;

/// Everything that explains a run whose row is readable.
pub struct Facts {
    pub info: RunInfo,
    /// The position of the run, or the damage of its log.
    pub view: Result<RunView, StoreError>,
    /// The clock of the store.
    pub now: Timestamp,
    /// The names of the messages that the run has not taken, with their times.
    pub inbox: Vec<(String, Timestamp)>,
    /// Whether the process that holds the lease still has the store open, if that can be known.
    pub is_holder_alive: Option<bool>,
    /// The failure for which the run was undone.
    pub undone_for: Option<RunFailure>,
    /// The failure of the undo at which the undos stopped.
    pub undo_failed: Option<RunFailure>,
    /// Who could serve the run. Only read if no worker has claimed it although it is due.
    pub others: Option<Others>,
}

/// What the rest of the store says about workers.
#[derive(Default)]
pub struct Others {
    /// The drivers with an unexpired lease, and the graph versions that they drive.
    pub drivers: BTreeMap<String, Vec<(String, GraphVersion)>>,
    /// Another version of the same graph, that a newer run has.
    pub newer_version: Option<(GraphVersion, Timestamp)>,
}

impl Facts {
    pub async fn read(store: &NamedStore, info: RunInfo) -> Result<Self, RunControlError> {
        let id = info.id.clone();
        let remote = RunRemote::new(store.store(), id.as_str());
        let view = match remote.view().await {
            Ok(view) => Ok(view),
            Err(RunControlError::Store(error @ StoreError::Damaged { .. })) => Err(error),
            Err(error) => return Err(error),
        };
        let mut inbox = Vec::new();
        if info.last_message > 0 && !info.status.has_ended() {
            let messages = store.store().inbox(&id, 0).await?;
            inbox.extend(messages.into_iter().map(|message| (message.message.name, message.at)));
        }
        let now = store.now().await;
        let is_holder_alive = if info.owner.is_some() { store.is_holder_alive(&id).await? } else { None };
        let (undone_for, undo_failed) = match info.status {
            RunStatus::Compensated | RunStatus::CompensationFailed => match failures_of_undo(&remote, &info).await {
                // The rest of the explanation does not need the damaged record.
                Err(StoreError::Damaged { .. }) => (None, None),
                found => found?,
            },
            _ => (None, None),
        };
        let (undone_for, undo_failed) = (undone_for.map(RunFailure::shortened), undo_failed.map(RunFailure::shortened));
        let mut facts = Self {
            info,
            view: view.map(with_short_reasons),
            now,
            inbox,
            is_holder_alive,
            undone_for,
            undo_failed,
            others: None,
        };
        if facts.is_due() && !facts.is_held() {
            facts.others = Some(others(store, &facts.info, now).await?);
        }
        Ok(facts)
    }

    /// Returns whether a driver holds the run, as far as is known.
    pub fn is_held(&self) -> bool {
        let is_unexpired = self.info.lease_until.is_some_and(|until| until > self.now);
        self.info.owner.is_some() && is_unexpired && self.is_holder_alive != Some(false)
    }

    /// Returns whether a worker should drive the run now.
    pub fn is_due(&self) -> bool {
        self.info.status.is_live() && self.info.wake_at.is_some_and(|at| at <= self.now)
    }
}

/// Finds the failure for which a run was undone, and the failure of an undo.
async fn failures_of_undo(remote: &RunRemote, info: &RunInfo) -> Result<(Option<RunFailure>, Option<RunFailure>), StoreError> {
    let mut next = Some(info.head.saturating_sub(RECORDS_SEARCHED).max(1));
    let (mut failure, mut of_undo) = (None, None);
    while let Some(first) = next {
        let page = remote.history(first, RECORDS_SEARCHED as usize).await?;
        next = page.next;
        for record in page.checkpoints {
            match record.kind {
                Kind::End => (failure, of_undo) = (record.failure, None),
                Kind::Undo => of_undo = record.failure,
                Kind::Rewind => (failure, of_undo) = (None, None),
                _ => {}
            }
        }
    }
    Ok((failure, of_undo))
}

async fn others(store: &NamedStore, info: &RunInfo, now: Timestamp) -> Result<Others, StoreError> {
    let (mut others, mut dead) = (Others::default(), BTreeSet::new());
    for status in [RunStatus::Running, RunStatus::Waiting] {
        for run in store.store().list(vec![Filter::Status(status)], None, LIST_MAX).await?.runs {
            let RunInfo { id, owner: Some(owner), lease_until: Some(until), graph, version, .. } = run else { continue };
            if until <= now || dead.contains(&owner) {
                continue;
            }
            if !others.drivers.contains_key(&owner) && store.is_holder_alive(&id).await? == Some(false) {
                dead.insert(owner);
                continue;
            }
            let versions = others.drivers.entry(owner).or_default();
            if !versions.contains(&(graph.clone(), version.clone())) {
                versions.push((graph, version));
            }
        }
    }
    let neighbours = store.store().list(vec![Filter::Graph(info.graph.clone())], None, NEIGHBOURS_MAX).await?.runs;
    let newer = neighbours.into_iter().filter(|run| run.version != info.version && run.created >= info.created);
    // The newest run of that version is the first one.
    others.newer_version = newer.map(|run| (run.version, run.created)).next();
    Ok(others)
}

/// Cuts the reasons of failures to the length that a row of a run has. A node can return any text.
fn with_short_reasons(mut view: RunView) -> RunView {
    let failures = view.tokens.iter_mut().map(|token| &mut token.failure).chain([&mut view.failure]);
    failures.for_each(|failure| *failure = failure.take().map(RunFailure::shortened));
    view
}
