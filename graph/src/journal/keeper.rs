//! `Keeper`: sees to it that a run stops before its lease ends. A run alone renews its lease itself; a worker renews those of all its runs at once,
//! and tells each through its [`KeptLease`].

use super::Journal;
use super::scribe::Asked;
use crate::store::{Renewed, StoreError};
use pleach_core::{BoxFuture, Instant, Runtime};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A lease is renewed after this part of it, and given up as lost when less than this part is left.
pub(crate) const LEASE_PARTS: u32 = 4;

pub(super) struct Keeper {
    renewal: Renewal,
    timer: BoxFuture<'static, ()>,
}

enum Renewal {
    Own {
        /// When the lease ends, as far as this driver knows: counted from before the store was asked.
        ends: Instant,
        asked: Option<(Instant, Asked<Renewed>)>,
        last_error: Option<StoreError>,
    },
    Kept(Arc<KeptLease>),
}

/// The lease of one run, as whoever renews it for many tells of it.
pub(crate) struct KeptLease {
    runtime: Arc<dyn Runtime>,
    told: Mutex<Told>,
}

struct Told {
    ends: Instant,
    is_lost: bool,
    is_released: bool,
    last_error: Option<StoreError>,
    /// What is left to do to give up a run that was cut off.
    leaving: Option<BoxFuture<'static, ()>>,
    waker: Option<Waker>,
}

impl Keeper {
    pub(super) fn new(journal: &Journal, ends: Instant) -> Self {
        let renewal = match &journal.terms.kept_lease {
            Some(lease) => Renewal::Kept(Arc::clone(lease)),
            None => Renewal::Own { ends, asked: None, last_error: None },
        };
        let runtime = journal.runtime();
        let timer = runtime.sleep_until(runtime.now() + journal.terms.lease / LEASE_PARTS);
        Self { renewal, timer }
    }

    /// Ready with why, when the lease is lost or about to be.
    pub(super) fn poll(&mut self, journal: &Arc<Journal>, cx: &mut Context<'_>) -> Poll<StoreError> {
        let (runtime, part) = (journal.runtime(), journal.terms.lease / LEASE_PARTS);
        loop {
            if let Poll::Ready(lost) = self.renewal.poll(journal, cx) {
                return Poll::Ready(lost);
            }
            std::task::ready!(self.timer.as_mut().poll(cx));
            let now = runtime.now();
            let ends = self.renewal.ends();
            if now + part >= ends {
                let silent = || StoreError::unavailable("it did not answer while the lease ran out");
                return Poll::Ready(self.renewal.take_error().unwrap_or_else(silent));
            }
            self.timer = match &mut self.renewal {
                Renewal::Own { asked, .. } => {
                    if asked.is_none() {
                        let held = journal.held();
                        let (store, lease) = (Arc::clone(&journal.terms.store), journal.terms.lease);
                        *asked = Some((now, Box::pin(async move { store.renew(vec![held], lease).await })));
                    }
                    runtime.sleep_until(now + part)
                }
                Renewal::Kept(_) => runtime.sleep_until(now + ends.since(now).saturating_sub(part)),
            };
        }
    }
}

impl Renewal {
    /// Ready when the lease is lost.
    fn poll(&mut self, journal: &Journal, cx: &mut Context<'_>) -> Poll<StoreError> {
        let is_lost = match self {
            Self::Kept(lease) => lease.is_lost(cx.waker()),
            Self::Own { ends, asked: place, last_error } => {
                let Some((asked_at, asked)) = place else { return Poll::Pending };
                let answer = std::task::ready!(asked.as_mut().poll(cx));
                let renewed = *asked_at + journal.terms.lease;
                *place = None;
                match answer {
                    Ok(Renewed { lost, busy }) if lost.is_empty() => {
                        if busy.is_empty() {
                            *ends = renewed;
                        }
                    }
                    Ok(_) => return Poll::Ready(fenced(journal)),
                    Err(error) => *last_error = Some(error),
                }
                false
            }
        };
        if is_lost { Poll::Ready(fenced(journal)) } else { Poll::Pending }
    }

    fn ends(&self) -> Instant {
        match self {
            Self::Own { ends, .. } => *ends,
            Self::Kept(lease) => lease.lock().ends,
        }
    }

    fn take_error(&mut self) -> Option<StoreError> {
        match self {
            Self::Own { last_error, .. } => last_error.take(),
            Self::Kept(lease) => lease.lock().last_error.take(),
        }
    }
}

fn fenced(journal: &Journal) -> StoreError {
    StoreError::Fenced { run: journal.run.to_string(), epoch: journal.epoch }
}

impl KeptLease {
    pub(crate) fn new(runtime: Arc<dyn Runtime>, ends: Instant) -> Self {
        let told = Told { ends, is_lost: false, is_released: false, last_error: None, leaving: None, waker: None };
        Self { runtime, told: Mutex::new(told) }
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_lost(&self, waker: &Waker) -> bool {
        let mut told = self.lock();
        match &mut told.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        told.is_lost
    }

    pub(crate) fn renewed(&self, ends: Instant) {
        let mut told = self.lock();
        (told.ends, told.last_error) = (ends, None);
    }

    pub(crate) fn failed(&self, error: StoreError) {
        self.lock().last_error = Some(error);
    }

    /// Another driver has the run, or nobody.
    pub(crate) fn lost(&self) {
        let waker = {
            let mut told = self.lock();
            told.is_lost = true;
            told.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// The last commit of the run gave it up.
    pub(super) fn released(&self) {
        self.lock().is_released = true;
    }

    /// Whether there is still something to give up.
    pub(crate) fn is_held(&self) -> bool {
        let told = self.lock();
        !told.is_lost && !told.is_released
    }

    pub(crate) fn is_released(&self) -> bool {
        self.lock().is_released
    }

    /// The run was cut off, and this is left to do to give it up.
    pub(super) fn leave(&self, release: BoxFuture<'static, ()>) {
        self.lock().leaving = Some(release);
    }

    pub(crate) fn take_leaving(&self) -> Option<BoxFuture<'static, ()>> {
        self.lock().leaving.take()
    }
}

/// Nobody took it over: it is done all the same.
impl Drop for KeptLease {
    fn drop(&mut self) {
        if let Some(release) = self.take_leaving() {
            self.runtime.spawn(release);
        }
    }
}
