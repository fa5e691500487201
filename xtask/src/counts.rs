//! The instructions that operations take under callgrind, recorded in `bench/counts/counts.txt`.
//!
//! `cargo xtask counts` writes the file, and a step of `cargo xtask test` compares it with a new
//! measurement. Every count must stay within [`LIMIT_PERCENT`] in both directions: an improvement
//! is recorded too, or a later loss of it would not be seen.
//!
//! Counts depend on the compiler and the C library, so the file names both. With others, counts are
//! compared within [`OTHER_LIMIT_PERCENT`], and the step says so.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use xtask::step::{Outcome, cargo, output_of};
use xtask::tools;

const FILE: &str = "bench/counts/counts.txt";

/// How far a count may be from its record, in percent.
const LIMIT_PERCENT: u64 = 3;

/// The same with another compiler or C library than the recorded ones.
const OTHER_LIMIT_PERCENT: u64 = 25;

/// The counted operations, and how often the long run does each. The short run does a quarter. Both
/// are multiples of what `pleach-counts` does at a time.
const OPERATIONS: [(&str, u64); 8] = [
    ("tell", 12_000),
    ("ask", 4_000),
    ("spawn", 4_000),
    ("restart", 4_000),
    ("group_task", 4_000),
    ("graph_node", 12_000),
    ("fan_out", 2_000),
    ("commit", 400),
];

const HEAD: &str = "\
# Instructions per operation under callgrind. `cargo xtask counts` writes this file, and
# `cargo xtask test counts` fails if a count is off by more than 3 %, in either direction.
# With another compiler or C library than these, the limit is 25 %.
";

/// The contents of the file.
#[derive(Debug, PartialEq)]
struct Counts {
    /// The compiler and the C library.
    tools: String,
    /// Instructions by the name of the operation.
    instructions: BTreeMap<String, u64>,
}

/// Measures, and writes the file.
pub fn write(root: &Path) -> Outcome {
    let text = measured(root)?.text();
    print!("{text}");
    fs::write(root.join(FILE), text).map_err(|error| format!("cannot write {FILE}: {error}"))
}

/// Fails if a count differs from the file.
pub fn check(root: &Path) -> Outcome {
    let text = fs::read_to_string(root.join(FILE)).map_err(|error| format!("cannot read {FILE}: {error}"))?;
    let recorded = Counts::parse(&text).ok_or_else(|| format!("{FILE} is damaged; `cargo xtask counts` writes it again"))?;
    let measured = measured(root)?;
    if measured.tools != recorded.tools {
        println!("\n  counted with {}, recorded with {}: the limit is {OTHER_LIMIT_PERCENT} %", measured.tools, recorded.tools);
    }
    compare(&recorded, &measured)
}

/// Returns a table of all counts if one of them differs too much.
fn compare(recorded: &Counts, measured: &Counts) -> Outcome {
    let limit = if recorded.tools == measured.tools { LIMIT_PERCENT } else { OTHER_LIMIT_PERCENT };
    let mut table = format!("{:12} {:>10} {:>10}\n", "operation", "recorded", "now");
    let mut off = Vec::new();
    for (name, now) in &measured.instructions {
        let Some(before) = recorded.instructions.get(name) else {
            return Err(format!("{FILE} has no count of {name}; `cargo xtask counts` writes it again"));
        };
        let percent = (*now as f64 / *before as f64 - 1.0) * 100.0;
        table += &format!("{name:12} {before:>10} {now:>10} {percent:>+7.1} %\n");
        if now.abs_diff(*before) * 100 > before * limit {
            off.push(name.as_str());
        }
    }
    if off.is_empty() {
        return Ok(());
    }
    let off = off.join(", ");
    Err(format!("{table}{off}: off by more than {limit} %; if that is intended, run `cargo xtask counts` and say why"))
}

impl Counts {
    fn text(&self) -> String {
        let mut text = format!("{HEAD}tools {}\n", self.tools);
        for (name, _) in OPERATIONS {
            text += &format!("{name} {}\n", self.instructions[name]);
        }
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let tools = lines.next()?.strip_prefix("tools ")?.to_string();
        let count = |line: &str| -> Option<(String, u64)> {
            let (name, instructions) = line.split_once(' ')?;
            Some((name.to_string(), instructions.parse().ok().filter(|count| *count > 0)?))
        };
        Some(Self { tools, instructions: lines.map(count).collect::<Option<_>>()? })
    }
}

fn measured(root: &Path) -> Result<Counts, String> {
    let valgrind = tools::program(&["valgrind"], "valgrind")?;
    output_of(&mut cargo(&["build", "--release", "--package", "pleach-counts"]))?;
    let target = root.join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    let program = target.join("release/pleach-counts");
    let mut instructions = BTreeMap::new();
    for (name, many) in OPERATIONS {
        instructions.insert(name.to_string(), per_operation(&valgrind, &program, name, many)?);
    }
    Ok(Counts { tools: versions()?, instructions })
}

/// Takes the difference of a long and a short run, so that the cost of the start cancels out.
fn per_operation(valgrind: &Path, program: &Path, name: &str, many: u64) -> Result<u64, String> {
    let few = many / 4;
    let (short, long) = thread::scope(|scope| {
        let short = scope.spawn(|| collected(valgrind, program, name, few));
        let long = collected(valgrind, program, name, many);
        (short.join().unwrap_or_else(|_| Err("the thread of the short run panicked".into())), long)
    });
    let operations = many - few;
    Ok((long?.saturating_sub(short?) + operations / 2) / operations)
}

/// Counts the instructions of a whole run. Callgrind reports them on standard error.
fn collected(valgrind: &Path, program: &Path, name: &str, operations: u64) -> Result<u64, String> {
    let mut command = Command::new(valgrind);
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--log-fd=1"]);
    let said = output_of(command.arg(program).args([name, &operations.to_string()]))?;
    let total = said.split_once("Collected :").and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
    total.ok_or_else(|| format!("{said}\nvalgrind reports no total"))
}

/// Names what else a count depends on: the compiler, its target, and the C library.
fn versions() -> Result<String, String> {
    let rustc = output_of(Command::new("rustc").arg("-vV"))?;
    let value = |name: &str| rustc.lines().find_map(|line| line.strip_prefix(name)).map_or("", str::trim).to_string();
    let library = output_of(Command::new("getconf").arg("GNU_LIBC_VERSION")).unwrap_or_else(|_| "another C library".into());
    Ok(format!("rustc {}, {}, {}", value("release:"), value("host:"), library.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(tools: &str, tell: u64) -> Counts {
        let with = |(name, _): (&str, u64)| (name.to_string(), if name == "tell" { tell } else { 1_000 });
        Counts { tools: tools.to_string(), instructions: OPERATIONS.map(with).into() }
    }

    #[test]
    fn more_and_fewer_instructions_fail() {
        let recorded = counts("rustc 1", 1_000);
        assert_eq!(compare(&recorded, &counts("rustc 1", 1_030)), Ok(()));
        assert_eq!(compare(&recorded, &counts("rustc 1", 970)), Ok(()));
        assert!(compare(&recorded, &counts("rustc 1", 1_031)).is_err_and(|why| why.contains("tell: off")));
        assert!(compare(&recorded, &counts("rustc 1", 969)).is_err_and(|why| why.contains("tell: off")));
    }

    #[test]
    fn another_compiler_has_a_wider_limit() {
        let recorded = counts("rustc 1", 1_000);
        assert_eq!(compare(&recorded, &counts("rustc 2", 1_250)), Ok(()));
        assert!(compare(&recorded, &counts("rustc 2", 1_251)).is_err());
    }

    #[test]
    fn the_file_is_read_as_it_is_written() {
        let written = counts("rustc 1, here, glibc 2", 130);
        assert_eq!(Counts::parse(&written.text()), Some(written));
        assert_eq!(Counts::parse("tools rustc 1\ntell none\n"), None);
    }
}
