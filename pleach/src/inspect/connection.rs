//! [`Connection`]: the actor that serves one client of the inspection socket.
//!
//! It handles one line at a time: reads it, answers it, reads the next. An answer is written within
//! a time limit; a client that does not read in time is closed, counted and logged. So a client
//! costs at most one answer of memory and the bounded mailbox of this actor. A client that neither
//! asks nor follows for the idle limit is closed, so that it does not keep its place for ever.
//!
//! Events that a client follows come through the mailbox. If it is full, they are counted as
//! missed. Events about the inspection socket itself are left out, because sending one would cause
//! the next.

use crate::events::{Event, ListenerHandle};
use crate::inspect::event_info::EventInfo;
use crate::inspect::events::{FollowedKinds, described, path_of, unix_micros};
use crate::inspect::health_watch::{HealthWatch, LOOK_EVERY};
use crate::inspect::inspector;
use crate::inspect::options::REQUEST_LEN_MAX;
use crate::inspect::protocol::{Failure, Follow, Line, Operation, Request};
use crate::inspect::serve::Inspected;
use crate::inspect::server;
use crate::inspect::stream::{ReadHalf, Stream, WriteHalf};
use crate::inspect::why::is_within;
use pleach_core::{Actor, ActorPath, BoxError, Context, Mailbox, Name, Props, RestartPolicy, Runtime};
use serde::Deserialize;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

/// How many events wait for a client before further ones are missed.
const EVENTS_QUEUED_MAX: usize = 1_024;

pub(super) struct Connection {
    inspected: Arc<Inspected>,
    reader: Option<Reader>,
    writer: WriteHalf,
    following: Option<Following>,
    /// How often the client has asked to follow.
    follows: u64,
    /// The number of the last event.
    seq: u64,
    /// Counts this connection as open, until it is dropped.
    _open: OpenConnection,
}

/// A message of a connection.
pub(super) enum Input {
    /// The next line, or the end of the connection.
    Line(Reader, io::Result<Received>),
    Event(Box<Event>),
    /// It is time to look at the health, for the `follow` request with this number.
    LookAtHealth(u64),
}

/// What was read.
pub(super) enum Received {
    Line(Vec<u8>),
    /// No complete line came within the idle limit.
    Nothing,
    TooLong,
    End,
}

impl Connection {
    pub(super) fn props(inspected: &Arc<Inspected>, stream: Stream) -> Props<Self> {
        let (inspected, stream) = (Arc::clone(inspected), Mutex::new(Some(stream)));
        let open = Mutex::new(Some(OpenConnection::new(&inspected)));
        let make = move || {
            let stream = stream.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Stream { reader, writer } = stream.expect("a temporary actor starts once");
            let open = open.lock().unwrap_or_else(PoisonError::into_inner).take();
            Self {
                inspected: Arc::clone(&inspected),
                reader: Some(Reader { stream: BufReader::new(reader), line: Vec::new() }),
                writer,
                following: None,
                follows: 0,
                seq: 0,
                _open: open.expect("a temporary actor starts once"),
            }
        };
        Props::new(make).mailbox(Mailbox::bounded(EVENTS_QUEUED_MAX)).restart(RestartPolicy::Temporary)
    }
}

impl Actor for Connection {
    type Msg = Input;
    type Error = BoxError;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        let hello = Line { hello: Some(self.inspected.hello()), ..Line::default() };
        if self.write(&hello, cx).await {
            self.read(cx);
        }
        Ok(())
    }

    async fn handle(&mut self, input: Input, cx: &mut Context<Self>) -> Result<(), BoxError> {
        match input {
            Input::Event(event) => self.send_event(&event, cx).await,
            Input::LookAtHealth(number) => self.send_health(number, cx).await,
            Input::Line(reader, received) => {
                self.reader = Some(reader);
                self.answer(received, cx).await;
            }
        }
        Ok(())
    }
}

impl Connection {
    /// Reads the next line in a task of its own, so that events are sent meanwhile.
    fn read(&mut self, cx: &Context<Self>) {
        let Some(mut reader) = self.reader.take() else { return };
        let (runtime, limit) = (Arc::clone(&self.inspected.runtime), self.inspected.options.idle_timeout);
        let line = async move {
            let received = within(&*runtime, limit, reader.line()).await.unwrap_or(Ok(Received::Nothing));
            (reader, received)
        };
        // Refused only while this actor ends.
        drop(cx.pipe_to_self(line, |(reader, received)| Input::Line(reader, received)));
    }

    async fn answer(&mut self, received: io::Result<Received>, cx: &mut Context<Self>) {
        let line = match received {
            Ok(Received::Line(line)) => line,
            Ok(Received::TooLong) => {
                let text = format!("a request is at most {REQUEST_LEN_MAX} bytes long; the connection is closed");
                self.write(&Line::answer(None, Err(Failure::new("too_long", text))), cx).await;
                return self.close(cx);
            }
            // The events that it gets are what it is connected for.
            Ok(Received::Nothing) if self.following.is_some() => return self.read(cx),
            Ok(Received::Nothing) => {
                self.inspected.counters.idle.fetch_add(1, Ordering::Relaxed);
                let waited = self.inspected.options.idle_timeout;
                let text = format!("no request for {waited:?}; the connection is closed. Send `hello` to keep it open");
                self.write(&Line::answer(None, Err(Failure::new("idle", text))), cx).await;
                return self.close(cx);
            }
            Ok(Received::End) | Err(_) => return self.close(cx),
        };
        self.inspected.counters.requests.fetch_add(1, Ordering::Relaxed);
        let answer = match serde_json::from_slice::<Request>(&line) {
            Ok(request) => {
                let id = Some(request.id);
                let outcome = match self.follow_or_not(&request.operation, cx) {
                    Ok(()) => self.inspected.answer(request.operation).await,
                    Err(failure) => Err(failure),
                };
                Line::answer(id, outcome)
            }
            Err(error) => {
                let text = format!("not a request of this protocol: {error}; see docs/inspect-protocol.md");
                Line::answer(request_id(&line), Err(Failure::new("bad_request", text)))
            }
        };
        if self.send_missed(cx).await && self.write(&answer, cx).await {
            self.read(cx);
        }
    }

    /// Begins or ends to follow events, if the operation asks for it.
    fn follow_or_not(&mut self, operation: &Operation, cx: &mut Context<Self>) -> Result<(), Failure> {
        match operation {
            Operation::Follow(Follow { path, kinds }) => {
                let followed = FollowedKinds::of(kinds.as_deref())?;
                self.follows += 1;
                self.following = Some(Following::begin(&self.inspected, path.clone(), followed, self.follows, cx));
                if followed.health {
                    // Full of events: then the next look is late, which is no harm.
                    cx.send_after(Duration::ZERO, Input::LookAtHealth(self.follows));
                }
            }
            Operation::Unfollow => self.following = None,
            _ => {}
        }
        Ok(())
    }

    async fn send_event(&mut self, event: &Event, cx: &Context<Self>) {
        if self.following.is_none() || !self.send_missed(cx).await {
            return;
        }
        self.send_info(described(event), cx).await;
    }

    /// Sends what has changed in the health, and looks again later.
    async fn send_health(&mut self, number: u64, cx: &mut Context<Self>) {
        let Some(following) = self.following.as_mut().filter(|following| following.number == number) else { return };
        let mut changes = following.health.look(&self.inspected);
        changes.retain(|(_, path, _)| is_below(path.as_ref(), following.below.as_ref()));
        if !changes.is_empty() && !self.send_missed(cx).await {
            return;
        }
        for (kind, path, text) in changes {
            if !self.send_info(EventInfo::new(kind, path, text), cx).await {
                return;
            }
        }
        cx.send_after(LOOK_EVERY, Input::LookAtHealth(number));
    }

    /// Sends one event. Returns false if the connection is closed.
    async fn send_info(&mut self, mut info: EventInfo, cx: &Context<Self>) -> bool {
        self.seq += 1;
        (info.seq, info.unix_us) = (self.seq, unix_micros());
        self.write(&Line { event: Some(info), ..Line::default() }, cx).await
    }

    /// Says how many events were missed since the last line, if any. Returns false if the
    /// connection is closed.
    async fn send_missed(&mut self, cx: &Context<Self>) -> bool {
        let missed = self.following.as_ref().map_or(0, |following| following.missed.swap(0, Ordering::Relaxed));
        if missed == 0 {
            return true;
        }
        self.seq += missed;
        self.inspected.counters.missed_events.fetch_add(missed, Ordering::Relaxed);
        self.write(&Line { missed: Some(missed), ..Line::default() }, cx).await
    }

    /// Writes a line within the time limit. Returns false if the connection is closed.
    async fn write(&mut self, line: &Line, cx: &Context<Self>) -> bool {
        let bytes = line.bytes();
        let written = cx.timeout(self.inspected.options.write_timeout, self.writer.write_all(&bytes)).await;
        match written {
            Ok(Ok(())) => return true,
            Ok(Err(_)) => {}
            Err(_) => {
                self.inspected.counters.too_slow.fetch_add(1, Ordering::Relaxed);
                let waited = self.inspected.options.write_timeout;
                tracing::warn!(
                    path = %cx.path(), bytes = bytes.len(),
                    "a client of the inspection socket did not read for {waited:?}; its connection is closed"
                );
            }
        }
        self.close(cx);
        false
    }

    /// Ends the connection. It is closed and not stopped, so that events in the mailbox are passed
    /// over and become no dead letters.
    fn close(&mut self, cx: &Context<Self>) {
        self.following = None;
        cx.me().close();
    }
}

/// Returns the id of a line that is not a valid request, if it has one.
fn request_id(line: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct WithId {
        id: u64,
    }
    serde_json::from_slice::<WithId>(line).ok().map(|with_id| with_id.id)
}

/// Reads lines of a bounded length. A read that is dropped loses nothing.
pub(super) struct Reader {
    stream: BufReader<ReadHalf>,
    /// What of the next line has arrived.
    line: Vec<u8>,
}

impl Reader {
    async fn line(&mut self) -> io::Result<Received> {
        loop {
            let part = self.stream.fill_buf().await?;
            if part.is_empty() {
                return Ok(Received::End);
            }
            let end = part.iter().position(|byte| *byte == b'\n');
            let len = end.unwrap_or(part.len());
            if self.line.len() + len > REQUEST_LEN_MAX {
                return Ok(Received::TooLong);
            }
            self.line.extend_from_slice(&part[..len]);
            self.stream.consume(end.map_or(len, |end| end + 1));
            if end.is_some() {
                return Ok(Received::Line(std::mem::take(&mut self.line)));
            }
        }
    }
}

/// Awaits `future` for at most `limit`.
async fn within<T>(runtime: &dyn Runtime, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut sleep) = (pin!(future), runtime.sleep_until(runtime.now() + limit));
    poll_fn(|cx| match (future.as_mut().poll(cx), sleep.as_mut().poll(cx)) {
        (Poll::Ready(output), _) => Poll::Ready(Some(output)),
        (_, Poll::Ready(())) => Poll::Ready(None),
        _ => Poll::Pending,
    })
    .await
}

/// A listener for the events that a connection follows. Dropping it ends it.
struct Following {
    listener: Option<ListenerHandle>,
    missed: Arc<AtomicU64>,
    /// Only events about this member and those below it are sent.
    below: Option<ActorPath>,
    health: HealthWatch,
    number: u64,
}

impl Following {
    fn begin(
        inspected: &Inspected,
        below: Option<ActorPath>,
        followed: FollowedKinds,
        number: u64,
        cx: &mut Context<Connection>,
    ) -> Self {
        let (me, missed) = (cx.me(), Arc::new(AtomicU64::new(0)));
        let (counted, listened_below) = (Arc::clone(&missed), below.clone());
        let listener = inspected.root.hub().listen_to(followed.kinds, move |event| {
            let path = path_of(event);
            if !followed.sends(event) || !is_below(path, listened_below.as_ref()) || path.is_some_and(is_own) {
                return;
            }
            if me.tell(Input::Event(Box::new(event.clone()))).is_err() {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { listener: Some(listener), missed, below, health: HealthWatch::new(), number }
    }
}

/// Returns whether an event about `path` is followed by a client that follows what is `below`.
fn is_below(path: Option<&ActorPath>, below: Option<&ActorPath>) -> bool {
    below.is_none_or(|below| path.is_some_and(|path| is_within(path, below)))
}

/// Returns whether a member serves clients of this protocol.
fn is_own(path: &ActorPath) -> bool {
    let serves = |name: &Name| *name == server::NAME || name.to_string().starts_with(inspector::NAME_PREFIX);
    matches!(path.segments(), [system, name, ..] if *system == "system" && serves(name))
}

impl Drop for Following {
    fn drop(&mut self) {
        if let Some(listener) = self.listener.take() {
            listener.stop();
        }
    }
}

/// Counts a connection as open.
struct OpenConnection(Arc<Inspected>);

impl OpenConnection {
    fn new(inspected: &Arc<Inspected>) -> Self {
        inspected.counters.connections.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(inspected))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.counters.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
