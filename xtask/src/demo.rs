//! Kills the demo repeatedly while it drives durable runs, then lets it finish.
//!
//! The demo must resume its runs, say so, and check its sums.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;
use xtask::step::{Outcome, cargo, output_of, output_within};

/// How often the demo is killed, and how many resumed runs it must report at least.
const KILLS: u64 = 8;
const PICKED_UP_MIN: usize = 3;
/// Time limit of the last demo, which is not killed.
const TIME_MAX: Duration = Duration::from_secs(120);

pub fn survives_kills() -> Outcome {
    output_of(&mut cargo(&["build", "--release", "--package", "pleach-cli"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let program = xtask::root().join(target).join("release/pleach");
    let mut seen = 0;
    for kill in 0..KILLS {
        let mut demo = Command::new(&program);
        let child = demo.arg("demo").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.map_err(|error| format!("cannot run {}: {error}", program.display()))?;
        // The moments are spread over the whole demo.
        thread::sleep(Duration::from_millis(400 + kill * 173 % 900));
        child.kill().map_err(|error| format!("cannot kill the demo: {error}"))?;
        let said = child.wait_with_output().map_err(|error| format!("cannot read what the demo said: {error}"))?;
        seen += String::from_utf8_lossy(&said.stdout).matches("picked up \"").count();
    }
    let said = output_within(TIME_MAX, Command::new(&program).arg("demo"))?;
    seen += said.matches("picked up \"").count();
    if seen < PICKED_UP_MIN {
        return Err(format!("{said}\nkilled {KILLS} times, it picked up {seen} runs; expected at least {PICKED_UP_MIN}"));
    }
    Ok(())
}
