//! [`RewindPreview`]: what a rewind, replay or fork would do, before it is done.
//!
//! The preview reads only the store. It assumes that the graph takes the same course again: that
//! nodes are deterministic and get the same answers.

use crate::control::RunRemote;
use crate::error::{ResumeError, RunFault, fault_of};
use crate::log::last_step::LastStep;
use crate::log::lines::{LogLines, Work, WorkId, WorkKind};
use crate::log::open;
use crate::log::snapshot::{RunSnapshot, undos_from};
use crate::store::{Place, Record, RunInfo, Store, StoreError, Timestamp};
use crate::token::{KeyMaker, TokenId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The largest number of entries in each list of a [`RewindPreview`].
pub const PREVIEW_MAX: usize = 10_000;

/// The position from which a run would continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RewindTo {
    /// After the record with this sequence number, as [`rewind_to`](crate::Resume::rewind_to) does.
    Record(u64),
    /// Before the last completed node, as [`replay_last`](crate::Resume::replay_last) does.
    LastStep,
    /// At the current position of the run.
    Head,
}

/// What a rewind, replay or fork would do. Returned by [`RunRemote::preview_rewind`].
///
/// The lists are exact if the graph takes the same course again. They name work that this run has
/// done and recorded; work that it has not done yet is not listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RewindPreview {
    /// The id of the run to go back.
    pub run: String,
    /// The record after which the run would continue.
    pub record: u64,
    /// The nodes at which the run would continue.
    pub nodes: Vec<String>,
    /// Effects that ran and would run again, with new idempotency keys.
    pub effects_again: Vec<EffectPreview>,
    /// Effects whose recorded results are used again by nodes that continue.
    pub effects_kept: Vec<EffectPreview>,
    /// Effects that were started and have no recorded result, so they may have happened.
    ///
    /// A node that calls such an effect with [`once`](crate::Effect::once) fails; any other runs it
    /// again.
    pub effects_unknown: Vec<EffectPreview>,
    /// Questions, signals and sleeps that the run would wait for again.
    pub waits_again: Vec<WaitPreview>,
    /// Questions, signals and sleeps whose recorded answers or deadlines are used again.
    pub waits_kept: Vec<WaitPreview>,
    /// Undos that would run if the run failed after going back, the last first.
    ///
    /// If [`is_undoing`](Self::is_undoing) is true, they run at once.
    pub undos_kept: Vec<UndoPreview>,
    /// Undos of later steps that would never run: their work stays done, the last first.
    pub undos_dropped: Vec<UndoPreview>,
    /// Whether the run has failed and its compensation would continue.
    pub is_undoing: bool,
    /// Whether a list was cut at [`PREVIEW_MAX`] entries.
    pub is_cut: bool,
}

/// One recorded effect of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EffectPreview {
    /// The name of the effect, as the node gave it.
    pub name: String,
    /// The node that ran this effect.
    pub node: String,
    /// The branch numbers of the node's token, the outermost first.
    pub branch: Vec<u32>,
    /// The idempotency key with which it ran.
    pub key: String,
    /// When its record was written, by the store's clock.
    pub at: Timestamp,
    /// The sequence number of its record.
    pub record: u64,
    /// Whether another run did it, from which this run was forked.
    #[serde(default)]
    pub is_copied: bool,
}

/// One recorded wait of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WaitPreview {
    /// The key of the question or sleep, or the name of the signal.
    pub key: String,
    /// The node that waited for it.
    pub node: String,
    /// The branch numbers of the node's token, the outermost first.
    pub branch: Vec<u32>,
    /// When its record was written, by the store's clock.
    pub at: Timestamp,
    /// The sequence number of its record.
    pub record: u64,
    /// The question as JSON, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// Whether it waits for a signal.
    #[serde(default)]
    pub is_signal: bool,
    /// The recorded end of a sleep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
}

/// The undo of one completed node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UndoPreview {
    /// The node whose work the undo reverts.
    pub node: String,
    /// When the node's record was written, by the store's clock.
    pub at: Timestamp,
    /// The sequence number of that record.
    pub record: u64,
}

/// Previews. They read the log of the run and need neither its graph nor a claim.
impl RunRemote {
    /// Returns what a rewind or replay would do: which effects would run again, which results are
    /// kept, which undos are dropped, which questions are asked again.
    ///
    /// Cost: reads all headers of the run's log, and the records of effects and waits.
    ///
    /// ```
    /// use pleach::durable::{RewindTo, RunRemote};
    /// use pleach::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let pay = |cx: NodeContext, cents: u32| async move {
    ///     cx.effect("charge", move |_key| async move { Ok::<_, String>(cents) }).await
    /// };
    /// let graph = Graph::<u32>::new("order").add_node("pay", pay).add_edge("pay", END).set_entry("pay").compile()?;
    /// let store = MemoryStore::new();
    /// graph.run(500).id("order-7").checkpoint(&store).await?;
    ///
    /// let preview = RunRemote::new(&store, "order-7").preview_rewind(RewindTo::Record(1)).await?;
    /// assert_eq!(preview.effects_again[0].name, "charge");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The same faults as the resume itself: an unknown or pruned record, nothing to replay, a
    /// store that failed.
    pub async fn preview_rewind(&self, to: RewindTo) -> Result<RewindPreview, RunFault> {
        let info = self.info().await?;
        preview(&**self.store(), &info, to, false).await
    }

    /// Returns what a fork from this position would do. The new run would undo none of the work of
    /// this run.
    ///
    /// # Errors
    /// As [`preview_rewind`](Self::preview_rewind), and [`ResumeError::AtEnd`] if the run had ended
    /// there.
    pub async fn preview_fork(&self, to: RewindTo) -> Result<RewindPreview, RunFault> {
        let info = self.info().await?;
        preview(&**self.store(), &info, to, true).await
    }

    async fn info(&self) -> Result<RunInfo, RunFault> {
        self.store().head(self.id()).await.map_err(|error| fault_of(self.id(), "", "open", error))
    }
}

async fn preview(store: &dyn Store, info: &RunInfo, to: RewindTo, is_fork: bool) -> Result<RewindPreview, RunFault> {
    let failed = |error| fault_of(&*info.id, "", "open", error);
    let (snapshot, step) = snapshot(store, info, to).await.map_err(failed)?;
    let Some(snapshot) = snapshot else {
        return Err(RunFault::Resume(ResumeError::NothingToReplay { run: info.id.clone() }));
    };
    let at = snapshot.sequence();
    if is_fork && snapshot.root().is_some_and(|root| root.at == Place::End) {
        return Err(RunFault::Resume(ResumeError::AtEnd { run: info.id.clone(), sequence: at }));
    }
    let mut lines = LogLines::read(store, info).await.map_err(failed)?;
    lines.add_kept(snapshot.records().cloned());
    let before = open::position(store, &info.id, at).await.map_err(failed)?.frontier;
    let head = open::position(store, &info.id, info.head).await.map_err(failed)?;
    let past = lines.past_after(at, info.head, &before, &head.frontier, snapshot.frontier(), step.as_ref());
    let kept: BTreeSet<u64> = snapshot.frontier().rows().filter_map(|row| Some(lines.work_of(row)?.0)).collect();
    let writer = PreviewWriter { info, lines: &lines };
    let mut preview = RewindPreview { run: info.id.clone(), record: at, ..RewindPreview::default() };
    preview.nodes =
        snapshot.tokens().filter_map(|token| Some(crate::compile::places::name_of(&token.at)?.to_string())).collect();
    writer.add_again(&mut preview, &past);
    writer.add_kept(&mut preview, &kept);
    let at_head = head.frontier.rows().filter_map(|row| Some(lines.work_of(row)?.0)).collect();
    writer.add_unknown(&mut preview, [&kept, &at_head]);
    preview.is_undoing = snapshot.is_undoing() && !is_fork;
    if !is_fork {
        let all = undos_from(store, &info.id, head.head.undo).await.map_err(failed)?;
        let stays: BTreeSet<u64> = snapshot.undos().map(|record| record.sequence).collect();
        preview.undos_kept = snapshot.undos().map(UndoPreview::of).rev().collect();
        let dropped = all.iter().rev().map(|(record, _)| record).filter(|record| !stays.contains(&record.sequence));
        preview.undos_dropped = dropped.map(UndoPreview::of).collect();
    }
    preview.cut();
    Ok(preview)
}

/// Reads the snapshot from which the run would continue, and the step that a replay repeats.
pub(super) async fn snapshot(
    store: &dyn Store,
    info: &RunInfo,
    to: RewindTo,
) -> Result<(Option<RunSnapshot>, Option<LastStep>), StoreError> {
    Ok(match to {
        RewindTo::Head => (Some(RunSnapshot::at_head(store, info).await?), None),
        RewindTo::Record(sequence) if sequence == 0 || sequence > info.head => {
            return Err(StoreError::NoSuchRow { run: info.id.clone(), sequence, head: info.head });
        }
        RewindTo::Record(sequence) => (Some(RunSnapshot::at(store, &info.id, sequence).await?), None),
        RewindTo::LastStep => {
            let snapshot = RunSnapshot::before_last_step(store, &info.id, info.head).await?;
            (snapshot, LastStep::find(store, &info.id, info.head).await?)
        }
    })
}

/// Turns work into the entries of a preview.
struct PreviewWriter<'a> {
    info: &'a RunInfo,
    lines: &'a LogLines,
}

impl PreviewWriter<'_> {
    /// Adds the work that the run did on any line and that is not in the past.
    ///
    /// The n-th time that a node does a piece of work is the same on each line. So of each kind of
    /// work as much is done again as the longest line has more than the past.
    fn add_again(&self, preview: &mut RewindPreview, past: &BTreeSet<u64>) {
        let done = self.count(past);
        let mut again: BTreeMap<WorkId, Vec<u64>> = BTreeMap::new();
        for end in self.lines.ends() {
            for (id, sequences) in self.count(&end) {
                // A question is settled by its answer, other work by its own record.
                let settled = match id.kind {
                    WorkKind::Answered | WorkKind::Started => continue,
                    WorkKind::Asked => WorkId { kind: WorkKind::Answered, ..id.clone() },
                    WorkKind::Effect | WorkKind::Sleep => id.clone(),
                };
                let done = done.get(&settled).map_or(0, Vec::len);
                let more: Vec<u64> = sequences.into_iter().skip(done).collect();
                if more.len() > again.get(&id).map_or(0, Vec::len) {
                    again.insert(id, more);
                }
            }
        }
        let sequences: BTreeSet<u64> = again.into_values().flatten().collect();
        self.add(sequences, &mut preview.effects_again, &mut preview.waits_again);
    }

    /// Adds the work of live visits whose results are used again.
    fn add_kept(&self, preview: &mut RewindPreview, kept: &BTreeSet<u64>) {
        let is_settled = |sequence: &u64| {
            let kind = self.lines.work.get(sequence).map(|work| work.id.kind);
            matches!(kind, Some(WorkKind::Effect | WorkKind::Answered | WorkKind::Sleep))
        };
        let settled = kept.iter().copied().filter(is_settled).collect();
        self.add(settled, &mut preview.effects_kept, &mut preview.waits_kept);
    }

    /// Adds effects that were started and have no result: in the visits that continue, and in the
    /// visits that are live now.
    fn add_unknown(&self, preview: &mut RewindPreview, live: [&BTreeSet<u64>; 2]) {
        let mut unknown = BTreeSet::new();
        for visits in live {
            let work = || visits.iter().filter_map(|sequence| Some((*sequence, &self.lines.work.get(sequence)?.id)));
            let results: BTreeSet<&WorkId> = work().filter(|(_, id)| id.kind == WorkKind::Effect).map(|(_, id)| id).collect();
            let started = work().filter(|(_, id)| id.kind == WorkKind::Started);
            let has_result = |id: &WorkId| results.contains(&WorkId { kind: WorkKind::Effect, ..id.clone() });
            unknown.extend(started.filter(|(_, id)| !has_result(id)).map(|(sequence, _)| sequence));
        }
        let effect = |sequence: u64| Some(self.effect(sequence, self.lines.work.get(&sequence)?));
        preview.effects_unknown = unknown.into_iter().filter_map(effect).collect();
    }

    /// Groups work by what it is, in the order of its records.
    fn count(&self, sequences: &BTreeSet<u64>) -> BTreeMap<WorkId, Vec<u64>> {
        let mut counted: BTreeMap<WorkId, Vec<u64>> = BTreeMap::new();
        for sequence in sequences {
            if let Some(work) = self.lines.work.get(sequence) {
                counted.entry(work.id.clone()).or_default().push(*sequence);
            }
        }
        counted
    }

    fn add(&self, sequences: BTreeSet<u64>, effects: &mut Vec<EffectPreview>, waits: &mut Vec<WaitPreview>) {
        for sequence in sequences {
            match self.lines.work.get(&sequence) {
                Some(work) if work.id.kind == WorkKind::Effect => effects.push(self.effect(sequence, work)),
                Some(work) => waits.push(WaitPreview::of(sequence, work)),
                None => {}
            }
        }
    }

    fn effect(&self, record: u64, work: &Work) -> EffectPreview {
        let Work { id, header, body } = work;
        let maker = KeyMaker { run: &self.info.id, instance: Some(self.info.instance), is_undo: false };
        let branch = header.path.last().map_or(0, |last| last.branch);
        let token = TokenId { sequence: self.lines.keys_of(header.parent), branch };
        EffectPreview {
            name: id.key.clone(),
            node: id.node.clone(),
            branch: id.branches.clone(),
            key: body.begun_with.clone().unwrap_or_else(|| maker.of_effect(token, &id.key)),
            at: header.at,
            record,
            is_copied: body.copied,
        }
    }
}

impl WaitPreview {
    fn of(record: u64, work: &Work) -> Self {
        let Work { id, header, body } = work;
        let question = body.value.as_ref().filter(|_| id.kind == WorkKind::Asked).map(|value| value.get().to_string());
        Self {
            key: id.key.clone(),
            node: id.node.clone(),
            branch: id.branches.clone(),
            at: header.at,
            record,
            question,
            is_signal: id.signal.is_some(),
            due: body.due,
        }
    }
}

impl UndoPreview {
    fn of(record: &Record) -> Self {
        Self { node: record.header.node.clone(), at: record.header.at, record: record.sequence }
    }
}

impl RewindPreview {
    /// Limits the length of each list.
    fn cut(&mut self) {
        let effects = [&mut self.effects_again, &mut self.effects_kept, &mut self.effects_unknown];
        let mut is_cut = self.nodes.len() > PREVIEW_MAX;
        self.nodes.truncate(PREVIEW_MAX);
        for list in effects {
            is_cut |= list.len() > PREVIEW_MAX;
            list.truncate(PREVIEW_MAX);
        }
        for list in [&mut self.waits_again, &mut self.waits_kept] {
            is_cut |= list.len() > PREVIEW_MAX;
            list.truncate(PREVIEW_MAX);
        }
        for list in [&mut self.undos_kept, &mut self.undos_dropped] {
            is_cut |= list.len() > PREVIEW_MAX;
            list.truncate(PREVIEW_MAX);
        }
        self.is_cut = is_cut;
    }
}

impl fmt::Display for RewindPreview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {:?} would continue after record {} at {}", self.run, self.record, self.nodes.join(", "))?;
        for (what, effects) in [
            ("runs again", &self.effects_again),
            ("keeps its result", &self.effects_kept),
            ("was started and has no result", &self.effects_unknown),
        ] {
            for EffectPreview { name, node, key, record, .. } in effects {
                write!(f, "\neffect {name:?} of node {node:?} {what} (record {record}, key {key})")?;
            }
        }
        for (what, waits) in [("is waited for again", &self.waits_again), ("keeps its answer", &self.waits_kept)] {
            for WaitPreview { key, node, record, .. } in waits {
                write!(f, "\n{key:?} of node {node:?} {what} (record {record})")?;
            }
        }
        let kept = if self.is_undoing { "runs now" } else { "runs if the run fails later" };
        for (what, undos) in [(kept, &self.undos_kept), ("never runs: its work stays done", &self.undos_dropped)] {
            for UndoPreview { node, record, .. } in undos {
                write!(f, "\nundo of node {node:?} {what} (record {record})")?;
            }
        }
        Ok(())
    }
}
