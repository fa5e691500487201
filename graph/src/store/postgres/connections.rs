//! [`Connections`]: the pool, and the handling of each connection before and after a call.
//!
//! Invariants:
//! 1. Every connection has the settings of `sql/session.sql` before its first statement, including
//!    the connections of a caller's pool.
//! 2. A connection returns to the pool only if its call was answered. A call that is dropped, times
//!    out or finds the connection broken drops the connection. Otherwise a dead connection would be
//!    used again and again.
//! 3. One connection is reserved for renewals, because other calls can wait longer than a lease
//!    lasts. A pool of one connection reserves none.
//! 4. After a timeout the idle connections are dropped too, because the network has probably lost
//!    them all.

use super::fault::{Failure, of_pool};
use super::sql;
use super::target::Target;
use crate::store::error::StoreError;
use deadpool_postgres::{ClientWrapper, Object, Pool, PoolError, TimeoutType};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The default time to wait for a connection.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The default time to wait for an answer.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A renewal waits for the answer for this fraction of the lease. Drivers renew after a quarter and
/// give up when a quarter is left.
const RENEWAL_FRACTION: u32 = 4;

/// The minimum time to wait for the answer to a renewal.
const RENEWAL_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// The largest time that a statement waits for a lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The time after which the server ends a session whose client stopped inside a transaction. Only
/// migrations use transactions.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The pool, and the time limits of its use.
pub(super) struct Connections {
    pub(super) pool: Pool,
    /// One permit for each concurrent call that is not a renewal.
    pub(super) permits: Arc<Semaphore>,
    pub(super) calls_max: usize,
    pub(super) target: Target,
    pub(super) is_own_pool: bool,
    pub(super) connect_timeout: Duration,
    pub(super) answer_timeout: Duration,
}

impl Connections {
    /// Takes a connection for a call from the pool.
    pub(super) async fn take(&self) -> Result<Connection, StoreError> {
        let permit = tokio::time::timeout(self.connect_timeout, Arc::clone(&self.permits).acquire_owned()).await;
        self.take_with(permit.map_err(|_| self.no_free_connection())?.ok()).await
    }

    /// Takes a connection for a renewal, even if all others wait for answers.
    pub(super) async fn take_for_renewal(&self) -> Result<Connection, StoreError> {
        self.take_with(None).await
    }

    fn no_free_connection(&self) -> StoreError {
        of_pool(PoolError::Timeout(TimeoutType::Wait), &self.target, self.calls_max)
    }

    async fn take_with(&self, permit: Option<OwnedSemaphorePermit>) -> Result<Connection, StoreError> {
        // A caller's pool may have no timeouts. Our pool has two: for waiting and for connecting.
        let timeout = self.connect_timeout.saturating_mul(2);
        let taken = tokio::time::timeout(timeout, self.pool.get()).await.map_err(|_| self.no_free_connection())?;
        let object = taken.map_err(|error| of_pool(error, &self.target, self.calls_max))?;
        let connection = Connection { object: Some(object), permit };
        match self.answer(self.prepare(&connection)).await {
            Ok(()) => Ok(connection),
            Err(failure) => Err(failure.before_call(&self.target)),
        }
    }

    /// Sets up a connection once. If the statement is not in the connection's cache, the connection
    /// is new to the store.
    async fn prepare(&self, client: &ClientWrapper) -> Result<(), Failure> {
        let known = client.statement_cache.size();
        let statement = client.prepare_cached(&sql::SESSION).await?;
        if client.statement_cache.size() > known {
            let millis = |time: Duration| format!("{}ms", time.as_millis().max(1));
            let lock_timeout = millis(LOCK_TIMEOUT.min(self.answer_timeout / 2));
            client.query_one(&statement, &[&lock_timeout, &millis(IDLE_TIMEOUT), &self.is_own_pool]).await?;
        }
        Ok(())
    }

    /// Waits for the answer to a call.
    pub(super) async fn answer<T>(&self, call: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let answer = tokio::time::timeout(self.answer_timeout, call).await;
        let answer = answer.unwrap_or(Err(Failure::Unanswered(self.answer_timeout)));
        if answer.as_ref().is_err_and(Failure::breaks_pool) {
            self.drop_idle();
        }
        answer
    }

    /// Limits the time of a renewal, including connecting, to a fraction of the lease, so that a
    /// second renewal is possible. The statement itself waits less for locked rows.
    pub(super) async fn renewal<T>(
        &self,
        lease: Duration,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let timeout = (lease / RENEWAL_FRACTION).max(RENEWAL_TIMEOUT_MIN);
        tokio::time::timeout(timeout, call).await.unwrap_or_else(|_| {
            self.drop_idle();
            Err(Failure::Unanswered(timeout).into_store_error(&self.target))
        })
    }

    fn drop_idle(&self) {
        drop(self.pool.retain(|_, _| false));
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").field("target", &self.target).field("pool", &self.pool.status()).finish()
    }
}

/// A connection during a call. Dropping it closes the connection; [`give_back`](Self::give_back)
/// returns it to the pool.
pub(super) struct Connection {
    object: Option<Object>,
    /// Released after the connection is back in the pool or dropped.
    permit: Option<OwnedSemaphorePermit>,
}

impl Connection {
    /// Returns the client for a transaction.
    pub(super) fn exclusive(&mut self) -> &mut ClientWrapper {
        self.object.as_mut().expect("a connection in use has its object")
    }

    /// Returns the connection to the pool, unless the answer shows that it may be broken.
    pub(super) fn give_back<T>(mut self, answer: &Result<T, Failure>) {
        match answer {
            Err(failure) if failure.breaks_connection() => {}
            _ => drop(self.object.take()),
        }
    }
}

impl Deref for Connection {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        self.object.as_ref().expect("a connection in use has its object")
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            drop(Object::take(object));
        }
        drop(self.permit.take());
    }
}
