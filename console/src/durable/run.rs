//! The view `run`: one run, why it is where it is, and its relatives.

use super::StoreSource;
use crate::failure::Failure;
use crate::report::show::ShowJson;
use crate::report::times::rfc3339;
use crate::report::why::{self, WhyReport};
use crate::report::{NamedStore, VALUE_BYTES_MAX, Values};
use crate::view::RunAt;
use pleach::durable::{RunControlError, RunView};
use pleach::store::{Filter, LIST_MAX, RunFailure, RunInfo, StoreError};
use serde::Serialize;
use serde_json::Value;

/// The most tokens of one answer.
const TOKENS_MAX: usize = 100;

/// The bytes of states and questions in one answer. Several tokens share them.
const STATES_BYTES_MAX: usize = 4 * VALUE_BYTES_MAX;

/// The most open waits of one answer. They share the bytes of the states.
const WAITS_MAX: usize = 100;

/// The most refused messages of one answer, the last ones.
const REFUSED_MAX: usize = 20;

/// The most children of one answer.
const CHILDREN_MAX: usize = 50;

#[derive(Serialize)]
struct RunJson<'a> {
    /// Null if the row of the run is damaged.
    show: Option<ShowJson<'a>>,
    why: WhyReport,
    /// What is wrong with the stored bytes of the run.
    damage: Option<Damage>,
    /// The tokens and the open waits that `show` does not have.
    tokens_left_out: usize,
    waits_left_out: usize,
    children: Vec<Relative<'a>>,
    /// Whether older children were not looked for.
    is_cut: bool,
    parent: Option<Relative<'a>>,
    driver: Option<Driver>,
}

#[derive(Serialize)]
struct Damage {
    record: u64,
    text: String,
}

/// A run from which this run was forked, or that was forked from it.
#[derive(Serialize)]
struct Relative<'a> {
    run: &'a str,
    graph: Option<&'a str>,
    status: Option<&'static str>,
    relation: &'static str,
    record: u64,
}

/// Who drives a run. The member of the tree has the same process id and run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Driver {
    pub(crate) name: String,
    /// The process, as the name of the driver says.
    pub(crate) process: Option<u32>,
    pub(crate) lease_until: Option<String>,
    /// Whether the lease has not ended, and its process has not either, as far as is known.
    pub(crate) is_alive: bool,
}

pub(super) async fn view(source: &StoreSource, asked: &RunAt) -> Result<Value, Failure> {
    let (store, remote) = (source.store(), source.remote(&asked.run));
    let info = match store.store().head(&asked.run).await {
        Err(StoreError::Damaged { reason, .. }) => {
            let why = why::explain(store, &asked.run).await?;
            let damage = Some(Damage { record: 0, text: format!("the row of the run is damaged: {reason}") });
            let (children, parent, driver) = (Vec::new(), None, None);
            let (tokens_left_out, waits_left_out, is_cut) = (0, 0, false);
            let none = RunJson { show: None, why, damage, tokens_left_out, waits_left_out, children, is_cut, parent, driver };
            return super::value_of(&none);
        }
        found => found?,
    };
    let why = why::explain_run(store, info.clone()).await?;
    let (mut tokens_left_out, mut waits_left_out) = (0, 0);
    let view = match remote.view().await {
        Ok(mut view) => {
            (tokens_left_out, waits_left_out) = shorten(&mut view);
            Ok(view)
        }
        Err(RunControlError::Store(StoreError::Damaged { sequence, reason, .. })) => {
            Err(Damage { record: sequence, text: format!("record {sequence} of the log is damaged: {reason}") })
        }
        Err(error) => return Err(error.into()),
    };
    let (forks, is_cut) = forks(store, &info).await?;
    let values = view.as_ref().map_or(0, |view| view.tokens.len() + view.waits().count());
    let bytes_max = (STATES_BYTES_MAX / values.max(1)).min(VALUE_BYTES_MAX);
    let show = match &view {
        Ok(view) => ShowJson::of(store.name(), &info, view, Values::Text(bytes_max), TOKENS_MAX),
        Err(_) => ShowJson::of_row(store.name(), &info),
    };
    let parent = info.from.as_ref().map(|from| (from, "fork"));
    super::value_of(&RunJson {
        show: Some(show),
        why,
        tokens_left_out,
        waits_left_out,
        children: forks.iter().filter_map(Relative::fork).collect(),
        is_cut,
        parent: parent.map(|(from, relation)| Relative {
            run: &from.run,
            graph: None,
            status: None,
            relation,
            record: from.sequence,
        }),
        driver: driver(store, &info).await?,
        damage: view.as_ref().err().map(|damage| Damage { record: damage.record, text: damage.text.clone() }),
    })
}

/// Leaves out what an answer has no room for. Returns how many tokens and open waits that are.
fn shorten(view: &mut RunView) -> (usize, usize) {
    let tokens = view.tokens.len().saturating_sub(TOKENS_MAX);
    view.tokens.truncate(TOKENS_MAX);
    let (mut room, mut waits) = (WAITS_MAX, 0);
    for token in &mut view.tokens {
        waits += token.waits.len().saturating_sub(room);
        token.waits.truncate(room);
        room -= token.waits.len();
        token.failure = token.failure.take().map(RunFailure::shortened);
    }
    view.refused.drain(..view.refused.len().saturating_sub(REFUSED_MAX));
    (tokens, waits)
}

/// Returns who drives a run.
pub(crate) async fn driver(store: &NamedStore, info: &RunInfo) -> Result<Option<Driver>, Failure> {
    let Some(name) = info.owner.clone() else { return Ok(None) };
    let is_unexpired = match info.lease_until {
        Some(until) => until > store.now().await,
        None => false,
    };
    let is_alive = is_unexpired && store.is_holder_alive(&info.id).await? != Some(false);
    Ok(Some(Driver { process: process_of(&name), name, lease_until: info.lease_until.map(rfc3339), is_alive }))
}

/// Returns the process of a driver: its name begins with the id.
pub(super) fn process_of(driver: &str) -> Option<u32> {
    driver.split_once('-')?.0.parse().ok()
}

/// Looks for forks of a run among the newest runs of its graph. Returns whether there may be more.
async fn forks(store: &NamedStore, info: &RunInfo) -> Result<(Vec<RunInfo>, bool), Failure> {
    let filters = vec![Filter::Graph(info.graph.clone()), Filter::CreatedSince(info.created)];
    let page = store.store().list(filters, None, LIST_MAX).await?;
    let is_fork = |run: &RunInfo| run.from.as_ref().is_some_and(|from| from.run == info.id);
    let mut forks: Vec<RunInfo> = page.runs.into_iter().filter(is_fork).collect();
    let is_cut = page.next.is_some() || forks.len() > CHILDREN_MAX;
    forks.truncate(CHILDREN_MAX);
    Ok((forks, is_cut))
}

impl<'a> Relative<'a> {
    fn fork(run: &'a RunInfo) -> Option<Self> {
        let from = run.from.as_ref()?;
        let (graph, status) = (Some(run.graph.as_str()), Some(run.status.as_str()));
        Some(Self { run: &run.id, graph, status, relation: "fork", record: from.sequence })
    }
}
