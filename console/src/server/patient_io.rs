//! [`PatientIo`]: a connection whose reader may pause for a limited time.
//!
//! A peer that does not read keeps what was written for it in memory. After the limit without any
//! progress, writing fails, and the server drops the connection.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A connection with a time limit for each write.
pub(crate) struct PatientIo<C> {
    connection: C,
    limit: Duration,
    /// Set while a write waits for the peer.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<C> PatientIo<C> {
    pub(crate) fn new(connection: C, limit: Duration) -> Self {
        Self { connection, limit, waiting: None }
    }

    /// Passes on the result of a write, or fails if the peer has taken nothing for too long.
    fn limited<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let limit = self.limit;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(waiting.as_mut().poll(cx));
        waiting.as_mut().reset(Instant::now() + limit);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the reader took nothing for too long")))
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for PatientIo<C> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_read(cx, buffer)
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for PatientIo<C> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.connection).poll_write(cx, bytes);
        self.limited(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.connection).poll_write_vectored(cx, parts);
        self.limited(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.connection).poll_flush(cx);
        self.limited(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.connection).poll_shutdown(cx);
        self.limited(cx, closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn k6_a_reader_that_pauses_too_long_is_given_up() {
        let (one, _silent) = tokio::io::duplex(16);
        let begin = Instant::now();
        let error = PatientIo::new(one, LIMIT).write_all(&[1; 64]).await.unwrap_err();
        assert_eq!((error.kind(), begin.elapsed().as_secs()), (io::ErrorKind::TimedOut, 10));
    }

    #[tokio::test(start_paused = true)]
    async fn k6_a_slow_reader_is_not_given_up() {
        let (one, mut slow) = tokio::io::duplex(16);
        let reading = tokio::spawn(async move {
            let mut read = [0; 16];
            for _ in 0..4 {
                sleep(LIMIT - Duration::from_secs(1)).await;
                slow.read_exact(&mut read).await.unwrap();
            }
        });
        PatientIo::new(one, LIMIT).write_all(&[1; 64]).await.unwrap();
        reading.await.unwrap();
    }
}
