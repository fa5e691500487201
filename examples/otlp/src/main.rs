//! Spans of three actors and of a stored run, in two processes, exported over OTLP/HTTP as one
//! trace.
//!
//! ```sh
//! cargo run -p pleach-example-otlp -- start  http://127.0.0.1:4318 orders.db
//! cargo run -p pleach-example-otlp -- answer http://127.0.0.1:4318 orders.db
//! ```
//!
//! The first process handles a request with three actors, starts a stored run that waits for an
//! approval, and exits. The second one answers, and the run continues in the same trace: the W3C
//! `traceparent` is stored with the run. The endpoint is any collector; `tests/one_trace.rs` has a
//! small one.

use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use pleach::prelude::*;
use pleach::telemetry::Instruments;
use std::collections::HashMap;
use tracing::{Instrument as _, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

type AnyError = Box<dyn std::error::Error>;

fn main() -> Result<(), AnyError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, endpoint, store] = &arguments[..] else {
        return Err("usage: start|answer ENDPOINT STORE_FILE".into());
    };
    let provider = install_exporter(endpoint)?;
    let runtime = tokio::runtime::Runtime::new()?;
    match mode.as_str() {
        "start" => runtime.block_on(start(store))?,
        "answer" => runtime.block_on(answer(store))?,
        other => return Err(format!("unknown mode {other:?}: use start or answer").into()),
    }
    drop(runtime);
    provider.shutdown()?; // exports what is still in memory
    Ok(())
}

/// Sends every span to a collector.
fn install_exporter(endpoint: &str) -> Result<SdkTracerProvider, AnyError> {
    let endpoint = format!("{endpoint}/v1/traces");
    let exporter = SpanExporter::builder().with_http().with_protocol(Protocol::HttpBinary).with_endpoint(endpoint).build()?;
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).build();
    let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("shop"));
    // The exporter's own HTTP client must not be traced.
    let filter = tracing_subscriber::filter::Targets::new()
        .with_target("pleach", tracing::Level::INFO)
        .with_target("pleach_example_otlp", tracing::Level::INFO);
    tracing_subscriber::registry().with(filter).with(spans).init();
    Ok(provider)
}

/// The W3C trace context of a span, as text.
fn traceparent(span: &Span) -> String {
    let mut carrier = HashMap::new();
    TraceContextPropagator::new().inject_context(&span.context(), &mut carrier);
    carrier.remove("traceparent").unwrap_or_default()
}

/// Makes a stored trace context the parent of a run's span.
fn link(span: &Span, traceparent: &str) {
    let carrier = HashMap::from([("traceparent".to_string(), traceparent.to_string())]);
    let _ = span.set_parent(TraceContextPropagator::new().extract(&carrier));
}

fn order_graph() -> Result<CompiledGraph<u32>, AnyError> {
    let graph = Graph::<u32>::new("order")
        .add_node("pay", |euros: u32| async move { euros })
        .add_node("approve", |cx: NodeContext, euros: u32| async move { cx.interrupt::<u32>("approve", &euros).await })
        .add_edge("pay", "approve")
        .add_edge("approve", END)
        .set_entry("pay")
        .compile()?;
    Ok(graph)
}

/// A question to an actor: an amount, and where its answer goes.
struct Question(u32, Reply<u32>);

async fn start(store: &str) -> Result<(), AnyError> {
    let system = ActorSystem::builder("shop").instrument(Instruments::new().spans()).instrument_all().build()?;
    let audit = system.spawn("audit", Props::from_fn(|| (), |_, _: u32| Ok::<(), pleach::BoxError>(())).label("audit"))?;
    let stock = Props::from_fn(
        || (),
        move |_, Question(euros, reply): Question| {
            audit.tell(euros)?; // a span below that of this message
            reply.send(euros);
            Ok::<(), pleach::BoxError>(())
        },
    );
    let stock = system.spawn("stock", stock.label("stock"))?;
    let front = system.spawn("front", Props::new(move || Front { stock: stock.clone() }).label("front"))?;

    let request = tracing::info_span!("request");
    async {
        let euros = front.ask(|reply| Question(500, reply)).await?;
        let store = pleach::store::SqliteStore::open(store).await?;
        let run = order_graph()?.run(euros).id("order-7").checkpoint(&store);
        let run = run.traceparent(traceparent(&Span::current())).link_span(link);
        println!("{}", run.await.expect_err("it waits for the approval"));
        Ok::<(), AnyError>(())
    }
    .instrument(request)
    .await?;
    system.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}

/// Asks the stock for each question.
struct Front {
    stock: ActorRef<Question>,
}

impl Actor for Front {
    type Msg = Question;
    type Error = pleach::BoxError;

    async fn handle(&mut self, Question(euros, reply): Question, _cx: &mut Context<Self>) -> Result<(), Self::Error> {
        reply.send(self.stock.ask(|reply| Question(euros, reply)).await?);
        Ok(())
    }
}

async fn answer(store: &str) -> Result<(), AnyError> {
    let store = pleach::store::SqliteStore::open(store).await?;
    let run = order_graph()?.resume("order-7").resume_with("approve", &501_u32).checkpoint(&store);
    println!("approved: {} euros", run.link_span(link).await?);
    Ok(())
}
