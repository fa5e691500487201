//! The right to execute a durable run: how a driver claims it, and how long it may rely on the claim.
//!
//! Runs and workers use this interface and nothing else to hold a run. [`RunLease`] is the lease as the driver knows it,
//! [`ClaimCall`] a claim that leaves nothing behind when it is dropped, [`StoreClock`] the time of the store.

mod claim_call;
mod clock;
mod run_lease;

pub(crate) use claim_call::ClaimCall;
pub(crate) use run_lease::{Moment, ReleaseWork, RunLease};

use pleach_core::Runtime;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// A lease is renewed after this part of it, and given up as lost when less than this part is left.
pub(crate) const LEASE_PARTS: u32 = 4;

/// One driver, unlike any other.
pub(crate) fn owner(runtime: &Arc<dyn Runtime>) -> String {
    let of_this_process = RandomState::new().hash_one(std::process::id());
    format!("{}-{of_this_process:016x}-{:016x}", std::process::id(), runtime.random())
}
