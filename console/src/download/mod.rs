//! Downloads: views, values and incidents as files.
//!
//! | file | owns |
//! |---|---|
//! | `mod` | what is asked for, and the answer with its headers |
//! | `body` | a file that is written while it is read |
//! | `incident` | a run, or a member and what is below it, as one page that needs no server |
//!
//! Invariants:
//! 1. Everything is redacted: views by the viewer, values while they are written.
//! 2. A browser never shows a download: it is an attachment of a type that is not rendered.
//! 3. Half a file never looks like a whole one.

mod body;
mod incident;

use crate::failure::Failure;
use crate::server::answer::{failed, with_type};
use crate::server::routes::Api;
use crate::source::Source;
use crate::sources::alone;
use crate::view::{ValueAt, View};
use axum::body::Body;
use axum::http::header::{CONTENT_DISPOSITION, HeaderValue};
use axum::http::{Response, StatusCode};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How many downloads are made at the same time. A value is in memory while it is written.
const DOWNLOADS_MAX: usize = 4;

/// How long it may take to read what is downloaded.
const READ_WITHIN: Duration = Duration::from_secs(60);

/// The most characters of a file's name.
const NAME_MAX: usize = 80;

/// JSON.
const JSON: &str = "application/json";

/// A page that the browser saves and does not show.
const PAGE: &str = "application/octet-stream";

/// The parameters of `GET /api/download`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    /// The view, as JSON.
    pub(crate) q: String,
    /// Default: a page for a run and a member, JSON for anything else.
    #[serde(default, rename = "as")]
    pub(crate) form: Option<Form>,
}

/// What a download is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Form {
    /// The JSON of the view.
    Json,
    /// A page that opens without a server.
    Html,
}

/// The places of the downloads that are being made.
pub(crate) struct Downloads(Arc<Semaphore>);

impl Downloads {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(DOWNLOADS_MAX)))
    }

    fn take(&self) -> Result<OwnedSemaphorePermit, Failure> {
        Arc::clone(&self.0).try_acquire_owned().map_err(|_| {
            let text = format!("{DOWNLOADS_MAX} downloads are being made already");
            Failure::new("too_many_downloads", text).advice("try again when one of them has ended")
        })
    }
}

/// A file for the browser.
struct File {
    name: String,
    kind: &'static str,
    body: Body,
}

/// Answers `GET /api/download`.
pub(crate) async fn answer(api: &Arc<Api>, view: View, form: Option<Form>) -> Response<Body> {
    let made = timeout(READ_WITHIN, make(api, view, form)).await.unwrap_or_else(|_| {
        let limit = READ_WITHIN.as_secs();
        Err(Failure::new("timed_out", format_args!("the file was not ready within {limit} s")).advice("try again"))
    });
    match made {
        Ok(file) => attachment(file),
        Err(failure) => {
            let hidden: Result<Failure, Failure> = api.redaction.guarded(|rules| Ok(rules.failure(failure)));
            failed(&hidden.unwrap_or_else(|failure| failure))
        }
    }
}

async fn make(api: &Arc<Api>, view: View, form: Option<Form>) -> Result<File, Failure> {
    let place = api.downloads.take()?;
    let is_subject = matches!(view, View::Run(_) | View::Member(_));
    match (view, form) {
        (View::Value(at), None | Some(Form::Json)) => value(api, at, place).await,
        (view, None | Some(Form::Html)) if is_subject => {
            let subject = name_of(&view);
            let page = incident::page(api, &view).await?;
            Ok(File { name: named(&["incident", &subject], "html"), kind: PAGE, body: Body::from(page) })
        }
        (_, Some(Form::Html)) => {
            Err(Failure::new("bad_request", "only a run or a member can be saved as a page").advice("ask for it as json"))
        }
        (view, _) => {
            let kind = serde_json::to_value(&view).unwrap_or_default();
            let name = named(&[kind["view"].as_str().unwrap_or("view"), &name_of(&view)], "json");
            let text = api.viewer.look(&view).await?.to_string();
            Ok(File { name, kind: JSON, body: Body::from(text) })
        }
    }
}

/// Returns a whole value, redacted while it is read.
async fn value(api: &Arc<Api>, at: ValueAt, place: OwnedSemaphorePermit) -> Result<File, Failure> {
    let what = at.question.clone().or_else(|| at.record.map(|record| record.to_string()));
    let name = named(&[&at.run, what.as_deref().unwrap_or("state"), &at.pointer], "json");
    let source: Arc<dyn Source> = Arc::clone(api.sources.find(&at.store)?);
    let part = alone(async move { source.text(&at).await }).await?;
    let (writer, body) = body::file();
    let redaction = Arc::clone(&api.redaction);
    // It ends when the text is written, or when the reader is gone.
    drop(tokio::task::spawn_blocking(move || {
        let _place = place;
        if redaction.write_at(part.place, &part.text, |piece| writer.write(piece)).is_continue() {
            writer.end();
        }
    }));
    Ok(File { name, kind: JSON, body: Body::new(body) })
}

fn attachment(file: File) -> Response<Body> {
    let mut response = with_type(StatusCode::OK, file.kind, file.body);
    let name = HeaderValue::try_from(format!("attachment; filename=\"{}\"", file.name));
    let name = name.unwrap_or(HeaderValue::from_static("attachment"));
    response.headers_mut().insert(CONTENT_DISPOSITION, name);
    response
}

/// Returns what a view is about.
fn name_of(view: &View) -> String {
    match view {
        View::Run(at) => at.run.clone(),
        View::Timeline(at) => at.run.clone(),
        View::Diff(at) => at.run.clone(),
        View::Graph(at) => at.run.clone(),
        View::Member(at) | View::Ring(at) => if at.path == "/" { "root" } else { &at.path }.to_string(),
        view => view.source().unwrap_or_default().to_string(),
    }
}

/// Returns the name of a file, without a character that means something to a shell, a file system
/// or a header.
fn named(parts: &[&str], ending: &str) -> String {
    let plain = |part: &&str| {
        let words = part.split(|character: char| !character.is_ascii_alphanumeric() && !matches!(character, '_' | '.'));
        words.map(|word| word.trim_matches('.')).filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
    };
    let parts: Vec<String> = parts.iter().map(plain).filter(|part| !part.is_empty()).collect();
    let name: String = parts.join("-").chars().take(NAME_MAX).collect();
    format!("{name}.{ending}")
}

#[cfg(test)]
mod tests;
