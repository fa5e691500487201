//! The steps of `cargo xtask test`.
//!
//! The order is from cheap to expensive: text checks, lints, tests, then what a user runs.

use crate::{api, demo, deny, dependencies, layers, msrv, packages, promises, words};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};
use xtask::postgres::{Postgres, URL_VARIABLE};
use xtask::step::{Outcome, Step, cargo, output_of, output_within, run_all, run_in_sight};

/// Longest example, in lines, so that it fits on two screens.
const EXAMPLE_LINES_MAX: usize = 80;
/// Time limit of an example, including its build.
const EXAMPLE_TIME_MAX: Duration = Duration::from_secs(5 * 60);

/// Cases of each fuzz target: a few seconds.
const FUZZ_CASES: &str = "1000";

/// All packages except two with many dependencies: the bench (every peer) and the agent (an HTTP
/// client). Those are linted in separate steps.
const WITHOUT_BENCH: [&str; 5] = ["--workspace", "--exclude", "pleach-bench", "--exclude", AGENT];

/// The example that is a separate package.
const AGENT: &str = "pleach-example-agent";

/// Runs all steps, or only the steps whose names begin with one of `only`.
pub fn run(root: &Path, only: &[&str]) -> Outcome {
    let mut steps = steps(root)?;
    if let Some(unknown) = only.iter().find(|word| !steps.iter().any(|step| step.name.starts_with(**word))) {
        let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
        return Err(format!("unknown step {unknown:?}; the steps are: {}", names.join(", ")));
    }
    steps.retain(|step| only.is_empty() || only.iter().any(|word| step.name.starts_with(word)));
    run_all(steps)
}

fn steps(root: &Path) -> Result<Vec<Step>, String> {
    let models = root.to_path_buf();
    let mut steps = vec![
        Step::command("format", &mut cargo(&["fmt", "--all", "--check"])),
        at_root("promises", root, promises::check),
        at_root("words", root, words::check),
        at_root("layers", root, layers::check),
        Step::new("dependencies", dependencies::check),
        at_root("deny", root, deny::check),
        at_root("packages", root, packages::check),
        Step::build("lint", with_lints(cargo(&["clippy"]).args(WITHOUT_BENCH).args(["--all-targets", "--all-features"]))),
        Step::build("lint-no-std", with_lints(&mut cargo(&["clippy", "--package", "pleach-core", "--no-default-features"]))),
        Step::build("lint-no-tokio", with_lints(&mut cargo(&["clippy", "--package", "pleach", "--no-default-features"]))),
        Step::build(
            "lint-graph-alone",
            with_lints(&mut cargo(&["clippy", "--package", "pleach", "--no-default-features", "--features", "graph"])),
        ),
        Step::build("build-no-std", &mut cargo(&["build", "--package", "pleach-core", "--no-default-features"])),
        Step::command(
            "test-no-std",
            &mut cargo(&[
                "test",
                "--package",
                "pleach-core",
                "--no-default-features",
                "--test",
                "errors_without_panic_catching",
            ]),
        ),
        at_root("msrv", root, msrv::check),
        at_root("api", root, api::check),
        Step::build("build-tests", tests(&mut cargo(&["test"])).arg("--no-run")),
        Step::new("test", test),
        Step::command("doc-test", cargo(&["test"]).args(WITHOUT_BENCH).args(["--all-features", "--doc"])),
        Step::build(
            "doc",
            cargo(&["doc"]).args(WITHOUT_BENCH).args(["--no-deps", "--all-features"]).env("RUSTDOCFLAGS", "-D warnings"),
        ),
        Step::new("loom", move || some_models_pass(loom(&models).env("LOOM_MAX_PREEMPTIONS", "2"))),
    ];
    steps.push(Step::build(
        "build-examples",
        &mut cargo(&["build", "--package", "pleach", "--features", "sqlite", "--examples"]),
    ));
    for example in examples(root)? {
        steps.push(example_step(&example));
    }
    steps.push(Step::build("build-fuzz", &mut cargo(&["build", "--package", "pleach-fuzz"])));
    steps.push(Step::command("fuzz", &mut cargo(&["run", "--package", "pleach-fuzz", "--", "--cases", FUZZ_CASES])));
    steps.push(Step::build("build-crash", &mut cargo(&["build", "--package", "pleach-crash"])));
    steps.push(Step::command("crash", crash().arg("--short")));
    steps.push(Step::build("lint-agent", with_lints(&mut cargo(&["clippy", "--package", AGENT]))));
    steps.push(Step::command("example agent", &mut cargo(&["run", "--package", AGENT])));
    steps.push(Step::build("build-demo", &mut cargo(&["build", "--release"])));
    steps.push(Step::command("demo", &mut cargo(&["run", "--release", "--", "demo"])));
    steps.push(Step::new("demo-killed", demo::survives_kills));
    steps.push(Step::build("lint-bench", with_lints(&mut cargo(&["clippy", "--package", "pleach-bench", "--all-targets"]))));
    Ok(steps)
}

/// A check that reads files below the root of the workspace.
fn at_root(name: &str, root: &Path, check: fn(&Path) -> Outcome) -> Step {
    let root = root.to_path_buf();
    Step::new(name, move || check(&root))
}

/// Runs all tests with a temporary PostgreSQL server.
fn test() -> Outcome {
    let server = Postgres::start()?;
    output_of(tests(&mut cargo(&["test"])).env(URL_VARIABLE, server.url())).map(drop)
}

/// Selects the tests. They are built in an earlier step, so that the time limit applies only to
/// running them.
fn tests(command: &mut Command) -> &mut Command {
    command.args(WITHOUT_BENCH).args(["--all-features", "--lib", "--bins", "--tests"])
}

/// Fuzzes every parser for some time, with a seed that differs from call to call.
pub fn fuzz_for(seconds: &str) -> Outcome {
    let seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(1, |time| time.as_secs()).to_string();
    let options = ["--seconds", seconds, "--seed", &seed];
    run_in_sight(cargo(&["run", "--release", "--package", "pleach-fuzz", "--"]).args(options))
}

/// The crash test. It starts and kills its own PostgreSQL server.
pub fn crash() -> Command {
    cargo(&["run", "--package", "pleach-crash", "--"])
}

fn with_lints(command: &mut Command) -> &mut Command {
    command.args(["--", "--deny", "warnings"])
}

/// The loom models, in a separate target folder: their flag would rebuild everything else.
pub fn loom(root: &Path) -> Command {
    let target = root.join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    let mut command = cargo(&["test", "--package", "pleach-core", "--lib", "--release", "loom_"]);
    command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", target.join("loom"));
    command
}

/// Fails if no model ran: a renamed test must not disable the step.
fn some_models_pass(command: &mut Command) -> Outcome {
    let said = output_of(command)?;
    if said.contains("ok. 0 passed") { Err(format!("{said}\ncore has no test named `loom_…`")) } else { Ok(()) }
}

fn examples(root: &Path) -> Result<Vec<PathBuf>, String> {
    let folder = root.join("pleach/examples");
    let entries = fs::read_dir(&folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    let mut examples: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    examples.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    examples.sort();
    Ok(examples)
}

fn example_step(path: &Path) -> Step {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let path = path.to_path_buf();
    let mut run = cargo(&["run", "--package", "pleach", "--features", "sqlite", "--example", &name]);
    Step::new(format!("example {name}"), move || {
        let text = fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        match text.lines().count() {
            0..EXAMPLE_LINES_MAX => output_within(EXAMPLE_TIME_MAX, &mut run).map(drop),
            lines => Err(format!("{} has {lines} lines: keep it under {EXAMPLE_LINES_MAX}", path.display())),
        }
    })
}
