//! [`ClaimCall`]: a pending claim or creation of runs.
//!
//! If it is dropped before the store answers, a spawned task waits for the answer and releases the
//! claimed runs. So no other driver must wait until an unused lease expires.

use crate::store::{Claim, Held, Lease, NewRun, Release, Row, Store, StoreError, Wanted};
use crate::util::future::either;
use pleach_core::{BoxFuture, Runtime};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// A pending claim or creation. The output is the claimed runs.
pub(crate) struct ClaimCall {
    store: Arc<dyn Store>,
    runtime: Arc<dyn Runtime>,
    /// The duration of the lease; `None` for a new run that this driver does not hold.
    lease: Option<Duration>,
    answer: Option<BoxFuture<'static, Result<Vec<Claim>, StoreError>>>,
    /// Whether the call was polled, so that the store may have the request.
    is_sent: bool,
}

impl ClaimCall {
    /// Claims existing runs.
    pub(crate) fn claim(store: &Arc<dyn Store>, runtime: &Arc<dyn Runtime>, wanted: Wanted, lease: Lease) -> Self {
        let (claiming, length) = (Arc::clone(store), lease.length);
        let answer = async move { claiming.claim(wanted, lease).await };
        Self::new(store, runtime, Some(length), Box::pin(answer))
    }

    /// Creates a run.
    pub(crate) fn create(store: &Arc<dyn Store>, runtime: &Arc<dyn Runtime>, new: NewRun, rows: Vec<Row>) -> Self {
        let (creating, length) = (Arc::clone(store), new.lease.as_ref().map(|lease| lease.length));
        let answer = async move { creating.create(new, rows).await.map(|claim| vec![claim]) };
        Self::new(store, runtime, length, Box::pin(answer))
    }

    fn new(
        store: &Arc<dyn Store>,
        runtime: &Arc<dyn Runtime>,
        lease: Option<Duration>,
        answer: BoxFuture<'static, Result<Vec<Claim>, StoreError>>,
    ) -> Self {
        Self { store: Arc::clone(store), runtime: Arc::clone(runtime), lease, answer: Some(answer), is_sent: false }
    }
}

impl Future for ClaimCall {
    type Output = Result<Vec<Claim>, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.is_sent = true;
        let answer = self.answer.as_mut().expect("`ClaimCall` was polled after it completed");
        let answered = std::task::ready!(answer.as_mut().poll(cx));
        self.answer = None;
        Poll::Ready(answered)
    }
}

impl Drop for ClaimCall {
    fn drop(&mut self) {
        let (Some(answer), Some(lease), true) = (self.answer.take(), self.lease, self.is_sent) else { return };
        let store = Arc::clone(&self.store);
        let release = async move {
            let Ok(claims) = answer.await else { return };
            let held = claims.iter().map(|claim| Held::of(&claim.run)).collect();
            drop(store.release(held, Release::AsIs).await);
        };
        // After this time the lease has expired, and nothing needs to be released.
        let timer = self.runtime.sleep_until(self.runtime.now() + lease);
        self.runtime.spawn(Box::pin(either(Box::pin(release), timer)));
    }
}
