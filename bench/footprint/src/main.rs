//! Measures what pleach costs a program that uses it.
//!
//! - `compile-time`: CPU seconds of a clean release build of a program with one actor, for pleach
//!   and for kameo.
//! - `code-size`: bytes of machine code of one further actor type, with `opt-level = "s"` and LTO.
//!
//! Each program is written to a new temporary folder and built there. CPU seconds are those of
//! cargo and all its children, so they hardly depend on other load or on the number of cores.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs, io};

mod programs;

const HELP: &str = "compile-time   CPU seconds of a clean release build of a hello program
code-size      bytes of machine code of one further actor type";

/// The program sizes that `code-size` compares, in actor types. Differences between these two leave
/// out what the first types of a program cost.
const TYPES: [usize; 2] = [3, 5];

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let measured = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["compile-time"] => compile_time(),
        ["code-size"] => code_size(),
        _ => {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn compile_time() -> io::Result<()> {
    let folder = Folder::new()?;
    let mut seconds = Vec::new();
    for (name, manifest, source) in [
        ("pleach", programs::pleach_manifest(), programs::pleach_hello()),
        ("kameo", programs::kameo_manifest(), programs::kameo_hello()),
    ] {
        let program = folder.program(name, &manifest, &source)?;
        // The sources are downloaded before the clock starts.
        run(Command::new("cargo").arg("fetch").current_dir(&program))?;
        let before = cpu_seconds_of_children()?;
        run(Command::new("cargo").args(["build", "--release"]).current_dir(&program))?;
        seconds.push(cpu_seconds_of_children()? - before);
        println!("{name}: {:.1} CPU s", seconds[seconds.len() - 1]);
    }
    println!("ratio: {:.2}", seconds[0] / seconds[1]);
    Ok(())
}

fn code_size() -> io::Result<()> {
    let folder = Folder::new()?;
    let mut bytes = Vec::new();
    for types in TYPES {
        let name = format!("types-{types}");
        let program = folder.program(&name, &programs::pleach_manifest(), &programs::pleach_types(types))?;
        run(Command::new("cargo").args(["build", "--profile", "small"]).current_dir(&program))?;
        let size = text_size(&program.join("target/small/hello"))?;
        println!("{types} actor types: {size} bytes of machine code");
        bytes.push(size);
    }
    let [few, many] = TYPES;
    println!("one further type: {} bytes", (bytes[1] - bytes[0]) / (many - few) as u64);
    Ok(())
}

/// A temporary folder, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Self> {
        let path = env::temp_dir().join(format!("pleach-footprint-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// Writes a program and returns its folder.
    fn program(&self, name: &str, manifest: &str, source: &str) -> io::Result<PathBuf> {
        let folder = self.0.join(name);
        fs::create_dir_all(folder.join("src"))?;
        fs::write(folder.join("Cargo.toml"), manifest)?;
        fs::write(folder.join("src/main.rs"), source)?;
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn run(command: &mut Command) -> io::Result<()> {
    // The settings of the build that runs this program must not change what it measures.
    let status = command.env_remove("CARGO_TARGET_DIR").env_remove("RUSTFLAGS").status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{command:?} failed: {status}"))) }
}

/// Returns the CPU time of all children that have ended, with their own children.
fn cpu_seconds_of_children() -> io::Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The fields after the name, which may contain spaces. Fields 16 and 17 of proc(5) are the user
    // and system time of children, in ticks of which there are 100 in a second.
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let ticks: f64 = [13, 14].iter().filter_map(|at| fields.get(*at)?.parse::<f64>().ok()).sum();
    Ok(ticks / 100.0)
}

/// Returns the size of the section `.text`, as `size` of the binutils prints it.
fn text_size(program: &Path) -> io::Result<u64> {
    let printed = Command::new("size").arg("-A").arg(program).output()?;
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    let line = printed.lines().find_map(|line| line.strip_prefix(".text ")?.split_whitespace().next()?.parse().ok());
    line.ok_or_else(|| io::Error::other(format!("`size` printed no section .text for {}: {printed}", program.display())))
}
