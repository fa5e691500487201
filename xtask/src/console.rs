//! Runs the tests of the console's page: its modules with Node, and all of it in Chromium.
//!
//! The tests in the browser share one program with everything that the console has to show (the
//! package `pleach-console-fixture`), with a store in a SQLite file and one in PostgreSQL.
//!
//! The packages of `console/browser/package.json` are installed in the target folder.

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use xtask::postgres::Postgres;
use xtask::step::{Outcome, cargo, output_of, output_within, run_in_sight};
use xtask::tools::program;

/// The tests of modules without a browser, and those in a browser.
const PAGE_TESTS: &str = "console/web-tests";
const BROWSER_TESTS: &str = "console/browser";

/// The package of the program with the consoles.
const FIXTURE: &str = "pleach-console-fixture";

/// Time limit of the tests in the browser.
const TIME_MAX: Duration = Duration::from_secs(15 * 60);
/// How long the program may take to end after its input ended.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the soak lasts without an argument, in seconds.
pub const SOAK_SECONDS: &str = "600";

/// Tests the modules of the page with Node.
pub fn test_page(root: &Path) -> Outcome {
    let tests = files(&root.join(PAGE_TESTS), ".test.js")?;
    output_of(Command::new(node()?).current_dir(root).arg("--test").args(tests)).map(drop)
}

/// Tests the console in Chromium. `build` has built the program.
pub fn test_in_browser(root: &Path) -> Outcome {
    let tools = Tools::find(root)?;
    let server = Postgres::start()?;
    let program = Program::start(&fixture("debug"), &["--postgres", &server.url()])?;
    let mut node = tools.node(&fixture("debug"));
    node.env("PLEACH_CONSOLE", &program.line);
    node.env("PLEACH_COMMANDS", target().join("debug"));
    // The files share the program. Each changes only runs and members that no other file needs, and
    // they often wait, so some of them run at the same time.
    node.args(["--test", "--test-concurrency=3"]).args(files(&root.join(BROWSER_TESTS), ".test.mjs")?);
    let tested = output_within(TIME_MAX, &mut node);
    program.stop()?;
    tested.map(drop)
}

/// The command that builds the program of the tests and the `pleach` command, with the features of
/// the other tests.
pub fn build(selection: &[&str]) -> Command {
    let mut build = cargo(&["build"]);
    build.args(selection).args(["--all-features", "--bin", FIXTURE, "--bin", "pleach"]);
    build
}

/// Takes pictures of every view, and of everything that can be opened there, for documents and to
/// be looked at.
pub fn take_shots(root: &Path) -> Outcome {
    run_in_sight(&mut build(&["--package", FIXTURE, "--package", "pleach-cli"]))?;
    let tools = Tools::find(root)?;
    let server = Postgres::start()?;
    let program = Program::start(&fixture("debug"), &["--postgres", &server.url()])?;
    drop(fs::remove_dir_all(shots(root)));
    let mut node = tools.node(&fixture("debug"));
    node.env("PLEACH_CONSOLE", &program.line).env("PLEACH_SHOTS", shots(root));
    let tests = ["pages.test.mjs", "opened.test.mjs"].map(|name| root.join(BROWSER_TESTS).join(name));
    node.args(["--test", "--test-name-pattern", "picture"]).args(tests);
    let taken = run_in_sight(&mut node);
    program.stop()?;
    println!("the pictures are in {}", shots(root).display());
    taken
}

/// Runs a program of `console/browser` that starts its own consoles, such as `soak.mjs`, against an
/// optimized build.
pub fn measure(root: &Path, script: &str, arguments: &[&str]) -> Outcome {
    run_in_sight(&mut cargo(&["build", "--release", "--package", FIXTURE]))?;
    let tools = Tools::find(root)?;
    let mut node = tools.node(&fixture("release"));
    run_in_sight(node.arg(root.join(BROWSER_TESTS).join(script)).args(arguments))
}

/// What the tests in a browser need of the machine.
struct Tools {
    node: PathBuf,
    chromium: PathBuf,
    /// The folder of the packages.
    modules: PathBuf,
    root: PathBuf,
}

impl Tools {
    /// Finds or installs them. The packages are installed again only if their list has changed.
    fn find(root: &Path) -> Result<Self, String> {
        let node = node()?;
        let chromium = program(&["chromium", "chromium-browser", "google-chrome"], "chromium")?;
        let folder = target().join("console-browser");
        let complain = |error: std::io::Error| format!("cannot write to {}: {error}", folder.display());
        fs::create_dir_all(&folder).map_err(complain)?;
        let mut is_new = !folder.join("node_modules").is_dir();
        for name in ["package.json", "package-lock.json"] {
            let (from, to) = (root.join(BROWSER_TESTS).join(name), folder.join(name));
            is_new |= fs::read(&from).map_err(complain)? != fs::read(&to).unwrap_or_default();
            fs::copy(from, to).map_err(complain)?;
        }
        if is_new {
            let npm = program(&["npm"], "npm")?;
            let installed =
                output_of(Command::new(npm).current_dir(&folder).args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]));
            if let Err(why) = installed {
                // The next call tries again.
                drop(fs::remove_dir_all(folder.join("node_modules")));
                return Err(why);
            }
        }
        Ok(Self { node, chromium, modules: folder.join("node_modules"), root: root.to_path_buf() })
    }

    /// Node, with what the tests must know.
    fn node(&self, fixture: &Path) -> Command {
        let mut node = Command::new(&self.node);
        node.current_dir(&self.root);
        node.env("PLEACH_NODE_MODULES", &self.modules).env("PLEACH_CHROMIUM", &self.chromium).env("PLEACH_FIXTURE", fixture);
        node
    }
}

/// A running program with consoles. It ends with its input.
struct Program {
    child: Child,
    input: Option<ChildStdin>,
    /// What it printed: where everything is.
    line: String,
}

impl Program {
    fn start(path: &Path, arguments: &[&str]) -> Result<Self, String> {
        let mut command = Command::new(path);
        let spawned = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| format!("cannot run {}: {error}", path.display()))?;
        let input = child.stdin.take();
        let mut line = String::new();
        let output = child.stdout.take().ok_or("the program of the consoles has no output")?;
        let read = BufReader::new(output).read_line(&mut line);
        let program = Self { child, input, line };
        match read {
            Ok(_) if program.line.starts_with('{') => Ok(program),
            _ => Err(format!("{} ended without a line about its consoles", path.display())),
        }
    }

    /// Ends it in order, so that it removes its folder. Fails if it had ended before.
    fn stop(mut self) -> Outcome {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Err(format!("the program of the consoles ended during the tests ({status})"));
        }
        drop(self.input.take());
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("the program of the consoles failed ({status})")),
                _ => thread::sleep(Duration::from_millis(20)),
            }
        }
        Err(format!("the program of the consoles did not end within {PATIENCE:?} after its input"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn node() -> Result<PathBuf, String> {
    program(&["node", "nodejs"], "nodejs")
}

fn target() -> PathBuf {
    xtask::root().join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

fn fixture(profile: &str) -> PathBuf {
    target().join(profile).join(FIXTURE)
}

fn shots(root: &Path) -> PathBuf {
    root.join("target/console-shots")
}

/// Returns the files in a folder whose names end with `ending`, sorted.
fn files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.to_string_lossy().ends_with(ending));
    files.sort();
    match files.is_empty() {
        true => Err(format!("{} has no file *{ending}", folder.display())),
        false => Ok(files),
    }
}
