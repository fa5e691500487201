//! [`Failure`]: why a command did not do its work, with its exit code and what to do next.

use pleach::durable::RunControlError;
use pleach::graph::RunFault;
use pleach::store::StoreError;
use std::fmt;
use std::io;
use std::process::ExitCode;

/// The exit codes of the command. They are part of its interface: the help and docs/cli.md list
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The command failed for a reason without its own code.
    Failed = 1,
    /// The arguments are wrong. Nothing was done.
    Usage = 2,
    /// The named run, record, node or file does not exist.
    NotFound = 3,
    /// The command was refused: the run has ended, is held by a driver, or the change was not
    /// confirmed.
    Refused = 4,
    /// The store or the process cannot be reached, or its version is not known.
    Unreachable = 5,
    /// The time limit was reached first.
    TimedOut = 6,
    /// The check found problems.
    Unhealthy = 7,
    /// The output cannot be written, for example because the device is full.
    Output = 8,
    /// A signal ended it: SIGHUP, SIGINT (also Ctrl-C), SIGQUIT or SIGTERM. The numbers are the
    /// ones that shells use.
    HangUp = 129,
    Interrupt = 130,
    Quit = 131,
    Terminate = 143,
    /// The reader of the output closed it. The number is the one that shells use for it.
    PipeClosed = 141,
}

/// Why a command did not do its work.
#[derive(Debug)]
pub struct Failure {
    pub status: Status,
    /// What failed and why. Empty if there is nothing to say, as for a closed pipe.
    pub text: String,
    /// What to do next.
    pub advice: Option<String>,
}

impl Failure {
    pub fn new(status: Status, text: impl fmt::Display) -> Self {
        Self { status, text: text.to_string(), advice: None }
    }

    pub fn usage(text: impl fmt::Display) -> Self {
        Self::new(Status::Usage, text)
    }

    pub fn advice(mut self, advice: impl fmt::Display) -> Self {
        self.advice = Some(advice.to_string());
        self
    }

    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.status as u8)
    }
}

/// An error of writing to standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::new(Status::PipeClosed, ""),
            _ => Self::new(Status::Output, format_args!("cannot write the output: {error}")),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let status = match &error {
            StoreError::RunNotFound { .. } | StoreError::NoSuchRow { .. } | StoreError::Pruned { .. } => Status::NotFound,
            StoreError::Ended { .. }
            | StoreError::Held { .. }
            | StoreError::Stuck { .. }
            | StoreError::Fenced { .. }
            | StoreError::InboxFull { .. }
            | StoreError::Exists { .. } => Status::Refused,
            StoreError::NewerFormat { .. } | StoreError::OlderFormat { .. } | StoreError::Unusable { .. } => {
                Status::Unreachable
            }
            StoreError::TooLarge { .. } | StoreError::Invalid { .. } => Status::Usage,
            error if error.is_temporary() => Status::Unreachable,
            _ => Status::Failed,
        };
        Self::new(status, error)
    }
}

impl From<RunControlError> for Failure {
    fn from(error: RunControlError) -> Self {
        let status = match &error {
            RunControlError::Ended { .. } | RunControlError::Refused { .. } | RunControlError::Full { .. } => Status::Refused,
            RunControlError::Unconfirmed { .. } => Status::TimedOut,
            RunControlError::Json(_) => Status::Usage,
            RunControlError::Store(error) => return error.clone().into(),
            _ => Status::Failed,
        };
        Self::new(status, error)
    }
}

impl From<RunFault> for Failure {
    fn from(fault: RunFault) -> Self {
        let status = match &fault {
            RunFault::Held { .. } | RunFault::Exists { .. } | RunFault::Ended { .. } | RunFault::Fenced { .. } => {
                Status::Refused
            }
            RunFault::Resume(_) | RunFault::Mismatch(_) => Status::Refused,
            RunFault::Checkpoint(error) => match error.store_error() {
                Some(error) => return error.clone().into(),
                None => Status::Failed,
            },
            _ => Status::Failed,
        };
        Self::new(status, fault)
    }
}
