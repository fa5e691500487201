//! [`WorkerProcess`]: the worker of the demo as a child of this process.

use crate::demo::folder::Places;
use crate::demo::protocol::{Note, Order};
use crate::demo::show::Update;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use tokio::sync::mpsc::Sender;

/// The last characters of the worker's log that an error shows.
const LOG_SHOWN: usize = 400;

/// A running worker. Dropping it kills the process.
pub struct WorkerProcess {
    child: Child,
    orders: ChildStdin,
}

impl WorkerProcess {
    /// Starts a worker. Its notes and its end arrive as updates with its `generation`.
    pub fn start(places: &Places, seed: u64, generation: u32, updates: &Sender<Update>) -> io::Result<Self> {
        let log = OpenOptions::new().create(true).append(true).open(places.log())?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("demo").arg("--worker").arg(places.folder()).arg("--seed").arg(seed.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        away_from_the_terminal(&mut command);
        let mut child = command.spawn()?;
        let missing = || io::Error::other("the worker process has no pipes");
        let orders = child.stdin.take().ok_or_else(missing)?;
        let notes = child.stdout.take().ok_or_else(missing)?;
        let updates = updates.clone();
        std::thread::Builder::new().name("pleach-notes".into()).spawn(move || read(notes, generation, &updates))?;
        Ok(Self { child, orders })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends an order. A worker that has died gets none; its end is an update of its own.
    pub fn order(&mut self, order: &Order) {
        if let Ok(mut line) = serde_json::to_string(order) {
            line.push('\n');
            drop(self.orders.write_all(line.as_bytes()));
        }
    }

    /// Kills the process with SIGKILL: nothing in it can react.
    pub fn kill(&mut self) {
        drop(self.child.kill());
    }

    /// Waits for the end of the process after its output has ended.
    pub fn end(mut self) -> String {
        match self.child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        }
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Keeps Ctrl-C, which the terminal sends to a whole process group, from the worker: the show ends
/// it in order.
#[cfg(unix)]
fn away_from_the_terminal(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    command.process_group(0);
}

#[cfg(not(unix))]
fn away_from_the_terminal(_command: &mut Command) {}

fn read(notes: ChildStdout, generation: u32, updates: &Sender<Update>) {
    for line in BufReader::new(notes).lines().map_while(Result::ok) {
        let Ok(note) = serde_json::from_str::<Note>(&line) else { continue };
        if updates.blocking_send(Update::Note(generation, note)).is_err() {
            return;
        }
    }
    drop(updates.blocking_send(Update::Gone(generation)));
}

/// Returns the end of what workers have written to standard error.
pub fn log_end(places: &Places) -> String {
    let log = fs::read(places.log()).unwrap_or_default();
    let text = String::from_utf8_lossy(&log);
    let text = text.trim_end();
    let start = text.char_indices().rev().nth(LOG_SHOWN).map_or(0, |(at, _)| at);
    text[start..].to_string()
}
