//! Durable runs: how a stored run is created, opened, changed, migrated and inspected.
//!
//! Read in this order: `options`, `drive`, `reopen`, `changes`, `migrate`, `outcome`, `history`,
//! `preview`, `refusals`,
//! `states`, `patch`, `steer`, `deploy`.

pub(crate) mod changes;
pub(crate) mod deploy;
pub(crate) mod drive;
pub(crate) mod history;
pub(crate) mod migrate;
pub(crate) mod options;
pub(crate) mod outcome;
pub(crate) mod patch;
pub(crate) mod preview;
pub(crate) mod refusals;
pub(crate) mod reopen;
mod states;
mod steer;
