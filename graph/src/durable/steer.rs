//! Steering of a stored run without its graph: rewind, retry, fork and unstick.
//!
//! The typed way is [`Resume`](crate::Resume). Both write the same records. This one leaves the run
//! to the workers afterwards, and cannot migrate.
//!
//! Invariants:
//! 1. A run is claimed before it is read for a rewind or retry, so that no driver changes it.
//! 2. All checks come before the first write.
//! 3. One commit writes all records and releases the run. On every other path, [`ClaimGuard`]
//!    releases the claim.
//! 4. A fork only reads the original run. One call creates the new run.

use crate::control::{Command, RunRemote};
use crate::durable::options::{LEASE_DEFAULT, StorageOptions};
use crate::durable::preview::{RewindTo, snapshot};
use crate::durable::reopen::{ClaimGuard, check_replaceable};
use crate::error::{ResumeError, RunFault, fault_of};
use crate::lease::{ClaimCall, Moment, owner};
use crate::log::deadline::Timeout;
use crate::log::open::CommitExtras;
use crate::log::snapshot::RunSnapshot;
use crate::log::{LogOptions, open};
use crate::store::{BODY_BYTES_MAX, Claim, Held, Lease, Place, Release, RunInfo, RunStatus, StoreError, Wanted};
use crate::util::runtime;
use pleach_core::Runtime;
use serde_json::value::RawValue;
use std::sync::Arc;

/// Steering. It needs neither the graph of the run nor its state type. Workers continue the run.
///
/// # Errors
/// All these methods fail with a [`RunFault`], and leave the run unchanged:
/// - [`Held`](RunFault::Held): a driver executes the run. Pause the run first.
/// - [`Resume`](RunFault::Resume): the run cannot continue as requested; the [`ResumeError`] says
///   why.
/// - [`Checkpoint`](RunFault::Checkpoint): the record is unknown or was pruned, or the store
///   failed. After [`StoreError::Unavailable`], the call may have succeeded.
/// - [`NoRuntime`](RunFault::NoRuntime): the caller is neither in Tokio nor in an actor.
///
/// # Cancel safety
/// If a future is dropped, the call happens completely or not at all, and the run is released.
impl RunRemote {
    /// Continues the run after an earlier record, and returns the sequence number of its new head.
    ///
    /// [`preview_rewind`](Self::preview_rewind) lists what would run again. The records are those
    /// of [`Resume::rewind_to`](crate::Resume::rewind_to): nothing is deleted, and a deadline of
    /// the run is removed. A cancel that the ended run had not taken is dropped.
    ///
    /// ```
    /// use pleach::durable::RunRemote;
    /// use pleach::prelude::*;
    /// use pleach::store::RunStatus;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let graph = Graph::<u32>::new("double")
    /// #     .add_node("double", |n: u32| async move { Ok::<_, String>(n * 2) })
    /// #     .add_edge("double", END)
    /// #     .set_entry("double")
    /// #     .compile()?;
    /// let store = MemoryStore::new();
    /// graph.run(21).id("job-1").checkpoint(&store).await?;
    ///
    /// let remote = RunRemote::new(&store, "job-1");
    /// remote.rewind_to(1).await?;
    /// assert_eq!(remote.view().await?.status, RunStatus::Running);
    /// // A worker would continue it.
    /// assert_eq!(graph.resume("job-1").checkpoint(&store).await?, 42);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ResumeError::AtEnd`] if the run had ended at this record, and
    /// [`ResumeError::OtherVersion`] if another version of the graph wrote it.
    pub async fn rewind_to(&self, record: u64) -> Result<u64, RunFault> {
        let claimed = self.claim(false, |_| Ok(())).await?;
        let info = claimed.claim.0.run.clone();
        let rewinding = async {
            let store = &**self.store();
            let found = snapshot(store, &info, RewindTo::Record(record)).await;
            let (found, _) = found.map_err(|error| fault_of(self.id(), "", "open", error))?;
            let found = found.ok_or_else(|| RunFault::Resume(ResumeError::NothingToReplay { run: info.id.clone() }))?;
            check_version(&found, &info)?;
            check_not_at_end(&found, &info)?;
            let extras = CommitExtras { takes: self.late_cancels(&info).await?, releases: true };
            let options = self.log_options(Timeout::default().replacing_stored());
            let (runtime, version) = (Arc::clone(&claimed.runtime), info.version.clone());
            let rewound = found.rewind(options, runtime, claimed.claim.clone(), version, extras).await;
            rewound.map(|opened| opened.log.last_durable()).map_err(|error| fault_of(self.id(), "", "commit", error))
        };
        let rewound = rewinding.await;
        claimed.guard.end(rewound).await
    }

    /// Continues a failed run at the node that failed, and returns the sequence number of its new
    /// head.
    ///
    /// A run whose compensation failed continues with the undo that failed. Recorded effects and
    /// answers of the node are used again, under their keys, as a plain
    /// [`resume`](crate::CompiledGraph::resume) does.
    ///
    /// # Errors
    /// [`ResumeError::NotFailed`] for a run with another status. [`rewind_to`](Self::rewind_to)
    /// continues a cancelled, compensated or finished run.
    pub async fn retry(&self) -> Result<u64, RunFault> {
        let is_failed = |info: &RunInfo| match info.status {
            RunStatus::Failed | RunStatus::CompensationFailed => Ok(()),
            status => Err(RunFault::Resume(ResumeError::NotFailed { run: info.id.clone(), status })),
        };
        let claimed = self.claim(false, is_failed).await?;
        let info = claimed.claim.0.run.clone();
        let retrying = async {
            let extras = CommitExtras { takes: self.late_cancels(&info).await?, releases: true };
            let (options, runtime) = (self.log_options(Timeout::default()), Arc::clone(&claimed.runtime));
            let opened = open::open(options, runtime, claimed.claim.clone(), info.version.clone()).await;
            let opened = opened.map_err(|error| fault_of(self.id(), "", "open", error))?;
            let revived = open::revive(opened, extras).await;
            revived.map(|opened| opened.info.head).map_err(|error| fault_of(self.id(), "", "commit", error))
        };
        let retried = retrying.await;
        claimed.guard.end(retried).await
    }

    /// Creates the run `new` from this run, which is only read, and returns a handle to it.
    ///
    /// `state` replaces the state: a JSON text, which is stored with all its digits. It is not
    /// compared with the state type of the graph; a driver that cannot decode it fails. The new run
    /// has the tags of this run and no deadline.
    ///
    /// # Errors
    /// [`RunFault::Exists`] if the store has a run with the new id, [`ResumeError::AtEnd`] if this
    /// run had ended at the record, [`ResumeError::OtherVersion`] if another version of the graph
    /// wrote it. With a new state: [`ResumeError::NotJson`], [`ResumeError::Branched`] if the run
    /// has more than one state there, [`ResumeError::Undoing`] if it is being undone.
    pub async fn fork_to(&self, new: impl Into<Arc<str>>, from: RewindTo, state: Option<&str>) -> Result<Self, RunFault> {
        let (new, runtime): (Arc<str>, _) = (new.into(), runtime::find().ok_or(RunFault::NoRuntime)?);
        let (mut found, info) = self.continuable(from).await?;
        if let Some(state) = state {
            replace_state(&mut found, state, &info)?;
        }
        let (graph, options) = ((info.graph, info.version), self.log_options(Timeout::default()));
        let forked = found.fork(options, runtime, Arc::clone(&new), graph, None, info.tags).await;
        forked.map_err(|error| fault_of(&*new, "", "create", error))?;
        Ok(Self::of(Arc::clone(self.store()), new))
    }

    /// Checks whether [`rewind_to`](Self::rewind_to) would be possible now. Changes nothing.
    ///
    /// # Errors
    /// Those of `rewind_to`, except [`Held`](RunFault::Held): the run is not claimed.
    pub async fn check_rewind(&self, record: u64) -> Result<(), RunFault> {
        self.continuable(RewindTo::Record(record)).await.map(drop)
    }

    /// Checks whether [`fork_to`](Self::fork_to) would be possible now. Creates nothing.
    ///
    /// # Errors
    /// Those of `fork_to`, except [`Exists`](RunFault::Exists): the id of the new run is not
    /// needed.
    pub async fn check_fork(&self, from: RewindTo, state: Option<&str>) -> Result<(), RunFault> {
        let (mut found, info) = self.continuable(from).await?;
        state.map_or(Ok(()), |state| replace_state(&mut found, state, &info))
    }

    /// Lets workers claim a stuck run again.
    ///
    /// Remove the cause first: [`RunView::trouble`](crate::RunView::trouble) has it. After the same
    /// number of failed attempts the run is stuck again.
    ///
    /// # Errors
    /// [`ResumeError::NotStuck`] if the run is not stuck.
    pub async fn unstick(&self) -> Result<(), RunFault> {
        let is_stuck = |info: &RunInfo| match info.status {
            RunStatus::Stuck => Ok(()),
            status => Err(RunFault::Resume(ResumeError::NotStuck { run: info.id.clone(), status })),
        };
        let claimed = self.claim(true, is_stuck).await?;
        // The claim has made the run due.
        let held = vec![Held::of(&claimed.claim.0.run)];
        let released = self.store().release(held, Release::AsIs).await;
        let released = released.map(drop).map_err(|error| fault_of(self.id(), "", "release", error));
        claimed.guard.end(released).await
    }

    /// Reads a position from which the run can continue.
    async fn continuable(&self, from: RewindTo) -> Result<(RunSnapshot, RunInfo), RunFault> {
        let failed = |error| fault_of(self.id(), "", "open", error);
        let info = self.store().head(self.id()).await.map_err(failed)?;
        let (found, _) = snapshot(&**self.store(), &info, from).await.map_err(failed)?;
        let found = found.ok_or_else(|| RunFault::Resume(ResumeError::NothingToReplay { run: info.id.clone() }))?;
        check_version(&found, &info)?;
        check_not_at_end(&found, &info)?;
        Ok((found, info))
    }

    /// Checks the run, claims it without waiting for another driver, and checks it again.
    async fn claim(&self, force: bool, check: impl Fn(&RunInfo) -> Result<(), RunFault>) -> Result<ClaimedRun, RunFault> {
        let runtime = runtime::find().ok_or(RunFault::NoRuntime)?;
        let failed = |error| fault_of(self.id(), "", "claim", error);
        check(&self.store().head(self.id()).await.map_err(failed)?)?;
        let (lease, asked_at) = (Lease { owner: owner(&runtime), length: LEASE_DEFAULT }, Moment::now(&*runtime));
        let wanted = Wanted::One { run: self.id().to_string(), force };
        let claims = ClaimCall::claim(self.store(), &runtime, wanted, lease).await.map_err(failed)?;
        let not_found = || failed(StoreError::RunNotFound { run: self.id().to_string() });
        let claim = claims.into_iter().next().ok_or_else(not_found)?;
        let guard = ClaimGuard::new(self.log_options(Timeout::default()), Arc::clone(&runtime), Held::of(&claim.run));
        // A driver may have changed the run since the first check. A forced claim has changed it
        // itself.
        match check(&claim.run) {
            Err(fault) if !force => guard.end(Err(fault)).await,
            _ => Ok(ClaimedRun { claim: (claim, asked_at), guard, runtime }),
        }
    }

    /// Returns the numbers of the cancels that came too late for the end of the run.
    async fn late_cancels(&self, info: &RunInfo) -> Result<Vec<u64>, RunFault> {
        if !info.status.has_ended() {
            return Ok(Vec::new());
        }
        let messages = open::untaken(&**self.store(), self.id(), info.last_message).await;
        let messages = messages.map_err(|error| fault_of(self.id(), "", "inbox", error))?;
        let is_cancel = |name: &str| matches!(Command::parse(name, b""), Some(Command::Cancel(_)));
        Ok(messages.into_iter().filter(|message| is_cancel(&message.message.name)).map(|message| message.number).collect())
    }

    /// Returns options that accept everything that the driver of the run has stored.
    fn log_options(&self, timeout: Timeout) -> LogOptions {
        let StorageOptions { lease, rows_kept, commit_rows_max, .. } = StorageOptions::default();
        LogOptions {
            store: Arc::clone(self.store()),
            lease,
            body_bytes_max: BODY_BYTES_MAX,
            rows_kept,
            commit_rows_max,
            is_best_effort: false,
            worker_lease: None,
            hold_waiting_for: None,
            monitor: Arc::default(),
            timeout,
        }
    }
}

/// A run that is claimed to be steered.
struct ClaimedRun {
    claim: (Claim, Moment),
    guard: ClaimGuard,
    runtime: Arc<dyn Runtime>,
}

/// Rejects a record of another version of the graph: only a program with migrations can continue
/// from it.
fn check_version(snapshot: &RunSnapshot, info: &RunInfo) -> Result<(), RunFault> {
    if *snapshot.version() == info.version {
        return Ok(());
    }
    let (run, sequence) = (info.id.clone(), snapshot.sequence());
    let (stored, current) = (snapshot.version().clone(), info.version.clone());
    Err(RunFault::Resume(ResumeError::OtherVersion { run, sequence, stored, current }))
}

/// Rejects a position from which nothing would run.
fn check_not_at_end(snapshot: &RunSnapshot, info: &RunInfo) -> Result<(), RunFault> {
    match snapshot.root().map(|root| &root.at) {
        Some(Place::End) if !snapshot.is_undoing() => {
            Err(RunFault::Resume(ResumeError::AtEnd { run: info.id.clone(), sequence: snapshot.sequence() }))
        }
        _ => Ok(()),
    }
}

/// Replaces the state of a run with a single token by a JSON text.
fn replace_state(snapshot: &mut RunSnapshot, state: &str, info: &RunInfo) -> Result<(), RunFault> {
    let state: &RawValue = serde_json::from_str(state)
        .map_err(|reason| RunFault::Resume(ResumeError::NotJson { run: info.id.clone(), reason }))?;
    check_replaceable(snapshot, info)?;
    let mut body = Some(format!(r#"{{"state":{state}}}"#).into_bytes());
    snapshot.for_each_state(|held| {
        if let Some(body) = body.take() {
            held.record.body = body;
        }
        Ok(())
    })
}
