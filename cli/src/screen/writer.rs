//! [`Writer`]: a thread that writes to the terminal, one piece at a time.
//!
//! The view never blocks on a slow terminal: it learns that the thread is busy, and draws later.

use std::io::{self, Write as _};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

pub struct Writer {
    pieces: SyncSender<Vec<u8>>,
    progress: Arc<Progress>,
}

#[derive(Default)]
struct Progress {
    state: Mutex<State>,
    /// For a thread that waits until everything is written.
    is_idle: Condvar,
    /// For a task that does.
    idle: Notify,
}

#[derive(Default)]
struct State {
    /// The pieces that are not written yet: a frame, and what leaves the terminal.
    unwritten: usize,
    has_failed: bool,
}

impl Writer {
    pub fn start() -> io::Result<Self> {
        let (pieces, receiver) = sync_channel::<Vec<u8>>(4);
        let progress = Arc::new(Progress::default());
        let of_thread = Arc::clone(&progress);
        std::thread::Builder::new().name("pleach-screen".into()).spawn(move || {
            for piece in receiver {
                let mut stdout = io::stdout().lock();
                let written = stdout.write_all(&piece).and_then(|()| stdout.flush());
                of_thread.written(written.is_ok());
            }
        })?;
        Ok(Self { pieces, progress })
    }

    /// Starts to write a piece, after the one before.
    pub fn write(&self, piece: Vec<u8>) {
        let mut state = self.progress.state();
        match self.pieces.try_send(piece) {
            Ok(()) => state.unwritten += 1,
            Err(_) => state.has_failed = true,
        }
    }

    pub fn is_busy(&self) -> bool {
        self.progress.state().unwritten > 0
    }

    /// Waits until everything is written. Returns false if the terminal takes nothing any more.
    pub async fn idle(&self) -> bool {
        loop {
            let notified = self.progress.idle.notified();
            {
                let state = self.progress.state();
                if state.unwritten == 0 || state.has_failed {
                    return !state.has_failed;
                }
            }
            notified.await;
        }
    }

    /// Blocks until everything is written, or the time is over.
    pub fn wait_idle(&self, limit: Duration) {
        let is_busy = |state: &mut State| state.unwritten > 0;
        drop(self.progress.is_idle.wait_timeout_while(self.progress.state(), limit, is_busy));
    }
}

impl Progress {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn written(&self, is_ok: bool) {
        let mut state = self.state();
        state.unwritten -= 1;
        state.has_failed |= !is_ok;
        drop(state);
        self.is_idle.notify_all();
        self.idle.notify_one();
    }
}
