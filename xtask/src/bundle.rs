//! The text editor of the console's page: one module made of several packages of CodeMirror.
//!
//! The packages import each other by name, which a browser cannot resolve. The esbuild program of
//! npm joins what [`ENTRY`] names to one minified module. The versions of all packages and of
//! esbuild are pinned, so the same module comes out each time.

use std::fs;
use std::path::Path;
use std::process::Command;
use xtask::step::{Outcome, run_in_sight};

/// The file in the folder of the modules.
pub const FILE: &str = "codemirror.js";

/// The file with the licences of all packages.
pub const LICENCES: &str = "codemirror.LICENSE";

/// The names of the packages, for the manifest.
pub const PACKAGES: [(&str, &str); 16] = [
    ("@codemirror/commands", "6.11.1"),
    ("@codemirror/lang-json", "6.0.2"),
    ("@codemirror/language", "6.13.1"),
    ("@codemirror/lint", "6.9.7"),
    ("@codemirror/search", "6.7.2"),
    ("@codemirror/state", "6.7.6"),
    ("@codemirror/streamparser", "6.0.0"),
    ("@codemirror/view", "6.43.15"),
    ("@lezer/common", "1.5.5"),
    ("@lezer/highlight", "1.2.5"),
    ("@lezer/json", "1.0.3"),
    ("@lezer/lr", "1.4.12"),
    ("@marijn/find-cluster-break", "1.0.4"),
    ("crelt", "1.0.7"),
    ("style-mod", "4.1.4"),
    ("w3c-keyname", "2.2.8"),
];

/// The program that joins them. It is not part of the page.
const JOINER: (&str, &str) = ("esbuild", "0.28.2");

/// What the page uses of the packages.
const ENTRY: &str = r#"
export { EditorState } from "@codemirror/state";
export { EditorView, drawSelection, highlightActiveLine, highlightActiveLineGutter } from "@codemirror/view";
export { highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
export { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
export { bracketMatching, foldGutter, foldKeymap, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
export { json } from "@codemirror/lang-json";
export { lintGutter, setDiagnostics } from "@codemirror/lint";
export { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
export { tags } from "@lezer/highlight";
"#;

/// Returns the packages to install, as npm takes them.
pub fn packages() -> impl Iterator<Item = String> {
    PACKAGES.into_iter().chain([JOINER]).map(|(package, version)| format!("{package}@{version}"))
}

/// Joins the installed packages below `downloads`, and writes the module and its licences.
pub fn write(downloads: &Path, folder: &Path) -> Outcome {
    let entry = downloads.join("entry.js");
    fs::write(&entry, ENTRY).map_err(|error| format!("cannot write {}: {error}", entry.display()))?;
    let options = ["--bundle", "--minify", "--format=esm", "--target=es2022", "--legal-comments=none", "--log-level=warning"];
    let mut joiner = Command::new(downloads.join("node_modules/.bin/esbuild"));
    run_in_sight(
        joiner.current_dir(downloads).arg("entry.js").args(options).arg(format!("--outfile={}", folder.join(FILE).display())),
    )?;
    let path = folder.join(LICENCES);
    fs::write(&path, licences(downloads)?).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Returns the licences, each once, with the packages that have it.
fn licences(downloads: &Path) -> Result<String, String> {
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    for (package, _) in PACKAGES {
        let path = downloads.join("node_modules").join(package).join("LICENSE");
        let text = fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        match found.iter_mut().find(|(known, _)| *known == text) {
            Some((_, packages)) => packages.push(package),
            None => found.push((text, vec![package])),
        }
    }
    let parts: Vec<String> =
        found.into_iter().map(|(text, packages)| format!("{}\n\n{}\n", packages.join(", "), text.trim())).collect();
    Ok(parts.join("\n---\n\n"))
}
