//! Opens a stored run: at its head, at an earlier record, with another state, for another version
//! of its graph, or as the start of a new run.
//!
//! Invariants:
//! 1. The run is claimed before it is read, so that no other driver changes it.
//! 2. All checks come before the first write.
//! 3. If the run is rejected, or the future is dropped, [`ClaimGuard`] releases the claim.

use crate::compile::plan::Plan;
use crate::control::Command;
use crate::durable::changes::{ResumeChanges, ResumePoint};
use crate::durable::migrate::Migrations;
use crate::error::{CheckpointError, ResumeError, RunFault, fault_of};
use crate::lease::{Moment, owner};
use crate::log::codec::{Codec, StoredStates, decode};
use crate::log::committer::RELEASE_MAX;
use crate::log::deadline::opened_until;
use crate::log::open::{CommitExtras, OpenedRun};
use crate::log::snapshot::{RunSnapshot, graph_of};
use crate::log::{LogOptions, open};
use crate::store::{Claim, GraphVersion, Held, Place, Release, RunInfo, RunStatus, StoreError, Tags};
use crate::util::future::either;
use pleach_core::{BoxError, Runtime, catch_panic};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The parameters of an open that do not depend on the state type.
pub(crate) struct Opener {
    pub(crate) log_options: LogOptions,
    pub(crate) runtime: Arc<dyn Runtime>,
    /// The graph version that continues the run.
    pub(crate) version: GraphVersion,
    pub(crate) migrations: Migrations,
    /// The claim, if a worker already holds the run, and when it was requested.
    pub(crate) claimed: Option<(Claim, Moment)>,
}

impl Opener {
    /// Claims a run of this graph, applies the changes, and opens it.
    pub(crate) async fn reopen<S: Send + 'static>(
        mut self,
        plan: &Plan<S>,
        codec: Codec<S>,
        changes: ResumeChanges<S>,
        run: &str,
        force: bool,
    ) -> Result<OpenedRun, RunFault> {
        if changes.point != ResumePoint::Head || changes.replace.is_some() {
            self.log_options.timeout = self.log_options.timeout.replacing_stored();
        }
        let claim = match self.claimed.take() {
            Some(claimed) => claimed,
            None => {
                let claiming = async {
                    check_open(&self.head(&plan.name, run).await?, changes.point)?;
                    let claimed = open::claim(&self.log_options, &self.runtime, run, force).await;
                    claimed.map_err(|error| fault_of(run, "", "claim", error))
                };
                opened_until(&self.runtime, self.log_options.timeout.open_until(self.log_options.lease), claiming).await?
            }
        };
        let Claim { run: info, now } = &claim.0;
        let until = self.log_options.timeout.open_claimed_until(info, *now, claim.1.at, self.log_options.lease);
        let (guard, had_ended) = (ClaimGuard::of(&self, info), info.status.has_ended());
        // The former driver may have advanced or ended the run since the first check.
        let checked = self.migrations.check(&plan.name, info, &self.version).and_then(|()| check_open(info, changes.point));
        let opening = async {
            checked?;
            let opened = self.open(plan, codec, changes, claim).await?;
            let opened =
                open::revive(opened, CommitExtras::default()).await.map_err(|error| fault_of(run, "", "commit", error))?;
            self.with_messages(opened, had_ended).await
        };
        let opened = opened_until(&self.runtime, until, opening).await;
        match opened {
            Ok(_) => guard.keep(),
            Err(_) => guard.release().await,
        }
        opened
    }

    /// Reads the inbox before any node runs, because it may contain a pause or cancel command.
    ///
    /// A cancel that arrived just before the run ended belongs to that end: a later resume or
    /// rewind ignores it.
    async fn with_messages(&self, mut opened: OpenedRun, had_ended: bool) -> Result<OpenedRun, RunFault> {
        let messages = open::untaken(&*self.log_options.store, &opened.info.id, opened.info.last_message).await;
        opened.messages = messages.map_err(|error| fault_of(&*opened.info.id, "", "inbox", error))?;
        opened.log.note_read(&opened.messages, opened.info.last_message);
        let OpenedRun { messages, log, .. } = &mut opened;
        log.leave_out_recorded(messages);
        messages.retain(|message| {
            let is_over = had_ended && matches!(Command::parse(&message.message.name, b""), Some(Command::Cancel(_)));
            if is_over {
                log.take_with_next_commit(message.number);
            }
            !is_over
        });
        Ok(opened)
    }

    /// Creates the run `new` from a snapshot of the run `from`, which is only read. The new run has
    /// the tags of `from` and the given ones.
    pub(crate) async fn fork<S: Send + 'static>(
        self,
        plan: &Plan<S>,
        codec: Codec<S>,
        changes: ResumeChanges<S>,
        from: &str,
        (new, tags): (Arc<str>, Tags),
    ) -> Result<OpenedRun, RunFault> {
        let until = self.log_options.timeout.open_until(self.log_options.lease);
        let runtime = Arc::clone(&self.runtime);
        let forking = async move {
            let info = self.head(&plan.name, from).await?;
            let mut snapshot = self.snapshot(changes.point, &info).await?;
            self.change(&mut snapshot, plan, codec, changes, &info)?;
            if let Some(Place::End) = snapshot.root().map(|root| &root.at) {
                return Err(at_end(&snapshot, &info));
            }
            let mut forked_tags = info.tags;
            for (key, value) in tags.iter() {
                forked_tags.set(key, value).map_err(RunFault::Tag)?;
            }
            let (id, owner, graph) = (Arc::clone(&new), owner(&self.runtime), (plan.name.clone(), self.version));
            let forked = snapshot.fork(self.log_options, self.runtime, new, graph, Some(owner), forked_tags).await;
            forked.map_err(|error| fault_of(&*id, "", "create", error))
        };
        opened_until(&runtime, until, forking).await
    }

    async fn head(&self, graph: &str, run: &str) -> Result<RunInfo, RunFault> {
        let info = self.log_options.store.head(run).await.map_err(|error| fault_of(run, "", "open", error))?;
        self.migrations.check(graph, &info, &self.version)?;
        Ok(info)
    }

    async fn open<S: Send + 'static>(
        &self,
        plan: &Plan<S>,
        codec: Codec<S>,
        changes: ResumeChanges<S>,
        claim: (Claim, Moment),
    ) -> Result<OpenedRun, RunFault> {
        let info = claim.0.run.clone();
        let is_changed = changes.replace.is_some() || changes.from.is_some();
        let is_moved = changes.point != ResumePoint::Head || is_changed || info.version != self.version;
        let (log_options, runtime, version) = (self.log_options.clone(), Arc::clone(&self.runtime), self.version.clone());
        let mut snapshot = match is_moved || changes.validate.is_some() {
            true => Some(self.snapshot(changes.point, &info).await?),
            false => None,
        };
        if let Some(snapshot) = &mut snapshot {
            self.change(snapshot, plan, codec, changes, &info)?;
        }
        match snapshot.filter(|_| is_moved) {
            Some(snapshot) => snapshot
                .rewind(log_options, runtime, claim, version, CommitExtras::default())
                .await
                .map_err(|error| fault_of(&*info.id, "", "commit", error)),
            None => {
                open::open(log_options, runtime, claim, version).await.map_err(|error| fault_of(&*info.id, "", "open", error))
            }
        }
    }

    /// Reads the snapshot from which the run continues.
    async fn snapshot(&self, point: ResumePoint, info: &RunInfo) -> Result<RunSnapshot, RunFault> {
        let store = &*self.log_options.store;
        let snapshot = match point {
            ResumePoint::Head => RunSnapshot::at_head(store, info).await.map(Some),
            ResumePoint::After(sequence) if sequence == 0 || sequence > info.head => {
                Err(StoreError::NoSuchRow { run: info.id.clone(), sequence, head: info.head })
            }
            ResumePoint::After(sequence) => RunSnapshot::at(store, &info.id, sequence).await.map(Some),
            ResumePoint::LastStep => RunSnapshot::before_last_step(store, &info.id, info.head).await,
        };
        let snapshot = snapshot.map_err(|error| fault_of(&*info.id, "", "open", error))?;
        snapshot.ok_or_else(|| RunFault::Resume(ResumeError::NothingToReplay { run: info.id.clone() }))
    }

    /// Migrates, changes and validates the snapshot.
    fn change<S: Send + 'static>(
        &self,
        snapshot: &mut RunSnapshot,
        plan: &Plan<S>,
        codec: Codec<S>,
        changes: ResumeChanges<S>,
        info: &RunInfo,
    ) -> Result<(), RunFault> {
        // An old record may have another version than the run.
        let is_migrated = *snapshot.version() != self.version;
        snapshot.keeps_keys = changes.point == ResumePoint::Head && changes.replace.is_none() && changes.from.is_none();
        if is_migrated {
            self.migrations.apply(plan, snapshot, info, &self.version)?;
        }
        if let Some(node) = changes.from {
            move_to(snapshot, node, info)?;
        }
        if let Some(replace) = changes.replace {
            replace_state(snapshot, codec, replace, info)?;
        }
        let validate = changes.validate;
        if !is_migrated && validate.is_none() {
            return Ok(());
        }
        snapshot.for_each_state(|held| {
            if !held.inside.is_empty() {
                return Ok(());
            }
            let StoredStates { state, items } = decode(codec, held.record)?;
            let Some(validate) = &validate else { return Ok(()) };
            for state in [state].iter().chain(items.iter().flatten()) {
                let sequence = held.record.sequence;
                let valid = catch_panic(|| validate(state)).unwrap_or_else(|reason| Err(reason.to_string().into()));
                valid.map_err(|reason| RunFault::Resume(ResumeError::Invalid { run: info.id.clone(), sequence, reason }))?;
            }
            Ok(())
        })
    }
}

/// Rejects a compensated or cancelled run, unless it continues from an earlier record.
fn check_open(info: &RunInfo, point: ResumePoint) -> Result<(), RunFault> {
    match info.status {
        RunStatus::Compensated | RunStatus::Cancelled if point == ResumePoint::Head => {
            Err(RunFault::Ended { run: info.id.clone(), status: info.status })
        }
        _ => Ok(()),
    }
}

/// Moves a run with a single token to this node.
fn move_to(snapshot: &mut RunSnapshot, node: String, info: &RunInfo) -> Result<(), RunFault> {
    let run = info.id.clone();
    if snapshot.is_undoing() {
        return Err(RunFault::Resume(ResumeError::Undoing { run }));
    }
    match snapshot.root().map(|root| &root.at) {
        Some(Place::Node(_) | Place::Router(_) | Place::End) if snapshot.tokens().count() == 1 => {
            snapshot.place_root(Place::Node(node));
            Ok(())
        }
        _ => Err(RunFault::Resume(ResumeError::Branched { run, open: open_in(snapshot) })),
    }
}

/// Replaces the state of a run with a single token.
fn replace_state<S>(
    snapshot: &mut RunSnapshot,
    codec: Codec<S>,
    replace: Box<dyn FnOnce(S) -> S + Send>,
    info: &RunInfo,
) -> Result<(), RunFault> {
    let run = || info.id.clone();
    check_replaceable(snapshot, info)?;
    let mut replace = Some(replace);
    snapshot.for_each_state(|held| {
        let Some(replace) = replace.take() else { return Ok(()) };
        let StoredStates { state, .. } = decode(codec, held.record)?;
        let encoding = |reason: BoxError| RunFault::Checkpoint(CheckpointError::new(run(), "", "encode", reason));
        match catch_panic(|| codec.body(&replace(state), None)) {
            Ok(Ok(body)) => held.record.body = body,
            Ok(Err(error)) => return Err(encoding(error.into())),
            Err(reason) => return Err(encoding(format!("the new state could not be computed or serialized: {reason}").into())),
        }
        Ok(())
    })
}

/// Rejects a run whose state cannot be replaced: it has several, or uses none any more.
pub(super) fn check_replaceable(snapshot: &RunSnapshot, info: &RunInfo) -> Result<(), RunFault> {
    let run = || info.id.clone();
    if snapshot.is_undoing() {
        return Err(RunFault::Resume(ResumeError::Undoing { run: run() }));
    }
    match snapshot.root().map(|root| &root.at) {
        Some(Place::End) => Err(at_end(snapshot, info)),
        Some(Place::Node(_) | Place::Router(_)) if snapshot.tokens().count() == 1 => Ok(()),
        _ => Err(RunFault::Resume(ResumeError::Branched { run: run(), open: open_in(snapshot) })),
    }
}

/// Returns the nodes with an open fan-out and the subgraphs in progress.
fn open_in(snapshot: &RunSnapshot) -> Vec<String> {
    let mut open = BTreeSet::new();
    for token in snapshot.tokens() {
        if let Place::Node(name) | Place::Router(name) | Place::Fork(name) | Place::Join(name) | Place::Failed(name) = &token.at
        {
            if matches!(token.at, Place::Fork(_)) {
                open.insert(name.clone());
            }
            if !graph_of(name).is_empty() {
                open.insert(graph_of(name).to_string());
            }
        }
    }
    open.into_iter().collect()
}

fn at_end(snapshot: &RunSnapshot, info: &RunInfo) -> RunFault {
    RunFault::Resume(ResumeError::AtEnd { run: info.id.clone(), sequence: snapshot.sequence() })
}

/// Releases a claimed run on drop, unless `keep` was called.
pub(super) struct ClaimGuard {
    log_options: LogOptions,
    runtime: Arc<dyn Runtime>,
    held: Option<Held>,
}

impl ClaimGuard {
    fn of(opener: &Opener, info: &RunInfo) -> Self {
        // A worker that holds the lease releases it itself.
        let is_ours = opener.log_options.worker_lease.is_none();
        let held = is_ours.then(|| Held::of(info));
        Self { log_options: opener.log_options.clone(), runtime: Arc::clone(&opener.runtime), held }
    }

    pub(super) fn new(log_options: LogOptions, runtime: Arc<dyn Runtime>, held: Held) -> Self {
        Self { log_options, runtime, held: Some(held) }
    }

    /// Ends the use of the claim: after an error it is released. A success has released it.
    pub(super) async fn end<T>(self, result: Result<T, RunFault>) -> Result<T, RunFault> {
        match &result {
            Ok(_) => self.keep(),
            Err(_) => self.release().await,
        }
        result
    }

    /// Keeps the claim: the opened run is responsible for it.
    fn keep(mut self) {
        self.held = None;
    }

    /// Releases the claim. If the store fails or takes too long, the lease expires later.
    async fn release(mut self) {
        if let Some(release) = self.release_future() {
            let timer = self.runtime.sleep_until(self.runtime.now() + RELEASE_MAX);
            either(Box::pin(async move { drop(release.await) }), timer).await;
        }
    }

    fn release_future(&mut self) -> Option<impl Future<Output = Result<Vec<Held>, StoreError>> + Send + 'static> {
        let (held, store) = (self.held.take()?, Arc::clone(&self.log_options.store));
        Some(async move { store.release(vec![held], Release::AsIs).await })
    }
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        if let Some(release) = self.release_future() {
            self.runtime.spawn(Box::pin(async move { drop(release.await) }));
        }
    }
}
