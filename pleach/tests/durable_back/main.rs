//! Durable runs: ways back. Rewinds, replays, forks, migrations, and what pruning keeps for them.

#[path = "../common/mod.rs"]
mod common;

mod again;
mod fork_undo;
mod history;
mod migrated;
mod migrated_undo;
mod net_back;
mod prune_back;
mod replay;
mod replay_branches;
mod replay_renamed;
mod resume;
mod resume_at;
mod retention;
mod rewind;
mod signal_back;
mod travels;
mod versions;
