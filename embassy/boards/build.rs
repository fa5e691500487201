//! Puts the memory layout of the board where the linker finds it.

use std::{env, fs, path::PathBuf};

fn main() {
    println!("cargo::rerun-if-env-changed=BOARD");
    println!("cargo::rerun-if-changed=memory");
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets the target");
    let default = if arch == "arm" { "lm3s6965evb" } else { "virt" };
    let board = env::var("BOARD").unwrap_or_else(|_| default.into());
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets the folder"));
    let layout = fs::read(format!("memory/{board}.x")).expect("the board has a memory layout");
    fs::write(out.join("memory.x"), layout).expect("the folder of the build can be written");
    println!("cargo::rustc-link-search={}", out.display());
    if arch == "riscv32" {
        println!("cargo::rustc-link-arg=-Tmemory.x");
    }
    println!("cargo::rustc-link-arg=-Tlink.x");
}
