//! What a rewind, fork or retry would run again, as text.

use crate::output::escape::OneLine;
use pleach::durable::{EffectPreview, RewindPreview, UndoPreview, WaitPreview};
use std::fmt::Write as _;

/// The most entries of one list in text.
const SHOWN_MAX: usize = 20;

/// Returns a preview as lines.
pub fn text(preview: &RewindPreview) -> String {
    let mut text = format!("it continues after record {} at {}\n", preview.record, names(&preview.nodes));
    let effect = |one: &EffectPreview| format!("effect {} of {} (record {})", one.name, one.node, one.record);
    let wait = |one: &WaitPreview| format!("{} of {} (record {})", one.key, one.node, one.record);
    let undo = |one: &UndoPreview| format!("undo of {} (record {})", one.node, one.record);
    add(&mut text, "runs again", &preview.effects_again, effect);
    add(&mut text, "keeps its result", &preview.effects_kept, effect);
    add(&mut text, "was started, may have happened", &preview.effects_unknown, effect);
    add(&mut text, "is waited for again", &preview.waits_again, wait);
    add(&mut text, "keeps its answer", &preview.waits_kept, wait);
    add(&mut text, "never runs, its work stays done", &preview.undos_dropped, undo);
    let kept = if preview.is_undoing { "runs now" } else { "runs if the run fails later" };
    add(&mut text, kept, &preview.undos_kept, undo);
    if preview.effects_again.is_empty() && preview.waits_again.is_empty() {
        text.push_str("  no recorded effect runs again\n");
    }
    text
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
