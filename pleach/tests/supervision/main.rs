//! Supervision: restarts, strategies, escalation, and giving up.

#[path = "../common/mod.rs"]
mod common;

mod edges;
mod escalation;
mod failing_loop;
mod failure_made;
mod giving_up;
mod otp_model;
mod regroup;
mod restart;
mod root_failure;
mod storm;
mod strategy;
mod stuck_hooks;
mod supervisor;
