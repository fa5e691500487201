//! [`Stream`]: the two directions of a connection, whatever carries them.

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::UnixStream;

/// What a side reads.
pub(super) type ReadHalf = Box<dyn AsyncRead + Send + Sync + Unpin>;

/// What a side writes.
pub(super) type WriteHalf = Box<dyn AsyncWrite + Send + Sync + Unpin>;

/// One side of a connection: a local socket, or memory.
pub(super) struct Stream {
    pub(super) reader: ReadHalf,
    pub(super) writer: WriteHalf,
}

impl From<UnixStream> for Stream {
    fn from(stream: UnixStream) -> Self {
        let (reader, writer) = stream.into_split();
        Self { reader: Box::new(reader), writer: Box::new(writer) }
    }
}

impl From<DuplexStream> for Stream {
    fn from(stream: DuplexStream) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self { reader: Box::new(reader), writer: Box::new(writer) }
    }
}
