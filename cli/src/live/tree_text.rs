//! The text of `pleach tree`: one line for each member, indented by its depth.

use super::member::{line, name};
use super::tree::{Row, Tree};
use crate::output::escape::OneLine;
use crate::output::table::{cut, with_commas};
use crate::output::{Colour, Style};
use pleach::actor::ActorPath;
use pleach::inspect::{Activity, MemberInfo};

pub fn text(tree: &Tree, style: &Style) -> String {
    let mut text = String::new();
    for row in &tree.rows {
        let depth = tree.depth(&row.path);
        let described = row.member.as_ref().map_or_else(String::new, |member| format!(" {}", line(member)));
        let name = name(&row.path, depth == 0);
        let whole = format!("{:indent$}{}{described}", "", OneLine(&name), indent = 2 * depth);
        let whole = style.width.map_or(whole.clone(), |width| cut(&whole, width));
        let painted = colour(row).map_or(whole.clone(), |colour| style.paint(colour, &whole));
        text.push_str(&painted);
        text.push('\n');
    }
    text.push_str(&end(tree));
    text
}

/// Returns the colour of a row. Colour says nothing that the text does not say.
fn colour(row: &Row) -> Option<Colour> {
    let member = row.member.as_ref().filter(|_| !row.is_ancestor);
    match member {
        None => Some(Colour::Dim),
        Some(member) if is_failing(member) => Some(Colour::Red),
        Some(member) if !member.is_well() => Some(Colour::Yellow),
        Some(_) => None,
    }
}

fn is_failing(member: &MemberInfo) -> bool {
    let is_restarting = matches!(member.activity, Activity::Restarting | Activity::WaitingToRestart { .. });
    is_restarting || (!member.is_well() && member.last_failure.is_some())
}

/// Says what is not listed, and how to see it.
fn end(tree: &Tree) -> String {
    let mut text = String::new();
    if tree.not_well && tree.rows.is_empty() && tree.next.is_none() {
        let rest = if tree.reasons.is_empty() { "" } else { "; these problems are left:" };
        text.push_str(&format!("every member that runs below {} is well{rest}\n", OneLine(&tree.start.to_string())));
    }
    for reason in &tree.reasons {
        text.push_str(&format!("- {}\n", OneLine(&reason.to_string())));
    }
    if let Some(next) = &tree.next {
        let more = match left_out(tree) {
            Some(count) => format!("at least {} more", with_commas(count)),
            None => "more".to_string(),
        };
        let command = format!("pleach tree {} {}{} --after {next}", tree.socket, quoted(&tree.start), tree.options);
        text.push_str(&format!("… {more}, continue with: {command}\n"));
    }
    text
}

/// Quotes a path for a shell, if it needs it.
fn quoted(path: &ActorPath) -> String {
    let text = OneLine(&path.to_string()).to_string();
    let is_plain = text.chars().all(|character| character.is_ascii_alphanumeric() || "/-_.$".contains(character));
    if is_plain && !text.contains('$') { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// Counts the children of the last row and its ancestors that are not listed. `None` if members
/// were left out before.
fn left_out(tree: &Tree) -> Option<u64> {
    let last = tree.rows.last().filter(|_| tree.is_gapless)?;
    let mut count = last.member.as_ref()?.children;
    let mut above = last.path.parent();
    while let Some(path) = above {
        let Some(parent) = tree.rows.iter().rev().find(|row| row.path == path).and_then(|row| row.member.as_ref()) else {
            break;
        };
        let level = path.segments().len() + 1;
        let is_child = |row: &&Row| row.path.segments().len() == level && row.path.segments().starts_with(path.segments());
        count += parent.children.saturating_sub(tree.rows.iter().filter(is_child).count() as u64);
        above = path.parent();
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_quotes() {
        let quoted = |text: &str| quoted(&text.parse().unwrap());
        assert_eq!(quoted("/user/till-1"), "/user/till-1");
        assert_eq!(quoted("/user/it's me"), "'/user/it'\\''s me'");
    }
}
