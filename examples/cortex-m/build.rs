//! Puts the memory layout of the board where the linker finds it.

use std::{env, fs, path::PathBuf};

fn main() {
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets the folder"));
    fs::write(out.join("memory.x"), include_bytes!("memory.x")).expect("the folder of the build can be written");
    println!("cargo::rerun-if-changed=memory.x");
    println!("cargo::rustc-link-search={}", out.display());
    println!("cargo::rustc-link-arg=-Tlink.x");
}
