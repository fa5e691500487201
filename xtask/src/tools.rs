//! Programs of the machine that the tests need, installed with Debian's packages if they are
//! missing.

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// Returns the path of the first of these programs that is installed. Otherwise installs `package`.
pub fn program(names: &[&str], package: &str) -> Result<PathBuf, String> {
    if let Some(found) = on_path(names) {
        return Ok(found);
    }
    install(package);
    let missing = || format!("{} is missing: install it (Debian: `apt-get install {package}`)", names.join(" or "));
    on_path(names).ok_or_else(missing)
}

/// Installs a package of Debian. Returns whether that worked.
pub fn install(package: &str) -> bool {
    let install = ["install", "--yes", "--no-install-recommends", package];
    // A new machine has no package list yet.
    apt(&install) || apt(&["update"]) && apt(&install)
}

fn apt(words: &[&str]) -> bool {
    let done = Command::new("apt-get").args(words).env("DEBIAN_FRONTEND", "noninteractive").output();
    done.is_ok_and(|output| output.status.success())
}

fn on_path(names: &[&str]) -> Option<PathBuf> {
    let folders: Vec<PathBuf> = env::split_paths(&env::var_os("PATH")?).collect();
    names.iter().find_map(|name| folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file()))
}
