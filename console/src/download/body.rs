//! [`FileBody`]: the body of a file that is written while it is read.

use axum::body::Bytes;
use http_body::{Body, Frame};
use std::io;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc;

/// How many pieces wait for the reader.
const PIECES_MAX: usize = 4;

/// The body of a file. It ends with an error, which cuts the connection, if its writer ended early:
/// half a file never looks like a whole one.
pub(crate) struct FileBody {
    pieces: mpsc::Receiver<Piece>,
    is_whole: bool,
}

enum Piece {
    Text(String),
    End,
}

/// Writes a file, from a thread that may block.
pub(super) struct FileWriter(mpsc::Sender<Piece>);

/// Returns both ends of a file.
pub(super) fn file() -> (FileWriter, FileBody) {
    let (writer, pieces) = mpsc::channel(PIECES_MAX);
    (FileWriter(writer), FileBody { pieces, is_whole: false })
}

impl FileWriter {
    /// Writes a piece when the reader has room. Breaks if the reader is gone.
    pub(super) fn write(&self, piece: String) -> ControlFlow<()> {
        match self.0.blocking_send(Piece::Text(piece)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    /// Says that the file is whole.
    pub(super) fn end(self) {
        // The reader has left.
        let _ = self.0.blocking_send(Piece::End);
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.is_whole {
            return Poll::Ready(None);
        }
        Poll::Ready(match ready!(self.pieces.poll_recv(cx)) {
            Some(Piece::Text(text)) => Some(Ok(Frame::data(Bytes::from(text)))),
            Some(Piece::End) => {
                self.is_whole = true;
                None
            }
            None => Some(Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file could not be written to its end"))),
        })
    }
}
