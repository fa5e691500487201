//! A graph as a node of another: it runs in the engine's own poll, with its own state, as a part of the same run.

use super::Engine;
use crate::CompiledGraph;
use crate::error::RunFault;
use crate::node::Call;
use crate::shared::Shared;
use pleach_core::{BoxError, Reason};
use std::fmt;
use std::sync::Arc;

/// The code of a node that is a graph.
pub(crate) fn call<S: Send + 'static, T: Send + 'static>(
    graph: CompiledGraph<T>,
    project: impl Fn(&S) -> T + Send + Sync + 'static,
    merge: impl Fn(S, T) -> S + Send + Sync + 'static,
) -> Call<S> {
    let parts = Arc::new((graph, project, merge));
    Call::Context(Box::new(move |cx, state| {
        let parts = Arc::clone(&parts);
        Box::pin(async move {
            let (graph, project, merge) = &*parts;
            let shared = Shared::of_subgraph(Arc::clone(&graph.plan.names), &cx.shared, cx.node);
            let inner = project(&state);
            let engine = Engine::of_subgraph(Arc::clone(&graph.plan), shared, &cx.branch, inner);
            match engine.await {
                Ok(inner) => Ok(merge(state, inner)),
                Err(error) => Err(leaving(error.into_fault())),
            }
        })
    }))
}

/// What ends the whole run passes through the node that is the subgraph, untouched by its policy; other faults are errors of
/// that node.
fn leaving(fault: RunFault) -> BoxError {
    if fault.ends_run() { Box::new(Halt(fault)) } else { Box::new(fault) }
}

#[derive(Debug)]
struct Halt(RunFault);

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for Halt {}

/// The fault that ended the whole run from inside a subgraph, if that is what `reason` is.
pub(super) fn halted(reason: Reason) -> Result<RunFault, Reason> {
    match reason {
        Reason::Error(error) => error.downcast::<Halt>().map(|halt| halt.0).map_err(Reason::Error),
        other => Err(other),
    }
}
