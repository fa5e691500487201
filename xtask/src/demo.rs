//! Runs the demo as a user does, and kills it repeatedly.
//!
//! The demo must print an account that adds up. After a kill, the next demo must print which orders
//! it picked up, and must end without an error.

use crate::console;
use crate::suite::WITHOUT_BENCH;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;
use xtask::step::{Outcome, cargo, output_of, output_within, run_in_sight};

/// The number of kills, and the smallest number of orders that the demos must pick up.
const KILLS: u64 = 6;
const PICKED_UP_MIN: usize = 3;
/// The time limit of a demo that is not killed.
const TIME_MAX: Duration = Duration::from_secs(60);
/// How long it shows something.
const SHOW: [&str; 3] = ["demo", "--duration", "4s"];

/// The picture of the demo in the README.
const PICTURE: &str = "docs/images/demo.svg";

/// What a good account says at its end.
const ACCOUNTED: &str = "Every message, every failure and every charge is accounted for.";

/// Checks that a short demo kills its worker, continues, and accounts for everything.
pub fn accounts_for_everything() -> Outcome {
    let folder = Folder::new("short")?;
    let text = folder.run(&tested()?)?;
    let expected = ["kill -9 ", " continues \"order-", "Worker processes killed before: 1.", ACCOUNTED];
    match expected.iter().find(|part| !text.contains(**part)) {
        Some(missing) => Err(format!("{text}\nthe demo did not print {missing:?}")),
        None => folder.is_clean(),
    }
}

/// Checks that a demo resumes the orders of demos that were killed.
pub fn survives_kills() -> Outcome {
    let (program, folder) = (tested()?, Folder::new("killed")?);
    let mut seen = 0;
    for kill in 0..KILLS {
        let mut demo = folder.command(&program);
        let child = demo.arg("demo").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.map_err(|error| format!("cannot run {}: {error}", program.display()))?;
        // The times are spread over the first steps of the orders.
        thread::sleep(Duration::from_millis(500 + kill * 173 % 900));
        child.kill().map_err(|error| format!("cannot kill the demo: {error}"))?;
        let output = child.wait_with_output().map_err(|error| format!("cannot read the output of the demo: {error}"))?;
        seen += picked_up(&String::from_utf8_lossy(&output.stdout));
    }
    let text = folder.run(&program)?;
    seen += picked_up(&text);
    if seen < PICKED_UP_MIN || !text.contains(ACCOUNTED) {
        return Err(format!(
            "{text}\nthe demo was killed {KILLS} times and picked up {seen} orders, expected at least {PICKED_UP_MIN}"
        ));
    }
    folder.is_clean()
}

/// Draws the screen of the demo for the README.
pub fn draw() -> Outcome {
    output_of(&mut cargo(&["build", "--release"]))?;
    let program = command("release");
    let mut picture = cargo(&["run", "--quiet", "--package", "pleach-cli", "--example", "picture", "--"]);
    run_in_sight(picture.arg(program).arg(xtask::root().join(PICTURE)))
}

fn picked_up(text: &str) -> usize {
    text.matches("picked up \"").count()
}

/// Returns the path of the command, built as in the step `build-console`: another selection would
/// build other features. What the demo does and its account do not depend on the optimizer, which
/// takes minutes.
fn tested() -> Result<PathBuf, String> {
    output_of(&mut console::build(&WITHOUT_BENCH))?;
    Ok(command("debug"))
}

fn command(profile: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    xtask::root().join(target).join(profile).join("pleach")
}

/// A temporary folder of one check, so that it does not see the demos of others.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("xtask-demo-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| format!("cannot make {}: {error}", path.display()))?;
        Ok(Self(path))
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("TMPDIR", &self.0);
        command
    }

    /// Runs a short demo and returns what it printed.
    fn run(&self, program: &Path) -> Result<String, String> {
        output_within(TIME_MAX, self.command(program).args(SHOW))
    }

    /// Fails if a demo left something.
    fn is_clean(&self) -> Outcome {
        let mut left = std::fs::read_dir(&self.0).map_err(|error| format!("cannot read {}: {error}", self.0.display()))?;
        match left.next() {
            Some(Ok(entry)) => Err(format!("the demo left {}", entry.path().display())),
            _ => Ok(()),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}
