//! [`History`]: reads the checkpoints of a run, without a claim.

use crate::compile::compiled::CompiledGraph;
use crate::control::RunRemote;
use crate::durable::migrate::Migrations;
use crate::durable::states::state_record;
use crate::error::{CheckpointError, RunFault, fault_of};
use crate::log::codec::{Codec, decode};
use crate::log::failure::{can_fail, failure_of};
use crate::log::open;
use crate::log::snapshot::graph_of;
use crate::store::{
    Fork, GraphVersion, Header, Kind, Parts, Place, READ_ROWS_MAX, Rows, RunFailure, Store, StoreError, Timestamp,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// The checkpoints of one run. Returned by [`CompiledGraph::history`].
///
/// Reading does not claim the run, so it works while another process drives it.
///
/// ```
/// # use pleach::store::MemoryStore;
/// # use pleach::{END, Graph};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let graph = Graph::<u32>::new("adding")
/// #     .add_node("one", |n: u32| async move { n + 1 })
/// #     .add_node("ten", |n: u32| async move { n + 10 })
/// #     .add_edge("one", "ten").add_edge("ten", END).set_entry("one").compile()?;
/// # let store = MemoryStore::new();
/// graph.run(0).id("sum").checkpoint(&store).await?;
///
/// let history = graph.history("sum", &store);
/// let page = history.page(1, 100).await?;
/// let nodes: Vec<&str> = page.checkpoints.iter().map(|one| one.node.as_str()).collect();
/// assert_eq!(nodes, ["", "one", "ten"]);
/// assert_eq!(history.state(2).await?, 1);
/// # Ok(())
/// # }
/// ```
pub struct History<S> {
    run: Arc<str>,
    store: Arc<dyn Store>,
    migrations: Migrations,
    state: PhantomData<fn() -> S>,
}

/// One record of a run, without its state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checkpoint {
    /// The sequence number of the record, as [`rewind_to`](crate::Resume::rewind_to) takes it.
    pub sequence: u64,
    /// The kind of the record: start, step, effect and so on.
    pub kind: Kind,
    /// The node of the record; empty for the start.
    pub node: String,
    /// The next position of its token; `None` for a record written inside a node.
    pub next: Option<Place>,
    /// The number of the attempt, from 1; 0 for a record without one.
    pub attempt: u32,
    /// The number of visits that the run had completed.
    pub visits: u64,
    /// The time of the record, by the store's clock.
    pub at: Timestamp,
    /// The branches and subgraphs of its token, the outermost first.
    pub path: Vec<Fork>,
    /// The epoch of the driver that wrote the record.
    pub epoch: u64,
    /// The previous record of the same token; for a [`Rewind`](Kind::Rewind), the record that the
    /// run was rewound to. 0 for none.
    pub parent: u64,
    /// The sequence number of the last record of a set that is valid only together, such as a
    /// rewind.
    ///
    /// `None` for the last record of the set and for single records. A rewind to any record of the
    /// set goes to the last one.
    pub part_of: Option<u64>,
    /// The failure that the record contains: of an attempt, a branch, an undo or the run.
    pub failure: Option<RunFailure>,
}

/// One page of the checkpoints of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryPage {
    /// The checkpoints, ordered by sequence number.
    pub checkpoints: Vec<Checkpoint>,
    /// The first sequence number of the next page; `None` if no later record exists yet.
    pub next: Option<u64>,
}

impl<S: Serialize + DeserializeOwned + Send + 'static> CompiledGraph<S> {
    /// Returns the history of a run in this store: `graph.history("essay-7", &store).page(1,
    /// 100).await?`.
    ///
    /// This call reads nothing; [`History::page`] and [`History::state`] do.
    pub fn history(&self, run: impl Into<Arc<str>>, store: &(impl Store + Clone)) -> History<S> {
        History { run: run.into(), store: Arc::new(store.clone()), migrations: Migrations::new(), state: PhantomData }
    }
}

impl<S: Serialize + DeserializeOwned + Send + 'static> History<S> {
    /// Sets how [`state`](Self::state) migrates states of earlier schemas. Default: such a state is
    /// a [`Mismatch`](RunFault::Mismatch).
    pub fn migrations(mut self, migrations: &Migrations) -> Self {
        self.migrations = migrations.clone();
        self
    }

    /// Reads at most `count` checkpoints, starting at sequence number `first`. Pruned records are
    /// skipped.
    ///
    /// # Errors
    /// The store does not have the run, or it failed.
    pub async fn page(&self, first: u64, count: usize) -> Result<HistoryPage, StoreError> {
        page(&*self.store, &self.run, first, count).await
    }

    /// Reads the state of a checkpoint's token.
    ///
    /// For a step this is the state that the node returned; for a record written inside a node, the
    /// state that the node got. The state has the current schema of the run. A record of an earlier
    /// schema is [migrated](Self::migrations).
    ///
    /// # Errors
    /// - [`Checkpoint`](RunFault::Checkpoint): the record was pruned, or has the state of a
    ///   subgraph, which is of another type.
    /// - [`Mismatch`](RunFault::Mismatch): the record has an earlier schema and no migration leads
    ///   to the current one.
    pub async fn state(&self, sequence: u64) -> Result<S, RunFault> {
        let failed = |error| fault_of(&*self.run, "", "open", error);
        let mut record = state_record(&*self.store, &self.run, sequence).await.map_err(failed)?;
        let now = self.store.head(&self.run).await.map_err(failed)?.version.schema;
        let Header { schema, fingerprint, .. } = &record.header;
        let version = |schema| GraphVersion { fingerprint: fingerprint.clone(), schema };
        self.migrations.check_version(&self.run, &version(*schema), &version(now))?;
        let schemas = *schema..now;
        if !graph_of(&record.header.node).is_empty() {
            let Header { node, .. } = record.header;
            let reason = format!(
                "record {sequence} of run {:?} contains a state of subgraph {:?}, not of the run's graph",
                self.run,
                graph_of(&node)
            );
            return Err(RunFault::Checkpoint(CheckpointError::new(&*self.run, node.clone(), "decode", reason)));
        }
        record.body = self.migrations.migrate_body(std::mem::take(&mut record.body), "", (&self.run, sequence), schemas)?;
        decode(Codec::<S>::new(), &record).map(|stored| stored.state)
    }
}

/// Histories. They read the log of the run and need neither its graph nor a claim.
impl RunRemote {
    /// Reads at most `count` checkpoints, starting at sequence number `first`, as
    /// [`History::page`] does.
    ///
    /// # Errors
    /// The store does not have the run, or it failed.
    pub async fn history(&self, first: u64, count: usize) -> Result<HistoryPage, StoreError> {
        page(&**self.store(), self.id(), first, count).await
    }
}

/// Reads a page of checkpoints.
async fn page(store: &dyn Store, run: &str, first: u64, count: usize) -> Result<HistoryPage, StoreError> {
    let info = store.head(run).await?;
    let first = first.max(info.oldest);
    let last = info.head.min(first.saturating_add(count.min(READ_ROWS_MAX) as u64).saturating_sub(1));
    if first > last {
        return Ok(HistoryPage { checkpoints: Vec::new(), next: (first <= info.head).then_some(first) });
    }
    // The record before the first one shows whether the first ends the initial set of a forked
    // run.
    let before = if info.from.is_some() { first.saturating_sub(1).max(info.oldest) } else { first };
    let rows = store.read(run, Rows::Range(before..=last), Parts::Headers).await?;
    let (mut checkpoints, mut made_until) = (Vec::with_capacity(rows.len()), 1);
    for row in rows {
        let mut checkpoint = Checkpoint::new(row.sequence, row.open_header(run)?);
        // Only the creation of a forked run writes such records in epoch 1.
        if let (1, Some(whole)) = (checkpoint.epoch, checkpoint.part_of) {
            made_until = whole;
        }
        if checkpoint.sequence <= made_until {
            checkpoint.at = info.created;
        }
        checkpoints.push(checkpoint);
    }
    checkpoints.retain(|checkpoint| checkpoint.sequence >= first);
    add_failures(store, run, &mut checkpoints).await?;
    let next = checkpoints.last().map(|last: &Checkpoint| last.sequence + 1).filter(|next| *next <= info.head);
    Ok(HistoryPage { checkpoints, next })
}

/// Reads the bodies of the records that can contain a failure. A damaged body is left out, since
/// the list of checkpoints does not depend on it.
async fn add_failures(store: &dyn Store, run: &str, checkpoints: &mut [Checkpoint]) -> Result<(), StoreError> {
    let failed: Vec<u64> =
        checkpoints.iter().filter(|checkpoint| can_fail(checkpoint.kind)).map(|checkpoint| checkpoint.sequence).collect();
    let records = open::records(store, run, failed).await;
    for checkpoint in checkpoints.iter_mut().filter(|checkpoint| can_fail(checkpoint.kind)) {
        checkpoint.failure = match &records {
            Ok(records) => records.get(&checkpoint.sequence).and_then(failure_of),
            // One of them is damaged or was pruned meanwhile: read them one by one.
            Err(_) => open::failure_at(store, run, checkpoint.sequence).await?,
        };
    }
    Ok(())
}

impl Checkpoint {
    fn new(sequence: u64, header: Header) -> Self {
        let Header { kind, node, next, attempt, visits, at, path, epoch, parent, base, .. } = header;
        let part_of = base.filter(|base| *base > sequence);
        Self { sequence, kind, node, next, attempt, visits, at, path, epoch, parent, part_of, failure: None }
    }
}

impl<S> fmt::Debug for History<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "History({:?})", self.run)
    }
}
