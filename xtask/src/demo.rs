//! Kills the demo repeatedly during its durable runs, then lets it finish.
//!
//! The demo must print which runs it picked up, and must end without an error.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;
use xtask::step::{Outcome, cargo, output_of, output_within};

/// The number of kills, and the smallest number of runs that the demo must pick up.
const KILLS: u64 = 8;
const PICKED_UP_MIN: usize = 3;
/// The time limit of a demo that is not killed.
const TIME_MAX: Duration = Duration::from_secs(120);

pub fn survives_kills() -> Outcome {
    // The same selection as in the step `build-demo`: another one would build other features.
    output_of(&mut cargo(&["build", "--release"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let program = xtask::root().join(target).join("release/pleach");
    let mut seen = 0;
    for kill in 0..KILLS {
        let mut demo = Command::new(&program);
        let child = demo.arg("demo").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.map_err(|error| format!("cannot run {}: {error}", program.display()))?;
        // The times are spread over the duration of the demo.
        thread::sleep(Duration::from_millis(400 + kill * 173 % 900));
        child.kill().map_err(|error| format!("cannot kill the demo: {error}"))?;
        let output = child.wait_with_output().map_err(|error| format!("cannot read the output of the demo: {error}"))?;
        seen += String::from_utf8_lossy(&output.stdout).matches("picked up \"").count();
    }
    let text = output_within(TIME_MAX, Command::new(&program).arg("demo"))?;
    seen += text.matches("picked up \"").count();
    if seen < PICKED_UP_MIN {
        return Err(format!(
            "{text}\nthe demo was killed {KILLS} times and picked up {seen} runs, expected at least {PICKED_UP_MIN}"
        ));
    }
    Ok(())
}
