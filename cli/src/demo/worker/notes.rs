//! [`Notes`]: what the worker process writes to the show.
//!
//! A thread writes. If the show reads too slowly, notes wait in a bounded queue; what does not fit
//! is left out, except the first and the last note. If the show has died, the process ends.

use crate::demo::protocol::Note;
use std::io::{self, Write as _};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// How many notes wait for the show at most.
const QUEUED_MAX: usize = 1_024;

/// Sends notes. Clones are cheap.
#[derive(Clone)]
pub struct Notes(SyncSender<Option<Note>>);

impl Notes {
    /// Starts the thread. It ends after [`Notes::finish`].
    pub fn start() -> (Self, JoinHandle<()>) {
        let (sender, receiver) = sync_channel(QUEUED_MAX);
        (Self(sender), thread::spawn(move || write(&receiver)))
    }

    /// Sends a note, or leaves it out if the show is far behind.
    pub fn send(&self, note: Note) {
        drop(self.0.try_send(Some(note)));
    }

    /// Sends a note and waits for room.
    pub fn send_surely(&self, note: Note) {
        drop(self.0.send(Some(note)));
    }

    /// Ends the thread after all notes before.
    pub fn finish(&self) {
        drop(self.0.send(None));
    }
}

fn write(notes: &Receiver<Option<Note>>) {
    let mut out = io::stdout().lock();
    while let Ok(Some(note)) = notes.recv() {
        let Ok(mut line) = serde_json::to_string(&note) else { continue };
        line.push('\n');
        if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
            super::end_without_show();
        }
    }
}
