//! Durable runs: rewind, replay, fork and migration, and what pruning keeps for them.

#[path = "../common/mod.rs"]
mod common;

mod deploy_check;
mod fork_undo;
mod history;
mod migrated;
mod migrated_undo;
mod patch;
mod preview;
mod prune_rewind;
mod random_history;
mod random_travel;
mod repeats;
mod replay;
mod replay_branches;
mod replay_renamed;
mod resume;
mod resume_at;
mod retention;
mod rewind;
mod signal_returned;
mod steer;
mod versions;
