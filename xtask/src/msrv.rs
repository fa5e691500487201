//! The oldest supported Rust: the `rust-version` of the workspace, kept true by its own compiler.
//!
//! rustup installs that compiler into `target/tools` if it is missing. Without rustup or a network,
//! [`check`] says so and passes: the lints still reject newer parts of std (`incompatible_msrv`).

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use xtask::step::{Outcome, output_of, output_within, without_package};

/// How long rustup may take to install a compiler.
const INSTALL_TIME_MAX: Duration = Duration::from_secs(5 * 60);

/// All published packages: each of them promises the version to its users.
const PACKAGES: [&str; 7] =
    ["pleach-core", "pleach-embassy", "pleach-graph", "pleach-macros", "pleach", "pleach-console", "pleach-cli"];

/// A toolchain of the oldest supported version.
pub struct Toolchain {
    version: String,
    /// Where rustup keeps it, if not in the user's own folder.
    home: Option<PathBuf>,
    target: PathBuf,
}

/// Compiles the published packages with all features.
pub fn check(root: &Path) -> Outcome {
    let Some(toolchain) = Toolchain::install(root)? else { return Ok(()) };
    let packages = PACKAGES.iter().flat_map(|package| ["--package", package]);
    output_of(toolchain.cargo(&["check", "--locked", "--all-features"]).args(packages)).map(drop)
}

impl Toolchain {
    /// Finds or installs the toolchain. None, with a note, if that is not possible on this machine.
    pub fn install(root: &Path) -> Result<Option<Self>, String> {
        let manifest =
            fs::read_to_string(root.join("Cargo.toml")).map_err(|error| format!("cannot read Cargo.toml: {error}"))?;
        let version = full_version(&manifest).ok_or("Cargo.toml has no line `rust-version = \"1.2\"`")?;
        let build = root.join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
        let mut toolchain = Self { home: None, target: build.join("msrv"), version };
        if toolchain.is_there() {
            return Ok(Some(toolchain));
        }
        toolchain.home = Some(build.join("tools/rustup"));
        let mut install = toolchain.rustup(&["toolchain", "install", "--profile", "minimal", "--no-self-update"]);
        if !toolchain.is_there()
            && let Err(why) = output_within(INSTALL_TIME_MAX, install.arg(&toolchain.version))
        {
            let why = why.lines().rev().find(|line| line.contains("error")).unwrap_or("rustup is missing");
            println!("\n  skipped: Rust {} cannot be installed: {why}", toolchain.version);
            return Ok(None);
        }
        Ok(Some(toolchain))
    }

    /// Its cargo, with a target folder apart from that of the usual compiler.
    pub fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = self.rustup(&["run", &self.version, "cargo"]);
        command.args(arguments).current_dir(xtask::root()).env("CARGO_TARGET_DIR", &self.target);
        command
    }

    /// Where [`cargo`](Self::cargo) builds.
    pub fn target(&self) -> &Path {
        &self.target
    }

    fn is_there(&self) -> bool {
        let list = output_of(&mut self.rustup(&["toolchain", "list"])).unwrap_or_default();
        list.lines().any(|line| line.starts_with(&format!("{}-", self.version)))
    }

    fn rustup(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("rustup");
        // Set by the cargo that started this, for its own toolchain.
        command.args(arguments).env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
        without_package(&mut command);
        if let Some(home) = &self.home {
            command.env("RUSTUP_HOME", home);
        }
        command
    }
}

/// The `rust-version` of a manifest with three parts, as toolchains are named.
fn full_version(manifest: &str) -> Option<String> {
    let line = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "))?;
    let version = line.trim_matches('"');
    Some(if version.matches('.').count() == 1 { format!("{version}.0") } else { version.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_has_three_parts() {
        assert_eq!(full_version("[workspace.package]\nrust-version = \"1.89\"\n").as_deref(), Some("1.89.0"));
        assert_eq!(full_version("rust-version = \"1.89.2\"").as_deref(), Some("1.89.2"));
        assert_eq!(full_version("edition = \"2024\""), None);
    }
}
