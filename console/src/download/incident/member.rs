//! The incident of a member and what is below it.

use super::look;
use super::markup::Markup;
use super::page::Page;
use super::words::{block, cell, duration, facts, list, name, part, plural, sentence, table, text, time_of};
use crate::failure::Failure;
use crate::server::routes::Api;
use crate::view::{FailureGroups, MemberAt, NotWell, Story, TreeWindow, View};
use serde_json::Value;
use std::sync::Arc;

/// How many members of the tree are listed, and how many levels are opened.
const ROWS_MAX: u64 = 200;
const LEVELS: usize = 4;

/// How many entries of the story are listed.
const ENTRIES_MAX: u64 = 200;

/// How many groups of failures are listed.
const GROUPS_MAX: u64 = 50;

/// Reads everything about a member, and writes its page.
pub(super) async fn page(api: &Arc<Api>, at: &MemberAt) -> Result<String, Failure> {
    let MemberAt { process, path } = at.clone();
    let view = look(api, View::Member(at.clone())).await?;
    let tree = tree(api, &process, &path).await;
    let story = Story { process: process.clone(), path: Some(path.clone()), before: None, limit: Some(ENTRIES_MAX) };
    let story = look(api, View::Story(story)).await;
    let not_well = NotWell { process: process.clone(), path: Some(path.clone()), cursor: None };
    let not_well = look(api, View::NotWell(not_well)).await;
    let member = &view["member"];
    let mut page = Page::new(format!("{} {}", kind(member), text(&member["path"]).unwrap_or_default()));
    let state = text(&member["activity"]["state"]).unwrap_or_default();
    page.badge(&state, if list(&view["reasons"]).is_empty() { "plain" } else { "bad" });
    page.section("What is wrong", wrong(&view));
    page.section("What it does now", now(member));
    page.section("What it waits for", waits(&view["why"]));
    page.section("Messages", ledger(&view));
    if let Some(not_well) = page.read("members that are not well", not_well) {
        if text(&not_well["next"]).is_some() {
            page.left_out("Some members that are not well: only the first ones are listed.");
        }
        page.section("Members that are not well, here and below", members(list(&not_well["members"])));
    }
    for (kind, title) in [("failures", "Failures"), ("dead_letters", "Dead letters")] {
        let asked = FailureGroups {
            process: process.clone(),
            kind: Some(kind.to_string()),
            contains: (path != "/").then(|| path.clone()),
            limit: Some(GROUPS_MAX),
        };
        if let Some(groups) = page.read(title, look(api, View::Failures(asked)).await) {
            note_missed(&mut page, title, &groups["missed"]);
            if let Some(since) = time_of(&groups["since"]) {
                page.left_out(format!("{title} before {since}: this console did not yet listen to the process."));
            }
            page.section(title, group_table(list(&groups["groups"])));
        }
    }
    if let Some(story) = page.read("the story", story) {
        note_missed(&mut page, "entries of the story", &story["missed"]);
        if story["next"].as_u64().is_some() {
            page.left_out(format!("Entries of the story before the newest {ENTRIES_MAX}."));
        }
        page.section("Story, newest first", entries(list(&story["entries"])));
    }
    if let Some(tree) = page.read("the tree", tree) {
        let shown = list(&tree["rows"]).len() as u64;
        if tree["total"].as_u64().is_some_and(|total| total > shown) {
            page.left_out(format!("Members of the tree after the first {shown}."));
        }
        page.section("The tree below", members_of_rows(list(&tree["rows"])));
    }
    let is_below = |subject: &str| {
        subject.strip_prefix(path.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || path == "/")
    };
    let ordered = super::ordered(api, &mut page, &process, is_below).await;
    page.section("Ordered through this console", ordered);
    let known = [("Path", text(&member["path"]).unwrap_or_default()), ("Process", named(api, &process))];
    Ok(page.html(api, &known))
}

/// Reads the first rows of the tree, with branches opened level by level while there is room.
async fn tree(api: &Api, process: &str, path: &str) -> Result<Value, Failure> {
    let mut open = vec![path.to_string()];
    let mut tree = Value::Null;
    for _ in 0..LEVELS {
        let window = TreeWindow {
            process: process.to_string(),
            path: Some(path.to_string()),
            open: open.clone(),
            first: 0,
            count: Some(ROWS_MAX),
        };
        tree = look(api, View::Tree(window)).await?;
        let closed = list(&tree["rows"]).iter().filter(|row| row["is_open"] == false);
        let branches = closed.filter(|row| row["member"]["children"].as_u64().is_some_and(|children| children > 0));
        let found: Vec<String> = branches.filter_map(|row| text(&row["member"]["path"])).collect();
        if found.is_empty() || tree["total"].as_u64().is_none_or(|total| total >= ROWS_MAX) {
            break;
        }
        open.extend(found);
    }
    Ok(tree)
}

/// Names a process.
fn named(api: &Api, key: &str) -> String {
    let console = api.described().unwrap_or_default();
    let process = list(&console["processes"]).iter().find(|process| process["key"] == *key).cloned().unwrap_or_default();
    let texts = [("", "name"), ("pid ", "pid"), ("version ", "version")];
    let known = texts.iter().filter_map(|(before, name)| Some(format!("{before}{}", text(&process[*name])?)));
    known.collect::<Vec<_>>().join(", ")
}

fn kind(member: &Value) -> String {
    sentence(&text(&member["kind"]).unwrap_or_default().replace('_', " "))
}

fn wrong(view: &Value) -> Markup {
    let reason = |reason: &Value| Some(Markup::element("li", "", [Markup::lines(&sentence(&text(&reason["sentence"])?))]));
    let reasons: Vec<Markup> = list(&view["reasons"]).iter().filter_map(reason).collect();
    let last = &view["member"]["last_failure"];
    let failure = text(&last["reason"]).map_or_else(Markup::default, |reason| {
        let known = facts([
            ("Ago", duration(&last["ago_us"])),
            ("First at", text(&last["origin"])),
            ("Incarnation", text(&last["incarnation"])),
            ("Message", text(&last["message"])),
        ]);
        Markup::all([block(&reason), known])
    });
    if reasons.is_empty() && failure.is_empty() {
        return Markup::of("p", "quiet", "Nothing is known to be wrong with this member itself.");
    }
    let reasons = if reasons.is_empty() { Markup::default() } else { Markup::element("ul", "happened", reasons) };
    Markup::all([reasons, part("The last failure", failure)])
}

/// Says what a member does, such as `handling for 2 s`.
fn activity(member: &Value) -> String {
    let activity = &member["activity"];
    let state = text(&activity["state"]).unwrap_or_default().replace('_', " ");
    match (duration(&activity["for_us"]), duration(&activity["in_us"])) {
        (Some(time), _) => format!("{state} for {time}"),
        (_, Some(later)) => format!("{state} in {later}"),
        _ => state,
    }
}

fn now(member: &Value) -> Markup {
    let (actor, restarts) = (&member["actor"], &member["restarts"]);
    let allowed = text(&restarts["allowed"]).map(|allowed| {
        let window = duration(&restarts["window_us"]).map_or_else(String::new, |window| format!(" in {window}"));
        format!("{} of {allowed} used{window}", text(&restarts["used"]).unwrap_or_default())
    });
    let queue = text(&actor["queued"]).map(|queued| match text(&actor["capacity"]) {
        Some(capacity) => format!("{queued} of {capacity}"),
        None => queued,
    });
    facts([
        ("Activity", Some(activity(member))),
        ("Mailbox", queue),
        ("Stashed", text(&actor["stashed"])),
        ("Senders wait", text(&actor["waiting_senders"])),
        ("Message type", text(&actor["message_type"])),
        ("Incarnation", text(&actor["incarnation"])),
        ("Restarts", allowed),
        ("Up for", duration(&member["up_for_us"])),
        ("Children", text(&member["children"])),
        ("Pool size", text(&member["pool_size"])),
        ("Id", text(&member["id"])),
    ])
}

fn waits(why: &Value) -> Markup {
    let cycle = (why["is_cycle"] == true)
        .then(|| Markup::of("p", "wrong", "These members wait for each other: none of them can continue."));
    let chain = part("The chain", members(if list(&why["chain"]).len() > 1 { list(&why["chain"]) } else { &[] }));
    let waiters = part("Who waits for it", members(list(&why["waiters"])));
    Markup::all(cycle.into_iter().chain([chain, waiters]))
}

/// Shows the counts, and whether they add up.
fn ledger(view: &Value) -> Markup {
    let ledger = if view["ledger"].is_object() { &view["ledger"] } else { &view["member"]["actor"]["counts"] };
    let names = [
        ("Members", "members"),
        ("Accepted", "accepted"),
        ("Handled", "handled"),
        ("Failed", "failed"),
        ("Dead letters", "dead_lettered"),
        ("Queued", "queued"),
        ("Stashed", "stashed"),
        ("In a handler", "in_handler"),
    ];
    let counts = facts(names.map(|(title, name)| (title, text(&ledger[name]))));
    let verdict = match ledger["difference"].as_i64() {
        None => Markup::default(),
        Some(0) => Markup::of("p", "quiet", "The counts add up: every accepted message is accounted for."),
        Some(missing) => Markup::of("p", "wrong", format_args!("The counts do not add up: the difference is {missing}.")),
    };
    Markup::all([counts, verdict])
}

fn members(members: &[Value]) -> Markup {
    let row = |member: &Value| {
        let actor = &member["actor"];
        let queued = text(&actor["queued"]).unwrap_or_default();
        let last = text(&member["last_failure"]["reason"]).unwrap_or_default();
        let texts = [kind(member), activity(member), queued, last];
        [name(&member["path"])].into_iter().chain(texts.iter().map(|text| Markup::lines(text))).collect()
    };
    table(&["Path", "Kind", "Activity", "Queued", "Last failure"], members.iter().map(row).collect())
}

fn members_of_rows(rows: &[Value]) -> Markup {
    let row = |row: &Value| {
        let member = &row["member"];
        if !member.is_object() {
            let more = row["more"].as_u64().unwrap_or(0);
            return vec![Markup::of("span", "quiet", format!("{} more", plural(more, "member")))];
        }
        let indent = "\u{a0}\u{a0}\u{a0}".repeat(row["depth"].as_u64().unwrap_or(0).min(32) as usize);
        let path = text(&member["path"]).unwrap_or_default();
        let own = path.rsplit('/').next().filter(|own| !own.is_empty()).unwrap_or("/");
        let counts = &member["actor"]["counts"];
        let texts = [format!("{indent}{own}"), kind(member), activity(member)];
        let numbers = [&member["actor"]["queued"], &counts["handled"], &counts["failed"], &counts["dead_lettered"]];
        texts.iter().map(|text| Markup::lines(text)).chain(numbers.map(cell)).collect()
    };
    let heads = ["Member", "Kind", "Activity", "Queued", "Handled", "Failed", "Dead letters"];
    table(&heads, rows.iter().map(row).collect())
}

fn group_table(groups: &[Value]) -> Markup {
    let row = |group: &Value| {
        let (count, path, reason) = (cell(&group["count"]), name(&group["path"]), cell(&group["reason"]));
        let first = if group["first"] == group["last"] { Markup::default() } else { name(&group["first"]) };
        vec![count, path, cell(&group["message"]), first, name(&group["last"]), reason]
    };
    table(&["Count", "Path", "Message", "First", "Last", "Reason"], groups.iter().map(row).collect())
}

fn entries(entries: &[Value]) -> Markup {
    let row = |entry: &Value| {
        let decision = &entry["decision"];
        let count = match (text(&decision["restarts"]), text(&decision["limit"])) {
            (Some(restarts), Some(limit)) => Some(format!("{restarts} of {limit}")),
            (restarts, _) => restarts,
        };
        let also = list(&decision["also"]).iter().filter_map(text).collect::<Vec<_>>().join(", ");
        let said = [
            text(&decision["directive"]).map(|directive| sentence(&directive.replace('_', " "))),
            text(&decision["strategy"]).map(|strategy| format!("strategy {strategy}")),
            text(&decision["supervisor"]).map(|supervisor| format!("by {supervisor}")),
            count.map(|count| format!("restarts {count}")),
            duration(&decision["delay_us"]).map(|delay| format!("after {delay}")),
            (!also.is_empty()).then(|| format!("with it: {also}")),
        ];
        let decision = said.into_iter().flatten().collect::<Vec<_>>().join("; ");
        let kind = text(&entry["kind"]).unwrap_or_default().replace('_', " ");
        let first =
            [cell(&entry["seq"]), name(&entry["at"]), Markup::of("span", "name", sentence(&kind)), name(&entry["path"])];
        first.into_iter().chain([cell(&entry["text"]), Markup::lines(&decision)]).collect()
    };
    table(&["Number", "At", "Kind", "Path", "What happened", "Decision"], entries.iter().map(row).collect())
}

fn note_missed(page: &mut Page, what: &str, missed: &Value) {
    if let Some(missed) = missed.as_u64().filter(|missed| *missed > 0) {
        page.left_out(format!("{}: {missed} older ones are not kept any more.", sentence(what)));
    }
}
