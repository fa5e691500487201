//! Tests of observing: snapshots of the tree, activities, rates and health.

#[path = "../common/mod.rs"]
mod common;

mod activity;
mod health;
mod rates;
mod snapshot;
#[cfg(all(feature = "inspect", unix))]
mod socket;
#[cfg(all(feature = "inspect", unix))]
mod socket_actions;
#[cfg(all(feature = "inspect", unix))]
mod socket_clients;
#[cfg(all(feature = "inspect", unix))]
mod socket_details;
#[cfg(all(feature = "inspect", unix))]
mod socket_file;
#[cfg(all(feature = "inspect", unix))]
mod socket_folder;
#[cfg(all(feature = "inspect", unix))]
mod socket_follow;
#[cfg(all(feature = "inspect", unix))]
mod socket_idle;
mod walk;
