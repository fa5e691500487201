//! Fan-outs: how branches start, run side by side and join.

pub(super) mod branches;
pub(super) mod join;
pub(super) mod start;
pub(super) mod wakeups;
