//! [`StoreClock`]: the clock of a store. Its distance from the clock of this machine is kept for a
//! minute, because a server must be asked for it.

use crate::report::NamedStore;
use pleach::store::Timestamp;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How long the distance is kept.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// The clock of a store.
#[derive(Default)]
pub(super) struct StoreClock(Mutex<Option<(Instant, i64)>>);

impl StoreClock {
    /// Returns the time by the clock of the store; by the clock of this machine if it is not known.
    pub(super) async fn now(&self, store: &NamedStore) -> Timestamp {
        let ahead = self.ahead(store).await;
        Timestamp::from_millis(Timestamp::from(SystemTime::now()).as_millis().saturating_add(ahead))
    }

    /// Sets how far the clock of the store is ahead, for the next minute.
    #[cfg(test)]
    pub(super) fn set_ahead(&self, ahead: Duration) {
        let ahead = i64::try_from(ahead.as_millis()).unwrap_or(i64::MAX);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), ahead));
    }

    async fn ahead(&self, store: &NamedStore) -> i64 {
        let known = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, ahead)) = known.filter(|(at, _)| at.elapsed() < KEPT_FOR) {
            return ahead;
        }
        let ahead = store.clock_ahead().await.unwrap_or(0);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), ahead));
        ahead
    }
}
