//! Actors: their messages, mailboxes, hooks, timers and asks, and what routes messages to them.

#[path = "../common/mod.rs"]
mod common;

mod actor;
mod adapter;
mod adapter_conservation;
mod ask;
mod ask_edges;
mod becoming;
mod closures;
mod conservation;
mod conservation_threads;
mod control;
mod hooks;
mod left_behind;
mod mailbox;
mod map_system;
mod pool;
mod pool_restart;
mod pool_workers;
mod starting;
mod stash;
mod stash_hooks;
mod timers;
mod topic;
mod two_systems;
mod watch;
