//! `Step`: one thing to check, with a name. A step is silent when it passes, and shows everything when it does not.

use std::env;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What a step that failed has to say.
pub type Outcome = Result<(), String>;

/// One thing to check.
pub struct Step {
    pub name: String,
    check: Box<dyn FnOnce() -> Outcome>,
}

impl Step {
    pub fn new(name: impl Into<String>, check: impl FnOnce() -> Outcome + 'static) -> Self {
        Self { name: name.into(), check: Box::new(check) }
    }

    /// A command that must succeed.
    pub fn command(name: impl Into<String>, command: &mut Command) -> Self {
        let command = std::mem::replace(command, Command::new(""));
        Self::new(name, move || run_quietly(command))
    }
}

/// Runs the steps in order, a line each, and stops at the first that fails.
pub fn run_all(steps: Vec<Step>) -> Outcome {
    let begun = Instant::now();
    let width = steps.iter().map(|step| step.name.len()).max().unwrap_or(0);
    let mut left = steps.len();
    let mut passed = 0;
    for Step { name, check } in steps {
        print!("{name:width$} ");
        // A step may take minutes: whoever watches sees which one it is.
        drop(std::io::stdout().flush());
        let step_begun = Instant::now();
        let outcome = check();
        let time = seconds(step_begun.elapsed());
        left -= 1;
        match outcome {
            Ok(()) => {
                println!(" ok  {time:>8}");
                passed += 1;
            }
            Err(why) => {
                println!("FAIL {time:>8}\n\n{}\n", why.trim_end());
                println!("{passed} passed, 1 failed ({name}), {left} not run, {}", seconds(begun.elapsed()));
                return Err("not everything passed".into());
            }
        }
    }
    println!("{passed} passed, 0 failed, {}", seconds(begun.elapsed()));
    Ok(())
}

/// The cargo that runs this, with these arguments.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(crate::root());
    command
}

/// Runs a command whose output is the point of it.
pub fn run_in_sight(command: &mut Command) -> Outcome {
    let status = command.status().map_err(|error| cannot_run(command, &error))?;
    if status.success() { Ok(()) } else { Err(format!("failed ({status}): {}", text(command))) }
}

/// The output of a command that must succeed.
pub fn output_of(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| cannot_run(command, &error))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    let complained = String::from_utf8_lossy(&output.stderr);
    Err(format!("{said}{complained}\nfailed ({}): {}", output.status, text(command)))
}

fn run_quietly(mut command: Command) -> Outcome {
    output_of(&mut command).map(drop)
}

fn cannot_run(command: &Command, error: &std::io::Error) -> String {
    format!("cannot run {}: {error}", text(command))
}

/// The command as one would type it, with the variables it sets.
fn text(command: &Command) -> String {
    let mut text = String::new();
    for (variable, value) in command.get_envs() {
        let _ = write!(text, "{}={:?} ", variable.to_string_lossy(), value.unwrap_or(OsStr::new("")));
    }
    text.push_str("cargo");
    for argument in command.get_args() {
        let _ = write!(text, " {}", argument.to_string_lossy());
    }
    text
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
