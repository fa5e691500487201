//! Fan-outs: how branches start, run in parallel and join.
//!
//! Read in this order: `start` opens a fan-out, `branches` holds its lanes, `wakeups` tells which
//! lanes are woken, `join` merges them.

pub(super) mod branches;
pub(super) mod join;
pub(super) mod start;
pub(super) mod wakeups;
