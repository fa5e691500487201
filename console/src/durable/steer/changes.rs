//! [`changes`]: how the state of a fork differs from the stored one, as sentences without secrets.

use crate::durable::level;
use crate::redact::{Place, Redaction};
use crate::report::text::cut;
use pleach::durable::{JsonPatch, PatchOperation};

/// The most changes of a state that are listed, and the columns of each value.
const CHANGES_MAX: usize = 5;
const CHANGE_WIDTH: usize = 60;

/// What is shown of a secret value of a state.
const HIDDEN: &str = "\"[redacted]\"";

/// Says how a new state differs from the stored one. Secrets of the new state are hidden first: it
/// has the stored ones, and what is cut can no longer be recognized.
pub(super) fn changes(rules: &Redaction, before: &str, after: &str) -> Vec<String> {
    let Ok(patch) = JsonPatch::between(before, after) else { return Vec::new() };
    let redacted = rules.text_at(Place::default(), after);
    let name = |path: &str| cut(&rules.string(path), CHANGE_WIDTH);
    let shown = |path: &str| if path.is_empty() { "the whole state".to_string() } else { name(path) };
    let value = |path: &str| {
        let value = if rules.is_secret_pointer(path) { None } else { level::find(&redacted, path).ok() };
        cut(value.unwrap_or(HIDDEN), CHANGE_WIDTH)
    };
    let change = |operation: &PatchOperation| match operation {
        PatchOperation::Add { path, .. } => format!("the state gets {} = {}", shown(path), value(path)),
        PatchOperation::Replace { path, .. } => format!("in the state, {} becomes {}", shown(path), value(path)),
        PatchOperation::Remove { path } => format!("the state loses {}", shown(path)),
        _ => "the state changes".into(),
    };
    let mut changes: Vec<String> = patch.operations.iter().take(CHANGES_MAX).map(change).collect();
    if patch.operations.len() > CHANGES_MAX {
        changes.push(format!("{} more values of the state change", patch.operations.len() - CHANGES_MAX));
    }
    if changes.is_empty() {
        changes.push("the state stays the same".into());
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k7_changes_of_a_state_show_no_secret() {
        let user = |password: &str, url: &str| {
            let label = format!(r#"[{{"name":"token","value":"{password}"}}]"#);
            format!(r#"{{"password":"{password}","url":"{url}","more":{label},"n":1.10}}"#)
        };
        let (one, two) = (user("hunter2canary", "pg://u:hunter2canary@h"), user("other9canary", "pg://u:other9canary@h"));
        let rules = Redaction::new().keys(["iban"]);
        let said = changes(&rules, &format!("[{one},{two}]"), &format!("[{two},{one}]"));
        assert!(said.len() > 5 && said[0].contains("/0/"), "{said:?}");
        let long = format!(r#"{{"a":"{}","iban":"hunter2canary"}}"#, "x".repeat(20));
        let added = changes(&rules, "{}", &format!(r#"{{"iban":"hunter2canary","long":{long},"n":1.10}}"#));
        assert!(added.contains(&"the state gets /n = 1.10".to_string()), "{added:?}");
        assert!(!format!("{said:?}{added:?}").contains("canary"), "{said:?} {added:?}");
    }
}
