//! [`Processes`]: the driver and server processes of this program. Each is killed and waited for by
//! its own id, and none outlives this program.

use crate::ledger_client::lock;
use crate::report::Spec;
use std::collections::BTreeSet;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// All started processes that were not waited for yet. Used by the watchdog.
#[derive(Clone, Default)]
pub struct Processes(Arc<Mutex<BTreeSet<u32>>>);

/// A process that drives runs.
pub struct DriverProcess {
    pub pid: u32,
    child: Child,
    processes: Processes,
}

impl Processes {
    pub fn start(&self, spec: &Spec) -> Result<DriverProcess, String> {
        let describe = |error: std::io::Error| format!("cannot start a driver: {error}");
        let program = std::env::current_exe().map_err(describe)?;
        let spec = serde_json::to_string(spec).map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        let child = command.args(["drive", &spec]).stdin(Stdio::null()).stdout(Stdio::null()).spawn().map_err(describe)?;
        let pid = child.id();
        lock(&self.0).insert(pid);
        Ok(DriverProcess { pid, child, processes: self.clone() })
    }

    /// Registers a process that another part of this program started and waits for.
    pub fn adopt(&self, pid: u32) {
        lock(&self.0).insert(pid);
    }

    /// Removes a process that was waited for. Its id may be reused.
    pub fn forget(&self, pid: u32) {
        lock(&self.0).remove(&pid);
    }

    /// Kills all processes. Only for the watchdog.
    pub fn end(&self) {
        for pid in lock(&self.0).iter() {
            signal(*pid, "KILL");
        }
    }
}

impl DriverProcess {
    /// Sends SIGKILL and waits for the end.
    pub fn kill(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }

    /// The exit status, if the process has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits until the process has ended without a kill.
    pub fn wait(&mut self, time: Duration) -> Result<ExitStatus, String> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            if begun.elapsed() > time {
                self.kill();
                return Err(format!("the driver {} did not end within {time:?}", self.pid));
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends SIGSTOP.
    pub fn stop(&self) {
        signal(self.pid, "STOP");
    }

    pub fn continue_now(&self) {
        signal(self.pid, "CONT");
    }
}

impl Drop for DriverProcess {
    fn drop(&mut self) {
        self.processes.forget(self.pid);
        self.kill();
    }
}

/// Sends a signal. Only for own processes that were not waited for yet, since their ids are not
/// reused.
fn signal(pid: u32, signal: &str) {
    drop(Command::new("kill").args([format!("-{signal}"), pid.to_string()]).stderr(Stdio::null()).status());
}
