//! A bank outside of all runs: it knows each charge and refund by its idempotency key, and does each key once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// What a charge or refund is for: the run, and which of its effects.
pub type What = (String, String);

/// The books, shared by all who charge.
#[derive(Clone, Default)]
pub struct Bank(Arc<Mutex<Books>>);

#[derive(Default)]
struct Books {
    /// By what they are for, the keys they were made with.
    charges: BTreeMap<What, BTreeSet<String>>,
    refunds: BTreeMap<What, BTreeSet<String>>,
    /// What every key stands for: no key may stand for two things.
    keys: BTreeMap<String, What>,
    calls: u64,
}

impl Bank {
    fn enter(&self, run: &str, what: &str, key: &str, book: impl FnOnce(&mut Books) -> &mut BTreeMap<What, BTreeSet<String>>) {
        let mut books = self.0.lock().unwrap();
        books.calls += 1;
        let what = (run.to_string(), what.to_string());
        let known = books.keys.entry(key.to_string()).or_insert_with(|| what.clone()).clone();
        assert_eq!(known, what, "the key {key} stands for two things");
        book(&mut books).entry(what).or_default().insert(key.to_string());
    }

    pub fn charge(&self, run: &str, what: &str, key: &str) {
        self.enter(run, what, key, |books| &mut books.charges);
    }

    pub fn refund(&self, run: &str, what: &str, key: &str) {
        self.enter(run, what, key, |books| &mut books.refunds);
    }

    /// What a run was charged for. Each must have been charged with one key, and so once.
    pub fn charges(&self, run: &str) -> BTreeSet<String> {
        Self::of(&self.0.lock().unwrap().charges, run)
    }

    /// What a run was given back.
    pub fn refunds(&self, run: &str) -> BTreeSet<String> {
        Self::of(&self.0.lock().unwrap().refunds, run)
    }

    fn of(book: &BTreeMap<What, BTreeSet<String>>, run: &str) -> BTreeSet<String> {
        let of_run = book.iter().filter(|((of, _), _)| of == run);
        of_run
            .map(|((_, what), keys)| {
                assert_eq!(keys.len(), 1, "{run:?} {what:?} was done with several keys: {keys:?}");
                what.clone()
            })
            .collect()
    }
}
