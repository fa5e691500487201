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
                Err(error) => {
                    let escalates = error.escalates();
                    Err(Box::new(Leaving { fault: error.into_fault(), escalates }) as BoxError)
                }
            }
        })
    }))
}

/// How a subgraph failed, on its way through the node that it is.
#[derive(Debug)]
struct Leaving {
    fault: RunFault,
    escalates: bool,
}

impl fmt::Display for Leaving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.fault, f)
    }
}

impl std::error::Error for Leaving {}

/// Why a node failed, seen from outside of it.
pub(super) enum Left {
    /// The whole run has ended inside it, and its policy has no say.
    Halted(RunFault),
    /// It failed, and if it is a subgraph, a policy inside may have said Escalate.
    Failed { reason: Reason, escalates: bool },
}

pub(super) fn left(reason: Reason) -> Left {
    let reason = match reason {
        Reason::Error(error) => match error.downcast::<Leaving>() {
            Ok(leaving) if leaving.fault.ends_run() => return Left::Halted(leaving.fault),
            Ok(leaving) => {
                return Left::Failed { reason: Reason::Error(Box::new(leaving.fault)), escalates: leaving.escalates };
            }
            Err(error) => Reason::Error(error),
        },
        other => other,
    };
    Left::Failed { reason, escalates: false }
}
