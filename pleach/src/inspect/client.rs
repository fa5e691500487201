//! [`Client`]: a connection to the inspection socket of a process.

use crate::inspect::event_info::Followed;
use crate::inspect::options::InspectAction;
use crate::inspect::protocol::{
    Failure, Follow, Hello, Line, Operation, PROTOCOL_VERSION, Request, Rows, RowsRequest, SnapshotRequest, Target, Top,
    TopRequest, Why,
};
use crate::inspect::stream::{ReadHalf, Stream, WriteHalf};
use crate::inspect::supervision::Supervision;
use crate::inspect::{Health, MemberInfo, Rates, Snapshot};
use pleach_core::ActorPath;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::path::Path;
use std::{fmt, io};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// How many events a client keeps while it waits for an answer. Older ones count as missed.
const EVENTS_KEPT_MAX: usize = 4_096;

/// The longest line that a client accepts, in bytes.
const LINE_LEN_MAX: usize = 16 * 1024 * 1024;

/// A connection to the inspection socket of a process, or to a system in the same process (see
/// [`Inspector`](crate::inspect::Inspector)).
///
/// A method sends one request and waits for its answer. Methods are not cancel safe: after one is
/// dropped, connect again.
///
/// ```no_run
/// use pleach::inspect::{Client, TopBy, TopRequest};
///
/// # async fn show() -> Result<(), pleach::inspect::ClientError> {
/// let mut client = Client::connect("/run/shop/inspect.sock").await?;
/// let health = client.health().await?;
/// println!("{} (process {}): {health}", client.hello().name, client.hello().pid);
/// for row in client.top(TopRequest::by(TopBy::Queued)).await?.rows {
///     println!("{}", row.member);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Client {
    reader: BufReader<ReadHalf>,
    writer: WriteHalf,
    hello: Hello,
    last_id: u64,
    /// Events that came before an answer.
    events: VecDeque<Followed>,
    dropped_events: u64,
}

impl Client {
    /// Connects to the socket at `path` and reads its greeting.
    ///
    /// # Errors
    /// [`ClientError::Io`] if no process listens there; [`ClientError::Refused`] if it has too many
    /// connections; [`ClientError::Version`] if it speaks another version of the protocol.
    pub async fn connect(path: impl AsRef<Path>) -> Result<Self, ClientError> {
        Self::greeted(Stream::from(UnixStream::connect(path).await?)).await
    }

    /// Reads the greeting of a new connection.
    pub(super) async fn greeted(stream: Stream) -> Result<Self, ClientError> {
        let Stream { reader, writer } = stream;
        let mut reader = BufReader::new(reader);
        let greeting = read_bytes(&mut reader).await?;
        check_version(&greeting)?;
        let line: Line = serde_json::from_slice(&greeting).map_err(protocol)?;
        let hello = match (line.hello, line.error) {
            (Some(hello), _) => hello,
            (None, Some(failure)) => return Err(ClientError::Refused(failure)),
            (None, None) => return Err(ClientError::Protocol("the first line is not a greeting".to_string())),
        };
        Ok(Self { reader, writer, hello, last_id: 0, events: VecDeque::new(), dropped_events: 0 })
    }

    /// Returns the greeting of the server: its name, process and allowed actions.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Asks for the greeting again, with current statistics of the socket.
    ///
    /// # Errors
    /// [`ClientError`], as every method of this type.
    pub async fn refresh_hello(&mut self) -> Result<&Hello, ClientError> {
        self.hello = self.call(Operation::Hello).await?;
        Ok(&self.hello)
    }

    /// Lists a page of members.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with code `not_found` if no member has the path.
    pub async fn snapshot(&mut self, request: SnapshotRequest) -> Result<Snapshot, ClientError> {
        self.call(Operation::Snapshot(request)).await
    }

    /// Lists a window of the tree as rows, with some branches open.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with code `not_found` if no member has the path.
    pub async fn rows(&mut self, request: RowsRequest) -> Result<Rows, ClientError> {
        self.call(Operation::Rows(request)).await
    }

    /// Returns one member in detail.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with code `not_found` if no member has the path.
    pub async fn member(&mut self, path: &ActorPath) -> Result<MemberInfo, ClientError> {
        self.call(Operation::Member(target(path))).await
    }

    /// Returns the members with the most of something; the server sorts.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with code `not_found` if no member has the path.
    pub async fn top(&mut self, request: TopRequest) -> Result<Top, ClientError> {
        self.call(Operation::Top(request)).await
    }

    /// Returns what a member waits for, and so on to the deepest cause.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with code `not_found` if no member has the path.
    pub async fn why(&mut self, path: &ActorPath) -> Result<Why, ClientError> {
        self.call(Operation::Why(target(path))).await
    }

    /// Returns what would follow a failure of a member now: policy, strategy, limit and siblings.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with code `not_found` if no member has the path, and with code
    /// `bad_request` from a process that does not know this request.
    pub async fn supervision(&mut self, path: &ActorPath) -> Result<Supervision, ClientError> {
        self.call(Operation::Supervision(target(path))).await
    }

    /// Returns the health of the system, with reasons.
    ///
    /// # Errors
    /// [`ClientError::Io`] if the connection has ended.
    pub async fn health(&mut self) -> Result<Health, ClientError> {
        self.call(Operation::Health).await
    }

    /// Returns the message rates of a member and everything below it, over the time since the first
    /// call for this path. Call it about once a second.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with code `not_found` if no member has the path.
    pub async fn rates(&mut self, path: &ActorPath) -> Result<Rates, ClientError> {
        self.call(Operation::Rates(target(path))).await
    }

    /// Follows events of these kinds: `failures`, `unhandled`, `dead_letters`, `lifecycle`,
    /// `decisions`, `gave_up`, `stuck_handlers`, `mailboxes`, `wait_cycles`, `health`, `lints`.
    /// `None`: the first six. `lints` makes every handler slower.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with code `bad_request` for an unknown kind.
    pub async fn follow(&mut self, kinds: Option<&[&str]>) -> Result<(), ClientError> {
        self.call_done(follow(None, kinds)).await
    }

    /// Follows events about the member at `path` and the members below it, of these kinds. A
    /// process that does not know the filter sends events of all members, so look at their paths.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with code `bad_request` for an unknown kind.
    pub async fn follow_below(&mut self, path: &ActorPath, kinds: Option<&[&str]>) -> Result<(), ClientError> {
        self.call_done(follow(Some(path), kinds)).await
    }

    /// Follows no events any more. Events that have arrived are still returned.
    ///
    /// # Errors
    /// [`ClientError::Io`] if the connection has ended.
    pub async fn unfollow(&mut self) -> Result<(), ClientError> {
        self.call_done(Operation::Unfollow).await
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// [`ClientError::Io`] if the connection has ended.
    pub async fn next_event(&mut self) -> Result<Followed, ClientError> {
        if self.dropped_events > 0 {
            return Ok(Followed::Missed(std::mem::take(&mut self.dropped_events)));
        }
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let line = read_line(&mut self.reader).await?;
            self.keep_event(line);
        }
    }

    /// Orders an action on a member. With `id`, only if the member at the path still has that id.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with code `not_allowed`, `protected`, `not_possible`, `changed` or
    /// `not_found`.
    pub async fn act(&mut self, action: InspectAction, path: &ActorPath, id: Option<u64>) -> Result<(), ClientError> {
        let target = Target { path: path.clone(), member_id: id };
        self.call_done(match action {
            InspectAction::Stop => Operation::Stop(target),
            InspectAction::Restart => Operation::Restart(target),
            InspectAction::Suspend => Operation::Suspend(target),
            InspectAction::Resume => Operation::Resume(target),
            InspectAction::LogLevel => {
                return Err(ClientError::Protocol("a log level has no path; call `set_log_level`".to_string()));
            }
            InspectAction::Unknown => return Err(ClientError::Protocol("this action is not known".to_string())),
        })
        .await
    }

    /// Sets the log level of the process.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with code `not_allowed` or `not_possible`.
    pub async fn set_log_level(&mut self, level: &str) -> Result<(), ClientError> {
        self.call_done(Operation::LogLevel { level: level.to_string() }).await
    }

    async fn call_done(&mut self, operation: Operation) -> Result<(), ClientError> {
        self.call::<serde_json::Value>(operation).await.map(drop)
    }

    async fn call<T: DeserializeOwned>(&mut self, operation: Operation) -> Result<T, ClientError> {
        self.last_id += 1;
        let id = self.last_id;
        let mut request = serde_json::to_vec(&Request { id, operation }).map_err(protocol)?;
        request.push(b'\n');
        self.writer.write_all(&request).await?;
        loop {
            let line = read_line(&mut self.reader).await?;
            if line.id.is_none() && line.error.is_none() {
                self.keep_event(line);
                continue;
            }
            if line.id.is_some_and(|answered| answered != id) {
                continue;
            }
            return match (line.ok, line.error) {
                (_, Some(failure)) => Err(ClientError::Refused(failure)),
                (Some(ok), None) => serde_json::from_value(ok).map_err(protocol),
                (None, None) => Err(ClientError::Protocol("an answer has neither `ok` nor `error`".to_string())),
            };
        }
    }

    fn keep_event(&mut self, line: Line) {
        let event = line.event.map(Followed::Event).or_else(|| line.missed.map(Followed::Missed));
        self.events.extend(event);
        if self.events.len() > EVENTS_KEPT_MAX {
            self.dropped_events += match self.events.pop_front() {
                Some(Followed::Missed(missed)) => missed,
                _ => 1,
            };
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("hello", &self.hello).finish_non_exhaustive()
    }
}

fn follow(path: Option<&ActorPath>, kinds: Option<&[&str]>) -> Operation {
    let kinds = kinds.map(|kinds| kinds.iter().map(ToString::to_string).collect());
    Operation::Follow(Follow { path: path.cloned(), kinds })
}

fn target(path: &ActorPath) -> Target {
    Target { path: path.clone(), member_id: None }
}

fn protocol(error: serde_json::Error) -> ClientError {
    ClientError::Protocol(error.to_string())
}

/// Fails for another version of the protocol. The rest of its greeting may be unknown.
fn check_version(greeting: &[u8]) -> Result<(), ClientError> {
    #[derive(Deserialize)]
    struct Greeting {
        hello: Option<Version>,
    }
    #[derive(Deserialize)]
    struct Version {
        protocol: u32,
    }
    match serde_json::from_slice(greeting).map_err(protocol)? {
        Greeting { hello: Some(Version { protocol: theirs }) } if theirs != PROTOCOL_VERSION => {
            Err(ClientError::Version { theirs })
        }
        _ => Ok(()),
    }
}

async fn read_line(reader: &mut BufReader<ReadHalf>) -> Result<Line, ClientError> {
    serde_json::from_slice(&read_bytes(reader).await?).map_err(protocol)
}

async fn read_bytes(reader: &mut BufReader<ReadHalf>) -> Result<Vec<u8>, ClientError> {
    let mut bytes = Vec::new();
    loop {
        let part = reader.fill_buf().await?;
        if part.is_empty() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let end = part.iter().position(|byte| *byte == b'\n');
        bytes.extend_from_slice(&part[..end.unwrap_or(part.len())]);
        let used = end.map_or(part.len(), |end| end + 1);
        reader.consume(used);
        if bytes.len() > LINE_LEN_MAX {
            return Err(ClientError::Protocol(format!("a line is longer than {LINE_LEN_MAX} bytes")));
        }
        if end.is_some() {
            return Ok(bytes);
        }
    }
}

/// Why a request to an inspection socket failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// The connection failed or has ended.
    Io(io::Error),
    /// The server speaks another version of the protocol.
    Version {
        /// The version that the server speaks.
        theirs: u32,
    },
    /// The server refused the request, with this reason.
    Refused(Failure),
    /// The server sent something that is not part of the protocol.
    Protocol(String),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the inspection socket cannot be reached: {error}; check the path and the process"),
            Self::Version { theirs } => write!(
                f,
                "the process speaks version {theirs} of the inspection protocol, this program speaks {PROTOCOL_VERSION}; \
                 use a program of the same version"
            ),
            Self::Refused(failure) => write!(f, "{failure}"),
            Self::Protocol(text) => write!(f, "unexpected answer of the inspection socket: {text}"),
        }
    }
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
