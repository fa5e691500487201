//! What `cargo xtask` shares with the programs it starts: steps, tools of the machine, and a
//! PostgreSQL server for tests.

pub mod postgres;
pub mod run;
pub mod step;
pub mod tools;

use std::path::{Path, PathBuf};

/// Returns the root of the workspace, independent of the current folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}
