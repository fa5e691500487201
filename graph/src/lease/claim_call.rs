//! `ClaimCall`: a pending claim or create.
//!
//! If it is dropped before the answer, the claimed runs are released when the answer comes. No
//! lease is left behind for others to wait out.

use crate::store::{Claim, Held, Lease, NewRun, Release, Row, Store, StoreError, Wanted};
use crate::util::future::either;
use pleach_core::{BoxFuture, Runtime};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The runs that were asked for, to be awaited.
pub(crate) struct ClaimCall {
    store: Arc<dyn Store>,
    runtime: Arc<dyn Runtime>,
    /// For how long they are leased; not at all, if they are left to others.
    lease: Option<Duration>,
    answer: Option<BoxFuture<'static, Result<Vec<Claim>, StoreError>>>,
    is_asked: bool,
}

impl ClaimCall {
    /// Claims runs that are there.
    pub(crate) fn claim(store: &Arc<dyn Store>, runtime: &Arc<dyn Runtime>, wanted: Wanted, lease: Lease) -> Self {
        let (asked, length) = (Arc::clone(store), lease.length);
        let answer = async move { asked.claim(wanted, lease).await };
        Self::new(store, runtime, Some(length), Box::pin(answer))
    }

    /// Makes a new one.
    pub(crate) fn create(store: &Arc<dyn Store>, runtime: &Arc<dyn Runtime>, new: NewRun, rows: Vec<Row>) -> Self {
        let (asked, length) = (Arc::clone(store), new.lease.as_ref().map(|lease| lease.length));
        let answer = async move { asked.create(new, rows).await.map(|claim| vec![claim]) };
        Self::new(store, runtime, length, Box::pin(answer))
    }

    fn new(
        store: &Arc<dyn Store>,
        runtime: &Arc<dyn Runtime>,
        lease: Option<Duration>,
        answer: BoxFuture<'static, Result<Vec<Claim>, StoreError>>,
    ) -> Self {
        Self { store: Arc::clone(store), runtime: Arc::clone(runtime), lease, answer: Some(answer), is_asked: false }
    }
}

impl Future for ClaimCall {
    type Output = Result<Vec<Claim>, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.is_asked = true;
        let answer = self.answer.as_mut().expect("an answer comes once");
        let answered = std::task::ready!(answer.as_mut().poll(cx));
        self.answer = None;
        Poll::Ready(answered)
    }
}

impl Drop for ClaimCall {
    fn drop(&mut self) {
        let (Some(answer), Some(lease), true) = (self.answer.take(), self.lease, self.is_asked) else { return };
        let store = Arc::clone(&self.store);
        let given_up = async move {
            let Ok(claims) = answer.await else { return };
            let held = claims.iter().map(|claim| Held::of(&claim.run)).collect();
            drop(store.release(held, Release::AsIs).await);
        };
        // After that there is no lease to be given up.
        let timer = self.runtime.sleep_until(self.runtime.now() + lease);
        self.runtime.spawn(Box::pin(either(Box::pin(given_up), timer)));
    }
}
