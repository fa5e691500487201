//! The sentences about what a rewind, fork or retry runs again.

use pleach::durable::{EffectPreview, RewindPreview, UndoPreview, WaitPreview};

/// The most sentences of one kind. The preview has all.
const SHOWN_MAX: usize = 10;

/// Returns one sentence for each consequence, the most important first.
pub(super) fn sentences(preview: &RewindPreview) -> Vec<String> {
    let mut will = Vec::new();
    will.push(format!("it continues after record {} at {}", preview.record, places(&preview.nodes)));
    let effect = |one: &EffectPreview| format!("effect {} of {}", one.name, one.node);
    let wait = |one: &WaitPreview| format!("{} {} of {}", kind_of(one), one.key, one.node);
    let undo = |one: &UndoPreview| format!("the undo of {}", one.node);
    add(&mut will, &preview.effects_again, "runs again", effect);
    add(&mut will, &preview.effects_unknown, "was started and may have happened", effect);
    add(&mut will, &preview.waits_again, "is waited for again", wait);
    add(&mut will, &preview.undos_dropped, "never runs: its work stays done", undo);
    let kept = if preview.is_undoing { "runs now" } else { "runs if the run fails later" };
    add(&mut will, &preview.undos_kept, kept, undo);
    add(&mut will, &preview.effects_kept, "does not run again: its result is kept", effect);
    add(&mut will, &preview.waits_kept, "keeps its answer", wait);
    if preview.effects_again.is_empty() && preview.effects_unknown.is_empty() {
        will.push("no recorded effect runs again".into());
    }
    will
}

/// Names the nodes at which a run continues, each once: `pack (40 times), send`.
fn places(nodes: &[String]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for node in nodes {
        match counts.iter_mut().find(|(known, _)| known == node) {
            Some((_, count)) => *count += 1,
            None => counts.push((node, 1)),
        }
    }
    let more = counts.len().saturating_sub(SHOWN_MAX);
    let name = |(node, count): &(&str, usize)| if *count == 1 { node.to_string() } else { format!("{node} ({count} times)") };
    let mut names: Vec<String> = counts.iter().take(SHOWN_MAX).map(name).collect();
    if more > 0 {
        names.push(format!("{more} more nodes"));
    }
    if names.is_empty() { "its end".to_string() } else { names.join(", ") }
}

/// Returns whether something happens again, or is lost for good.
pub(super) fn is_destructive(preview: &RewindPreview) -> bool {
    !(preview.effects_again.is_empty() && preview.effects_unknown.is_empty() && preview.undos_dropped.is_empty())
}

fn kind_of(wait: &WaitPreview) -> &'static str {
    match (wait.is_signal, wait.question.is_some() || wait.due.is_none()) {
        (true, _) => "signal",
        (false, true) => "question",
        (false, false) => "sleep",
    }
}

fn add<T>(will: &mut Vec<String>, list: &[T], what: &str, describe: impl Fn(&T) -> String) {
    will.extend(list.iter().take(SHOWN_MAX).map(|one| format!("{} {what}", describe(one))));
    if list.len() > SHOWN_MAX {
        will.push(format!("the same for {} more: {what}", list.len() - SHOWN_MAX));
    }
}
