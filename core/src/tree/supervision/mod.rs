//! Supervision: what happens after a member has failed.
//!
//! The failed child asks for the decision in its own task, so it does not matter what the code of
//! its parent is doing. The parent only receives a signal.
//!
//! ```text
//!  a child fails
//!       │ judge (judge.rs): strategy ─► decide: policy, restart limit ─► ChildAction
//!       ▼
//!  ┌─ Resume, Restart, Stop     the child does it
//!  ├─ Wait                      the child halts; its parent's restart plan starts it again
//!  │                            together with its siblings (restart_together.rs)
//!  └─ Escalate                  escalate (escalate.rs)
//!       │
//!       ├─ a sink exists        deliver to it, retry if it refuses (sink.rs, retry.rs)
//!       └─ no sink              the parent itself has failed: child_failed on the parent,
//!                               whose own parent judges, and so on up to the root
//!                                    │
//!                                    ▼
//!                               root sink, root handler, outer system, or kept (unhandled.rs)
//! ```
//!
//! | file | owns |
//! |---|---|
//! | `state` | the supervision state of one parent |
//! | `judge` | the decision about one failed child |
//! | `propagate` | the way of a failure up the tree |
//! | `restart_together` | performing a restart plan |
//! | `strategy` | the strategy trait and the built-in strategies |
//! | `escalate` | one step up: to the sink, or to the parent |
//! | `sink`, `retry` | the sink trait and the built-in sinks; retries of refused failures |
//! | `unhandled` | failures that reached the root |
//!
//! Lock rules: the state is accessed under the lock of the parent's node, for a few instructions. A
//! strategy, a sink and every order to a child run outside of it. The pure decisions are in the
//! room `supervise`.

pub(crate) mod escalate;
pub(crate) mod judge;
pub(crate) mod propagate;
pub(crate) mod restart_together;
pub(crate) mod retry;
pub(crate) mod sink;
pub(crate) mod state;
pub(crate) mod strategy;
pub(crate) mod unhandled;

pub(crate) use crate::tree::supervision::escalate::escalate;
pub(crate) use crate::tree::supervision::judge::{call_hook, judge};
pub(crate) use crate::tree::supervision::propagate::{FailureStep, is_to_restart, judge_and_apply, propagate};
pub(crate) use crate::tree::supervision::restart_together::{
    advance, halt, report, restart_supervisor, skip_stop_order, start, waits_for,
};
pub(crate) use crate::tree::supervision::state::{ChildAction, ChildrenPlan, FailedMemberKind, Supervision};
