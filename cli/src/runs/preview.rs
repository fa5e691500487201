//! What a rewind, fork or retry would run again, as JSON and text.

use crate::output::escape::OneLine;
use crate::output::times::rfc3339;
use pleach::durable::{EffectPreview, RewindPreview, UndoPreview, WaitPreview};
use serde::Serialize;
use std::fmt::Write as _;

/// The most entries of one list in text.
const SHOWN_MAX: usize = 20;

/// A preview, as JSON. Fields are only added.
#[derive(Serialize)]
pub struct PreviewJson {
    record: u64,
    nodes: Vec<String>,
    effects_again: Vec<EffectJson>,
    effects_kept: Vec<EffectJson>,
    effects_unknown: Vec<EffectJson>,
    waits_again: Vec<WaitJson>,
    waits_kept: Vec<WaitJson>,
    undos_kept: Vec<UndoJson>,
    undos_dropped: Vec<UndoJson>,
    is_undoing: bool,
    is_cut: bool,
}

#[derive(Serialize)]
struct EffectJson {
    name: String,
    node: String,
    branch: Vec<u32>,
    idempotency_key: String,
    at: String,
    record: u64,
    is_copied: bool,
}

#[derive(Serialize)]
struct WaitJson {
    key: String,
    node: String,
    branch: Vec<u32>,
    at: String,
    record: u64,
    is_signal: bool,
}

#[derive(Serialize)]
struct UndoJson {
    node: String,
    at: String,
    record: u64,
}

impl PreviewJson {
    pub fn of(preview: &RewindPreview) -> Self {
        let effects = |list: &[EffectPreview]| list.iter().map(EffectJson::of).collect();
        let waits = |list: &[WaitPreview]| list.iter().map(WaitJson::of).collect();
        let undos = |list: &[UndoPreview]| list.iter().map(UndoJson::of).collect();
        Self {
            record: preview.record,
            nodes: preview.nodes.clone(),
            effects_again: effects(&preview.effects_again),
            effects_kept: effects(&preview.effects_kept),
            effects_unknown: effects(&preview.effects_unknown),
            waits_again: waits(&preview.waits_again),
            waits_kept: waits(&preview.waits_kept),
            undos_kept: undos(&preview.undos_kept),
            undos_dropped: undos(&preview.undos_dropped),
            is_undoing: preview.is_undoing,
            is_cut: preview.is_cut,
        }
    }

    /// Returns the preview as lines.
    pub fn text(&self) -> String {
        let mut text = format!("it continues after record {} at {}\n", self.record, names(&self.nodes));
        let effect = |one: &EffectJson| format!("effect {} of {} (record {})", one.name, one.node, one.record);
        let wait = |one: &WaitJson| format!("{} of {} (record {})", one.key, one.node, one.record);
        let undo = |one: &UndoJson| format!("undo of {} (record {})", one.node, one.record);
        add(&mut text, "runs again", &self.effects_again, effect);
        add(&mut text, "keeps its result", &self.effects_kept, effect);
        add(&mut text, "was started, may have happened", &self.effects_unknown, effect);
        add(&mut text, "is waited for again", &self.waits_again, wait);
        add(&mut text, "keeps its answer", &self.waits_kept, wait);
        add(&mut text, "never runs, its work stays done", &self.undos_dropped, undo);
        let kept = if self.is_undoing { "runs now" } else { "runs if the run fails later" };
        add(&mut text, kept, &self.undos_kept, undo);
        if self.effects_again.is_empty() && self.waits_again.is_empty() {
            text.push_str("  no recorded effect runs again\n");
        }
        text
    }
}

fn add<T>(text: &mut String, what: &str, list: &[T], describe: impl Fn(&T) -> String) {
    for one in list.iter().take(SHOWN_MAX) {
        let _ = writeln!(text, "  {what}: {}", OneLine(&describe(one)));
    }
    if list.len() > SHOWN_MAX {
        let _ = writeln!(text, "  {what}: {} more; --json lists them", list.len() - SHOWN_MAX);
    }
}

fn names(nodes: &[String]) -> String {
    let names: Vec<String> = nodes.iter().take(SHOWN_MAX).map(|node| OneLine(node).to_string()).collect();
    if names.is_empty() { "the end".into() } else { names.join(", ") }
}

impl EffectJson {
    fn of(one: &EffectPreview) -> Self {
        Self {
            name: one.name.clone(),
            node: one.node.clone(),
            branch: one.branch.clone(),
            idempotency_key: one.key.clone(),
            at: rfc3339(one.at),
            record: one.record,
            is_copied: one.is_copied,
        }
    }
}

impl WaitJson {
    fn of(one: &WaitPreview) -> Self {
        let (key, node, branch, at) = (one.key.clone(), one.node.clone(), one.branch.clone(), rfc3339(one.at));
        Self { key, node, branch, at, record: one.record, is_signal: one.is_signal }
    }
}

impl UndoJson {
    fn of(one: &UndoPreview) -> Self {
        Self { node: one.node.clone(), at: rfc3339(one.at), record: one.record }
    }
}
