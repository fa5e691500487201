//! `cargo xtask embedded`: builds for microcontrollers, and runs checks on emulated boards.
//!
//! The boards need a toolchain with the four targets or with `rust-src`, and QEMU. Where one is
//! missing, `cargo xtask test` checks the host half only, and says so in one line.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use xtask::step::{Outcome, cargo, output_within, without_package};

/// Names the folder of a toolchain, with `bin/cargo`. Default: the folder below, or else the
/// toolchain that runs this program.
const TOOLCHAIN_VARIABLE: &str = "PLEACH_EMBEDDED_TOOLCHAIN";
/// The toolchain folder, below the target folder.
const TOOLCHAIN: &str = "embedded-toolchain";

/// The manifests of the programs for boards, each a workspace of its own.
const CHECKS: &str = "embassy/boards/Cargo.toml";
const CORTEX_M: &str = "examples/cortex-m/Cargo.toml";
const RP2040: &str = "examples/rp2040/Cargo.toml";

const BUILD_TIME_MAX: Duration = Duration::from_secs(60 * 60);
/// A program ends within seconds of real time, because idle time is skipped.
const RUN_TIME_MAX: Duration = Duration::from_secs(120);

/// A target, the board that runs it, and the memory layout of that board.
pub struct Board {
    pub target: &'static str,
    emulator: &'static [&'static str],
    layout: &'static str,
}

/// A Cortex-M3 runs the code of a Cortex-M0 too. So `thumbv6m` has a board with enough memory.
pub const BOARDS: [Board; 4] = [
    Board { target: "thumbv6m-none-eabi", emulator: &["qemu-system-arm", "-M", "mps2-an385"], layout: "mps2" },
    Board { target: "thumbv7m-none-eabi", emulator: &["qemu-system-arm", "-M", "mps2-an385"], layout: "mps2" },
    Board { target: "thumbv7em-none-eabi", emulator: &["qemu-system-arm", "-M", "mps2-an386"], layout: "mps2" },
    Board {
        target: "riscv32imc-unknown-none-elf",
        emulator: &["qemu-system-riscv32", "-M", "virt", "-bios", "none"],
        layout: "virt",
    },
];

/// The lines that the checks print, in this order.
const CHECKED: [&str; 11] = [
    "ok ask",
    "ok restart",
    "ok give-up",
    "ok timers",
    "ok interrupts",
    "ok executors",
    "ok memory",
    "ok shutdown",
    "ok ask",
    "ok sealed",
    "all checks passed",
];

/// The lines that the example for Cortex-M prints, in this order.
const EXAMPLE_PRINTS: [&str; 4] =
    ["restart in 20ms", "the mean of 20 readings is 21", "supervisor /user/sensors gave up", "the watchdog resets the board"];

/// Builds all programs for boards and runs them, except the one for the RP2040.
pub fn run(root: &Path) -> Outcome {
    let tools = Tools::find()?;
    for board in &BOARDS {
        let program = tools.build(root, CHECKS, board, "checks", &[])?;
        in_order(&tools.run(board.emulator, &program)?, &CHECKED)?;
        println!("{}: checks pass on {}", board.target, board.emulator[2]);
    }
    let [v6m, v7m, ..] = &BOARDS;
    let program = tools.build(root, CORTEX_M, v7m, "pleach-example-cortex-m", &[])?;
    in_order(&tools.run(&["qemu-system-arm", "-M", "lm3s6965evb"], &program)?, &EXAMPLE_PRINTS)?;
    println!("{}: the example runs on lm3s6965evb", v7m.target);
    tools.build(root, RP2040, v6m, "pleach-example-rp2040", &[])?;
    println!("{}: the example for the RP2040 builds", v6m.target);
    Ok(())
}

/// The step of `cargo xtask test`: on this machine, the pointers of targets without
/// compare-and-swap. Then the boards, if a toolchain and the emulators are there.
pub fn check(root: &Path) -> Outcome {
    let mut portable =
        cargo(&["test", "--package", "pleach-core", "--package", "pleach-embassy", "--lib", "--test", "embassy"]);
    portable.args(["--features", "pleach-core/std", "--target-dir"]).arg(target_folder().join("portable"));
    output_within(BUILD_TIME_MAX, portable.env("RUSTFLAGS", "--cfg pleach_portable"))?;
    match Tools::find() {
        Ok(_) => run(root),
        Err(why) => {
            println!("\n  host half only: {why}");
            Ok(())
        }
    }
}

/// Tests the build without `std`. `pleach_portable` leaves out the development dependency that
/// turns `std` on.
pub fn no_std_tests() -> Command {
    let mut command = cargo(&["test", "--package", "pleach-core", "--no-default-features"]);
    command.args(["--test", "errors_without_panic_catching", "--test", "sealed", "--test", "two_cores"]);
    command.arg("--target-dir").arg(target_folder().join("portable")).env("RUSTFLAGS", "--cfg pleach_portable");
    command
}

/// Tests the example on Embassy's std platform. It is a workspace of its own.
pub fn host_example(root: &Path) -> Command {
    let mut command = cargo(&["test", "--manifest-path"]);
    command.arg(root.join("examples/embassy-std/Cargo.toml")).arg("--target-dir").arg(target_folder().join("embassy-std"));
    command
}

/// The target folder of this build.
fn target_folder() -> PathBuf {
    xtask::root().join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Fails if a part is missing, or not in this order.
fn in_order(output: &str, parts: &[&str]) -> Outcome {
    let mut lines = output.lines();
    match parts.iter().find(|part| !lines.any(|line| line.contains(**part))) {
        Some(missing) => Err(format!("{output}\nno line {missing:?} after the lines before it")),
        None => Ok(()),
    }
}

/// The toolchain for boards.
pub struct Tools {
    folder: PathBuf,
    /// The standard library is built from its sources, because a target is not installed.
    builds_std: bool,
}

impl Tools {
    /// Finds the toolchain and the emulators. The error says what to install.
    pub fn find() -> Result<Self, String> {
        for emulator in ["qemu-system-arm", "qemu-system-riscv32"] {
            if Command::new(emulator).arg("--version").output().is_err() {
                return Err(format!("{emulator} is not installed: install the packages qemu-system-arm and qemu-system-misc"));
            }
        }
        let folder = match env::var_os(TOOLCHAIN_VARIABLE) {
            Some(folder) => PathBuf::from(folder),
            None => {
                Some(target_folder().join(TOOLCHAIN)).filter(|folder| folder.exists()).map_or_else(current_toolchain, Ok)?
            }
        };
        let library = folder.join("lib/rustlib");
        let builds_std = !BOARDS.iter().all(|board| library.join(board.target).exists());
        if builds_std && !library.join("src/rust/library").exists() {
            return Err(format!(
                "{} has no targets for boards: run `rustup target add` for them or `rustup component add rust-src`",
                folder.display()
            ));
        }
        Ok(Self { folder, builds_std })
    }

    /// Builds a program for a board and returns its file.
    pub fn build(&self, root: &Path, manifest: &str, board: &Board, name: &str, features: &[&str]) -> Result<PathBuf, String> {
        let target_folder = target_folder().join("embedded");
        let mut command = Command::new(self.folder.join("bin/cargo"));
        without_package(&mut command);
        // `cargo run` sets the library path of its own toolchain.
        command.env_remove("LD_LIBRARY_PATH").env_remove("CARGO").env("RUSTC", self.folder.join("bin/rustc"));
        command.current_dir(root).args(["build", "--release", "--manifest-path"]).arg(root.join(manifest));
        command.args(["--target", board.target, "--bin", name, "--features", &features.join(",")]);
        command.arg("--target-dir").arg(&target_folder).env("BOARD", board.layout);
        if self.builds_std {
            command.arg("-Zbuild-std=core,alloc").env("RUSTC_BOOTSTRAP", "1");
        }
        output_within(BUILD_TIME_MAX, &mut command)?;
        Ok(target_folder.join(board.target).join("release").join(name))
    }

    /// Runs a program on an emulated board and returns what it prints.
    pub fn run(&self, emulator: &[&str], program: &Path) -> Result<String, String> {
        let mut command = Command::new(emulator[0]);
        command.args(&emulator[1..]).args(["-nographic", "-monitor", "none", "-serial", "none"]);
        // Time is counted in instructions, so that a busy machine changes nothing, and skipped when
        // the board is idle.
        command.args(["-icount", "shift=6,sleep=off", "-semihosting-config", "enable=on,target=native", "-kernel"]);
        output_within(RUN_TIME_MAX, command.arg(program))
    }
}

/// The toolchain of the compiler in the path.
fn current_toolchain() -> Result<PathBuf, String> {
    let output =
        Command::new("rustc").args(["--print", "sysroot"]).output().map_err(|error| format!("cannot run rustc: {error}"))?;
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}
