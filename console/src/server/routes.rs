//! The table of all routes, and their handlers.
//!
//! The table is data: the server is built from it, and the test of the guard walks it.

use super::answer;
use super::connections::Place;
use super::guard::{Guard, RouteKind, random_text};
use crate::assets::{ASSETS, Asset};
use crate::download::{self, Asked, Downloads};
use crate::failure::Failure;
use crate::orders::Orders;
use crate::redact::Redaction;
use crate::settings::Settings;
use crate::sources::Sources;
use crate::stream::{Hub, Look};
use crate::view::View;
use crate::viewer::Viewer;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Query, Request, State};
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{Method, Response, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get, post};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The pages. The server sends the same file for each; the page shows what its address says.
const PAGES: [&str; 10] =
    ["/", "/tree", "/member", "/failures", "/runs", "/run", "/waiting", "/workers", "/deploy", "/actions"];

/// The most bytes of a request's body.
const BODY_MAX: usize = 4 * 1024 * 1024;

/// How long a request may take to send its body.
const BODY_WITHIN: Duration = Duration::from_secs(10);

/// How long a single view may take.
const VIEW_WITHIN: Duration = Duration::from_secs(30);

/// Random bytes in the id of a stream.
const STREAM_ID_BYTES: usize = 12;

/// What the handlers work with.
pub(crate) struct Api {
    pub(crate) settings: Settings,
    pub(crate) guard: Guard,
    pub(crate) sources: Sources,
    pub(crate) viewer: Arc<dyn Look>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) orders: Arc<Orders>,
    pub(crate) redaction: Arc<Redaction>,
    pub(crate) downloads: Downloads,
}

impl Api {
    /// Connects the parts of a console.
    pub(crate) fn new(settings: Settings, guard: Guard, sources: Sources, redaction: Redaction) -> Arc<Self> {
        let redaction = Arc::new(redaction);
        let orders = Arc::new(Orders::new(sources.clone(), Arc::clone(&redaction), &settings));
        let (seen, ordered) = (sources.clone(), Arc::clone(&orders));
        let viewer: Arc<dyn Look> = Arc::new(Viewer { sources: seen, redaction: Arc::clone(&redaction), orders: ordered });
        let hub = Hub::new(Arc::clone(&viewer));
        Arc::new(Self { settings, guard, sources, viewer, hub, orders, redaction, downloads: Downloads::new() })
    }

    /// Returns what this console shows, redacted.
    pub(crate) fn described(&self) -> Result<Value, Failure> {
        let mut value = self.settings.describe();
        if let (Value::Object(console), Value::Object(sources)) = (&mut value, self.sources.describe()) {
            console.extend(sources);
        }
        if value["name"].is_null() {
            let first = ["processes", "stores"].iter().flat_map(|kind| value[kind].as_array()).flatten().next();
            value["name"] = first.map_or(Value::Null, |first| first["name"].clone());
        }
        self.redaction.guarded(|rules| {
            rules.value(&mut value);
            Ok(value)
        })
    }

    /// Redacts what does not come from the viewer.
    fn sealed(&self, answer: Result<Value, Failure>) -> Answer {
        Answer(self.redaction.guarded(|rules| match answer {
            Ok(mut value) => {
                rules.value(&mut value);
                Ok(value)
            }
            Err(failure) => Err(rules.failure(failure)),
        }))
    }
}

/// One route.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) kind: RouteKind,
    handler: MethodRouter<Arc<Api>>,
}

/// Returns all routes.
pub(crate) fn routes() -> Vec<Route> {
    let mut routes: Vec<Route> = ASSETS.iter().skip(1).map(|asset| file(RouteKind::File, asset.path, asset)).collect();
    routes.extend(ASSETS.first().into_iter().flat_map(|page| PAGES.map(|path| file(RouteKind::Page, path, page))));
    let data = |method, path, handler| Route { method, path, kind: RouteKind::Data, handler };
    routes.extend([
        data(Method::GET, "/api/console", get(console)),
        data(Method::GET, "/api/view", get(view)),
        data(Method::POST, "/api/view", post(posted_view)),
        data(Method::GET, "/api/stream", get(stream)),
        data(Method::POST, "/api/watch", post(watch)),
        data(Method::POST, "/api/act", post(act)),
        data(Method::POST, "/api/bulk", post(bulk)),
        data(Method::GET, "/api/download", get(download)),
    ]);
    routes
}

fn file(kind: RouteKind, path: &'static str, asset: &'static Asset) -> Route {
    let handler = get(move |headers: HeaderMap| async move { answer::file(asset, headers.get(header::IF_NONE_MATCH)) });
    Route { method: Method::GET, path, kind, handler }
}

/// Builds the server from the table. The guard is around all of it.
pub(crate) fn router(api: Arc<Api>) -> Router {
    let (mut router, mut kinds) = (Router::new(), HashMap::new());
    for route in routes() {
        router = router.route(route.path, route.handler);
        kinds.insert((route.method, route.path), route.kind);
    }
    let wall = Wall { api: Arc::clone(&api), kinds: Arc::new(kinds) };
    router
        .fallback(|| async { answer::failed(&Failure::new("not_found", "the console has no such route")) })
        .method_not_allowed_fallback(|| async {
            answer::failed(&Failure::new("method_not_allowed", "this route does not take this method"))
        })
        .layer(from_fn_with_state(wall, guard))
        .with_state(api)
}

/// What the outermost layer knows.
#[derive(Clone)]
struct Wall {
    api: Arc<Api>,
    kinds: Arc<HashMap<(Method, &'static str), RouteKind>>,
}

/// The outermost layer: refuses what the guard refuses, and adds the headers of every answer.
async fn guard(State(wall): State<Wall>, request: Request, next: Next) -> Response<Body> {
    let known = wall.kinds.get(&(request.method().clone(), request.uri().path()));
    let kind = known.copied().unwrap_or(RouteKind::Data);
    let mut response = match wall.api.guard.check(&request, kind) {
        Ok(()) => {
            if let Some(place) = request.extensions().get::<Arc<Place>>().filter(|_| kind == RouteKind::Data) {
                place.trust();
            }
            next.run(request).await
        }
        Err(failure) => {
            let mut refused = answer::failed(&failure);
            // The body of a refused request is not read.
            refused.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            refused
        }
    };
    answer::protect(response.headers_mut());
    response
}

/// The answer of a handler.
struct Answer(Result<Value, Failure>);

impl IntoResponse for Answer {
    fn into_response(self) -> Response<Body> {
        match self.0 {
            Ok(value) => answer::data(&value),
            Err(failure) => answer::failed(&failure),
        }
    }
}

async fn console(State(api): State<Arc<Api>>) -> Answer {
    Answer(api.described())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    q: String,
}

async fn view(State(api): State<Arc<Api>>, uri: Uri) -> Answer {
    Answer(match asked::<View>(&uri) {
        Ok(view) => look(&api, &view).await,
        Err(failure) => Err(failure),
    })
}

async fn posted_view(State(api): State<Arc<Api>>, request: Request) -> Answer {
    Answer(match body::<View>(request).await {
        Ok(view) => look(&api, &view).await,
        Err(failure) => Err(failure),
    })
}

async fn look(api: &Api, view: &View) -> Result<Value, Failure> {
    timeout(VIEW_WITHIN, api.viewer.look(view)).await.unwrap_or_else(|_| {
        Err(Failure::new("timed_out", format_args!("no answer within {} s", VIEW_WITHIN.as_secs())).advice("try again"))
    })
}

async fn stream(State(api): State<Arc<Api>>) -> Response<Body> {
    let opened = random_text(STREAM_ID_BYTES).map_err(|error| Failure::new("internal", error)).and_then(|id| api.hub.open(id));
    match opened {
        Ok(stream) => answer::with_type(StatusCode::OK, "application/x-ndjson", Body::new(stream)),
        Err(failure) => answer::failed(&failure),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Watches {
    stream: String,
    watches: BTreeMap<String, View>,
}

async fn watch(State(api): State<Arc<Api>>, request: Request) -> Answer {
    let watched = async {
        let Watches { stream, watches } = body(request).await?;
        api.hub.replace(&stream, watches)?;
        Ok(json!({}))
    };
    Answer(watched.await)
}

async fn act(State(api): State<Arc<Api>>, request: Request) -> Answer {
    let acted = async { api.orders.act(body(request).await?).await };
    api.sealed(acted.await)
}

async fn bulk(State(api): State<Arc<Api>>, request: Request) -> Answer {
    let ordered = async { api.orders.bulk(body(request).await?).await };
    api.sealed(ordered.await)
}

async fn download(State(api): State<Arc<Api>>, uri: Uri) -> Response<Body> {
    let asked = parameters::<Asked>(&uri).and_then(|asked| Ok((parse(asked.q.as_bytes())?, asked.form)));
    match asked {
        Ok((view, form)) => download::answer(&api, view, form).await,
        Err(failure) => answer::failed(&failure),
    }
}

/// Reads the parameter `q`.
fn asked<T: DeserializeOwned>(uri: &Uri) -> Result<T, Failure> {
    let Question { q } = parameters(uri)?;
    parse(q.as_bytes())
}

fn parameters<T: DeserializeOwned>(uri: &Uri) -> Result<T, Failure> {
    let Query(parameters) = Query::try_from_uri(uri).map_err(|error| Failure::new("bad_request", error.body_text()))?;
    Ok(parameters)
}

/// Reads the body of a request.
async fn body<T: DeserializeOwned>(request: Request) -> Result<T, Failure> {
    let is_json = |kind: &HeaderValue| kind.as_bytes().starts_with(b"application/json");
    if !request.headers().get(header::CONTENT_TYPE).is_some_and(is_json) {
        return Err(Failure::new("bad_request", "the body of a request is JSON, with the content type application/json"));
    }
    match timeout(BODY_WITHIN, to_bytes(request.into_body(), BODY_MAX)).await {
        Ok(Ok(bytes)) => parse(&bytes),
        Ok(Err(_)) => Err(Failure::new("too_long", format_args!("the body is longer than {BODY_MAX} bytes, or was cut off"))),
        Err(_) => Err(Failure::new("slow", format_args!("the body did not arrive within {} s", BODY_WITHIN.as_secs()))),
    }
}

fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(text).map_err(|error| Failure::new("bad_request", error))
}
