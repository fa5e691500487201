//! [`Target`]: the process that a source shows, and how to reach it.

use crate::failure::Failure;
use pleach::inspect::{Client, ClientError, Inspector};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::timeout;

/// How long a process may take to accept a connection, and to answer one request.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// How a process is reached.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// Through its inspection socket.
    Socket(PathBuf),
    /// Over memory: the system runs in this process.
    System(Inspector),
}

impl Target {
    /// Connects, within the limit.
    pub(super) async fn connect(&self) -> Result<Client, Failure> {
        let connecting = async {
            match self {
                Self::Socket(path) => Client::connect(path).await,
                Self::System(inspector) => inspector.connect().await,
            }
        };
        within(connecting).await
    }

    /// Returns what commands take as SOCKET. `None` without a socket.
    pub(super) fn socket(&self) -> Option<String> {
        match self {
            Self::Socket(path) => Some(path.display().to_string()),
            Self::System(_) => None,
        }
    }
}

/// Awaits an answer of the process, within the limit.
pub(super) async fn within<T>(answer: impl Future<Output = Result<T, ClientError>>) -> Result<T, Failure> {
    match timeout(ANSWER_LIMIT, answer).await {
        Ok(answer) => answer.map_err(|error| failure(&error)),
        Err(_) => {
            let text = format!("the process did not answer for {} s", ANSWER_LIMIT.as_secs());
            Err(Failure::new(UNREACHABLE, text).advice("its threads may be blocked; look at its log"))
        }
    }
}

/// The code of failures of the connection.
pub(super) const UNREACHABLE: &str = "unreachable";

/// Returns an error of the client as the page shows it. The codes of the process are kept.
fn failure(error: &ClientError) -> Failure {
    match error {
        ClientError::Refused(refused) => match refused.code.as_str() {
            "too_many_connections" | "idle" => Failure::new(UNREACHABLE, &refused.text),
            code => Failure::new(code, &refused.text),
        },
        ClientError::Io(error) => match error.kind() {
            ErrorKind::NotFound => Failure::new(UNREACHABLE, "there is no socket at this path")
                .advice("check the path; the program creates the socket when it starts"),
            ErrorKind::ConnectionRefused => {
                Failure::new(UNREACHABLE, "the process has ended").advice("start the program again")
            }
            ErrorKind::PermissionDenied => {
                Failure::new(UNREACHABLE, "this user may not open the socket").advice("run as the user of the process")
            }
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
                Failure::new(UNREACHABLE, "the process has closed the connection").advice("it may have ended; look at its log")
            }
            _ => Failure::new(UNREACHABLE, format_args!("the connection failed: {error}")),
        },
        ClientError::Version { .. } => Failure::new("version", error),
        error => Failure::new("internal", error),
    }
}
