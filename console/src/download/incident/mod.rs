//! Incidents: a run, or a member and what is below it, as one page that opens without a server.
//!
//! | file | owns |
//! |---|---|
//! | `run`, `member` | what the page of each says |
//! | `page` | the frame of a page |
//! | `drawing` | the graph of a run |
//! | `words` | values as people read them, tables, lists |
//! | `markup` | escaping |
//!
//! A page is made of views, which are redacted. It has no script, loads nothing, and says what was
//! left out. A view that fails leaves a sentence, never an empty list.

mod drawing;
mod markup;
mod member;
mod page;
mod run;
mod words;

use crate::failure::Failure;
use crate::server::routes::Api;
use crate::view::{ActionLog, View};
use markup::Markup;
use page::Page;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use words::{cell, list, name, table, text};

/// How long each view of a page may take.
const VIEW_WITHIN: Duration = Duration::from_secs(10);

/// How many of the newest orders are searched.
const ORDERS_MAX: u64 = 200;

/// Returns the page of a run or member.
pub(super) async fn page(api: &Arc<Api>, view: &View) -> Result<String, Failure> {
    match view {
        View::Run(at) => run::page(api, at).await,
        View::Member(at) => member::page(api, at).await,
        _ => Err(Failure::new("bad_request", "only a run or a member can be saved as a page")),
    }
}

/// Returns the answer of a view.
async fn look(api: &Api, view: View) -> Result<Value, Failure> {
    timeout(VIEW_WITHIN, api.viewer.look(&view)).await.unwrap_or_else(|_| {
        Err(Failure::new("timed_out", format_args!("no answer within {} s", VIEW_WITHIN.as_secs())).advice("try again"))
    })
}

/// Returns what was ordered of these subjects of a source, through this console or an earlier one.
async fn ordered(api: &Api, page: &mut Page, source: &str, is_asked: impl Fn(&str) -> bool) -> Markup {
    let asked = View::Actions(ActionLog { before: None, limit: Some(ORDERS_MAX) });
    let Some(log) = page.read("the record of actions", look(api, asked).await) else { return Markup::default() };
    let place = api.orders.place(source);
    let is_asked = |entry: &&Value| place.has(source, entry) && entry["subject"].as_str().is_some_and(&is_asked);
    let row = |entry: &Value| {
        let outcome = text(&entry["outcome"]).unwrap_or_default();
        let said = text(&entry["text"]).map_or_else(String::new, |said| format!(": {said}"));
        let ordered = [name(&entry["at"]), cell(&entry["who"]), cell(&entry["title"]), cell(&entry["reason"])];
        ordered.into_iter().chain([Markup::lines(&format!("{outcome}{said}"))]).collect()
    };
    table(&["At", "Who", "Order", "Reason", "Result"], list(&log["entries"]).iter().filter(is_asked).map(row).collect())
}
