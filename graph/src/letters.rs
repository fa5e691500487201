//! `Letters`: answers and signals for a run that no node has asked for yet. Nodes take them by name, the oldest first.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// What a letter with the answer to an interrupt is called.
pub(crate) fn answer_to(key: &str) -> String {
    format!("answer/{key}")
}

/// What a letter with a signal is called.
pub(crate) fn signal_of(name: &str) -> String {
    format!("signal/{name}")
}

#[derive(Default)]
pub(crate) struct Letters(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    letters: VecDeque<Letter>,
    waiting: Vec<Waker>,
    refused: Vec<RefusedLetter>,
}

/// Something that was posted to a run.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    /// Its number in the inbox of the run; 0 for one that was handed over in memory.
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) payload: Vec<u8>,
}

/// A letter that the node which waited for it could not read.
#[derive(Clone, Debug)]
pub(crate) struct RefusedLetter {
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) why: String,
}

impl Letters {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, letters: impl IntoIterator<Item = Letter>) {
        let waiting = {
            let mut inner = self.lock();
            inner.letters.extend(letters);
            std::mem::take(&mut inner.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// The oldest letter of this name; if there is none, `waker` is woken when any comes.
    pub(crate) fn take(&self, name: &str, waker: &Waker) -> Option<Letter> {
        let mut inner = self.lock();
        match inner.letters.iter().position(|letter| letter.name == name) {
            Some(at) => inner.letters.remove(at),
            None => {
                if !inner.waiting.iter().any(|known| known.will_wake(waker)) {
                    inner.waiting.push(waker.clone());
                }
                None
            }
        }
    }

    /// Whether there is a letter of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.lock().letters.iter().any(|letter| letter.name == name)
    }

    /// Puts aside a letter that was not what the node had asked for; the node goes on waiting.
    pub(crate) fn refuse(&self, letter: Letter, why: String) {
        let Letter { number, name, .. } = letter;
        self.lock().refused.push(RefusedLetter { number, name, why });
    }

    /// The letters that were refused since.
    pub(crate) fn take_refused(&self) -> Vec<RefusedLetter> {
        std::mem::take(&mut self.lock().refused)
    }

    /// A letter that was handed over in memory, and that nobody asked for.
    pub(crate) fn unasked(&self) -> Option<String> {
        self.lock().letters.iter().find(|letter| letter.number == 0).map(|letter| letter.name.clone())
    }
}
