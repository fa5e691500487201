//! Tests of actors: messages, mailboxes, hooks, timers, asks, pools, topics and watches.

#[path = "../common/mod.rs"]
mod common;

mod actor;
mod adapter;
mod adapter_conservation;
mod ask;
mod ask_cycles;
mod behaviour;
mod cleanup;
mod closures;
mod conservation;
mod conservation_threads;
mod control;
mod hooks;
mod injected_failures;
mod ledger;
mod mailbox;
mod map_signals;
mod pool;
mod pool_restart;
mod pool_workers;
mod priorities;
mod sealed;
mod send_all;
mod starting;
mod stash;
mod stash_hooks;
mod system_messages;
mod timers;
mod topic;
mod topic_slow;
mod two_systems;
mod watch;
