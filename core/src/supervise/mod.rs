//! The decisions of supervision, as pure functions and state machines.
//!
//! No code in this room takes a lock, reads a clock or touches the tree. The room
//! `tree::supervision` calls it under the lock of a parent and acts on the results.
//!
//! | module | decides |
//! |---|---|
//! | `decide` | the directive for one failure, after policy and restart limit |
//! | `backoff` | how long a child waits before it restarts |
//! | `restart_plan` | the order of halts and starts of children that restart together |

pub(crate) mod backoff;
pub(crate) mod decide;
pub(crate) mod restart_plan;
