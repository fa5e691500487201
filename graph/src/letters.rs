//! `Letters`: answers and signals for a run that no node has asked for yet. Nodes take them by name, the oldest first.

use crate::control::{ANSWER, SIGNAL, TellError};
use crate::store::INBOX_MAX;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// What a letter with the answer to an interrupt is called.
pub(crate) fn answer_to(key: &str) -> String {
    format!("{ANSWER}{key}")
}

/// What a letter with a signal is called.
pub(crate) fn signal_of(name: &str) -> String {
    format!("{SIGNAL}{name}")
}

#[derive(Default)]
pub(crate) struct Letters(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    letters: VecDeque<Letter>,
    /// How many were taken by nodes that have not written that down yet.
    in_hand: usize,
    /// Those that wait, by the name of the letter: a letter for one of many branches wakes no other.
    waiting: HashMap<String, Vec<Waker>>,
    refused: Vec<RefusedLetter>,
    /// Of a run that is not stored: how many letters there were, and their dedup texts.
    handed_over: u64,
    dedups: HashSet<String>,
}

/// Something that was posted to a run.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    /// Its number in the inbox of the run; 0 for one that a resume brought along.
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) payload: Vec<u8>,
}

/// While it lives, somebody has taken a letter.
pub(crate) struct InHand<'a>(&'a Letters);

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        self.0.lock().in_hand -= 1;
    }
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
        let mut woken = Vec::new();
        {
            let mut inner = self.lock();
            for letter in letters {
                woken.extend(inner.waiting.remove(&letter.name));
                inner.letters.push_back(letter);
            }
        }
        woken.into_iter().flatten().for_each(Waker::wake);
    }

    /// Puts back a letter that was taken by a visit which is over.
    pub(crate) fn give_back(&self, letter: Letter) {
        self.lock().letters.push_front(letter);
        self.wake_all();
    }

    /// Wakes whoever waits for a letter.
    pub(crate) fn wake_all(&self) {
        let waiting = std::mem::take(&mut self.lock().waiting);
        waiting.into_values().flatten().for_each(Waker::wake);
    }

    /// Gives a run that is not stored a letter, as a store would: one with a dedup text that was there before is none, and there may be so many.
    pub(crate) fn hand_over(&self, name: String, dedup: Option<String>, payload: Vec<u8>) -> Result<(), TellError> {
        let number = {
            let mut inner = self.lock();
            if dedup.as_ref().is_some_and(|dedup| inner.dedups.contains(dedup)) {
                return Ok(());
            }
            let is_answer = name.starts_with(ANSWER);
            let waiting = inner.letters.iter().filter(|letter| letter.name.starts_with(ANSWER) == is_answer).count();
            if waiting >= INBOX_MAX || (dedup.is_some() && inner.dedups.len() >= INBOX_MAX) {
                return Err(TellError::Full { limit: INBOX_MAX });
            }
            inner.dedups.extend(dedup);
            inner.handed_over += 1;
            inner.handed_over
        };
        self.add([Letter { number, name, payload }]);
        Ok(())
    }

    /// The oldest letter of this name; if there is none, `waker` is woken when one comes. It is in hand until its taking is written down.
    pub(crate) fn take(&self, name: &str, waker: &Waker) -> Option<(Letter, InHand<'_>)> {
        let mut inner = self.lock();
        let at = inner.letters.iter().position(|letter| letter.name == name);
        let letter = at.and_then(|at| inner.letters.remove(at));
        if letter.is_some() {
            inner.in_hand += 1;
        } else if let Some(waiting) = inner.waiting.get_mut(name) {
            if !waiting.iter().any(|known| known.will_wake(waker)) {
                waiting.push(waker.clone());
            }
        } else {
            inner.waiting.insert(name.to_string(), vec![waker.clone()]);
        }
        letter.map(|letter| (letter, InHand(self)))
    }

    /// Whether there is a letter of any of these names, or one is in hand.
    pub(crate) fn has_any<'a>(&self, mut names: impl Iterator<Item = &'a str>) -> bool {
        let inner = self.lock();
        inner.in_hand > 0 || names.any(|name| inner.letters.iter().any(|letter| letter.name == name))
    }

    /// Whether somebody has asked for a letter that has not come since.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.lock().waiting.is_empty()
    }

    /// Puts aside a letter that was not what the node had asked for; the node goes on waiting.
    pub(crate) fn refuse(&self, letter: Letter, why: String) {
        let Letter { number, name, .. } = letter;
        self.lock().refused.push(RefusedLetter { number, name, why });
    }

    /// The letters that were refused since, but for one that a resume brought along.
    pub(crate) fn take_refused(&self) -> Vec<RefusedLetter> {
        let mut inner = self.lock();
        if inner.refused.is_empty() {
            return Vec::new();
        }
        let (posted, brought) = std::mem::take(&mut inner.refused).into_iter().partition(|letter| letter.number > 0);
        inner.refused = brought;
        posted
    }

    /// The answer that a resume brought along, if it was refused.
    pub(crate) fn refused_answer(&self) -> Option<RefusedLetter> {
        self.lock().refused.iter().find(|letter| letter.number == 0).cloned()
    }

    /// A letter that a resume brought along, and that nobody asked for.
    pub(crate) fn unasked(&self) -> Option<String> {
        self.lock().letters.iter().find(|letter| letter.number == 0).map(|letter| letter.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::Wake;

    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn c8_an_answer_wakes_only_the_branch_that_asked() {
        let letters = Letters::default();
        let counters: Vec<_> = (0..100).map(|_| Arc::new(Counter(AtomicUsize::new(0)))).collect();
        for (key, counter) in counters.iter().enumerate() {
            assert!(letters.take(&answer_to(&key.to_string()), &Arc::clone(counter).into()).is_none());
        }
        letters.add([Letter { number: 1, name: answer_to("7"), payload: Vec::new() }]);
        let woken: Vec<usize> = (0..100).filter(|key| counters[*key].0.load(Relaxed) > 0).collect();
        assert_eq!(woken, [7]);
        letters.wake_all();
        assert!(counters.iter().all(|counter| counter.0.load(Relaxed) == 1));
    }
}
