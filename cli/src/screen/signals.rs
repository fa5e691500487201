//! [`Signals`]: signals of the process as inputs of a view.

use crate::failure::{Failure, Status};
use rustix::process::{Signal as Number, getpid, kill_current_process_group, kill_process};
use std::io;
use tokio::signal::unix::{Signal as Receiver, SignalKind, signal};

/// Why a view must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Ctrl-C or SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP, or the terminal is closed.
    HangUp,
    /// SIGQUIT.
    Quit,
}

impl Ending {
    /// The end of the command with the exit code that shells use for the signal, and no text.
    pub fn failure(self) -> Failure {
        let status = match self {
            Self::HangUp => Status::HangUp,
            Self::Interrupt => Status::Interrupt,
            Self::Quit => Status::Quit,
            Self::Terminate => Status::Terminate,
        };
        Failure::new(status, "")
    }
}

pub enum Signal {
    End(Ending),
    /// SIGTSTP: give the terminal back, then stop the process.
    Suspend,
    /// SIGCONT: the process continues.
    Continue,
}

pub struct Signals {
    interrupt: Receiver,
    terminate: Receiver,
    hang_up: Receiver,
    quit: Receiver,
    suspend: Receiver,
    resume: Receiver,
}

impl Signals {
    pub fn new() -> io::Result<Self> {
        let raw = |number: Number| signal(SignalKind::from_raw(number.as_raw()));
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
            suspend: raw(Number::TSTP)?,
            resume: raw(Number::CONT)?,
        })
    }

    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::End(Ending::Terminate),
            _ = self.hang_up.recv() => Signal::End(Ending::HangUp),
            _ = self.interrupt.recv() => Signal::End(Ending::Interrupt),
            _ = self.quit.recv() => Signal::End(Ending::Quit),
            _ = self.suspend.recv() => Signal::Suspend,
            _ = self.resume.recv() => Signal::Continue,
        }
    }
}

/// Does what Ctrl-Z does on a terminal in its usual mode: every process of the job gets SIGTSTP.
pub fn suspend_group() {
    // It fails only for a signal that does not exist.
    let _ = kill_current_process_group(Number::TSTP);
}

/// Stops this process until SIGCONT.
pub fn stop_process() {
    let _ = kill_process(getpid(), Number::STOP);
}
