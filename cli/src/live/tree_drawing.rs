//! The tree as a drawing: Mermaid or dot. Solid lines lead to children, dashed ones to what a
//! member waits for.

use super::member::{activity, name};
use super::tree::{Row, Tree};
use crate::output::escape::OneLine;
use pleach::actor::ActorPath;
use pleach::inspect::MemberInfo;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The numbers of the rows, which are their names in a drawing.
fn numbers(tree: &Tree) -> BTreeMap<&ActorPath, usize> {
    tree.rows.iter().enumerate().map(|(number, row)| (&row.path, number)).collect()
}

/// Returns the label of a row: its name, and what it does.
fn label(tree: &Tree, row: &Row) -> (String, String) {
    let name = name(&row.path, tree.depth(&row.path) == 0);
    let does = |member: &MemberInfo| format!("{}: {}", member.kind, activity(member));
    (OneLine(&name).to_string(), OneLine(&row.member.as_ref().map_or_else(String::new, does)).to_string())
}

/// Returns the lines to children and to what is waited for, as numbers, with the kind of the wait.
fn edges<'a>(
    tree: &'a Tree,
    numbers: &'a BTreeMap<&ActorPath, usize>,
) -> impl Iterator<Item = (usize, usize, Option<String>)> + 'a {
    tree.rows.iter().enumerate().flat_map(move |(number, row)| {
        let parent = row.path.parent().and_then(|parent| numbers.get(&parent).copied());
        let waits = row.member.iter().flat_map(|member| &member.waits);
        let waits = waits.filter_map(move |wait| {
            let kind = serde_json::to_value(wait.kind).ok().and_then(|kind| kind.as_str().map(str::to_string));
            Some((number, *numbers.get(&wait.on)?, Some(kind.unwrap_or_default())))
        });
        parent.map(|parent| (parent, number, None)).into_iter().chain(waits)
    })
}

pub fn mermaid(tree: &Tree) -> String {
    let escape = |text: &str| {
        let mut escaped = String::new();
        for character in text.chars() {
            match character {
                '"' | '#' | '<' | '>' | '&' | '`' | '\\' | '$' => drop(write!(escaped, "#{};", character as u32)),
                character => escaped.push(character),
            }
        }
        escaped
    };
    let mut text = String::from("flowchart TD\n");
    for (number, row) in tree.rows.iter().enumerate() {
        let (name, does) = label(tree, row);
        let _ = writeln!(text, "  n{number}[\"{}<br>{}\"]", escape(&name), escape(&does));
        if row.member.as_ref().is_some_and(|member| !member.is_well()) {
            let _ = writeln!(text, "  style n{number} stroke:#c00,stroke-width:3px");
        }
    }
    for (from, to, wait) in edges(tree, &numbers(tree)) {
        let _ = match wait {
            None => writeln!(text, "  n{from} --> n{to}"),
            Some(kind) => writeln!(text, "  n{from} -. {kind} .-> n{to}"),
        };
    }
    text
}

pub fn dot(tree: &Tree) -> String {
    let escape = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let mut text = String::from("digraph tree {\n  node [shape=box];\n");
    for (number, row) in tree.rows.iter().enumerate() {
        let (name, does) = label(tree, row);
        let mark = row.member.as_ref().filter(|member| !member.is_well()).map_or("", |_| ", color=red, penwidth=2");
        let _ = writeln!(text, "  n{number} [label=\"{}\\n{}\"{mark}];", escape(&name), escape(&does));
    }
    for (from, to, wait) in edges(tree, &numbers(tree)) {
        let _ = match wait {
            None => writeln!(text, "  n{from} -> n{to};"),
            Some(kind) => writeln!(text, "  n{from} -> n{to} [style=dashed, constraint=false, label=\"{kind}\"];"),
        };
    }
    text.push_str("}\n");
    text
}
