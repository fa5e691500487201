//! Actions: what will happen, whether it may happen, and what happened.
//!
//! | file | owns |
//! |---|---|
//! | `act` | one action: its plan, and carrying it out |
//! | `plans` | plans that wait to be carried out |
//! | `bulk`, `listed` | one action on many runs; the runs that were planned |
//! | `log`, `file` | the record of actions, in memory and in a file |
//!
//! Invariants:
//! 1. A read-only console carries out nothing. That is decided here, after the route and before
//!    the source.
//! 2. What is carried out was planned, in this process, at most ten minutes ago, once.
//! 3. What is begun is carried out and recorded, also if the browser leaves.

mod act;
mod bulk;
mod file;
mod listed;
mod log;
mod plans;

#[cfg(test)]
mod tests;

pub(crate) use act::Orders;
pub(crate) use file::RecordFile;
