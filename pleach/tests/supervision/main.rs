//! Tests of supervision: restarts, strategies, escalation, and giving up.

#[path = "../common/mod.rs"]
mod common;

mod children;
mod edges;
mod escalation;
mod failing_loop;
mod give_up;
mod named_actor;
mod otp_model;
mod predicted;
mod restart;
mod restart_plan;
mod root_failure;
mod sinks;
mod storm;
mod strategy;
mod stuck_hooks;
mod supervisor;
mod user_failures;

use pleach::prelude::*;

/// A strategy that escalates every failure.
fn escalate() -> OneForOne {
    OneForOne::new().always(SupervisorDirective::Escalate)
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
