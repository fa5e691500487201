//! `cargo xtask vendor`: fetches the modules of other projects that the console's page uses.
//!
//! For maintainers; users need no npm. [`MODULES`] pins the versions. Each module is one
//! minified ES module in `console/web/vendor`. A browser cannot resolve the name of a package
//! without an import map, which the page's content policy forbids, so imports become relative
//! paths. `manifest.json` names the version, the licence and the SHA-256 of each file. The text
//! editor is one module made of several packages; see [`bundle`].

use crate::bundle;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::step::{Outcome, output_of, run_in_sight};

/// The folder of the modules, below the root of the workspace.
const FOLDER: &str = "console/web/vendor";
const MANIFEST: &str = "manifest.json";

/// A file that is taken from a package.
struct Module {
    package: &'static str,
    version: &'static str,
    licence: &'static str,
    /// The file in the package.
    from: &'static str,
    /// The file in [`FOLDER`].
    to: &'static str,
    /// A line that makes an ES module of a script.
    export: &'static str,
}

const MODULES: [Module; 7] = [
    module("preact", "11.2.0", "MIT", "dist/preact.mjs", "preact.js"),
    module("preact", "11.2.0", "MIT", "hooks/dist/hooks.mjs", "hooks.js"),
    module("htm", "3.1.1", "Apache-2.0", "dist/htm.mjs", "htm.js"),
    module("@preact/signals-core", "1.14.5", "MIT", "dist/signals-core.mjs", "signals-core.js"),
    module("@preact/signals", "2.11.4", "MIT", "dist/signals.mjs", "signals.js"),
    Module { export: "export default uPlot;\n", ..module("uplot", "1.6.32", "MIT", "dist/uPlot.iife.min.js", "uplot.js") },
    module("uplot", "1.6.32", "MIT", "dist/uPlot.min.css", "uplot.css"),
];

/// The imports to rewrite: the name of a package, and the file that has it.
const IMPORTS: [(&str, &str); 3] =
    [("preact", "./preact.js"), ("preact/hooks", "./hooks.js"), ("@preact/signals-core", "./signals-core.js")];

const fn module(
    package: &'static str,
    version: &'static str,
    licence: &'static str,
    from: &'static str,
    to: &'static str,
) -> Module {
    Module { package, version, licence, from, to, export: "" }
}

/// Fetches all modules and writes them with their licences and the manifest.
pub fn fetch(root: &Path) -> Outcome {
    let downloads = std::env::temp_dir().join(format!("xtask-vendor-{}", std::process::id()));
    fs::create_dir_all(&downloads).map_err(|error| format!("cannot make {}: {error}", downloads.display()))?;
    let fetched = fetch_into(&downloads, &root.join(FOLDER));
    drop(fs::remove_dir_all(&downloads));
    fetched
}

fn fetch_into(downloads: &Path, folder: &Path) -> Outcome {
    let packages = MODULES.iter().map(|module| format!("{}@{}", module.package, module.version));
    let options = ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-save", "--prefix"];
    run_in_sight(Command::new("npm").args(options).arg(downloads).args(packages).args(bundle::packages()))?;
    let mut entries = Vec::new();
    for module in &MODULES {
        let package = downloads.join("node_modules").join(module.package);
        let text = with_relative_imports(&read(&package.join(module.from))?) + module.export;
        write(&folder.join(module.to), &text)?;
        let licence = format!("{}.LICENSE", module.package.trim_start_matches('@').replace('/', "-"));
        write(&folder.join(&licence), &read(&package.join("LICENSE"))?)?;
        entries.push(entry(module, &licence, &sha256(&folder.join(module.to))?));
    }
    bundle::write(downloads, folder)?;
    entries.push(bundle_entry(&sha256(&folder.join(bundle::FILE))?));
    write(&folder.join(MANIFEST), &format!("[\n{}\n]\n", entries.join(",\n")))
}

/// Fails if a file differs from the manifest.
pub fn check(root: &Path) -> Outcome {
    let folder = root.join(FOLDER);
    let manifest = read(&folder.join(MANIFEST))?;
    let mut wrong = String::new();
    for module in &MODULES {
        let licence = format!("{}.LICENSE", module.package.trim_start_matches('@').replace('/', "-"));
        if !manifest.contains(&entry(module, &licence, &sha256(&folder.join(module.to))?)) || !folder.join(&licence).exists() {
            let _ = writeln!(wrong, "{FOLDER}/{} is not the one that {MANIFEST} names", module.to);
        }
    }
    if !manifest.contains(&bundle_entry(&sha256(&folder.join(bundle::FILE))?)) || !folder.join(bundle::LICENCES).exists() {
        let _ = writeln!(wrong, "{FOLDER}/{} is not the one that {MANIFEST} names", bundle::FILE);
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("{wrong}run `cargo xtask vendor`, and review what changed")) }
}

fn entry(module: &Module, licence: &str, sha256: &str) -> String {
    let Module { package, version, licence: kind, from, to, .. } = module;
    format!(
        "  {{\n    \"file\": \"{to}\",\n    \"package\": \"{package}\",\n    \"version\": \"{version}\",\n    \"from\": \"{from}\",\n    \
         \"licence\": \"{kind}\",\n    \"licence_file\": \"{licence}\",\n    \"sha256\": \"{sha256}\"\n  }}"
    )
}

fn bundle_entry(sha256: &str) -> String {
    let packages: Vec<String> =
        bundle::PACKAGES.iter().map(|(package, version)| format!("      \"{package}\": \"{version}\"")).collect();
    format!(
        "  {{\n    \"file\": \"{}\",\n    \"packages\": {{\n{}\n    }},\n    \"licence\": \"MIT\",\n    \"licence_file\": \"{}\",\n    \
         \"sha256\": \"{sha256}\"\n  }}",
        bundle::FILE,
        packages.join(",\n"),
        bundle::LICENCES
    )
}

/// Rewrites imports of packages, and removes the reference to a source map.
fn with_relative_imports(text: &str) -> String {
    let mut text: String =
        text.lines().filter(|line| !line.starts_with("//# sourceMappingURL=")).map(|line| format!("{line}\n")).collect();
    for (package, file) in IMPORTS {
        text = text.replace(&format!("from\"{package}\""), &format!("from\"{file}\""));
        text = text.replace(&format!("import\"{package}\""), &format!("import\"{file}\""));
    }
    text
}

fn sha256(path: &Path) -> Result<String, String> {
    let said = output_of(Command::new("sha256sum").arg(path))?;
    Ok(said.split_whitespace().next().unwrap_or_default().to_owned())
}

fn read(path: &PathBuf) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn write(path: &PathBuf, text: &str) -> Outcome {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_become_relative_and_source_maps_go() {
        let text =
            "import{h}from\"preact\";import\"preact/hooks\";export*from\"@preact/signals-core\";\n//# sourceMappingURL=a.map";
        let expected = "import{h}from\"./preact.js\";import\"./hooks.js\";export*from\"./signals-core.js\";\n";
        assert_eq!(with_relative_imports(text), expected);
    }
}
