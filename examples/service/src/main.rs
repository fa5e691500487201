//! An HTTP service with readiness, metrics for Prometheus, logs, and an orderly end on SIGTERM.
//!
//! ```sh
//! cargo run -p pleach-example-service          # prints its address
//! curl http://127.0.0.1:PORT/orders/3          # 42 if the stock has the item
//! curl http://127.0.0.1:PORT/ready             # 200, or 503 with the reasons
//! curl http://127.0.0.1:PORT/metrics           # for Prometheus
//! ```
//!
//! `tests/service.rs` drives the program as a process.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Router, routing::get};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use pleach::prelude::*;
use pleach::telemetry::SystemMetrics;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

type AnyError = Box<dyn std::error::Error>;

/// An order: an item, and where its price goes.
struct Order(u32, Reply<u32>);

#[derive(Clone)]
struct Service {
    stock: ActorRef<Order>,
    root: RootContext,
    metrics: Arc<SystemMetrics>,
    prometheus: PrometheusHandle,
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    // Before the system, so that it knows which lines are wanted. RUST_LOG=pleach=debug adds starts
    // and ends.
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let prometheus = PrometheusBuilder::new().install_recorder()?;

    let system = ActorSystem::new("shop")?;
    let sell = |_: &mut (), Order(item, reply): Order| match item {
        0 => Err("item 0 does not exist"), // a restart, as a warning in the log
        _ => {
            reply.send(item * 14);
            Ok(())
        }
    };
    let stock = system.spawn("stock", Props::from_fn(|| (), sell).label("stock"))?;
    let service = Service { root: system.root(), stock, metrics: Arc::new(SystemMetrics::new(&system)), prometheus };

    let mut terminate = signal(SignalKind::terminate())?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on {}", listener.local_addr()?);
    let routes = Router::new()
        .route("/orders/{item}", get(order))
        .route("/ready", get(ready))
        .route("/metrics", get(render_metrics))
        .with_state(service);
    // Requests in flight are answered first, then the actors handle what is queued.
    let terminated = async move {
        terminate.recv().await;
    };
    axum::serve(listener, routes).with_graceful_shutdown(terminated).await?;
    system.shutdown(Duration::from_secs(5)).await?;
    println!("stopped: {}", system.counts());
    Ok(())
}

async fn order(State(service): State<Service>, Path(item): Path<u32>) -> Result<String, (StatusCode, String)> {
    let price = service.stock.ask(|reply| Order(item, reply)).timeout(Duration::from_secs(2)).await;
    price.map(|price| price.to_string()).map_err(|error| (StatusCode::SERVICE_UNAVAILABLE, error.to_string()))
}

/// Readiness: the system is up, no reported problem blocks it, and the stock runs. The body says
/// what is wrong and what to do.
async fn ready(State(service): State<Service>) -> (StatusCode, String) {
    let health = service.root.health();
    let is_ready = health.is_ready() && service.stock.exit().is_none();
    (if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, health.to_string())
}

async fn render_metrics(State(service): State<Service>) -> String {
    service.metrics.sample(); // counts and mailboxes are read only now
    service.prometheus.render()
}
