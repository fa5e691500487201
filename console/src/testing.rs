//! A source and a server for tests of this crate.

use crate::action::{Action, Outcome, Plan};
use crate::failure::Failure;
use crate::redact::Redaction;
use crate::server::connections::Connections;
use crate::server::guard::{Guard, Token};
use crate::server::listen::{Bounds, serve};
use crate::server::routes::{Api, router};
use crate::settings::Settings;
use crate::source::{Answer, Findings, Source};
use crate::sources::Sources;
use crate::stream::Hub;
use crate::view::View;
use crate::viewer::Viewer;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, Response, StatusCode};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::DuplexStream;
use tokio::time::sleep;
use tower::ServiceExt as _;

/// The host that requests of tests name.
pub(crate) const HOST: &str = "127.0.0.1:4000";

/// A source whose answers a test sets.
#[derive(Default)]
pub(crate) struct Scripted {
    pub(crate) key: &'static str,
    /// How often it was asked anything.
    pub(crate) asked: AtomicUsize,
    /// Its answer to every view.
    pub(crate) value: Mutex<Value>,
    /// How long it takes to answer.
    pub(crate) delay: Mutex<Duration>,
}

impl Scripted {
    pub(crate) fn new(key: &'static str) -> Arc<Self> {
        Arc::new(Self { key, ..Self::default() })
    }

    pub(crate) fn set(&self, value: Value) {
        *self.value.lock().unwrap() = value;
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Source for Scripted {
    fn key(&self) -> &str {
        self.key
    }

    fn describe(&self) -> Value {
        json!({ "key": self.key, "name": "scripted" })
    }

    fn view<'a>(&'a self, _view: &'a View) -> Answer<'a, Value> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Box::pin(async {
            let delay = *self.delay.lock().unwrap();
            sleep(delay).await;
            match self.value.lock().unwrap().clone() {
                Value::String(text) if text == "panic" => panic!("the source panicked"),
                Value::String(text) => Err(Failure::new("unreachable", text)),
                value => Ok(value),
            }
        })
    }

    fn examine(&self) -> Answer<'_, Findings> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Err(Failure::new("unreachable", "the script has no findings")) })
    }

    fn plan<'a>(&'a self, _action: &'a Action) -> Answer<'a, Plan> {
        Box::pin(async { Err(Failure::new("not_possible", "the script has no plan")) })
    }

    fn carry_out<'a>(&'a self, _action: &'a Action, _guard: &'a str) -> Answer<'a, Outcome> {
        Box::pin(async { Err(Failure::new("not_possible", "the script does nothing")) })
    }
}

/// A server without a socket.
pub(crate) struct Server {
    pub(crate) api: Arc<Api>,
    pub(crate) router: Router,
    pub(crate) connections: Arc<Connections>,
    pub(crate) source: Arc<Scripted>,
}

impl Server {
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let source = Scripted::new("p0");
        let sources = Sources { processes: vec![Arc::clone(&source) as _], stores: Vec::new() };
        let viewer = Arc::new(Viewer { sources: sources.clone(), redaction: Redaction::new() });
        let guard = Guard { token: Token::random().unwrap(), hosts: Vec::new(), is_loopback: true, scheme: "http" };
        let hub = Hub::new(Arc::clone(&viewer) as _);
        let api = Arc::new(Api { settings, guard, sources, viewer, hub });
        Self { router: router(Arc::clone(&api)), api, connections: Connections::new(8), source }
    }

    /// Returns the header with the token.
    pub(crate) fn bearer(&self) -> String {
        format!("Bearer {}", self.api.guard.token.text())
    }

    /// Returns a request with everything that the guard wants.
    pub(crate) fn request(&self, method: &str, uri: &str) -> axum::http::request::Builder {
        Request::builder()
            .method(method)
            .uri(uri)
            .header("host", HOST)
            .header("authorization", self.bearer())
            .header("content-type", "application/json")
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Response<Body> {
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// Sends a request and returns the status and the JSON of the answer.
    pub(crate) async fn ask(&self, method: &str, uri: &str, body: Value) -> (StatusCode, Value) {
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        json_of(self.send(self.request(method, uri).body(body).unwrap()).await).await
    }

    /// Connects without a socket.
    pub(crate) fn connect(&self, buffer: usize) -> DuplexStream {
        let (browser, server) = tokio::io::duplex(buffer);
        if let Some(taken) = self.connections.take() {
            tokio::spawn(serve(server, self.router.clone(), taken, Bounds::default()));
        }
        browser
    }
}

/// Returns the status and the JSON of an answer.
pub(crate) async fn json_of(response: Response<Body>) -> (StatusCode, Value) {
    let status = response.status();
    let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&bytes))))
}
