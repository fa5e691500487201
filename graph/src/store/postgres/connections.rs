//! `Connections`: the pool, and what is done with each connection before and after a call.
//!
//! 1. Every connection has the settings of `sql/session.sql` before its first statement, also those of a pool that the caller has made.
//! 2. A connection goes back to the pool only if its call was answered. A call that is dropped, times out or finds the connection broken drops the
//!    connection too. Otherwise a connection that has become a black hole would be used again and again.
//! 3. One connection is kept for renewals: other calls may wait for their answers for longer than a lease lasts. A pool of one connection has none to spare.
//! 4. After a timeout the idle connections are dropped as well: what swallowed one of them has probably swallowed all.

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

/// How long a connection is waited for, unless the builder says otherwise.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an answer is waited for, unless the builder says otherwise.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// The answer to a renewal is waited for as long as this part of the lease: drivers renew after a part, and give up when one is left.
const RENEWALS: u32 = 4;

/// How long the answer to a renewal is waited for at least.
const RENEWAL_MIN: Duration = Duration::from_secs(1);

/// How long a statement waits for a lock at most.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// After this time the server ends a session whose client stopped in the middle of a transaction. Only upgrades of the tables have any.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The pool, and how long to wait for what.
pub(super) struct Connections {
    pub(super) pool: Pool,
    /// As many as there may be calls at once that are no renewals.
    pub(super) permits: Arc<Semaphore>,
    pub(super) calls_max: usize,
    pub(super) target: Target,
    pub(super) is_own_pool: bool,
    pub(super) connect_timeout: Duration,
    pub(super) answer_timeout: Duration,
}

impl Connections {
    /// A connection that is ready for a call.
    pub(super) async fn take(&self) -> Result<Connection, StoreError> {
        let permit = tokio::time::timeout(self.connect_timeout, Arc::clone(&self.permits).acquire_owned()).await;
        self.take_with(permit.map_err(|_| self.late())?.ok()).await
    }

    /// A connection that is ready for a renewal, also when all others wait for answers.
    pub(super) async fn take_for_renewal(&self) -> Result<Connection, StoreError> {
        self.take_with(None).await
    }

    fn late(&self) -> StoreError {
        of_pool(PoolError::Timeout(TimeoutType::Wait), &self.target, self.calls_max)
    }

    async fn take_with(&self, permit: Option<OwnedSemaphorePermit>) -> Result<Connection, StoreError> {
        // A pool of the caller may have no timeouts of its own; one of ours has these two.
        let patience = self.connect_timeout.saturating_mul(2);
        let taken = tokio::time::timeout(patience, self.pool.get()).await.map_err(|_| self.late())?;
        let object = taken.map_err(|error| of_pool(error, &self.target, self.calls_max))?;
        let connection = Connection { object: Some(object), permit };
        match self.answer(self.prepare(&connection)).await {
            Ok(()) => Ok(connection),
            Err(failure) => Err(failure.before_call(&self.target)),
        }
    }

    /// Gives a connection its settings, once. That the statement is new to its cache tells that the connection is new to the store.
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
        if answer.as_ref().is_err_and(Failure::spoils_pool) {
            self.drop_idle();
        }
        answer
    }

    /// A renewal waits for locked rows for a shorter time than this. If it is not answered within a part of the lease, its connection is given up, so that there is time for another.
    /// Connecting counts.
    pub(super) async fn renewal<T>(
        &self,
        lease: Duration,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let patience = (lease / RENEWALS).max(RENEWAL_MIN);
        tokio::time::timeout(patience, call).await.unwrap_or_else(|_| {
            self.drop_idle();
            Err(Failure::Unanswered(patience).into_store_error(&self.target))
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

/// A connection during a call. It is dropped with the call, unless [`give_back`](Self::give_back) says that it is sound.
pub(super) struct Connection {
    object: Option<Object>,
    /// Goes after the connection is back in the pool, or dropped.
    permit: Option<OwnedSemaphorePermit>,
}

impl Connection {
    /// For transactions.
    pub(super) fn exclusive(&mut self) -> &mut ClientWrapper {
        self.object.as_mut().expect("a connection in use has its object")
    }

    /// Ends the use of a connection whose call was answered so.
    pub(super) fn give_back<T>(mut self, answer: &Result<T, Failure>) {
        match answer {
            Err(failure) if failure.spoils_connection() => {}
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
