//! Tests of observing: snapshots of the tree, activities, rates and health.

#[path = "../common/mod.rs"]
mod common;

mod activity;
mod health;
mod rates;
mod snapshot;
mod walk;
