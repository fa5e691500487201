//! What `cargo xtask` shares with the programs it starts: how a step is run, and a PostgreSQL for tests.

pub mod postgres;
pub mod step;

use std::path::{Path, PathBuf};

/// The root of the workspace, wherever the command was typed.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}
