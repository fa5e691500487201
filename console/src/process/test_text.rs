//! The view `test` of a process: a test in Rust, with the simulator, that repeats a failure.
//!
//! `console/tests/generated` holds one of them as a file that is compiled and run.

use crate::failure::Failure;
use crate::process::history::History;
use crate::process::history::ring::{Entry, Ring};
use crate::process::parse_path;
use crate::report::times::short;
use crate::rust_text::{comment, literal, name};
use crate::view::TestFrom;
use pleach::actor::ActorPath;
use pleach::inspect::{DecisionDetails, FailureDetails};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// Answers the view `test`.
pub(super) async fn view(history: &Arc<History>, asked: &TestFrom) -> Result<Value, Failure> {
    let missing = || Failure::new("bad_request", "the path of the member is missing");
    let path = parse_path(asked.path.as_deref().ok_or_else(missing)?)?;
    history.listen().await?;
    let found = history.look(|heard| find(&heard.ring, &path, asked.seq));
    let Some((failure, decision)) = found else {
        let text = format!("the console does not keep this failure of {path} any more");
        return Err(Failure::new("not_found", text).advice("choose a later one in the story of the member"));
    };
    let (text, notes) = write(&path, &failure, decision.as_deref());
    Ok(json!({ "text": text, "notes": notes }))
}

type Found = (Box<FailureDetails>, Option<Box<DecisionDetails>>);

/// Returns a failure of the member, the newest one without a number, and the decision about it.
fn find(ring: &Ring, path: &ActorPath, seq: Option<u64>) -> Option<Found> {
    let is_failure = |entry: &&Entry| entry.kind == "failed" && entry.path.as_ref() == Some(path);
    let entry = match seq {
        Some(seq) => ring.find(seq).filter(is_failure)?,
        None => ring.newest_first(None).find(is_failure)?,
    };
    let failure = entry.failure.clone()?;
    let after = ring.newest_first(None).take_while(|later| later.seq > entry.seq);
    let decided = after.filter(|later| later.decision.is_some() && later.path.as_ref() == Some(path)).last();
    let decision = decided.filter(|later| later.failure.as_ref().is_some_and(|of| of.reason == failure.reason));
    Some((failure, decision.and_then(|decided| decided.decision.clone())))
}

/// Writes the test, and what is to be filled in.
fn write(path: &ActorPath, failure: &FailureDetails, decision: Option<&DecisionDetails>) -> (String, Vec<String>) {
    let own = path.segments().last().map_or_else(|| "root".to_string(), ToString::to_string);
    let message = failure.message_type.as_deref().or(failure.message.as_deref());
    let supervisor = decision.and_then(Supervisor::of);
    let mut text = head(path, failure, decision);
    let imports = if message.is_some() { "{message, props}" } else { "props" };
    let _ = write!(text, "\nuse crate::{imports};\nuse pleach::prelude::*;\nuse pleach::sim::explore;\n");
    if supervisor.as_ref().is_some_and(|of| of.strategy == "AlwaysRestart") {
        text.push_str("use pleach::supervise::AlwaysRestart;\n");
    }
    let handling = message.map_or_else(String::new, |message| format!(" while handling {}", last_part(message)));
    let _ = write!(text, "\n#[test]\nfn {}() {{\n", name(&format!("{own} does not fail{handling}")));
    text.push_str("    explore(0..100, |sim| {\n        let system = sim.system(\"test\");\n");
    let parent = match &supervisor {
        Some(Supervisor { name, strategy }) => {
            let _ =
                writeln!(text, "        let above = system.supervisor({}, {strategy}).expect(\"a new name\");", literal(name));
            "above"
        }
        None => "system",
    };
    let _ = writeln!(text, "        let actor = {parent}.spawn({}, props()).expect(\"a new name\");", literal(&own));
    if message.is_some() {
        text.push_str("        actor.tell(message()).expect(\"it accepts messages\");\n");
    }
    text.push_str("        sim.advance(Duration::from_secs(60));\n");
    text.push_str("        let failure = actor.any().info().last_failure;\n");
    text.push_str("        assert!(failure.is_none(), \"seed {}: {failure:?}\", sim.seed());\n    });\n}\n");
    (text, notes(failure, message, decision, supervisor.is_some()))
}

fn head(path: &ActorPath, failure: &FailureDetails, decision: Option<&DecisionDetails>) -> String {
    let while_handling = match failure.message.as_deref().or(failure.message_type.as_deref()) {
        Some(message) => format!("while it handled {}", comment(message)),
        None => "outside of a handler".to_string(),
    };
    let mut head = format!("//! Repeats a failure of {} {while_handling}.\n//!\n", comment(&path.to_string()));
    let _ = writeln!(head, "//! Reason: {}", comment(&failure.reason));
    if let Some(decision) = decision {
        let limit = decision.limit.map_or_else(String::new, |limit| {
            let window = short(Duration::from_micros(decision.window_us));
            format!(", restart {} of {limit} in {window}", decision.restarts)
        });
        let (directive, strategy) = (&decision.directive, comment(&decision.strategy));
        let _ = writeln!(
            head,
            "//! Decided by {}: {directive} (strategy {strategy}{limit})",
            comment(&decision.supervisor.to_string())
        );
    }
    for (key, value) in &failure.metadata {
        let _ = writeln!(head, "//! With {}: {}", comment(key), comment(value));
    }
    head
}

/// The supervisor of the failed member, as the test builds it.
struct Supervisor {
    name: String,
    strategy: String,
}

impl Supervisor {
    /// `None` for a member of a guardian without a strategy: the system itself starts it.
    fn of(decision: &DecisionDetails) -> Option<Self> {
        let name = decision.supervisor.segments().last()?.to_string();
        if decision.strategy == "default" && decision.supervisor.segments().len() < 2 {
            return None;
        }
        let strategy = match decision.strategy.as_str() {
            "one_for_all" => "OneForAll::new()",
            "rest_for_one" => "RestForOne::new()",
            "always_restart" => return Some(Self { name, strategy: "AlwaysRestart".to_string() }),
            _ => "OneForOne::new()",
        };
        let window = Duration::from_micros(decision.window_us);
        let limit = decision.limit.map(|limit| {
            let window = match (window.as_secs(), window.subsec_micros()) {
                (seconds, 0) => format!("from_secs({seconds})"),
                _ => format!("from_micros({})", decision.window_us),
            };
            format!(".restart_limit({limit}, Duration::{window})")
        });
        Some(Self { name, strategy: format!("{strategy}{}", limit.unwrap_or_default()) })
    }
}

/// Says what is to be filled in, and what the test does not have.
fn notes(
    failure: &FailureDetails,
    message: Option<&str>,
    decision: Option<&DecisionDetails>,
    is_supervised: bool,
) -> Vec<String> {
    let mut notes = vec!["`props` makes the actor as the program does.".to_string()];
    notes.push(match message {
        Some(message) => {
            format!("`message` makes the {message} with which it failed; the console does not know its content.")
        }
        None => "It failed outside of a handler: in a hook, or before its first message.".to_string(),
    });
    notes.push("While the failure happens, the test fails and names the seed; PLEACH_SEED repeats that one.".to_string());
    if failure.incarnation > 0 {
        notes.push(format!(
            "It had been restarted {} before: send what led to that too, if the failure depends on it.",
            if failure.incarnation == 1 { "once".to_string() } else { format!("{} times", failure.incarnation) }
        ));
    }
    let Some(decision) = decision else {
        notes.push("The decision of its supervisor is not known: the system starts it, with the default strategy.".to_string());
        return notes;
    };
    let is_known =
        ["one_for_one", "one_for_all", "rest_for_one", "always_restart", "default"].contains(&decision.strategy.as_str());
    if is_supervised && !is_known {
        notes.push(format!("The strategy {} stands in the program; the test has OneForOne in its place.", decision.strategy));
    }
    if !decision.also.is_empty() {
        let siblings = decision.also.len() as u64 + decision.also_left_out;
        let names = decision.also.first().map(ToString::to_string).unwrap_or_default();
        notes.push(match siblings {
            1 => format!("A sibling went down with it: {names}. Start it before, if the failure depends on it."),
            siblings => {
                format!("{siblings} siblings went down with it, first {names}. Start those on which the failure depends.")
            }
        });
    }
    notes
}

fn last_part(type_name: &str) -> &str {
    type_name.rsplit("::").next().unwrap_or(type_name)
}
