//! The actor `/system/inspect`: accepts connections, each of which is served by a child of it.
//!
//! At most a fixed number of connections is open. A further one gets one line with an error and is
//! closed. The children end with this actor, which ends after everything below `/user`.

use crate::inspect::connection::Connection;
use crate::inspect::options::InspectOptions;
use crate::inspect::protocol::{Failure, Line};
use crate::inspect::serve::Inspected;
use crate::inspect::socket_file::SocketFile;
use crate::inspect::stream::Stream;
use pleach_core::{Actor, BoxError, Context, Mailbox, Props, Refusal, RestartPolicy, System};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::UnixStream;

/// The name of the actor below `/system`.
pub(super) const NAME: &str = "inspect";

/// The wait after an accept that failed, for example because the process has no free descriptor.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Starts the actor that serves `socket`.
pub(super) fn start(system: &System, options: InspectOptions, socket: SocketFile) -> Result<(), Refusal> {
    let inspected = Arc::new(Inspected::new(system, options));
    let socket = Arc::new(socket);
    let props = Props::new(move || Acceptor { inspected: Arc::clone(&inspected), socket: Arc::clone(&socket), number: 0 });
    let props = props.mailbox(Mailbox::bounded(16)).restart(RestartPolicy::Transient);
    system.system_guardian().spawn(NAME, props).map(drop).map_err(|refused| refused.reason)
}

struct Acceptor {
    inspected: Arc<Inspected>,
    socket: Arc<SocketFile>,
    /// The number of the last connection, which is its name.
    number: u64,
}

enum Accepted {
    Connection(io::Result<UnixStream>),
    /// The wait after a failed accept is over.
    Again,
}

impl Actor for Acceptor {
    type Msg = Accepted;
    type Error = BoxError;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.accept(cx);
        Ok(())
    }

    async fn handle(&mut self, accepted: Accepted, cx: &mut Context<Self>) -> Result<(), BoxError> {
        match accepted {
            Accepted::Connection(Ok(stream)) => self.serve(stream, cx),
            Accepted::Connection(Err(error)) => {
                tracing::warn!(%error, "the inspection socket could not accept a connection; it tries again in 100 ms");
                cx.send_after(ACCEPT_AGAIN, Accepted::Again);
                return Ok(());
            }
            Accepted::Again => {}
        }
        self.accept(cx);
        Ok(())
    }
}

impl Acceptor {
    fn accept(&self, cx: &Context<Self>) {
        let socket = Arc::clone(&self.socket);
        let next = async move { socket.listener.accept().await.map(|(stream, _)| stream) };
        // Refused only while this actor ends.
        drop(cx.pipe_to_self(next, Accepted::Connection));
    }

    fn serve(&mut self, stream: UnixStream, cx: &Context<Self>) {
        let (counters, limit) = (&self.inspected.counters, self.inspected.options.connections_max as u64);
        if counters.connections.load(Ordering::Relaxed) >= limit {
            counters.refused.fetch_add(1, Ordering::Relaxed);
            let text = format!("{limit} connections are open, which is the limit; close one, or raise `connections_max`");
            // One line fits into the buffer of a new socket. If not, the client only sees the end.
            drop(stream.try_write(&Line::answer(None, Err(Failure::new("too_many_connections", text))).bytes()));
            return;
        }
        self.number += 1;
        // Refused only while this actor ends: then the connection is closed.
        drop(cx.spawn(&format!("c{}", self.number), Connection::props(&self.inspected, Stream::from(stream))));
    }
}
