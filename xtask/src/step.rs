//! Named checks, and the commands that they run.
//!
//! A [`Step`] prints nothing when it passes, and all its output when it fails. One exception: the
//! name of a test that runs for more than a minute is shown at once, to make a hang visible.
//! A command that exceeds its time limit is killed with all processes that it started, and fails.

use std::env;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The text by which the test harness reports a slow test.
const HANGS: &str = "has been running for over";

/// Time limit of a command that only runs what was built before.
const TIME_MAX: Duration = Duration::from_secs(20 * 60);

/// Time limit of a build. Generous, since a busy machine can be very slow.
const BUILD_TIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The prefixes of the variables that `cargo run` sets for the package that it runs.
const PACKAGE_VARIABLES: [&str; 2] = ["CARGO_MANIFEST_", "CARGO_PKG_"];

/// The result of a step, with the report of a failure.
pub type Outcome = Result<(), String>;

/// A named check that runs once.
pub struct Step {
    /// The name by which a user selects it.
    pub name: String,
    /// Whether the following steps run at the same time.
    pub(crate) is_background: bool,
    pub(crate) check: Box<dyn FnOnce() -> Outcome + Send>,
}

impl Step {
    /// Creates a step from a name and a function.
    pub fn new(name: impl Into<String>, check: impl FnOnce() -> Outcome + Send + 'static) -> Self {
        Self { name: name.into(), is_background: false, check: Box::new(check) }
    }

    /// Lets the following steps run at the same time. For a step that waits more than it computes,
    /// and whose program no later step builds again.
    pub fn in_background(self) -> Self {
        Self { is_background: true, ..self }
    }

    /// Creates a step that only builds, with the time limit of builds.
    pub fn build(name: impl Into<String>, command: &mut Command) -> Self {
        let mut command = std::mem::replace(command, Command::new(""));
        Self::new(name, move || output_within(BUILD_TIME_MAX, &mut command).map(drop))
    }

    /// Creates a step from a command that must succeed within the usual time limit.
    pub fn command(name: impl Into<String>, command: &mut Command) -> Self {
        let command = std::mem::replace(command, Command::new(""));
        Self::new(name, move || run_quietly(command))
    }
}

/// Returns a command for the cargo that runs this program, at the root of the workspace.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(crate::root());
    without_package(&mut command);
    command
}

/// Removes the variables by which `cargo run` describes this package. Build scripts of dependencies
/// depend on them, and would run again after each change between `cargo test` and `cargo xtask`.
pub fn without_package(command: &mut Command) {
    for (variable, _) in env::vars_os() {
        if variable.to_str().is_some_and(|name| PACKAGE_VARIABLES.iter().any(|prefix| name.starts_with(prefix))) {
            command.env_remove(variable);
        }
    }
}

/// Runs a command and shows its output.
pub fn run_in_sight(command: &mut Command) -> Outcome {
    let status = command.status().map_err(|error| cannot_run(command, &error))?;
    if status.success() { Ok(()) } else { Err(format!("failed ({status}): {}", text(command))) }
}

/// Runs a command that must succeed, and returns its standard output.
pub fn output_of(command: &mut Command) -> Result<String, String> {
    output_within(TIME_MAX, command)
}

/// As [`output_of`], with a time limit.
pub fn output_within(time: Duration, command: &mut Command) -> Result<String, String> {
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = piped.spawn().map_err(|error| cannot_run(command, &error))?;
    let (ended, watched) = mpsc::channel::<()>();
    let group = format!("-{}", child.id());
    let watch = thread::spawn(move || {
        let overdue = watched.recv_timeout(time) == Err(mpsc::RecvTimeoutError::Timeout);
        overdue && Command::new("kill").args(["-KILL", "--", &group]).status().is_ok()
    });
    let complaints = child.stderr.take().map(|pipe| thread::spawn(|| lines_of(pipe)));
    let said = child.stdout.take().map(lines_of).unwrap_or_default();
    let complained = complaints.and_then(|reader| reader.join().ok()).unwrap_or_default();
    let status = child.wait().map_err(|error| cannot_run(command, &error))?;
    drop(ended);
    let why = if watch.join().unwrap_or(false) { format!("did not end within {}", seconds(time)) } else { status.to_string() };
    if status.success() { Ok(said) } else { Err(format!("{said}{complained}\nfailed ({why}): {}", text(command))) }
}

/// Reads a pipe to its end, and prints reports of slow tests at once.
fn lines_of(pipe: impl Read) -> String {
    let mut text = String::new();
    for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        if line.contains(HANGS) {
            println!("\n  {line}");
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}

fn run_quietly(mut command: Command) -> Outcome {
    output_of(&mut command).map(drop)
}

fn cannot_run(command: &Command, error: &std::io::Error) -> String {
    format!("cannot run {}: {error}", text(command))
}

/// The command as a user would type it, with the variables it sets.
fn text(command: &Command) -> String {
    let mut text = String::new();
    for (variable, value) in command.get_envs().filter_map(|(variable, value)| Some((variable, value?))) {
        let _ = write!(text, "{}={value:?} ", variable.to_string_lossy());
    }
    let program = Path::new(command.get_program());
    text.push_str(&program.file_name().unwrap_or(program.as_os_str()).to_string_lossy());
    for argument in command.get_args() {
        let _ = write!(text, " {}", argument.to_string_lossy());
    }
    text
}

/// A time as it is shown in reports.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
