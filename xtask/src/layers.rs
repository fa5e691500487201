//! The layers of `core` and `graph`: which room may import from which.
//!
//! A room is a top-level module. The `mod` lines of `lib.rs` declare the rooms from the lowest
//! layer to the highest. Rules for the code of a room:
//! 1. It imports only from its own room and from rooms declared above it in `lib.rs`.
//! 2. It names the room: `crate::scope::Scope`, never the root's re-export `crate::Scope`.
//!
//! The check follows the `mod` lines from `lib.rs`, so that modules of tests and loom models, and
//! files that no module names, are left out. Comments, strings and test items do not count.

use crate::tokens::{Kind, Token, attribute_end, group_end, tokens, without_tests};
use std::fs;
use std::path::{Path, PathBuf};
use xtask::step::Outcome;

/// The source folders that have layers.
const SOURCES: [&str; 2] = ["core/src", "graph/src"];

/// Fails with a line for each import that breaks a rule.
pub fn check(root: &Path) -> Outcome {
    let mut faults = Vec::new();
    for source in SOURCES {
        faults.extend(faults_of(root, source)?);
    }
    if faults.is_empty() {
        return Ok(());
    }
    Err(format!("{}\n{} imports break the order of the rooms in lib.rs", faults.join("\n"), faults.len()))
}

/// A `mod` line: the name, and the file if an attribute names it.
struct Declared {
    name: String,
    path: Option<String>,
}

/// A module that is still to be read: its file, its path in the crate, and where its children are.
struct Module {
    file: PathBuf,
    path: Vec<String>,
    children: PathBuf,
}

fn faults_of(root: &Path, source: &str) -> Result<Vec<String>, String> {
    let folder = root.join(source);
    let library = read(&folder.join("lib.rs"))?;
    let top = declared(&without_tests(&tokens(&library)));
    let mut rooms: Vec<String> = top.iter().map(|one| one.name.clone()).collect();
    rooms.dedup();
    let mut left = Vec::new();
    for one in &top {
        left.push(locate(&folder, &folder, &[], one)?);
    }
    let mut faults = Vec::new();
    while let Some(module) = left.pop() {
        let text = read(&module.file)?;
        let code = without_tests(&tokens(&text));
        for one in declared(&code) {
            left.push(locate(&module.children, module.file.parent().unwrap_or(&folder), &module.path, &one)?);
        }
        let file = module.file.strip_prefix(root).unwrap_or(&module.file).display().to_string();
        for (line, why) in broken(&code, &module.path, &rooms) {
            faults.push((file.clone(), line, why));
        }
    }
    faults.sort();
    faults.dedup();
    Ok(faults.into_iter().map(|(file, line, why)| format!("{file}:{line}: {why}")).collect())
}

/// The `mod name;` lines of a file, in order.
fn declared(code: &[Token<'_>]) -> Vec<Declared> {
    let (mut found, mut path, mut at) = (Vec::new(), None, 0);
    while at < code.len() {
        if let Some(end) = attribute_end(code, at) {
            if let [_, _, word, _, literal, _] = &code[at..end]
                && word.is("path")
            {
                path = Some(literal.text.trim_matches('"').to_string());
            }
            at = end;
            continue;
        }
        if let [word, name, end, ..] = &code[at..]
            && word.is("mod")
            && end.is(";")
        {
            found.push(Declared { name: name.text.to_string(), path: path.take() });
        } else if code[at].is(";") || code[at].is("}") {
            path = None;
        }
        at += 1;
    }
    found
}

/// Finds the file of a module, as the compiler does.
fn locate(children: &Path, beside: &Path, parent: &[String], declared: &Declared) -> Result<Module, String> {
    let name = &declared.name;
    let path = parent.iter().chain([name]).cloned().collect();
    if let Some(named) = &declared.path {
        let file = beside.join(named);
        let children = file.parent().unwrap_or(beside).to_path_buf();
        return Ok(Module { file, path, children });
    }
    let children_of_it = children.join(name);
    let candidates = [children.join(format!("{name}.rs")), children_of_it.join("mod.rs")];
    let file = candidates.into_iter().find(|file| file.exists());
    let file = file.ok_or_else(|| format!("module {name} has no file below {}", children.display()))?;
    Ok(Module { file, path, children: children_of_it })
}

/// The line and the reason of each path in `code` that breaks a rule.
fn broken(code: &[Token<'_>], module: &[String], rooms: &[String]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    // How deep inside inline modules this is: the index at which each of them ends.
    let mut inline: Vec<usize> = Vec::new();
    let mut at = 0;
    while at < code.len() {
        inline.retain(|end| at < *end);
        if let [word, _, open, ..] = &code[at..]
            && word.is("mod")
            && open.is("{")
        {
            inline.push(group_end(code, at + 2));
        }
        let Some((ups, after)) = root_path(code, at) else {
            at += 1;
            continue;
        };
        if ups.is_none_or(|ups| ups == module.len() + inline.len()) {
            for segment in first_segments(code, after) {
                found.extend(fault(code, segment, &module[0], rooms).map(|why| (code[segment].line, why)));
            }
        }
        at = after;
    }
    found
}

/// Whether a path begins at `at` with `crate::` or `super::`: how many modules it goes up (none for
/// `crate`), and the index of what follows.
fn root_path(code: &[Token<'_>], at: usize) -> Option<(Option<usize>, usize)> {
    let is_step = |at: usize, word: &str| {
        code.get(at).is_some_and(|token| token.is(word)) && code.get(at + 1).is_some_and(|token| token.is("::"))
    };
    if is_step(at, "crate") {
        return Some((None, at + 2));
    }
    let mut end = at;
    while is_step(end, "super") {
        end += 2;
    }
    (end > at).then(|| (Some((end - at) / 2), end))
}

/// The indexes of the first segments of a path or of a use tree that begins at `at`.
fn first_segments(code: &[Token<'_>], at: usize) -> Vec<usize> {
    if !code.get(at).is_some_and(|token| token.is("{")) {
        return code.get(at).map(|_| at).into_iter().collect();
    }
    let end = group_end(code, at);
    let (mut found, mut next) = (Vec::new(), at + 1);
    while next + 1 < end {
        found.push(next);
        // To the comma that ends this part; a group inside of it is passed over.
        while next + 1 < end && !code[next].is(",") {
            next = if code[next].is("{") { group_end(code, next) } else { next + 1 };
        }
        next += 1;
    }
    found
}

/// Why the path with this first segment breaks a rule, if it does.
fn fault(code: &[Token<'_>], segment: usize, room: &str, rooms: &[String]) -> Option<String> {
    let name = code[segment].text;
    let place = |name: &str| rooms.iter().position(|room| room == name);
    let Some(other) = place(name).filter(|_| code[segment].kind == Kind::Word) else {
        // A macro that is exported stands at the root; `self` in a group is the root itself.
        let is_macro = code.get(segment + 1).is_some_and(|token| token.is("!"));
        return (!is_macro && name != "self")
            .then(|| format!("crate::{name}: name the room that has it, as in crate::room::{name}"));
    };
    let is_above = place(room).is_some_and(|own| other <= own);
    (!is_above)
        .then(|| format!("crate::{name} in room {room}: lib.rs declares {name} below {room}; import only from rooms above"))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths in `source` that break a rule, with their lines.
    fn faults(module: &[&str], source: &str) -> Vec<String> {
        let rooms: Vec<String> = ["base", "node", "cell"].map(String::from).into();
        let module: Vec<String> = module.iter().map(ToString::to_string).collect();
        let found = broken(&without_tests(&tokens(source)), &module, &rooms);
        let place = |why: &str| why.split([' ', ';']).next().unwrap_or_default().trim_end_matches(':').to_string();
        found.into_iter().map(|(line, why)| format!("{line} {}", place(&why))).collect()
    }

    #[test]
    fn the_own_room_and_rooms_above_may_be_imported() {
        assert!(
            faults(&["node"], "use crate::base::A; use crate::node::{B, c::{D, E}}; fn f() { crate::base::g() }").is_empty()
        );
    }

    #[test]
    fn rooms_below_may_not() {
        assert_eq!(faults(&["node"], "use crate::cell::A;"), ["1 crate::cell"]);
        assert_eq!(faults(&["node", "x"], "\nfn f() { crate::cell::g::<u8>() }"), ["2 crate::cell"]);
        assert_eq!(faults(&["base"], "use crate::{node::{A, B}, base::C, cell};"), ["1 crate::node", "1 crate::cell"]);
    }

    #[test]
    fn the_root_may_not_be_imported() {
        assert_eq!(faults(&["node"], "use crate::Name; fn f() { crate::function() }"), ["1 crate::Name", "1 crate::function"]);
        assert_eq!(faults(&["node"], "use crate::*;"), ["1 crate::*"]);
        assert!(faults(&["node"], "crate::exported!(a);").is_empty());
    }

    #[test]
    fn super_counts_where_it_leaves_the_room() {
        assert_eq!(faults(&["node"], "use super::cell::A;"), ["1 crate::cell"]);
        assert_eq!(faults(&["node", "x"], "use super::cell::A; use super::super::cell::B;"), ["1 crate::cell"]);
        assert!(faults(&["node"], "mod inner { use super::cell::A; } pub(super) fn f() {}").is_empty());
        assert_eq!(faults(&["node"], "mod inner { use super::super::cell::A; }"), ["1 crate::cell"]);
    }

    #[test]
    fn comments_strings_and_tests_do_not_count() {
        let source = "// crate::cell\n/// [`A`](crate::A)\nconst A: &str = \"crate::cell\"; #[cfg(test)] mod tests { use crate::cell::A; }";
        assert!(faults(&["node"], source).is_empty());
    }

    #[test]
    fn files_are_found_through_their_mod_lines() {
        let folder = std::env::temp_dir().join(format!("pleach-layers-{}", std::process::id()));
        let write = |name: &str, text: &str| {
            let path = folder.join("src").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "lib.rs",
            "mod base;\n#[path = \"node/on.rs\"]\npub mod node;\nmod cell;\n#[cfg(test)]\nmod models;\npub use cell::A;",
        );
        write("base.rs", "mod deep;\n#[cfg(test)]\nmod tests;");
        write("base/deep.rs", "\nuse crate::node::B;");
        write("base/tests.rs", "use crate::cell::A;");
        write("node/on.rs", "use crate::base::C;");
        write("cell/mod.rs", "use crate::node::B;");
        let found = faults_of(&folder, "src").unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("src/base/deep.rs:2: crate::node in room base"), "{found:?}");
    }
}
