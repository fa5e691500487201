//! Task groups: results in completion order, limits, failures and endings.

#[path = "../common/mod.rs"]
mod common;

mod calls;
mod dropping;
mod failures;
mod grace;
mod handover;
mod helpers;
mod in_place;
mod limits;
mod model;
mod on_tokio;
mod own_tasks;
mod seed;
mod tree;
