//! The arguments of the words that look at a running process.

use crate::output::times::parse_duration;
use crate::socket::SocketPath;
use crate::store::Target;
use clap::Args;
use std::path::Path;
use std::time::Duration;

/// The process of a command, and how long it may take to answer.
#[derive(Debug, Args)]
pub struct SocketArgs {
    /// The inspection socket of the process: a path, unix:PATH, or env:NAME for a variable with one
    /// of these
    #[arg(value_parser = SocketPath::parse)]
    pub socket: SocketPath,
    /// How long to wait for each answer of the process; then exit code 6
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "5s")]
    pub timeout: Duration,
}

#[derive(Debug, Args)]
pub struct HealthArgs {
    #[command(flatten)]
    pub process: SocketArgs,
    /// Only ask whether work can be routed to the process: a degraded process is ready, unless it
    /// reports a problem that blocks it
    #[arg(long)]
    pub ready: bool,
}

#[derive(Debug, Args)]
pub struct WhyArgs {
    /// The inspection socket of a process, or the store of a run
    #[arg(value_parser = Place::parse)]
    pub target: Place,
    /// In a process: the path of a member, such as /user/till. In a store: the id of a run
    #[arg(value_name = "PATH|RUN", allow_hyphen_values = true)]
    pub name: String,
    /// How long to wait for each answer of the process; then exit code 6
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "5s")]
    pub timeout: Duration,
}

/// What `why` and `doctor` look at.
#[derive(Clone, Debug)]
pub enum Place {
    /// The socket of a running process.
    Socket(SocketPath),
    /// A store with durable runs.
    Store(Target),
}

impl Place {
    /// `unix:PATH` and the path of a socket are a process; everything else is a store.
    pub fn parse(text: &str) -> Result<Self, String> {
        let value = match text.strip_prefix("env:") {
            Some(name) => std::env::var(name).map_err(|_| format!("the environment variable {name:?} is not set"))?,
            None => text.to_string(),
        };
        if value.starts_with("unix:") || SocketPath::is_socket(Path::new(&value)) {
            return SocketPath::parse(text).map(Self::Socket);
        }
        Target::parse(text).map(Self::Store)
    }
}
