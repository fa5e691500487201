//! Headers and bodies of all answers.

use crate::assets::Asset;
use crate::failure::Failure;
use axum::body::{Body, Bytes};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Response, StatusCode};
use serde_json::{Value, json};

/// The most bytes of a JSON answer.
pub(crate) const ANSWER_MAX: usize = 1024 * 1024;

/// What the page may load and do: only what the console serves.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; worker-src 'self'; \
     form-action 'none'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'",
);

/// Every answer has these headers.
const ALWAYS: [(HeaderName, HeaderValue); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// Adds the headers of every answer. Data is never stored; files of the page set their own rule.
pub(crate) fn protect(headers: &mut HeaderMap) {
    for (name, value) in ALWAYS {
        headers.insert(name, value);
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

/// Returns a JSON answer.
pub(crate) fn data(value: &Value) -> Response<Body> {
    let text = value.to_string();
    if text.len() > ANSWER_MAX {
        let failure = Failure::new("too_large", format_args!("the answer has {} bytes; at most {ANSWER_MAX}", text.len()));
        return failed(&failure.advice("ask for less, or download it"));
    }
    json_answer(StatusCode::OK, text)
}

/// Returns the answer of a request that failed.
pub(crate) fn failed(failure: &Failure) -> Response<Body> {
    json_answer(status(&failure.code), json!({ "error": failure }).to_string())
}

fn json_answer(status: StatusCode, text: String) -> Response<Body> {
    with_type(status, "application/json", Body::from(text))
}

/// Returns an answer with a content type.
pub(crate) fn with_type(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Returns a file of the page, or that the browser has it already.
pub(crate) fn file(asset: &'static Asset, known: Option<&HeaderValue>) -> Response<Body> {
    let tag = format!("\"{}\"", asset.hash);
    let is_known = known.is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = if is_known {
        with_type(StatusCode::NOT_MODIFIED, asset.content_type, Body::empty())
    } else {
        with_type(StatusCode::OK, asset.content_type, Body::from(Bytes::from_static(asset.gzip)))
    };
    let headers = response.headers_mut();
    if !is_known {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    if let Ok(tag) = HeaderValue::try_from(tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}

fn status(code: &str) -> StatusCode {
    match code {
        "bad_request" | "redacted" => StatusCode::BAD_REQUEST,
        "unauthorized" => StatusCode::UNAUTHORIZED,
        "forbidden" | "read_only" | "not_allowed" | "protected" => StatusCode::FORBIDDEN,
        "not_found" => StatusCode::NOT_FOUND,
        "method_not_allowed" => StatusCode::METHOD_NOT_ALLOWED,
        "slow" => StatusCode::REQUEST_TIMEOUT,
        "changed" | "used" | "refused" | "not_possible" => StatusCode::CONFLICT,
        "too_long" => StatusCode::PAYLOAD_TOO_LARGE,
        "unreachable" => StatusCode::BAD_GATEWAY,
        "too_many_streams" | "too_many_downloads" => StatusCode::SERVICE_UNAVAILABLE,
        "timed_out" => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
