//! What a rewind, fork or retry would run again.

use super::times::rfc3339;
use pleach::durable::{EffectPreview, RewindPreview, UndoPreview, WaitPreview};
use serde::Serialize;

/// A preview: the object *preview* of `docs/cli.md`.
#[derive(Clone, Debug, Serialize)]
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

#[derive(Clone, Debug, Serialize)]
struct EffectJson {
    name: String,
    node: String,
    branch: Vec<u32>,
    idempotency_key: String,
    at: String,
    record: u64,
    is_copied: bool,
}

#[derive(Clone, Debug, Serialize)]
struct WaitJson {
    key: String,
    node: String,
    branch: Vec<u32>,
    at: String,
    record: u64,
    is_signal: bool,
}

#[derive(Clone, Debug, Serialize)]
struct UndoJson {
    node: String,
    at: String,
    record: u64,
}

impl PreviewJson {
    /// Builds the object from a preview.
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
