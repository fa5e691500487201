//! The right to execute a durable run: how a driver claims it, and how long the claim is valid.
//!
//! Runs and workers hold a run only through this module:
//! - [`ClaimCall`] claims a run, and releases it if the call is dropped.
//! - [`RunLease`] is the lease as the driver knows it.
//! - [`StoreClock`](clock::StoreClock) estimates the time of the store.

mod claim_call;
mod clock;
mod run_lease;

pub(crate) use claim_call::ClaimCall;
pub(crate) use clock::Moment;
pub(crate) use run_lease::{ReleaseWork, RunLease};

use pleach_core::Runtime;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// The number of parts of a lease. It is renewed after one part, and counts as lost when less than
/// one part is left.
pub(crate) const LEASE_PARTS: u32 = 4;

/// Returns a new owner name, which is unique for each driver.
pub(crate) fn owner(runtime: &Arc<dyn Runtime>) -> String {
    let process = RandomState::new().hash_one(std::process::id());
    format!("{}-{process:016x}-{:016x}", std::process::id(), runtime.random())
}
