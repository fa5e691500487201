//! [`Accept`]: how a connection is opened: plainly, or with TLS.

use std::future::{Future, ready};
use std::io;
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// An open connection.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Unpin + Send {}

impl<C: AsyncRead + AsyncWrite + Unpin + Send> Connection for C {}

/// A connection, when it is open.
pub(crate) type Opening = Pin<Box<dyn Future<Output = io::Result<Box<dyn Connection>>> + Send>>;

/// Opens connections.
pub(crate) trait Accept: Send + Sync {
    /// Opens a connection. Its caller limits the time.
    fn accept(&self, stream: TcpStream) -> Opening;

    /// `http` or `https`.
    fn scheme(&self) -> &'static str;
}

/// Connections without TLS.
pub(crate) struct Plain;

impl Accept for Plain {
    fn accept(&self, stream: TcpStream) -> Opening {
        let connection: Box<dyn Connection> = Box::new(stream);
        Box::pin(ready(Ok(connection)))
    }

    fn scheme(&self) -> &'static str {
        "http"
    }
}
