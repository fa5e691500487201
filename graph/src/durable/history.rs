//! `History`: reads the checkpoints of a run, without a claim.

use crate::compile::compiled::CompiledGraph;
use crate::durable::migrate::Migrations;
use crate::error::{CheckpointError, RunFault, fault_of};
use crate::log::codec::{Codec, decode};
use crate::log::open;
use crate::log::snapshot::graph_of;
use crate::store::{Fork, GraphVersion, Header, Kind, Parts, Place, READ_ROWS_MAX, Record, Rows, Store, StoreError, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// The checkpoints of one run; from [`CompiledGraph::history`].
///
/// ```
/// # use pleach::store::MemoryStore;
/// # use pleach::{END, Graph};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let graph = Graph::<u32>::new("adding")
/// #     .add_node("one", |n: u32| async move { Ok::<_, String>(n + 1) })
/// #     .add_node("ten", |n: u32| async move { Ok::<_, String>(n + 10) })
/// #     .add_edge("one", "ten").add_edge("ten", END).set_entry("one").compile()?;
/// # let store = MemoryStore::new();
/// graph.run(0).id("sum").checkpoint(&store).await?;
///
/// let history = graph.history("sum", &store);
/// let page = history.page(1, 100).await?;
/// let nodes: Vec<&str> = page.checkpoints.iter().map(|checkpoint| checkpoint.node.as_str()).collect();
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

/// What one record of a run says, without its state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checkpoint {
    /// Its place in the log: what [`rewind_to`](crate::Resume::rewind_to) takes.
    pub sequence: u64,
    /// What happened.
    pub kind: Kind,
    /// The node that it is about; empty for the start.
    pub node: String,
    /// Where its line of control goes on; `None` for what happens inside a node.
    pub next: Option<Place>,
    /// The attempt at the node, from 1; 0 where there is none.
    pub attempt: u32,
    /// How many visits of nodes were over.
    pub visits: u64,
    /// When, by the store's clock.
    pub at: Timestamp,
    /// In which branches of which fan-outs and in which subgraphs, the outermost first.
    pub path: Vec<Fork>,
    /// The epoch of the driver that wrote it.
    pub epoch: u64,
    /// The record that it follows on its line of control; for a [`Rewind`](Kind::Rewind), the one that the run was rewound to. 0 if there is none.
    pub parent: u64,
    /// Set for records that make sense only together, as those of a rewind, except for the last of them: its sequence. Going back to any of them
    /// is going back to that one.
    pub part_of: Option<u64>,
}

/// Some checkpoints of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryPage {
    /// In the order of their sequences.
    pub checkpoints: Vec<Checkpoint>,
    /// Where the next page begins; `None` if this was the last, for now.
    pub next: Option<u64>,
}

impl<S: Serialize + DeserializeOwned + Send + 'static> CompiledGraph<S> {
    /// The checkpoints of a run in this store, to look at and to choose from: `graph.history("essay-7", &store).page(1, 100).await?`.
    pub fn history(&self, run: impl Into<Arc<str>>, store: &(impl Store + Clone)) -> History<S> {
        History { run: run.into(), store: Arc::new(store.clone()), migrations: Migrations::new(), state: PhantomData }
    }
}

impl<S: Serialize + DeserializeOwned + Send + 'static> History<S> {
    /// Migrates states of earlier schemas when they are read with [`state`](Self::state), as a resume would. Without them such a state is a
    /// [`Mismatch`](RunFault::Mismatch).
    pub fn migrations(mut self, migrations: &Migrations) -> Self {
        self.migrations = migrations.clone();
        self
    }

    /// At most so many checkpoints, from the sequence `first` on; those that were pruned are passed over.
    pub async fn page(&self, first: u64, count: usize) -> Result<HistoryPage, StoreError> {
        let info = self.store.head(&self.run).await?;
        let first = first.max(info.oldest);
        let last = info.head.min(first.saturating_add(count.min(READ_ROWS_MAX) as u64).saturating_sub(1));
        if first > last {
            return Ok(HistoryPage { checkpoints: Vec::new(), next: (first <= info.head).then_some(first) });
        }
        // The record before says whether the first is the last of those that a fork began with.
        let before = if info.from.is_some() { first.saturating_sub(1).max(info.oldest) } else { first };
        let rows = self.store.read(&self.run, Rows::Range(before..=last), Parts::Headers).await?;
        let (mut checkpoints, mut made_until) = (Vec::with_capacity(rows.len()), 1);
        for row in rows {
            let mut checkpoint = Checkpoint::new(row.sequence, row.open_header(&self.run)?);
            // The first driver writes such records only as it makes the run.
            if let (1, Some(whole)) = (checkpoint.epoch, checkpoint.part_of) {
                made_until = whole;
            }
            if checkpoint.sequence <= made_until {
                checkpoint.at = info.created;
            }
            checkpoints.push(checkpoint);
        }
        checkpoints.retain(|checkpoint| checkpoint.sequence >= first);
        let next = checkpoints.last().map(|last: &Checkpoint| last.sequence + 1).filter(|next| *next <= info.head);
        Ok(HistoryPage { checkpoints, next })
    }

    /// The state after this checkpoint, on the line of control that it is about: of a step, what its node made; of what happens inside a node, what
    /// the node was given. Inside a subgraph the state is of another type, and does not decode.
    ///
    /// It is given as of the schema that the run has now. A record of an earlier schema is [migrated](Self::migrations), or refused.
    pub async fn state(&self, sequence: u64) -> Result<S, RunFault> {
        let failed = |error| fault_of(&*self.run, "", "open", error);
        let mut record = self.record(sequence).await.map_err(failed)?;
        let now = self.store.head(&self.run).await.map_err(failed)?.version.schema;
        let Header { schema, fingerprint, .. } = &record.header;
        let version = |schema| GraphVersion { fingerprint: fingerprint.clone(), schema };
        self.migrations.check_version(&self.run, &version(*schema), &version(now))?;
        let schemas = *schema..now;
        if !graph_of(&record.header.node).is_empty() {
            let Header { node, .. } = record.header;
            let why = format!("record {sequence} of run {:?} has the state of the subgraph {:?}", self.run, graph_of(&node));
            return Err(RunFault::Checkpoint(CheckpointError::new(&*self.run, node.clone(), "decode", why)));
        }
        record.body = self.migrations.migrate_body(std::mem::take(&mut record.body), "", (&self.run, sequence), schemas)?;
        decode(Codec::<S>::new(), &record).map(|stored| stored.state)
    }

    /// The record that holds the state which counts after this one.
    async fn record(&self, sequence: u64) -> Result<Record, StoreError> {
        let (store, run) = (&*self.store, &*self.run);
        let mut found = open::records(store, run, vec![sequence]).await?;
        let missing = || StoreError::Damaged { run: run.to_string(), sequence, why: "it is not there" };
        let record = found.remove(&sequence).ok_or_else(missing)?;
        let holds_state = record.header.next.as_ref().is_some_and(|next| !matches!(next, Place::Failed(_)));
        if holds_state {
            return Ok(record);
        }
        // A token that nobody placed has the state of the fan-out above it.
        let stands = open::position(store, run, sequence).await?;
        let mut path = record.header.path.as_slice();
        loop {
            let row =
                stands.frontier.get(path).filter(|token| !matches!(token.at, Place::Failed(_))).map_or(0, |token| token.row);
            if row > 0 {
                return open::records(store, run, vec![row]).await?.remove(&row).ok_or_else(missing);
            }
            path = path.split_last().ok_or_else(missing)?.1;
        }
    }
}

impl Checkpoint {
    fn new(sequence: u64, header: Header) -> Self {
        let Header { kind, node, next, attempt, visits, at, path, epoch, parent, base, .. } = header;
        let part_of = base.filter(|base| *base > sequence);
        Self { sequence, kind, node, next, attempt, visits, at, path, epoch, parent, part_of }
    }
}

impl<S> fmt::Debug for History<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "History({:?})", self.run)
    }
}
