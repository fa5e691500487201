//! Opens a stored run: at its head, at an earlier record, with another state, for another version
//! of its graph, or as the start of a new run.
//!
//! The run is claimed before it is read, so that no other driver moves it. If it is rejected, the
//! claim is released. All checks come before the first write.

use crate::compile::plan::Plan;
use crate::control::Command;
use crate::durable::changes::{ResumeChanges, ResumePoint};
use crate::durable::migrate::Migrations;
use crate::error::{CheckpointError, ResumeError, RunFault, fault_of};
use crate::lease::{Moment, owner};
use crate::log::codec::{Codec, StoredStates, decode};
use crate::log::committer::RELEASE_MAX;
use crate::log::deadline::opened_until;
use crate::log::open::OpenedRun;
use crate::log::snapshot::{RunSnapshot, graph_of};
use crate::log::{LogOptions, open};
use crate::store::{Claim, GraphVersion, Held, Place, Release, RunInfo, RunStatus, StoreError};
use crate::util::future::either;
use pleach_core::{BoxError, Runtime, catch_panic};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a run is opened with, whatever the type of its state.
pub(crate) struct Opener {
    pub(crate) log_options: LogOptions,
    pub(crate) runtime: Arc<dyn Runtime>,
    /// The version of the graph that is to go on with it.
    pub(crate) version: GraphVersion,
    pub(crate) migrations: Migrations,
    /// The claim by which the run is held already, and when it was asked for.
    pub(crate) claimed: Option<(Claim, Moment)>,
}

impl Opener {
    /// Claims a run, if it is one of this graph and can be gone on with, and puts it where it is to go on.
    pub(crate) async fn reopen<S: Send + 'static>(
        mut self,
        plan: &Plan<S>,
        codec: Codec<S>,
        changes: ResumeChanges<S>,
        run: &str,
        force: bool,
    ) -> Result<OpenedRun, RunFault> {
        if changes.point != ResumePoint::Head || changes.replace.is_some() {
            self.log_options.timeout = self.log_options.timeout.anew();
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
        let (hold, had_ended) = (ClaimGuard::of(&self, info), info.status.has_ended());
        // Whoever held it until now may have moved it, and even brought it to its end.
        let checked = self.migrations.check(&plan.name, info, &self.version).and_then(|()| check_open(info, changes.point));
        let opening = async {
            checked?;
            let opened = self.open(plan, codec, changes, claim).await?;
            let opened = open::revive(opened).await.map_err(|error| fault_of(run, "", "commit", error))?;
            self.with_messages(opened, had_ended).await
        };
        let opened = opened_until(&self.runtime, until, opening).await;
        match opened {
            Ok(_) => hold.keep(),
            Err(_) => hold.release().await,
        }
        opened
    }

    /// Before anything runs: it may have been told to pause, or to end. A cancel that came just before the run ended is over with that end, and
    /// does not count for a run that is resumed or rewound after it.
    async fn with_messages(&self, mut opened: OpenedRun, had_ended: bool) -> Result<OpenedRun, RunFault> {
        let messages = open::untaken(&*self.log_options.store, &opened.info.id, opened.info.posted).await;
        opened.messages = messages.map_err(|error| fault_of(&*opened.info.id, "", "inbox", error))?;
        opened.log.note_read(&opened.messages, opened.info.posted);
        let OpenedRun { messages, log, .. } = &mut opened;
        log.leave_out_noted(messages);
        messages.retain(|message| {
            let is_over = had_ended && matches!(Command::parse(&message.post.name, b""), Some(Command::Cancel(_)));
            if is_over {
                log.take_refused(message.number);
            }
            !is_over
        });
        Ok(opened)
    }

    /// Begins the run `new` where the run `from` stands or stood. That one is only read.
    pub(crate) async fn fork<S: Send + 'static>(
        self,
        plan: &Plan<S>,
        codec: Codec<S>,
        changes: ResumeChanges<S>,
        from: &str,
        new: Arc<str>,
    ) -> Result<OpenedRun, RunFault> {
        let until = self.log_options.timeout.open_until(self.log_options.lease);
        let runtime = Arc::clone(&self.runtime);
        let forking = async move {
            let info = self.head(&plan.name, from).await?;
            let mut picture = self.picture(changes.point, &info).await?;
            self.change(&mut picture, plan, codec, changes, &info)?;
            if let Some(Place::End) = picture.root().map(|root| &root.at) {
                return Err(at_end(&picture, &info));
            }
            let owner = owner(&self.runtime);
            let id = Arc::clone(&new);
            let forked = picture.fork(self.log_options, self.runtime, new, (plan.name.clone(), self.version), owner).await;
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
        let mut picture = match is_moved || changes.validate.is_some() {
            true => Some(self.picture(changes.point, &info).await?),
            false => None,
        };
        if let Some(picture) = &mut picture {
            self.change(picture, plan, codec, changes, &info)?;
        }
        match picture.filter(|_| is_moved) {
            Some(picture) => picture
                .rewind(log_options, runtime, claim, version)
                .await
                .map_err(|error| fault_of(&*info.id, "", "commit", error)),
            None => {
                open::open(log_options, runtime, claim, version).await.map_err(|error| fault_of(&*info.id, "", "open", error))
            }
        }
    }

    /// The run as it is to be gone on with.
    async fn picture(&self, point: ResumePoint, info: &RunInfo) -> Result<RunSnapshot, RunFault> {
        let store = &*self.log_options.store;
        let picture = match point {
            ResumePoint::Head => RunSnapshot::at_head(store, info).await.map(Some),
            ResumePoint::After(sequence) if sequence == 0 || sequence > info.head => {
                Err(StoreError::NoSuchRow { run: info.id.clone(), sequence, head: info.head })
            }
            ResumePoint::After(sequence) => RunSnapshot::at(store, &info.id, sequence).await.map(Some),
            ResumePoint::LastStep => RunSnapshot::before_last_step(store, &info.id, info.head).await,
        };
        let picture = picture.map_err(|error| fault_of(&*info.id, "", "open", error))?;
        picture.ok_or_else(|| RunFault::Resume(ResumeError::NothingToReplay { run: info.id.clone() }))
    }

    /// Makes of it what it is to be, if nothing speaks against it.
    fn change<S: Send + 'static>(
        &self,
        picture: &mut RunSnapshot,
        plan: &Plan<S>,
        codec: Codec<S>,
        changes: ResumeChanges<S>,
        info: &RunInfo,
    ) -> Result<(), RunFault> {
        // A record of long ago may be of another version than the run.
        let is_migrated = *picture.version() != self.version;
        picture.keeps_keys = changes.point == ResumePoint::Head && changes.replace.is_none() && changes.from.is_none();
        if is_migrated {
            self.migrations.apply(plan, picture, info, &self.version)?;
        }
        if let Some(node) = changes.from {
            go_on_at(picture, node, info)?;
        }
        if let Some(replace) = changes.replace {
            replace_state(picture, codec, replace, info)?;
        }
        let validate = changes.validate;
        if !is_migrated && validate.is_none() {
            return Ok(());
        }
        picture.for_each_state(|held| {
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

/// What was undone, or cancelled for good, can only be gone on with from an earlier record.
fn check_open(info: &RunInfo, point: ResumePoint) -> Result<(), RunFault> {
    match info.status {
        RunStatus::Compensated | RunStatus::Cancelled if point == ResumePoint::Head => {
            Err(RunFault::Ended { run: info.id.clone(), status: info.status })
        }
        _ => Ok(()),
    }
}

/// Lets a run with one line of control go on at this node.
fn go_on_at(picture: &mut RunSnapshot, node: String, info: &RunInfo) -> Result<(), RunFault> {
    let run = info.id.clone();
    if picture.is_undoing() {
        return Err(RunFault::Resume(ResumeError::Undoing { run }));
    }
    match picture.root().map(|root| &root.at) {
        Some(Place::Node(_) | Place::Router(_) | Place::End) if picture.tokens().count() == 1 => {
            picture.place_root(Place::Node(node));
            Ok(())
        }
        _ => Err(RunFault::Resume(ResumeError::Branched { run, open: open_in(picture) })),
    }
}

/// Replaces the state of a run that has one.
fn replace_state<S>(
    picture: &mut RunSnapshot,
    codec: Codec<S>,
    replace: Box<dyn FnOnce(S) -> S + Send>,
    info: &RunInfo,
) -> Result<(), RunFault> {
    let run = || info.id.clone();
    if picture.is_undoing() {
        return Err(RunFault::Resume(ResumeError::Undoing { run: run() }));
    }
    match picture.root().map(|root| &root.at) {
        Some(Place::End) => return Err(at_end(picture, info)),
        Some(Place::Node(_) | Place::Router(_)) if picture.tokens().count() == 1 => {}
        _ => return Err(RunFault::Resume(ResumeError::Branched { run: run(), open: open_in(picture) })),
    }
    let mut replace = Some(replace);
    picture.for_each_state(|held| {
        let Some(replace) = replace.take() else { return Ok(()) };
        let StoredStates { state, .. } = decode(codec, held.record)?;
        let encoding = |why: BoxError| RunFault::Checkpoint(CheckpointError::new(run(), "", "encode", why));
        match catch_panic(|| codec.body(&replace(state), None)) {
            Ok(Ok(body)) => held.record.body = body,
            Ok(Err(error)) => return Err(encoding(error.into())),
            Err(reason) => return Err(encoding(format!("the new state was not made: {reason}").into())),
        }
        Ok(())
    })
}

/// The nodes whose fan-outs are open, and the subgraphs that are running.
fn open_in(picture: &RunSnapshot) -> Vec<String> {
    let mut open = BTreeSet::new();
    for token in picture.tokens() {
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

fn at_end(picture: &RunSnapshot, info: &RunInfo) -> RunFault {
    RunFault::Resume(ResumeError::AtEnd { run: info.id.clone(), sequence: picture.sequence() })
}

/// A run that is claimed and not yet driven: given up unless it is kept.
struct ClaimGuard {
    log_options: LogOptions,
    runtime: Arc<dyn Runtime>,
    held: Option<Held>,
}

impl ClaimGuard {
    fn of(opener: &Opener, info: &RunInfo) -> Self {
        // Whoever keeps its lease gives it up.
        let is_ours = opener.log_options.kept_lease.is_none();
        let held = is_ours.then(|| Held::of(info));
        Self { log_options: opener.log_options.clone(), runtime: Arc::clone(&opener.runtime), held }
    }

    /// Somebody else sees to it from now on.
    fn keep(mut self) {
        self.held = None;
    }

    /// Gives it up. If that fails, or is not answered soon, its lease will end.
    async fn release(mut self) {
        if let Some(given_up) = self.give_up() {
            let timer = self.runtime.sleep_until(self.runtime.now() + RELEASE_MAX);
            either(Box::pin(async move { drop(given_up.await) }), timer).await;
        }
    }

    fn give_up(&mut self) -> Option<impl Future<Output = Result<Vec<Held>, StoreError>> + Send + 'static> {
        let (held, store) = (self.held.take()?, Arc::clone(&self.log_options.store));
        Some(async move { store.release(vec![held], Release::AsIs).await })
    }
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        if let Some(given_up) = self.give_up() {
            self.runtime.spawn(Box::pin(async move { drop(given_up.await) }));
        }
    }
}
