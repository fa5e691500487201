//! [`KnownGraph`]: a graph that a worker can drive, with its state type erased.

use crate::compile::compiled::CompiledGraph;
use crate::control::{RunRef, RunRefusals};
use crate::durable::deploy::GraphExport;
use crate::durable::options::{DurableOptions, RunSource};
use crate::lease::Moment;
use crate::log::LogOptions;
use crate::run::options::RunOptions;
use crate::store::{Claim, GraphVersion};
use crate::worker::event::{DriveResult, RunEnd};
use pleach_core::{Name, Scope, catch_panic};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

pub(super) struct KnownGraph {
    /// The graph as data, with the versions that it accepts.
    pub(super) export: GraphExport,
    launch: Box<dyn Fn(Assignment<'_>) -> Option<RunRef> + Send + Sync>,
}

/// A claimed run that is about to be driven.
pub(super) struct Assignment<'a> {
    pub(super) scope: &'a Scope,
    pub(super) claimed: (Claim, Moment),
    pub(super) log_options: LogOptions,
    pub(super) refusals: Arc<RunRefusals>,
    /// Called after the run has ended and left the tree.
    pub(super) ended: Box<dyn FnOnce(DriveResult) + Send>,
}

impl KnownGraph {
    pub(super) fn new<S: Serialize + DeserializeOwned + Send + 'static>(
        graph: CompiledGraph<S>,
        options: impl Fn(RunOptions<'static, S>) -> RunOptions<'static, S> + Send + Sync + 'static,
    ) -> Self {
        let export = catch_panic(|| options(RunOptions::new(graph.clone(), None)).export()).unwrap_or_else(|reason| {
            tracing::error!(graph = graph.name(), %reason, "the options closure of this graph panicked; the worker claims only runs of schema 0, and each fails the same way");
            graph.export()
        });
        let launch = move |assignment: Assignment<'_>| {
            let Assignment { scope, claimed, log_options, refusals, ended } = assignment;
            let id: Arc<str> = claimed.0.run.id.as_str().into();
            let stored = DurableOptions::new(Arc::clone(&log_options.store), RunSource::Stored { takes_over: false });
            let run = match catch_panic(|| options(RunOptions::new(graph.clone(), None).stored(stored))) {
                Ok(run) => run,
                Err(reason) => {
                    ended(DriveResult::Trouble(format!("the options closure of its graph {reason}")));
                    return None;
                }
            };
            let run = run.assign(claimed, log_options).reporting(refusals).in_scope_as(scope, name_of(&id)).id(id);
            run.into_future().detach(move |outcome| {
                ended(outcome.as_ref().map_or_else(DriveResult::of, |_| DriveResult::Over(RunEnd::Finished)));
            })
        };
        Self { export, launch: Box::new(launch) }
    }

    /// Returns the name and versions of the runs that it can drive.
    pub(super) fn served(&self) -> impl Iterator<Item = (String, GraphVersion)> {
        let GraphExport { graph, schema, oldest_schema, fingerprints, .. } = &self.export;
        let schemas = *oldest_schema..=*schema;
        [&graph.fingerprint].into_iter().chain(fingerprints).flat_map(move |fingerprint| {
            let version = |schema| (graph.name.clone(), GraphVersion { fingerprint: fingerprint.clone(), schema });
            schemas.clone().map(version)
        })
    }

    pub(super) fn drives(&self, graph: &str, version: &GraphVersion) -> bool {
        self.export.claims(graph, version)
    }

    /// Drives a run in a new child scope of the given scope.
    pub(super) fn launch(&self, assignment: Assignment<'_>) -> Option<RunRef> {
        (self.launch)(assignment)
    }
}

impl fmt::Debug for KnownGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.export.graph.name, self.export.graph.fingerprint)
    }
}

/// Returns the name of a run in the tree: its id, or a hash of it if the id is not a valid path
/// segment.
pub(super) fn name_of(run: &str) -> String {
    match Name::new(run) {
        Ok(_) => run.to_string(),
        Err(_) => format!("run-{:016x}", BuildHasherDefault::<DefaultHasher>::default().hash_one(run)),
    }
}
