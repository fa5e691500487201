//! The steps of `cargo xtask test`.
//!
//! The order is from cheap to expensive: text checks, lints, builds, tests, then what a user runs.
//! All builds come before the tests: a step in the background must not lose its program.

use crate::{
    api, assets, console, counts, demo, deny, dependencies, embedded, layers, msrv, packages, promises, vendor, words,
};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime};
use xtask::postgres::{Postgres, URL_VARIABLE};
use xtask::run::run_all;
use xtask::step::{Outcome, Step, cargo, output_of, output_within, run_in_sight};

/// Longest example, in lines, so that it fits on two screens.
const EXAMPLE_LINES_MAX: usize = 90;
/// Time limit of an example, including its build.
const EXAMPLE_TIME_MAX: Duration = Duration::from_secs(5 * 60);

/// Cases of each fuzz target: a few seconds.
const FUZZ_CASES: &str = "1000";

/// All packages except those with many dependencies: the bench (every peer), the agent (an HTTP
/// client), and the two examples with exporters. Those are linted and tested in separate steps.
pub const WITHOUT_BENCH: [&str; 9] =
    ["--workspace", "--exclude", "pleach-bench", "--exclude", AGENT, "--exclude", OTLP, "--exclude", SERVICE];

/// Test programs that mostly wait: for a server, for leases, for stopped processes.
const WAITING: [&str; 2] = ["lease_stopped", "postgres"];

/// The examples that are separate packages.
const AGENT: &str = "pleach-example-agent";
const OTLP: &str = "pleach-example-otlp";
const SERVICE: &str = "pleach-example-service";

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
        at_root("vendor", root, vendor::check),
        at_root("assets", root, assets::check),
        at_root("page", root, console::test_page),
        Step::build("lint", with_lints(cargo(&["clippy"]).args(WITHOUT_BENCH).args(["--all-targets", "--all-features"]))),
        Step::build("lint-no-std", with_lints(&mut cargo(&["clippy", "--package", "pleach-core", "--no-default-features"]))),
        Step::build("lint-no-tokio", with_lints(&mut cargo(&["clippy", "--package", "pleach", "--no-default-features"]))),
        Step::build(
            "lint-graph-alone",
            with_lints(&mut cargo(&["clippy", "--package", "pleach", "--no-default-features", "--features", "graph"])),
        ),
        Step::build("build-no-std", &mut cargo(&["build", "--package", "pleach-core", "--no-default-features"])),
        Step::command("test-no-std", &mut embedded::no_std_tests()),
        at_root("msrv", root, msrv::check),
        at_root("api", root, api::check),
        Step::build("build-tests", all_tests(&mut cargo(&["test"])).arg("--no-run")),
        Step::build("build-console", &mut console::build(&WITHOUT_BENCH)),
        Step::build("build-fuzz", &mut cargo(&["build", "--package", "pleach-fuzz"])),
        Step::build("build-crash", &mut cargo(&["build", "--package", "pleach-crash"])),
        Step::build("build-examples", &mut cargo(&["build", "--package", "pleach", "--features", "sqlite", "--examples"])),
        Step::build("lint-agent", with_lints(&mut cargo(&["clippy", "--package", AGENT]))),
        Step::build(
            "lint-exporters",
            with_lints(&mut cargo(&["clippy", "--package", OTLP, "--package", SERVICE, "--all-targets"])),
        ),
        Step::build("lint-bench", with_lints(&mut cargo(&["clippy", "--package", "pleach-bench", "--all-targets"]))),
        at_root("test", root, test),
        at_root("console", root, console::test_in_browser),
        // It waits for processes and leases during most of its time.
        Step::command("crash", crash().arg("--short")).in_background(),
        Step::command("doc-test", cargo(&["test"]).args(WITHOUT_BENCH).args(["--all-features", "--doc"])),
        Step::build(
            "doc",
            cargo(&["doc"]).args(WITHOUT_BENCH).args(["--no-deps", "--all-features"]).env("RUSTDOCFLAGS", "-D warnings"),
        ),
        Step::new("loom", move || some_models_pass(loom(&models).env("LOOM_MAX_PREEMPTIONS", "2"))),
        Step::command("fuzz", &mut cargo(&["run", "--package", "pleach-fuzz", "--", "--cases", FUZZ_CASES])),
    ];
    steps.push(at_root("counts", root, counts::check));
    for example in examples(root)? {
        steps.push(example_step(&example));
    }
    steps.push(Step::command("example agent", &mut cargo(&["run", "--package", AGENT])));
    // Their tests run them as processes: against a receiver, and with signals.
    steps.push(Step::command("example otlp", &mut cargo(&["test", "--package", OTLP])));
    steps.push(Step::command("example service", &mut cargo(&["test", "--package", SERVICE])));
    steps.push(at_root("embedded", root, embedded::check));
    // Outside of the workspace: a time driver of Embassy is chosen once for a whole build.
    steps.push(Step::command("example embassy-std", &mut embedded::host_example(root)));
    steps.push(Step::new("demo", demo::accounts_for_everything));
    steps.push(Step::new("demo-killed", demo::survives_kills));
    Ok(steps)
}

/// A check that reads files below the root of the workspace.
fn at_root(name: &str, root: &Path, check: fn(&Path) -> Outcome) -> Step {
    let root = root.to_path_buf();
    Step::new(name, move || check(&root))
}

/// Runs all tests with a temporary PostgreSQL server. The tests that mostly wait run at the same
/// time as the others.
fn test(root: &Path) -> Outcome {
    let server = Postgres::start()?;
    let (mut waiting, mut others) = (cargo(&["test"]), cargo(&["test"]));
    waiting.args(WITHOUT_BENCH).arg("--all-features");
    others.args(WITHOUT_BENCH).args(["--all-features", "--lib", "--bins"]);
    for name in test_programs(root)? {
        let command = if WAITING.contains(&name.as_str()) { &mut waiting } else { &mut others };
        command.args(["--test", &name]);
    }
    let url = server.url();
    let (waited, passed) = thread::scope(|scope| {
        let waited = scope.spawn(|| output_of(waiting.env(URL_VARIABLE, &url)));
        let passed = output_of(others.env(URL_VARIABLE, &url));
        (waited.join().unwrap_or_else(|_| Err("the thread of the waiting tests panicked".into())), passed)
    });
    match (waited, passed) {
        (Err(one), Err(other)) => Err(format!("{one}\n\n{other}")),
        (waited, passed) => waited.and(passed).map(drop),
    }
}

/// Selects all tests. They are built in an earlier step, so that the time limit applies only to
/// running them.
fn all_tests(command: &mut Command) -> &mut Command {
    command.args(WITHOUT_BENCH).args(["--all-features", "--lib", "--bins", "--tests"])
}

/// Returns the names of the programs in the `tests` folders, as cargo finds them.
fn test_programs(root: &Path) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for package in entries(root)? {
        let folder = package.join("tests");
        for path in if folder.is_dir() { entries(&folder)? } else { Vec::new() } {
            if path.extension().is_some_and(|extension| extension == "rs") || path.join("main.rs").exists() {
                names.push(path.file_stem().unwrap_or_default().to_string_lossy().into_owned());
            }
        }
    }
    Ok(names)
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
    let mut examples = entries(&root.join("pleach/examples"))?;
    examples.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    Ok(examples)
}

/// Returns the paths in a folder, sorted.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    Ok(paths)
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
