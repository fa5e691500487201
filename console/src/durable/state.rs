//! The views `value` and `diff`: states and questions, as JSON text.

use super::StoreSource;
use super::level::{self, Level};
use crate::failure::Failure;
use crate::redact::{Place, Redaction};
use crate::report::state::{DiffJson, StateDiff};
use crate::report::text::indented;
use crate::report::{LeftOut, VALUE_BYTES_MAX, Values};
use crate::source::Part;
use crate::view::{Diff, ValueAt};
use pleach::durable::{JsonPatch, PatchOperation};
use serde::Serialize;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};
use std::time::Duration;
use tokio::task::spawn_blocking;

/// The most operations of a patch in one answer.
const OPERATIONS_MAX: usize = 500;

/// The largest value of one operation in bytes.
const OPERATION_BYTES_MAX: usize = 1 << 10;

/// The most lines, and the most bytes of both texts with their indentation.
const LINES_MAX: usize = 5_000;
const LINES_BYTES_MAX: usize = 4 * VALUE_BYTES_MAX;

/// How long the comparison of two texts may take. After that it is coarser.
const COMPARED_FOR: Duration = Duration::from_millis(200);

/// Returns one level of a state or question.
pub(super) async fn value(source: &StoreSource, asked: &ValueAt) -> Result<Value, Failure> {
    let json = read(source, asked).await?;
    let level = Level::at(&json, &asked.pointer, asked.first, VALUE_BYTES_MAX)?;
    let redacted = source.redaction.guarded(|rules| level.redacted(rules, &json, &asked.pointer))?;
    super::value_of(&redacted)
}

/// Returns a whole state, question, or part of one.
pub(super) async fn text(source: &StoreSource, asked: &ValueAt) -> Result<Part, Failure> {
    let json = read(source, asked).await?;
    let text = level::find(&json, &asked.pointer)?.to_string();
    Ok(Part { text, place: source.redaction.place_at(&json, &asked.pointer) })
}

async fn read(source: &StoreSource, asked: &ValueAt) -> Result<String, Failure> {
    let remote = source.remote(&asked.run);
    match (&asked.question, asked.record) {
        (Some(key), _) => {
            let view = remote.view().await?;
            let question = view.waits().find(|wait| wait.key == *key && wait.question.is_some());
            let missing = || Failure::new("not_found", format_args!("run {:?} asks no question {key:?} now", asked.run));
            question.and_then(|wait| wait.question.clone()).ok_or_else(missing)
        }
        (None, Some(record)) => Ok(remote.state_at(record).await?),
        (None, None) => Ok(remote.state_at(source.store().store().head(&asked.run).await?.head).await?),
    }
}

#[derive(Serialize)]
struct DiffView<'a> {
    #[serde(flatten)]
    diff: DiffJson<'a>,
    other_run: Option<&'a str>,
    /// Whether operations are missing in `patch`.
    is_cut: bool,
    lines: &'a Lines,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Lines {
    Shown(Vec<Line>),
    LeftOut(LeftOut),
}

#[derive(Serialize)]
struct Line {
    kind: &'static str,
    text: String,
}

pub(super) async fn diff(source: &StoreSource, asked: &Diff) -> Result<Value, Failure> {
    let other = asked.other_run.as_deref().unwrap_or(&asked.run);
    let before = source.remote(&asked.run).state_at(asked.from).await?;
    let after = source.remote(other).state_at(asked.to).await?;
    let patch = JsonPatch::between(&before, &after)
        .map_err(|error| Failure::new("damaged", format_args!("a stored state is not JSON: {error}")))?;
    let (store, id, from, to) = (source.store().name().to_string(), asked.run.clone(), asked.from, asked.to);
    let diff = StateDiff { store, id, from, to, patch };
    let rules = source.redaction.clone();
    let paths: Vec<String> = diff.patch.operations.iter().take(OPERATIONS_MAX).map(path_of).collect();
    // Once: it may take as long as [`COMPARED_FOR`], and blocks its thread.
    let compared = spawn_blocking(move || {
        let known = rules.places_in(&after);
        let places: Vec<Place> = paths.iter().map(|path| known.at(path)).collect();
        (lines(&before, &after), places)
    });
    let (lines, places) =
        compared.await.map_err(|error| Failure::new("internal", format_args!("two states were not compared: {error}")))?;
    let mut operations_max = OPERATIONS_MAX;
    // Operations with long paths make a shorter patch.
    loop {
        let mut answer = super::value_of(&DiffView {
            diff: diff.json(Values::Text(OPERATION_BYTES_MAX), operations_max),
            other_run: asked.other_run.as_deref(),
            is_cut: diff.patch.operations.len() > operations_max,
            lines: &lines,
        })?;
        source.redaction.guarded(|rules| {
            redact(rules, &mut answer["patch"], &places);
            Ok(())
        })?;
        if operations_max == 0 || super::size_of(&answer) <= super::ANSWER_BYTES_MAX {
            return Ok(answer);
        }
        operations_max /= 2;
    }
}

/// Returns where an operation changes a state.
fn path_of(operation: &PatchOperation) -> String {
    match operation {
        PatchOperation::Add { path, .. } | PatchOperation::Replace { path, .. } | PatchOperation::Remove { path } => {
            path.clone()
        }
        _ => String::new(),
    }
}

/// Redacts the values of a patch, by where they stand in the second state.
fn redact(rules: &Redaction, patch: &mut Value, places: &[Place]) {
    for (operation, place) in patch.as_array_mut().into_iter().flatten().zip(places) {
        if let Some(Value::String(text)) = operation.get_mut("value") {
            *text = rules.text_at(*place, text);
        }
    }
}

/// Compares two JSON texts line by line, one value on each line.
fn lines(before: &str, after: &str) -> Lines {
    let larger = before.len().max(after.len());
    if larger > VALUE_BYTES_MAX {
        return Lines::LeftOut(LeftOut { left_out: larger });
    }
    let (before, after) = (indented(before), indented(after));
    let count = before.lines().count() + after.lines().count();
    if count > LINES_MAX || before.len() + after.len() > LINES_BYTES_MAX {
        return Lines::LeftOut(LeftOut { left_out: larger });
    }
    let compared = TextDiff::configure().timeout(COMPARED_FOR).diff_lines(&before, &after);
    let line = |change: similar::Change<&str>| Line {
        kind: match change.tag() {
            ChangeTag::Equal => "same",
            ChangeTag::Insert => "added",
            ChangeTag::Delete => "removed",
        },
        text: change.value().trim_end_matches('\n').to_string(),
    };
    Lines::Shown(compared.iter_all_changes().map(line).collect())
}
