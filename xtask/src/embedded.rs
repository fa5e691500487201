//! `cargo xtask embedded`: builds for microcontrollers, and runs programs on emulated boards.

use std::path::Path;
use std::process::Command;
use xtask::step::cargo;

/// Tests the example on Embassy's std platform. It is a workspace of its own.
pub fn host_example(root: &Path) -> Command {
    let mut command = cargo(&["test", "--manifest-path"]);
    command.arg(root.join("examples/embassy-std/Cargo.toml")).arg("--target-dir").arg(root.join("target/embassy-std"));
    command
}
