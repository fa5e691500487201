//! A bank outside of all runs. It identifies each charge and refund by its idempotency key and
//! applies each key once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// The subject of a charge or refund: the run and its effect.
pub type What = (String, String);

/// The accounts, shared by all clients.
#[derive(Clone, Default)]
pub struct Bank(Arc<Mutex<Accounts>>);

#[derive(Default)]
struct Accounts {
    /// The keys of each subject.
    charges: BTreeMap<What, BTreeSet<String>>,
    refunds: BTreeMap<What, BTreeSet<String>>,
    /// The subject of each key. A key must not have two subjects.
    keys: BTreeMap<String, What>,
    calls: u64,
}

impl Bank {
    fn enter(
        &self,
        run: &str,
        what: &str,
        key: &str,
        entries: impl FnOnce(&mut Accounts) -> &mut BTreeMap<What, BTreeSet<String>>,
    ) {
        let mut accounts = self.0.lock().unwrap();
        accounts.calls += 1;
        let what = (run.to_string(), what.to_string());
        let known = accounts.keys.entry(key.to_string()).or_insert_with(|| what.clone()).clone();
        assert_eq!(known, what, "the key {key} has two subjects");
        entries(&mut accounts).entry(what).or_default().insert(key.to_string());
    }

    pub fn charge(&self, run: &str, what: &str, key: &str) {
        self.enter(run, what, key, |accounts| &mut accounts.charges);
    }

    pub fn refund(&self, run: &str, what: &str, key: &str) {
        self.enter(run, what, key, |accounts| &mut accounts.refunds);
    }

    /// The effects that a run was charged for. Panics if one was charged with several keys.
    pub fn charges(&self, run: &str) -> BTreeSet<String> {
        Self::of(&self.0.lock().unwrap().charges, run)
    }

    /// The effects that were refunded to a run.
    pub fn refunds(&self, run: &str) -> BTreeSet<String> {
        Self::of(&self.0.lock().unwrap().refunds, run)
    }

    fn of(entries: &BTreeMap<What, BTreeSet<String>>, run: &str) -> BTreeSet<String> {
        let of_run = entries.iter().filter(|((of, _), _)| of == run);
        of_run
            .map(|((_, what), keys)| {
                assert_eq!(keys.len(), 1, "{run:?} {what:?} was applied with several keys: {keys:?}");
                what.clone()
            })
            .collect()
    }
}
