//! [`Plans`]: plans that wait to be carried out. Each is carried out at most once.

use crate::failure::Failure;
use crate::server::guard::random_text;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long a plan can be carried out.
const VALID_FOR: Duration = Duration::from_secs(10 * 60);

/// How many plans wait at once, and how many bytes they have. Further ones replace the oldest.
const PLANS_MAX: usize = 200;
const BYTES_MAX: usize = 64 << 20;

/// Random bytes in the id of a plan.
const ID_BYTES: usize = 12;

/// Plans of one kind.
pub(super) struct Plans<P> {
    waiting: Mutex<BTreeMap<u64, Waiting<P>>>,
    /// The ids of the newest plans that were carried out.
    used: Mutex<VecDeque<String>>,
}

struct Waiting<P> {
    id: String,
    since: Instant,
    bytes: usize,
    plan: P,
}

impl<P> Plans<P> {
    pub(super) fn new() -> Self {
        Self { waiting: Mutex::new(BTreeMap::new()), used: Mutex::default() }
    }

    /// Keeps a plan that has about this many bytes, and returns its id.
    pub(super) fn keep(&self, plan: P, bytes: usize) -> Result<String, Failure> {
        let id = random_text(ID_BYTES).map_err(|error| Failure::new("internal", error))?;
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|_, waiting| waiting.since.elapsed() < VALID_FOR);
        let total = |waiting: &BTreeMap<u64, Waiting<P>>| waiting.values().map(|waiting| waiting.bytes).sum::<usize>();
        while waiting.len() >= PLANS_MAX || (!waiting.is_empty() && total(&waiting) + bytes > BYTES_MAX) {
            waiting.pop_first();
        }
        let number = waiting.last_key_value().map_or(0, |(number, _)| number + 1);
        waiting.insert(number, Waiting { id: id.clone(), since: Instant::now(), bytes, plan });
        Ok(id)
    }

    /// Takes a plan out.
    ///
    /// # Errors
    /// `used` if it was carried out, `changed` if it is too old, was refused, or never was.
    pub(super) fn take(&self, id: Option<&str>) -> Result<P, Failure> {
        let Some(id) = id else {
            return Err(Failure::new("bad_request", "the id of the plan is missing").advice("plan the action first"));
        };
        if self.used().iter().any(|used| used == id) {
            return Err(Failure::new("used", "this plan was carried out already; see the record of actions"));
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let found = waiting.iter().find(|(_, waiting)| waiting.id == id).map(|(number, _)| *number);
        let taken = found.and_then(|number| waiting.remove(&number)).filter(|taken| taken.since.elapsed() < VALID_FOR);
        taken.map(|taken| taken.plan).ok_or_else(|| {
            let minutes = VALID_FOR.as_secs() / 60;
            Failure::new("changed", format_args!("this plan is older than {minutes} minutes, or was refused before"))
                .advice("plan the action again")
        })
    }

    /// Remembers that a plan that was taken is carried out.
    pub(super) fn note_used(&self, id: Option<String>) {
        let mut used = self.used();
        used.extend(id);
        while used.len() > PLANS_MAX {
            used.pop_front();
        }
    }

    fn used(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
