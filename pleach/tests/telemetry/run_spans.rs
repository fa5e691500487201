//! O4: one span for each run and each attempt at a node; stored runs keep their trace context.

use crate::capture::{SpanRecord, capture};
use crate::common::Log;
use pleach::graph::Retry;
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::store::{MemoryStore, Store};
use pleach::telemetry::TRACEPARENT_TAG;
use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use tracing::Level;

const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn named<'a>(spans: &'a [SpanRecord], name: &str) -> Vec<&'a SpanRecord> {
    spans.iter().filter(|span| span.target == "pleach::run" && span.name == name).collect()
}

/// A graph whose node `flaky` fails once, and that then waits for an answer.
fn graph() -> CompiledGraph<u32> {
    let attempts = Arc::new(AtomicU32::new(0));
    let flaky = move |n: u32| {
        let attempts = Arc::clone(&attempts);
        async move { if attempts.fetch_add(1, Relaxed) == 0 { Err("not yet".into()) } else { Ok::<_, pleach::BoxError>(n + 1) } }
    };
    Graph::<u32>::new("spanned")
        .add_node("flaky", flaky)
        .policy("flaky", Policy::new().retry(Retry::times(2)))
        .add_node("ask", |cx: NodeContext, n: u32| async move { n + cx.interrupt::<u32>("more", &n).await })
        .add_edge("flaky", "ask")
        .add_edge("ask", END)
        .set_entry("flaky")
        .compile()
        .unwrap()
}

#[test]
fn o4_run_and_each_attempt_have_a_span() {
    let (captured, _guard) = capture(Level::INFO);
    let sim = Sim::new(1);
    let graph = Graph::<u32>::new("plain")
        .add_node("double", |n: u32| async move {
            tracing::info!(target: "pleach::test", "inside");
            n * 2
        })
        .add_edge("double", END)
        .set_entry("double")
        .compile()
        .unwrap();
    let request = tracing::info_span!(target: "pleach::test", "request");
    let outcome = request.in_scope(|| sim.run(graph.run(21).id("r-1").runtime(sim.runtime()).into_future()));
    assert_eq!(outcome.unwrap(), 42);
    let spans = captured.spans();
    let (runs, nodes) = (named(&spans, "run"), named(&spans, "node"));
    assert_eq!((runs.len(), nodes.len()), (1, 1), "{spans:?}");
    assert_eq!(runs[0].parent, request.id().map(|id| id.into_u64()));
    assert_eq!((runs[0].fields["run"].as_str(), runs[0].fields["graph"].as_str()), ("r-1", "plain"));
    let node = nodes[0];
    assert_eq!((node.parent, node.fields["node"].as_str(), node.fields["attempt"].as_str()), (Some(runs[0].id), "double", "1"));
    assert_eq!((node.fields["run"].as_str(), node.fields["branch"].as_str()), ("r-1", "[]"));
    assert!(node.entered > 0 && spans.iter().all(|span| span.entered == span.exited), "{spans:?}");
    assert!(runs[0].is_closed && node.is_closed, "{spans:?}");
}

#[test]
fn o4_run_without_a_subscriber_has_no_span() {
    let (captured, _guard) = capture(Level::ERROR);
    let sim = Sim::new(1);
    let run = graph().run(1).id("r-2").runtime(sim.runtime()).max_iterations(1);
    drop(sim.run(run.into_future()));
    assert_eq!(captured.spans().len(), 0);
}

#[test]
fn o4_stored_run_continues_its_trace_in_every_driver() {
    let (captured, _guard) = capture(Level::INFO);
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let linked = Log::new();
    let link = |run: pleach::graph::RunOptions<'static, u32>| {
        let linked = linked.clone();
        run.link_span(move |span, traceparent| linked.push((span.id().map(|id| id.into_u64()), traceparent.to_string())))
    };
    let graph = graph();
    let run = link(graph.run(1).id("r-3").checkpoint(&store).runtime(sim.runtime()).traceparent(TRACEPARENT));
    let error = sim.run(run.into_future()).unwrap_err();
    assert!(error.to_string().contains("more"), "{error}");
    // Another driver, as after a restart of the process.
    let info = sim.run(store.head("r-3")).unwrap();
    assert_eq!(info.tags.get(TRACEPARENT_TAG), Some(TRACEPARENT));
    let resumed = graph.resume("r-3").resume_with("more", &40_u32).checkpoint(&store).runtime(sim.runtime());
    assert_eq!(sim.run(link(resumed).into_future()).unwrap(), 42);

    let spans = captured.spans();
    let runs: Vec<_> = named(&spans, "run").iter().map(|span| Some(span.id)).collect();
    let linked = linked.take();
    assert_eq!(linked.iter().map(|(span, _)| *span).collect::<Vec<_>>(), runs, "the span of each driver is linked");
    assert!(linked.iter().all(|(_, traceparent)| traceparent == TRACEPARENT));
    let nodes: Vec<_> = named(&spans, "node")
        .iter()
        .map(|span| {
            (span.fields["node"].as_str(), span.fields["attempt"].as_str(), span.fields.contains_key("otel.status_code"))
        })
        .collect();
    assert_eq!(nodes, [("flaky", "1", true), ("flaky", "2", false), ("ask", "1", false), ("ask", "1", false)]);
}
