//! A source and a server for tests of this crate.

use crate::action::{Action, Outcome, Plan};
use crate::failure::Failure;
use crate::redact::Redaction;
use crate::server::connections::Connections;
use crate::server::guard::{Guard, Token};
use crate::server::listen::{Bounds, serve};
use crate::server::routes::{Api, router};
use crate::settings::Settings;
use crate::source::{Answer, Findings, Part, Source};
use crate::sources::Sources;
use crate::view::{ValueAt, View};
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
    /// Its plan for every action.
    pub(crate) plan: Mutex<Option<Plan>>,
    /// What it does: a failure, or that it is done.
    pub(crate) refuses: Mutex<Option<Failure>>,
    /// What was carried out, with the guard of the plan.
    pub(crate) carried: Mutex<Vec<(Action, String)>>,
    /// The text of every value.
    pub(crate) text: Mutex<String>,
    /// A view that fails.
    pub(crate) fails: Mutex<Option<&'static str>>,
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

    fn view<'a>(&'a self, view: &'a View) -> Answer<'a, Value> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let delay = *self.delay.lock().unwrap();
            sleep(delay).await;
            let name = serde_json::to_value(view).unwrap()["view"].clone();
            if self.fails.lock().unwrap().is_some_and(|fails| name == fails) {
                return Err(Failure::new("timed_out", format_args!("the view {name} took too long")));
            }
            let value = self.value.lock().unwrap().clone();
            match value {
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

    fn text<'a>(&'a self, at: &'a ValueAt) -> Answer<'a, Part> {
        Box::pin(async {
            let text = self.text.lock().unwrap().clone();
            assert_ne!(text, "panic", "the source panicked");
            let place = Redaction::new().place_at(&text, &at.pointer);
            Ok(Part { text, place })
        })
    }

    fn plan<'a>(&'a self, _action: &'a Action) -> Answer<'a, Plan> {
        let plan = self.plan.lock().unwrap().clone();
        Box::pin(async { plan.ok_or_else(|| Failure::new("not_possible", "the script has no plan")) })
    }

    fn carry_out<'a>(&'a self, action: &'a Action, guard: &'a str) -> Answer<'a, Outcome> {
        Box::pin(async move {
            let delay = *self.delay.lock().unwrap();
            sleep(delay).await;
            if let Some(failure) = self.refuses.lock().unwrap().clone() {
                return Err(failure);
            }
            self.carried.lock().unwrap().push((action.clone(), guard.to_string()));
            Ok(Outcome { outcome: "done".to_string(), text: "it was done".to_string(), ..Outcome::default() })
        })
    }
}

/// A server without a socket.
pub(crate) struct Server {
    pub(crate) api: Arc<Api>,
    pub(crate) router: Router,
    pub(crate) connections: Arc<Connections>,
    pub(crate) source: Arc<Scripted>,
    pub(crate) store: Arc<Scripted>,
}

impl Server {
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        Self::redacting(settings, Redaction::new())
    }

    pub(crate) fn redacting(settings: Settings, redaction: Redaction) -> Self {
        let (source, store) = (Scripted::new("p0"), Scripted::new("s0"));
        let sources = Sources { processes: vec![Arc::clone(&source) as _], stores: vec![Arc::clone(&store) as _] };
        Self::of(settings, redaction, sources, source, store)
    }

    /// A server of these sources.
    pub(crate) fn showing(sources: Sources) -> Self {
        let settings = Settings { allows_actions: true, ..Settings::default() };
        Self::of(settings, Redaction::new(), sources, Scripted::new(""), Scripted::new(""))
    }

    fn of(settings: Settings, redaction: Redaction, sources: Sources, source: Arc<Scripted>, store: Arc<Scripted>) -> Self {
        let guard = Guard { token: Token::random().unwrap(), hosts: Vec::new(), is_loopback: true, scheme: "http" };
        let api = Api::new(settings, guard, sources, redaction);
        Self { router: router(Arc::clone(&api)), api, connections: Connections::new(8), source, store }
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
