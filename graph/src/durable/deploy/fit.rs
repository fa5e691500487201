//! [`RunFit`]: how a stored run fits the graphs of a program. The decision is pure.

use crate::compile::inspect::NodeInfo;
use crate::compile::places::{fork_above, missing_place, name_of};
use crate::durable::deploy::GraphExport;
use crate::durable::migrate::new_name;
use crate::log::frontier::{Frontier, undone_at};
use crate::store::{GraphVersion, Place, RunInfo, RunStatus};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a stored run fits the graphs of a program: whether the program would serve it.
///
/// `Display` says what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunFit {
    /// The program serves the run as it is.
    Served,
    /// The program migrates the run to a new version and serves it.
    Migrated,
    /// The program serves the run, and a node that it is at now has other edges or another policy.
    ChangesCourse,
    /// The program has no graph with the name of the run's graph.
    UnknownGraph,
    /// The graph has other nodes or edges, and the program does not accept the run's fingerprint.
    UnknownFingerprint,
    /// The run has a newer schema than the program.
    NewerSchema,
    /// No chain of migrations leads from the run's schema to the program's.
    NoSchemaMigration,
    /// The program claims the run, and its migrations do not accept another graph shape.
    NoShapeMigration,
    /// The run is at a node that the graph no longer has.
    MissingNode,
    /// A newer version of this library wrote the run, or one with the feature `zstd`.
    NewerFormat,
    /// The stored bytes of the run are damaged.
    Damaged,
    /// The run could not be driven repeatedly and is set aside.
    Stuck,
}

impl RunFit {
    /// Decides from the version of a run's graph.
    pub(crate) fn of(graphs: &[GraphExport], graph: &str, version: &GraphVersion) -> Self {
        of_version(graphs, graph, version)
    }

    /// Returns whether the program serves such runs.
    pub fn is_served(self) -> bool {
        matches!(self, Self::Served | Self::Migrated | Self::ChangesCourse)
    }
}

impl fmt::Display for RunFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Served => "served",
            Self::Migrated => "served after a migration",
            Self::ChangesCourse => "served, and a current node has other edges or another policy now",
            Self::UnknownGraph => "not served: no graph has this name; add the graph to a worker",
            Self::UnknownFingerprint => {
                "not served: the graph has other nodes or edges; call `accept_fingerprints` with a migration, or keep a worker of the old version"
            }
            Self::NewerSchema => "not served: the run has a newer schema; deploy the newer program",
            Self::NoSchemaMigration => "not served: no migration leads from this schema; add `Migrations::state` steps",
            Self::NoShapeMigration => {
                "not served: the fingerprint is accepted without a migration, so each attempt fails; call `Migrations::accept_compatible` or `rename_node`"
            }
            Self::MissingNode => "not served: a current node no longer exists; call `Migrations::rename_node`, or keep the node",
            Self::NewerFormat => "not served: a newer version of pleach wrote the run; upgrade this program",
            Self::Damaged => "not served: the stored bytes are damaged; restore them from a backup, or rewind the run",
            Self::Stuck => "not served: the run is stuck; remove the cause, then resume it with `take_over`",
        })
    }
}

/// Decides from the run's own row.
pub(super) fn of_row(graphs: &[GraphExport], info: &RunInfo) -> RunFit {
    match of_version(graphs, &info.graph, &info.version) {
        fit if fit.is_served() && info.status == RunStatus::Stuck => RunFit::Stuck,
        fit => fit,
    }
}

/// Decides from the version of the run's graph.
fn of_version(graphs: &[GraphExport], graph: &str, version: &GraphVersion) -> RunFit {
    if let Some(export) = graphs.iter().find(|export| export.claims(graph, version)) {
        let is_same_shape = export.graph.fingerprint == version.fingerprint;
        return match (is_same_shape, export.accepts_other_shapes) {
            (true, _) if export.schema == version.schema => RunFit::Served,
            (true, _) | (false, true) => RunFit::Migrated,
            (false, false) => RunFit::NoShapeMigration,
        };
    }
    let named: Vec<&GraphExport> = graphs.iter().filter(|export| export.graph.name == graph).collect();
    let mut same_shape = named.iter().filter(|export| export.accepts_fingerprint(&version.fingerprint)).peekable();
    match (named.is_empty(), same_shape.peek().is_some()) {
        (true, _) => RunFit::UnknownGraph,
        (false, false) => RunFit::UnknownFingerprint,
        (false, true) if same_shape.all(|export| export.schema < version.schema) => RunFit::NewerSchema,
        (false, true) => RunFit::NoSchemaMigration,
    }
}

/// Refines the fit of a served run by its current tokens. Returns the node that decided.
pub(super) fn of_tokens(
    graphs: &[GraphExport],
    previous: &[GraphExport],
    info: &RunInfo,
    frontier: &Frontier,
) -> (RunFit, Option<String>) {
    let fit = of_row(graphs, info);
    let Some(export) = graphs.iter().find(|export| export.claims(&info.graph, &info.version)) else { return (fit, None) };
    let is_other = export.graph.fingerprint != info.version.fingerprint;
    let renamed = renamed(frontier, if is_other { &export.renames } else { &[] });
    let of_run = || renamed.tokens().filter(|token| undone_at(&token.path).is_none());
    for token in of_run().filter(|_| is_other) {
        let above = fork_above(|path| renamed.get(path), token);
        if let Some(missing) = missing_place(&export.graph, token, above) {
            return (RunFit::MissingNode, Some(missing.to_string()));
        }
    }
    let is_old = |old: &&GraphExport| old.graph.name == info.graph && old.graph.fingerprint == info.version.fingerprint;
    let Some(old) = previous.iter().find(is_old) else { return (fit, None) };
    for (before, now) in frontier.tokens().zip(renamed.tokens()) {
        let (Some(before), Some(now)) = (name_of(&before.at), name_of(&now.at)) else { continue };
        if let (Some(before), Some(now)) = (old.graph.node(before), export.graph.node(now))
            && !leads_alike(before, now, &export.renames)
        {
            return (RunFit::ChangesCourse, Some(now.id.clone()));
        }
    }
    (fit, None)
}

/// Returns the frontier with the new names of its nodes.
fn renamed(frontier: &Frontier, renames: &[(String, String)]) -> Frontier {
    let mut tokens = frontier.list();
    for token in &mut tokens {
        if let Place::Node(name) | Place::Router(name) | Place::Fork(name) | Place::Join(name) | Place::Failed(name) =
            &mut token.at
            && let Some(new) = new_name(renames, name)
        {
            *name = new;
        }
    }
    Frontier::of(tokens)
}

/// Returns whether two versions of a node lead to the same nodes, with the same policy.
fn leads_alike(before: &NodeInfo, now: &NodeInfo, renames: &[(String, String)]) -> bool {
    // Both sides are mapped, because the targets of a choice have no order.
    let (before, now) = (before.clone().map_ids(|id| new_name(renames, id)), now.clone().map_ids(|_| None));
    before.leads_to == now.leads_to
        && before.fallback == now.fallback
        && before.subgraph == now.subgraph
        && before.policy == now.policy
}
