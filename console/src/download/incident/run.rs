//! The incident of a run.

use super::drawing;
use super::look;
use super::markup::Markup;
use super::page::Page;
use super::words::{block, cell, commands, facts, list, name, part, plural, sentence, sentences, size, table, text, time_of};
use crate::failure::Failure;
use crate::server::routes::Api;
use crate::view::{GraphOf, RunAt, Timeline, ValueAt, View};
use serde_json::Value;
use std::sync::Arc;

/// How many records are listed, the newest.
const RECORDS_MAX: u64 = 300;

/// How many places, and how many waits, are listed.
const PLACES_MAX: usize = 50;

/// How many branches are named at one place.
const BRANCHES_MAX: usize = 8;

/// Reads everything about a run, and writes its page.
pub(super) async fn page(api: &Arc<Api>, at: &RunAt) -> Result<String, Failure> {
    let (store, run) = (at.store.clone(), at.run.clone());
    let view = look(api, View::Run(at.clone())).await?;
    let asked = Timeline { store: store.clone(), run: run.clone(), limit: Some(RECORDS_MAX), ..Timeline::default() };
    let timeline = look(api, View::Timeline(asked)).await;
    let graph = look(api, View::Graph(GraphOf { store: store.clone(), run: run.clone(), graphs: None })).await;
    let state = look(api, View::Value(ValueAt { store: store.clone(), run: run.clone(), ..ValueAt::default() })).await;
    let (show, why) = (&view["show"], &view["why"]);
    let mut page = Page::new(format!("Run {}", text(&why["id"]).unwrap_or_default()));
    let status = text(&why["status"]).unwrap_or_default();
    page.badge(&status, tone(&status));
    page.section("What happened", happened(why, &status));
    page.section("What to do", commands(list(&why["do"])));
    let position = part("Positions", positions(&mut page, show));
    let failure = part("The last failure", failure(&show["failure"]));
    if let Some(damage) = text(&view["damage"]["text"]) {
        page.left_out(format!("What the damaged part of the log says: {damage}."));
    }
    page.section("Where it is", Markup::all([failure, position]));
    if let Some(graph) = page.read("the graph", graph) {
        page.section("The graph", drawing::graph(&graph));
    }
    if let Some(timeline) = page.read("the timeline", timeline) {
        let records = records(&mut page, &timeline);
        page.section("Timeline, newest first", records);
    }
    if let Some(state) = page.read("the state", state) {
        let state = whole(&mut page, &state, text(&show["record"]));
        page.section("State", state);
    }
    let waits = waits(&mut page, show);
    page.section("Waits and messages", waits);
    page.section("Worker and lease", driver(&view));
    page.section("Other runs", relatives(&view));
    let ordered = super::ordered(api, &mut page, &store, |subject| subject == run).await;
    page.section("Ordered through this console", ordered);
    if view["is_cut"] == true || view["tokens_left_out"].as_u64().is_some_and(|count| count > 0) {
        page.left_out("Some positions or related runs: there are too many.");
    }
    page.section("Versions", versions(show));
    let known = [
        ("Store", text(&why["store"]).unwrap_or_default()),
        ("Graph", text(&why["graph"]).unwrap_or_default()),
        ("Created", time_of(&show["created"]).unwrap_or_default()),
        ("Changed", time_of(&show["changed"]).unwrap_or_default()),
    ];
    Ok(page.html(api, &known))
}

/// Returns how a status looks.
fn tone(status: &str) -> &'static str {
    match status {
        "finished" => "ok",
        "failed" | "stuck" | "compensation failed" | "damaged" => "bad",
        "waiting" => "odd",
        _ => "plain",
    }
}

/// Says what happened, and why.
fn happened(why: &Value, status: &str) -> Markup {
    let class = if tone(status) == "bad" { "happened" } else { "happened calm" };
    let causes = sentences(class, list(&why["cause"]));
    let so = sentences("so", list(&why["so"]));
    let notes = sentences("so quiet", list(&why["note"]));
    let fact = |fact: &Value| vec![name(&fact["since"]), cell(&fact["record"]), name(&fact["node"]), cell(&fact["text"])];
    let facts = table(&["Since", "Record", "Node", "What is known"], list(&why["facts"]).iter().map(fact).collect());
    Markup::all([causes, so, notes, part("The chain of causes", facts)])
}

fn failure(failure: &Value) -> Markup {
    let reason = text(&failure["reason"]).map_or_else(Markup::default, |reason| block(&reason));
    let known = facts([
        ("Node", text(&failure["node"])),
        ("Kind", text(&failure["kind"])),
        ("Attempt", text(&failure["attempt"])),
        ("Record", text(&failure["record"])),
        ("At", time_of(&failure["at"])),
        ("Next attempt", time_of(&failure["retry_at"])),
    ]);
    Markup::all([known, reason])
}

/// Names a place of a graph or a branch.
fn place(at: &Value) -> String {
    let kind = text(&at["kind"]).unwrap_or_default().replace('_', " ");
    text(&at["node"]).map_or(kind.clone(), |node| if kind == "node" { node } else { format!("{node} ({kind})") })
}

fn branch(branch: &Value) -> String {
    list(branch).iter().filter_map(text).collect::<Vec<_>>().join(".")
}

/// Names the first branches, and says how many there are besides.
fn shortened(branches: &[String]) -> String {
    let named = branches.iter().take(BRANCHES_MAX).cloned().collect::<Vec<_>>().join(", ");
    match branches.len().saturating_sub(BRANCHES_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

fn positions(page: &mut Page, show: &Value) -> Markup {
    let tokens = list(&show["tokens"]);
    // Branches that are at the same place are one row.
    let mut rows: Vec<([String; 3], Vec<String>)> = Vec::new();
    for token in tokens {
        let waits = list(&token["waits"]).iter().filter_map(|wait| text(&wait["key"])).collect::<Vec<_>>();
        let failure = text(&token["failure"]["reason"]).unwrap_or_default();
        let same = [place(&token["at"]), waits.join(", "), failure];
        match rows.iter_mut().find(|(known, _)| *known == same) {
            Some((_, branches)) => branches.push(branch(&token["branch"])),
            None => rows.push((same, vec![branch(&token["branch"])])),
        }
    }
    if rows.len() > PLACES_MAX {
        page.left_out(format!("Of the {} only the first {PLACES_MAX}.", plural(rows.len() as u64, "position")));
        rows.truncate(PLACES_MAX);
    }
    let row = |([place, waits, failure], branches): ([String; 3], Vec<String>)| {
        let count = if branches.len() > 1 { branches.len().to_string() } else { String::new() };
        [place, count, shortened(&branches), waits, failure].iter().map(|text| Markup::lines(text)).collect()
    };
    table(&["At", "Positions", "Branches", "Waits for", "Failure"], rows.into_iter().map(row).collect())
}

fn records(page: &mut Page, timeline: &Value) -> Markup {
    if timeline["next"].as_u64().is_some() {
        page.left_out(format!("The records before the newest {RECORDS_MAX}: see `pleach runs history`."));
    }
    let row = |record: &Value| {
        let reason = text(&record["failure"]["reason"]).or_else(|| text(&record["damage"])).unwrap_or_default();
        let what = match text(&record["node"]).filter(|node| !node.is_empty()) {
            Some(node) => node,
            None => place(&record["next"]),
        };
        let kind = text(&record["kind"]).unwrap_or_default().replace('_', " ");
        let attempt = text(&record["attempt"]).filter(|attempt| attempt != "0").unwrap_or_default();
        let reason =
            if reason.is_empty() { Markup::default() } else { Markup::element("span", "wrong", [Markup::lines(&reason)]) };
        let written = [sentence(&kind), what, branch(&record["branch"]), attempt];
        let first = [cell(&record["record"]), name(&record["at"])];
        first.into_iter().chain(written.iter().map(|text| Markup::lines(text))).chain([reason]).collect()
    };
    let heads = ["Record", "At", "Kind", "Node", "Branch", "Attempt", "Failure"];
    table(&heads, list(&timeline["records"]).iter().map(row).collect())
}

/// Returns a state, if it is not too large.
fn whole(page: &mut Page, state: &Value, record: Option<String>) -> Markup {
    let bytes = state["bytes"].as_u64().unwrap_or(0);
    let at = record.map_or_else(String::new, |record| format!(" at record {record}"));
    let Some(text) = state["text"].as_str() else {
        page.left_out(format!("The state{at}: it has {}. Download it in the console.", size(bytes)));
        return Markup::default();
    };
    let note = format!("The state{at}, {} as stored; laid out in lines, with every digit.", size(bytes));
    Markup::all([Markup::of("p", "quiet", note), block(&crate::report::text::indented(text))])
}

fn waits(page: &mut Page, show: &Value) -> Markup {
    let waits = list(&show["tokens"]).iter().flat_map(|token| list(&token["waits"]).iter().map(move |wait| (token, wait)));
    let row = |(token, wait): (&Value, &Value)| {
        let question = match wait["question"]["left_out"].as_u64() {
            Some(bytes) => Markup::of("span", "quiet", format!("{} are left out", size(bytes))),
            None => cell(&wait["question"]),
        };
        let known = [cell(&wait["kind"]), name(&wait["key"]), name(&wait["due"]), question];
        [Markup::text(place(&token["at"]))].into_iter().chain(known).collect()
    };
    let mut rows: Vec<Vec<Markup>> = waits.map(row).collect();
    if rows.len() > PLACES_MAX {
        page.left_out(format!("Of the {} only the first {PLACES_MAX}.", plural(rows.len() as u64, "wait")));
        rows.truncate(PLACES_MAX);
    }
    let waits = table(&["Node", "Kind", "Key", "Due", "Question"], rows);
    let refused = |message: &Value| {
        vec![cell(&message["number"]), name(&message["at"]), cell(&message["name"]), cell(&message["reason"])]
    };
    let refused = table(&["Number", "At", "Message", "Why"], list(&show["refused"]).iter().map(refused).collect());
    Markup::all([part("Waits", waits), part("Messages that the run refused", refused)])
}

fn driver(view: &Value) -> Markup {
    let (show, driver) = (&view["show"], &view["driver"]);
    facts([
        ("Worker", text(&driver["name"]).or_else(|| text(&show["driver"]))),
        ("Process", text(&driver["process"])),
        ("Is alive", text(&driver["is_alive"])),
        ("Lease until", time_of(&show["lease_until"])),
        ("Takeovers", text(&show["takeovers"])),
        ("Trouble", text(&show["trouble"])),
        ("Due", time_of(&show["due"])),
        ("Deadline", time_of(&show["deadline"])),
        ("Paused", text(&show["is_paused"])),
    ])
}

fn relatives(view: &Value) -> Markup {
    let row = |relation: &'static str, run: &Value| {
        let relation = text(&run["relation"]).unwrap_or_else(|| relation.to_string());
        vec![Markup::text(relation), cell(&run["run"]), cell(&run["graph"]), cell(&run["status"]), cell(&run["record"])]
    };
    let parent = view["parent"].is_object().then(|| row("parent", &view["parent"]));
    let children = list(&view["children"]).iter().map(|run| row("child", run));
    table(&["Relation", "Run", "Graph", "Status", "Record"], parent.into_iter().chain(children).collect())
}

fn versions(show: &Value) -> Markup {
    let tags = show["tags"].as_object().into_iter().flatten();
    let tags: Vec<String> = tags.filter_map(|(key, value)| Some(format!("{key}={}", text(value)?))).collect();
    facts([
        ("Fingerprint", text(&show["fingerprint"])),
        ("Schema", text(&show["schema"])),
        ("Records", text(&show["record"])),
        ("Visits", text(&show["visits"])),
        ("Forked from", text(&show["forked_from"]).or_else(|| text(&show["forked_from"]["run"]))),
        ("Tags", (!tags.is_empty()).then(|| tags.join(", "))),
    ])
}
