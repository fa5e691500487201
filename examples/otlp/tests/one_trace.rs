//! O4: runs the example as two processes against a real OTLP/HTTP receiver.

use axum::body::Bytes;
use axum::{Router, routing::post};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::process::Command;

/// Starts a receiver on a free port. Returns its endpoint and what it receives.
async fn receiver() -> (String, Arc<Mutex<Vec<Span>>>) {
    let received = Arc::new(Mutex::new(Vec::new()));
    let spans = Arc::clone(&received);
    let receive = move |body: Bytes| {
        let request = ExportTraceServiceRequest::decode(body).expect("the body is a protobuf of OTLP");
        let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
        spans.lock().unwrap().extend(scopes.flat_map(|scope| scope.spans));
        async {}
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/v1/traces", post(receive))).await });
    (endpoint, received)
}

async fn run_example(mode: &str, endpoint: &str, store: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_pleach-example-otlp")).args([mode, endpoint, store]).output().await.unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{mode}: {text}{errors}");
    text.into_owned()
}

#[tokio::test]
async fn o4_three_actors_and_a_stored_run_in_two_processes_are_one_trace() {
    let (endpoint, received) = receiver().await;
    let store = std::env::temp_dir().join(format!("pleach-otlp-{}.db", std::process::id()));
    let path = store.to_str().unwrap();
    run_example("start", &endpoint, path).await;
    let in_first = received.lock().unwrap().len();
    let said = run_example("answer", &endpoint, path).await;
    assert!(said.contains("approved: 501 euros"), "{said}");
    for file in [path.to_string(), format!("{path}-wal"), format!("{path}-shm"), format!("{path}-lock")] {
        let _ = std::fs::remove_file(file);
    }

    let spans = received.lock().unwrap().clone();
    assert!(in_first > 0 && spans.len() > in_first, "both processes export spans");
    let traces: Vec<_> = spans.iter().map(|span| span.trace_id.clone()).collect();
    assert!(traces.iter().all(|trace| *trace == traces[0]), "one trace: {:?}", names(&spans));
    let by_id: BTreeMap<_, _> = spans.iter().map(|span| (span.span_id.clone(), span)).collect();
    let parent = |name: &str| {
        let span = spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{name} in {:?}", names(&spans)));
        by_id.get(&span.parent_span_id).map(|parent| parent.name.as_str())
    };
    assert_eq!(parent("process front"), Some("request"));
    assert_eq!(parent("process stock"), Some("process front"));
    assert_eq!(parent("process audit"), Some("process stock"));
    let runs: Vec<_> = spans.iter().filter(|span| span.name == "run order").collect();
    assert_eq!(runs.len(), 2, "one for each process: {:?}", names(&spans));
    let request = spans.iter().find(|span| span.name == "request").unwrap();
    assert!(runs.iter().all(|run| run.parent_span_id == request.span_id), "{:?}", names(&spans));
    assert_eq!(parent("node pay"), Some("run order"));
    assert_eq!(parent("node approve"), Some("run order"));
}

fn names(spans: &[Span]) -> Vec<&str> {
    spans.iter().map(|span| span.name.as_str()).collect()
}
