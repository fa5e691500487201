//! [`Socket`]: the connection to the inspection socket of a running process.
//!
//! Every call has a time limit, because a process that hangs accepts connections and never answers.
//! After a call that failed the connection is in an unknown state: open the socket again.

use crate::failure::{Failure, Status};
use crate::output::escape::OneLine;
use pleach::actor::ActorPath;
use pleach::inspect::{Client, ClientError, Hello};
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The first bytes of every SQLite file.
const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";

/// Where an inspection socket is: a path, `unix:PATH`, or `env:NAME` for an environment variable
/// with one of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketPath(PathBuf);

impl SocketPath {
    /// Parses the argument SOCKET.
    pub fn parse(text: &str) -> Result<Self, String> {
        let value = match text.strip_prefix("env:") {
            Some(name) => {
                std::env::var(name).map_err(|_| format!("the environment variable {name:?} is not set or not UTF-8"))?
            }
            None => text.to_string(),
        };
        if let Some((scheme, _)) = value.split_once("://") {
            return Err(format!("a {scheme:?} URL is not an inspection socket; write the path of the socket, or unix:PATH"));
        }
        if value.starts_with("sqlite:") {
            return Err("a store is not an inspection socket; write the path of the socket, or unix:PATH".into());
        }
        let path = value.strip_prefix("unix:").unwrap_or(&value);
        if path.is_empty() { Err("the path of the socket is missing".into()) } else { Ok(Self(path.into())) }
    }

    /// Returns the path as it was given.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path, with control characters made visible.
    pub fn name(&self) -> String {
        OneLine(&self.0.display().to_string()).to_string()
    }

    /// Returns whether a socket is at this path, dead or alive.
    pub fn is_socket(path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|file| file.file_type().is_socket())
    }

    /// Connects to the process. `limit` is the time limit of this and of every later call.
    ///
    /// # Errors
    /// A [`Failure`] with what is at the path instead, and what to do.
    pub async fn open(&self, limit: Duration) -> Result<Socket, Failure> {
        match tokio::time::timeout(limit, Client::connect(&self.0)).await {
            Ok(Ok(client)) => Ok(Socket { client, path: self.clone(), limit }),
            Ok(Err(ClientError::Io(error))) => Err(self.not_connected(&error)),
            Ok(Err(error)) => Err(self.failure(&error)),
            Err(_) => Err(self.silent(limit)),
        }
    }

    /// Says what is wrong with a path to which no connection could be made.
    fn not_connected(&self, error: &std::io::Error) -> Failure {
        let name = self.name();
        let file = std::fs::metadata(&self.0);
        let failure = |text: String| Failure::new(Status::Unreachable, text);
        match (error.kind(), &file) {
            (_, Err(missing)) if missing.kind() == ErrorKind::NotFound => {
                Failure::new(Status::NotFound, format_args!("there is no socket {name}"))
                    .advice("start the process, and give the path that it passes to `inspect`")
            }
            (ErrorKind::PermissionDenied, _) => failure(format!("this user may not connect to the socket {name}"))
                .advice("run the command as the user of the process"),
            (_, Ok(file)) if !file.file_type().is_socket() => {
                let (is_store, is_folder) = (starts_with(&self.0, SQLITE_MAGIC), file.is_dir());
                let what = if is_store {
                    "a SQLite file"
                } else if is_folder {
                    "a folder"
                } else {
                    "a file"
                };
                let failure = failure(format!("{name} is {what}, not an inspection socket"));
                match is_store {
                    true => failure.advice(format_args!("for the runs of a store use: pleach runs list {name}")),
                    false => failure.advice("give the path that the process passes to `inspect`"),
                }
            }
            (ErrorKind::ConnectionRefused, _) => {
                failure(format!("no process serves the socket {name}; the process that made it was killed"))
                    .advice("start the process again: it replaces the file")
            }
            (ErrorKind::UnexpectedEof, _) => failure(format!(
                "the socket {name} was closed before it greeted; the process is ending or not a pleach process"
            ))
            .advice("look whether the process still runs"),
            _ => failure(format!("cannot connect to the socket {name}: {error}"))
                .advice("look whether the process still runs, and whether the path is right"),
        }
    }

    /// Translates an error of the client. The connection was open before.
    pub fn failure(&self, error: &ClientError) -> Failure {
        let name = self.name();
        match error {
            ClientError::Io(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Failure::new(Status::Unreachable, format_args!("the process at {name} closed the connection"))
                    .advice("look whether it still runs; it also closes connections that read too slowly")
            }
            ClientError::Io(error) => {
                Failure::new(Status::Unreachable, format_args!("the connection to {name} failed: {error}"))
                    .advice("look whether the process still runs")
            }
            ClientError::Version { theirs } => {
                let text =
                    format!("the process at {name} speaks version {theirs} of the inspection protocol; this command does not");
                Failure::new(Status::Unreachable, text).advice("use the command of the same version as the process")
            }
            ClientError::Protocol(text) => {
                let text = format!("what answers at {name} is not an inspection socket of pleach: {}", OneLine(text));
                Failure::new(Status::Unreachable, text)
                    .advice("check the path; if it is right, use the command of the same version as the process")
            }
            ClientError::Refused(refused) => refusal(&name, &refused.code, &refused.text),
            error => Failure::new(Status::Failed, OneLine(&error.to_string())),
        }
    }

    fn silent(&self, limit: Duration) -> Failure {
        let text = format!("the process at {} did not answer within {limit:?}", self.name());
        Failure::new(Status::TimedOut, text)
            .advice("all its threads may be busy or blocked, or it is stopped; --timeout sets a longer limit")
    }
}

/// Translates a refusal of the server by its code.
fn refusal(name: &str, code: &str, text: &str) -> Failure {
    let (text, status) = (
        OneLine(text),
        match code {
            "not_found" => Status::NotFound,
            "changed" | "not_allowed" | "protected" | "not_possible" => Status::Refused,
            "too_many_connections" | "bad_request" | "too_long" => Status::Unreachable,
            _ => Status::Failed,
        },
    );
    let failure = Failure::new(status, text);
    match code {
        "not_found" => failure.advice(format_args!("list the members with: pleach tree {name}")),
        "changed" => failure.advice(format_args!("look at it again with: pleach tree {name}")),
        "too_many_connections" => failure.advice("close another `pleach top` or `pleach events`, then try again"),
        "bad_request" => failure.advice("use the command of the same version as the process"),
        "internal" => failure.advice("this is an error of pleach in that process: please report it"),
        _ => failure,
    }
}

fn starts_with(path: &Path, magic: &[u8]) -> bool {
    let mut start = vec![0; magic.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == magic
}

/// An open connection.
pub struct Socket {
    client: Client,
    path: SocketPath,
    limit: Duration,
}

impl Socket {
    /// Returns who answers, and what the process allows.
    pub fn hello(&self) -> &Hello {
        self.client.hello()
    }

    /// Returns where the process is.
    pub fn path(&self) -> &SocketPath {
        &self.path
    }

    /// Sends one request and waits for its answer, within the time limit:
    /// `socket.ask(async |client| client.health().await)`.
    pub async fn ask<T>(&mut self, request: impl AsyncFnOnce(&mut Client) -> Result<T, ClientError>) -> Result<T, Failure> {
        match tokio::time::timeout(self.limit, request(&mut self.client)).await {
            Ok(answer) => answer.map_err(|error| self.path.failure(&error)),
            Err(_) => Err(self.path.silent(self.limit)),
        }
    }

    /// Returns the client, for events. They come without a time limit.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }
}

/// Parses the argument PATH: the path of a member, such as `/user/till`.
pub fn parse_path(text: &str) -> Result<ActorPath, String> {
    text.parse().map_err(|error| format!("{error}; write it as `pleach tree` shows it, such as /user/till"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_named_by_path() {
        let at = |path: &str| Ok(SocketPath(path.into()));
        assert_eq!(SocketPath::parse("/run/shop.sock"), at("/run/shop.sock"));
        assert_eq!(SocketPath::parse("unix:/run/shop.sock"), at("/run/shop.sock"));
        assert_eq!(SocketPath::parse("unix:sqlite:a"), at("sqlite:a"));
        for wrong in ["", "unix:", "postgres://h/d", "sqlite:a.db", "env:PLEACH_NO_SUCH_VARIABLE"] {
            assert!(SocketPath::parse(wrong).is_err(), "{wrong}");
        }
        assert!(SocketPath::parse("a\u{1b}b").is_ok_and(|path| path.name() == "a\\x1bb"));
    }

    #[test]
    fn refusals_have_the_documented_exit_codes() {
        for (code, status) in [
            ("not_found", Status::NotFound),
            ("changed", Status::Refused),
            ("not_allowed", Status::Refused),
            ("protected", Status::Refused),
            ("not_possible", Status::Refused),
            ("too_many_connections", Status::Unreachable),
            ("bad_request", Status::Unreachable),
            ("internal", Status::Failed),
            ("from_the_future", Status::Failed),
        ] {
            assert_eq!(refusal("a.sock", code, "why").status, status, "{code}");
        }
    }
}
