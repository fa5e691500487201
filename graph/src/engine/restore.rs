//! Restores the lanes of a resumed run: each live token becomes a lane, an arrived branch or an
//! open fan-out.

use crate::compile::plan::{BranchHeads, OutEdge, Plan};
use crate::control::RestoredWaits;
use crate::define::fan_out::Merge;
use crate::engine::fan_out::branches::{Branches, OpenFanOut};
use crate::engine::fan_out::join::fork_of;
use crate::engine::lane::{Lane, LaneVisit, Phase};
use crate::engine::{Engine, ROOT};
use crate::error::{CheckpointError, During, MismatchError, Outcome, RunError, RunFault, StoredFault};
use crate::log::codec::{StoredStates, decode};
use crate::log::visit::VisitRecords;
use crate::store::{Fork, LiveToken, Place, Record, StoreError};
use crate::token::{BranchPath, TokenId};
use pleach_core::catch_panic;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

impl<S: Send + 'static> Engine<S> {
    /// Restores every lane to its stored position. Returns the outcome if that ends the run.
    pub(crate) fn restore(&mut self) -> Result<Option<Outcome<S>>, RunFault> {
        let plan = &*Arc::clone(&self.plan);
        let (mut to_restore, mut opened) = (vec![ROOT], Vec::new());
        while let Some(number) = to_restore.pop() {
            let path = self.lane(number).path.forks();
            let Some(token) = self.log()?.token_at(&path) else { continue };
            if let Some(stored) = self.restore_lane(plan, number, &token)? {
                let place = self.reopen(plan, number, &token, stored, &mut to_restore)?;
                opened.push(place);
            }
        }
        // Inner fan-outs first: a join there may end a branch further out.
        for place in opened.into_iter().rev() {
            if self.branches.as_mut().is_some_and(|branches| branches.opened(place).is_some()) {
                let step = self.start_branches(plan, place);
                let ended = self.propagate(plan, step);
                if ended.is_some() {
                    return Ok(ended);
                }
            }
        }
        Ok(None)
    }

    /// Restores a lane to the position of its token. Returns the stored states if a fan-out is open
    /// there.
    fn restore_lane(&mut self, plan: &Plan<S>, number: usize, token: &LiveToken) -> Result<Option<StoredStates<S>>, RunFault> {
        let (at, is_done) = match &token.at {
            Place::Node(node) => (self.node(node)?, false),
            Place::Router(node) | Place::Fork(node) => (self.node(node)?, true),
            // The end has no node, so any number works.
            _ => (plan.shape.entry, true),
        };
        let visit = self.visit(token)?;
        let lane = self.lane(number);
        let TokenId { sequence, branch } = TokenId { sequence: token.id.sequence, branch: token.id.branch };
        (lane.at, lane.token) = (at, TokenId { sequence, branch });
        let failed = visit.records.lock().failed_permanently.take();
        lane.visit = Some(Box::new(visit));
        if is_done {
            lane.phase = Phase::NodeDone;
        } else if let Some(fault) = failed {
            // Its undo is already saved. Another attempt could save it twice.
            lane.phase = Phase::Failed(RunError::new(fault.into_fault(), None));
        }
        let is_implied = lane.fan_out.is_some() && token.path.last().is_some_and(|fork| fork.sequence == token.row);
        if token.row == 0 || is_implied {
            return Ok(None);
        }
        let record = self.record(token.row)?;
        let stored = self.decode(&record)?;
        let lane = self.lane(number);
        lane.iteration = record.header.iterations();
        if let Some(visit) = &mut lane.visit {
            visit.before = Some(record.body);
        }
        match (&token.at, &plan.nodes[at as usize].out_edge) {
            (Place::Fork(_), OutEdge::Fork(fork)) if stored.items.is_some() || matches!(fork.heads, BranchHeads::Each(..)) => {
                return Ok(Some(stored));
            }
            (Place::End, _) => lane.phase = Phase::Ended,
            _ => {}
        }
        lane.state = Some(stored.state);
        Ok(None)
    }

    /// Opens a fan-out again. Stores the results of ended branches, and creates lanes for the
    /// others that had started.
    fn reopen(
        &mut self,
        plan: &Plan<S>,
        parent: usize,
        token: &LiveToken,
        stored: StoredStates<S>,
        to_restore: &mut Vec<usize>,
    ) -> Result<usize, RunFault> {
        let StoredStates { state, items } = stored;
        let node = self.lane(parent).at;
        let fork = fork_of(plan, node);
        let total = match (&fork.heads, &items) {
            (BranchHeads::Each(heads, _), _) => heads.len(),
            (BranchHeads::Map(..), items) => items.as_ref().map_or(0, Vec::len),
        };
        let log = Arc::clone(self.log()?);
        let path_of = |branch: usize| {
            let last = Fork { sequence: token.row, branch: branch as u32 };
            token.path.iter().copied().chain([last]).collect::<Vec<Fork>>()
        };
        let mut known: Vec<(usize, LiveToken)> =
            (0..total).filter_map(|branch| Some((branch, log.token_at(&path_of(branch))?))).collect();
        let mut started_items: HashMap<usize, S> = HashMap::new();
        let mut unstarted_items = Vec::new();
        for (branch, item) in items.into_iter().flatten().enumerate() {
            match known.binary_search_by_key(&branch, |(branch, _)| *branch) {
                Ok(_) => drop(started_items.insert(branch, item)),
                Err(_) => unstarted_items.push(item),
            }
        }
        self.lane(parent).state = Some(state);
        let place = self.open_fan_out(plan, parent, token.row, Some((total, unstarted_items))).map_err(RunError::into_fault)?;
        self.opened(place).restored = known.iter().map(|(branch, _)| *branch).rev().collect();
        for (branch, token) in known.drain(..) {
            self.restore_branch(plan, place, branch, &token, started_items.remove(&branch), to_restore)?;
        }
        Ok(place)
    }

    fn restore_branch(
        &mut self,
        plan: &Plan<S>,
        place: usize,
        branch: usize,
        token: &LiveToken,
        item: Option<S>,
        to_restore: &mut Vec<usize>,
    ) -> Result<(), RunFault> {
        let OpenFanOut { node, parent, .. } = *self.opened(place);
        let iteration = self.lane(parent).iteration;
        let fork = fork_of(plan, node);
        match &token.at {
            Place::Join(_) => {
                let record = self.record(token.row)?;
                let state = self.decode(&record)?.state;
                let open = self.opened(place);
                open.iteration = open.iteration.max(record.header.iterations());
                open.ended[branch] = Some(Ok(state));
            }
            Place::Failed(_) => {
                let record = self.record(token.row)?;
                let fault: StoredFault = serde_json::from_slice(&record.body).map_err(|error| undecodable(&record, error))?;
                let error = RunError::new(fault.into_fault(), None);
                let open = self.opened(place);
                open.iteration = open.iteration.max(record.header.iterations());
                match fork.options.merge {
                    Merge::States(_) => drop(open.first_error.get_or_insert(error)),
                    Merge::Results(_) => open.ended[branch] = Some(Err(error)),
                }
            }
            _ => {
                let open = self.opened(place);
                let (head, cloned) = match &fork.heads {
                    BranchHeads::Each(heads, clone) => (heads[branch], Some(catch_panic(|| clone(&open.before)))),
                    BranchHeads::Map(head, _) => (*head, None),
                };
                let state = match cloned.transpose() {
                    Ok(cloned) => cloned.or(item),
                    Err(reason) => {
                        return Err(RunFault::panic(self.stepper.graph_cx.name(node).to_string(), During::CloneState, &reason));
                    }
                };
                let path = BranchPath::branch_of(&open.path, branch as u32);
                let id = TokenId { sequence: token.id.sequence, branch: token.id.branch };
                let spawned = open.spawned;
                open.running += 1;
                let mut lane = Lane::new(head, state, id, path, fork.join);
                (lane.fan_out, lane.spawned, lane.iteration) = (NonZeroU32::new(place as u32 + 1), spawned, iteration);
                to_restore.push(self.branches.get_or_insert_with(Branches::new).add(lane));
            }
        }
        Ok(())
    }

    /// Restores the visit records of a token.
    fn visit(&self, token: &LiveToken) -> Result<LaneVisit, RunFault> {
        let mut records = Vec::with_capacity(token.visit_records.len());
        for row in &token.visit_records {
            records.push(self.record(*row)?);
        }
        let damaged = |error| {
            CheckpointError::new(
                self.run_id(),
                "",
                "decode",
                format!("a visit record of an interrupted node cannot be read: {error}"),
            )
        };
        let records = VisitRecords::restore(records).map_err(|error| RunFault::Checkpoint(damaged(error)))?;
        let refusals = self.stepper.graph_cx.run().known_refusals();
        let restored_waits = refusals.and_then(|refusals| RestoredWaits::of(refusals, &token.visit_records));
        Ok(LaneVisit { records: Arc::new(records), before: None, _restored_waits: restored_waits })
    }

    /// Takes a record that the resume has read. Each record can be taken once.
    pub(crate) fn restored_record(&self, sequence: u64) -> Option<Record> {
        self.log().ok()?.take_restored(sequence)
    }

    fn log(&self) -> Result<&Arc<crate::log::RunLog>, RunFault> {
        self.stepper.graph_cx.run().log().ok_or(RunFault::NoRuntime)
    }

    fn run_id(&self) -> &str {
        self.stepper.graph_cx.run().id()
    }

    fn record(&self, sequence: u64) -> Result<Record, RunFault> {
        self.log()?.take_restored(sequence).ok_or_else(|| {
            let (run, reason) = (self.run_id().to_string(), "two tokens refer to it");
            RunFault::Checkpoint(CheckpointError::new(self.run_id(), "", "open", StoreError::Damaged { run, sequence, reason }))
        })
    }

    fn decode(&self, record: &Record) -> Result<StoredStates<S>, RunFault> {
        let codec = self.stepper.step_writer.as_ref().map(|step_writer| step_writer.codec).ok_or(RunFault::NoRuntime)?;
        decode(codec, record)
    }

    /// Returns the node of this graph that a record names.
    fn node(&self, name: &str) -> Result<u32, RunFault> {
        let names = 0..self.plan.names.len() as u32;
        names.into_iter().find(|node| *self.stepper.graph_cx.name(*node) == *name).ok_or_else(|| {
            let (run, stored) = (self.run_id().to_string(), name.to_string());
            RunFault::Mismatch(MismatchError { run, what: "node", stored, given: self.plan.name.clone() })
        })
    }
}

fn undecodable(record: &Record, error: serde_json::Error) -> RunFault {
    let reason =
        format!("record {} of run {:?} does not decode as the state of this graph: {error}", record.sequence, record.run);
    RunFault::Checkpoint(CheckpointError::new(&*record.run, record.header.node.clone(), "decode", reason))
}
