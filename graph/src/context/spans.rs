//! `tracing` spans: one for each run, and one for each attempt at a node, as its child.
//!
//! They are made only if a subscriber wants target `pleach::run` at level `INFO` when the run is
//! started. Such a run does not use the fast path. The span of a run is never entered: nodes run
//! inside their own spans.
//!
//! A stored run carries its W3C trace context as the tag [`TRACEPARENT_TAG`]. `tracing` knows
//! nothing of such contexts, so a function of the user ([`SpanLink`]) makes it the parent of the
//! run's span in each process that drives the run.

use crate::context::run_context::RunContext;
use crate::store::Tags;
use pleach_core::{BoxError, BoxFuture};
use std::fmt;
use std::sync::Arc;
use tracing::{Instrument as _, Level, Span};

/// The tag of a stored run that has its W3C `traceparent`.
pub const TRACEPARENT_TAG: &str = "traceparent";

/// Makes a remote trace context the parent of a run's span.
#[derive(Clone)]
pub(crate) struct SpanLink(pub(crate) Arc<LinkFn>);

/// Gets the span of a run, and the stored `traceparent`.
type LinkFn = dyn Fn(&Span, &str) + Send + Sync;

impl fmt::Debug for SpanLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SpanLink(..)")
    }
}

/// Returns whether a subscriber wants spans of runs.
pub(crate) fn are_wanted() -> bool {
    tracing::enabled!(target: "pleach::run", Level::INFO)
}

/// Begins the span of a run, as a child of the current span. It asks for no id: to make one takes a
/// random number, and a simulation must not depend on what is logged.
pub(crate) fn begin_run(run: &RunContext, graph: &str) {
    if !are_wanted() {
        return;
    }
    let span = tracing::info_span!(
        target: "pleach::run",
        "run",
        otel.name = %format_args!("run {graph}"),
        run = run.known_id().as_deref(),
        graph,
        otel.status_code = tracing::field::Empty,
    );
    drop(run.details().span.set(span));
}

/// Links the span of a stored run to the trace context that is stored with it.
pub(crate) fn link_run(run: &RunContext, tags: &Tags) {
    let (Some(span), Some(traceparent)) = (run.span(), tags.get(TRACEPARENT_TAG)) else { return };
    if let Some(SpanLink(link)) = run.extension::<SpanLink>() {
        // A panic of the user's function must not end the run.
        drop(pleach_core::catch_panic(|| link(span, traceparent)));
    }
}

/// What the span of an attempt says.
pub(crate) struct AttemptFields<'a> {
    pub(crate) node: &'a str,
    pub(crate) attempt: u32,
    pub(crate) branch: String,
}

/// Runs an attempt at a node inside of its span.
pub(crate) fn attempt<S: Send + 'static>(
    run: &RunContext,
    work: BoxFuture<'static, Result<S, BoxError>>,
    fields: &AttemptFields<'_>,
) -> BoxFuture<'static, Result<S, BoxError>> {
    let Some(parent) = run.span() else { return work };
    let AttemptFields { node, attempt, branch } = fields;
    let span = tracing::info_span!(
        target: "pleach::run",
        parent: parent,
        "node",
        otel.name = %format_args!("node {node}"),
        run = run.known_id().as_deref(),
        node,
        attempt,
        branch,
        otel.status_code = tracing::field::Empty,
    );
    let recorded = span.clone();
    let work = async move {
        let result = work.await;
        if result.is_err() {
            recorded.record("otel.status_code", "ERROR");
        }
        result
    };
    Box::pin(work.instrument(span))
}
