//! The options of the inspection socket, and how a system gets one.

use crate::Error;
use crate::inspect::server;
use crate::inspect::socket_file::SocketFile;
use crate::system::ActorSystemBuilder;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How many connections the inspection socket serves at once, unless the options set another
/// number.
pub const CONNECTIONS_DEFAULT: usize = 32;

/// The longest request line that the inspection socket reads, in bytes.
pub const REQUEST_LEN_MAX: usize = 64 * 1024;

/// How long a reader of the inspection socket may take to accept one answer, unless the options set
/// another time.
pub const WRITE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// How long a client of the inspection socket may be silent, unless the options set another time.
pub const IDLE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10 * 60);

/// Something that a client of the inspection socket may order, if the process allows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InspectAction {
    /// Stops a member, as [`AnyRef::stop`](crate::actor::AnyRef::stop) does.
    Stop,
    /// Restarts an actor or a supervisor, as [`AnyRef::restart`](crate::actor::AnyRef::restart)
    /// does.
    Restart,
    /// Suspends an actor, as [`AnyRef::suspend`](crate::actor::AnyRef::suspend) does.
    Suspend,
    /// Resumes a suspended actor of the system.
    Resume,
    /// Sets the log level through the function that the program provides.
    LogLevel,
    /// An action that this version does not know, read from a newer process.
    #[serde(other)]
    Unknown,
}

/// Sets the log level of the program to a text such as `info` or `pleach=debug`.
pub(super) type SetLogLevel = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// The options of an inspection socket; passed to [`InspectBuilder::inspect`].
///
/// By default a client can only read. Below `/system`, and for `/`, `/user` and `/system`
/// themselves, actions are always refused.
///
/// ```
/// use pleach::inspect::{InspectAction, InspectOptions};
///
/// let options = InspectOptions::at("/run/shop/inspect.sock")
///     .allow([InspectAction::Restart, InspectAction::Suspend, InspectAction::Resume])
///     .on_log_level(|level| if level == "info" { Ok(()) } else { Err(format!("unknown level {level}")) });
/// # let _ = options;
/// ```
#[derive(Clone)]
#[must_use = "options are passed to `inspect` of the system's builder"]
pub struct InspectOptions {
    pub(super) path: PathBuf,
    pub(super) actions: BTreeSet<InspectAction>,
    pub(super) set_log_level: Option<SetLogLevel>,
    pub(super) connections_max: usize,
    pub(super) write_timeout: Duration,
    pub(super) idle_timeout: Duration,
}

impl InspectOptions {
    /// Opens the socket at `path`, for reading only.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self::new(path.into())
    }

    /// Opens no socket, for reading only: the options of an
    /// [`Inspector`](crate::inspect::Inspector).
    pub fn in_memory() -> Self {
        Self::new(PathBuf::new())
    }

    fn new(path: PathBuf) -> Self {
        Self {
            path,
            actions: BTreeSet::new(),
            set_log_level: None,
            connections_max: CONNECTIONS_DEFAULT,
            write_timeout: WRITE_TIMEOUT_DEFAULT,
            idle_timeout: IDLE_TIMEOUT_DEFAULT,
        }
    }

    /// Allows these actions. Default: none. [`InspectAction::LogLevel`] also needs
    /// [`on_log_level`](Self::on_log_level).
    pub fn allow(mut self, actions: impl IntoIterator<Item = InspectAction>) -> Self {
        self.actions.extend(actions);
        self
    }

    /// Allows clients to set the log level, through `set`. It runs in the task of a connection; its
    /// error is the answer to the client.
    pub fn on_log_level(mut self, set: impl Fn(&str) -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.actions.insert(InspectAction::LogLevel);
        self.set_log_level = Some(Arc::new(set));
        self
    }

    /// Sets how many connections are served at once. Default: 32. Further ones get an error and are
    /// closed.
    pub fn connections_max(mut self, connections: usize) -> Self {
        self.connections_max = connections.max(1);
        self
    }

    /// Sets how long a reader may take to accept one answer. Default: 5 s. Then its connection is
    /// closed, counted and logged.
    pub fn write_timeout(mut self, limit: Duration) -> Self {
        self.write_timeout = limit;
        self
    }

    /// Sets how long a client may send no complete request. Default: 10 minutes. Then its
    /// connection is closed and counted.
    ///
    /// A client that follows events is not idle. Any other keeps its connection with the request
    /// `hello`. `Duration::MAX` sets no limit.
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.idle_timeout = limit;
        self
    }
}

impl fmt::Debug for InspectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InspectOptions").field("path", &self.path).field("actions", &self.actions).finish_non_exhaustive()
    }
}

impl From<&str> for InspectOptions {
    fn from(path: &str) -> Self {
        Self::at(path)
    }
}

impl From<&Path> for InspectOptions {
    fn from(path: &Path) -> Self {
        Self::at(path)
    }
}

impl From<PathBuf> for InspectOptions {
    fn from(path: PathBuf) -> Self {
        Self::at(path)
    }
}

/// Adds the inspection socket to the builder of a system.
///
/// ```no_run
/// use pleach::inspect::InspectBuilder;
/// use pleach::prelude::*;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), pleach::Error> {
/// let system = ActorSystem::builder("shop").inspect("/run/shop/inspect.sock").build()?;
/// # Ok(())
/// # }
/// ```
pub trait InspectBuilder: Sized {
    /// Opens a local socket that serves snapshots, health, rates and events of the system.
    ///
    /// The socket is created by `build`, with mode 0600, and removed when the system ends. It is
    /// served by members of `/system`, so it ends after everything below `/user`. It needs a Tokio
    /// runtime with I/O. Nothing is measured while no client asks.
    ///
    /// # Errors
    /// `build` returns [`Error::Inspect`] with an [`InspectError`].
    #[must_use]
    fn inspect(self, options: impl Into<InspectOptions>) -> Self;
}

impl InspectBuilder for ActorSystemBuilder {
    fn inspect(self, options: impl Into<InspectOptions>) -> Self {
        let options = options.into();
        self.with_part(move |system| {
            let bound = SocketFile::bind(&options.path).map_err(Error::from)?;
            server::start(system, options, bound).map_err(Error::from)
        })
    }
}

/// Why an inspection socket was not opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum InspectError {
    /// Another live process serves this path.
    InUse(PathBuf),
    /// The path exists and is not a socket, or belongs to another user.
    Foreign(PathBuf),
    /// Other users can write to the directory of the socket, so they could replace it.
    OpenDirectory(PathBuf),
    /// The path is longer than the address of a local socket may be.
    TooLong(PathBuf),
    /// No Tokio runtime with I/O was found.
    NoRuntime,
    /// An operation on the socket or its directory failed.
    Io {
        /// The path of the socket.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
}

impl fmt::Display for InspectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(path) => {
                write!(f, "inspection socket {path:?} is in use by a live process; give each process its own path")
            }
            Self::Foreign(path) => {
                write!(f, "{path:?} exists and is not a socket of this user; remove it or choose another path")
            }
            Self::OpenDirectory(path) => {
                write!(f, "other users can write to the directory of {path:?}; use a directory of mode 0755 or stricter")
            }
            Self::TooLong(path) => {
                write!(f, "path {path:?} is too long for a local socket; use a directory of at most 90 bytes and a short name")
            }
            Self::NoRuntime => f.write_str(
                "the inspection socket needs a Tokio runtime with I/O; build the system inside one, with `enable_all`",
            ),
            Self::Io { path, error } => write!(f, "cannot open the inspection socket {path:?}: {error}"),
        }
    }
}

impl std::error::Error for InspectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}
