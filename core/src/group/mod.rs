//! Groups: tasks whose results are read in the order they come.
//!
//! ```text
//!      go ──► GroupState: in flight ──► Executor: polls ──► GroupState: unread ──► next
//!             (limit, buffer)      RunnerExecutor    runners on the runtime
//!                                  InPlace whoever awaits something of the group
//! ```
//!
//! One owner of the coordination state, [`state::GroupState`], says who may go, who reads what, and when the group is drained; it runs nothing.
//! Two engines run the tasks: `executor` with `runner`, and `driving` with `member`. What waits (`calls`) is the same for both. The order to read in:
//! `state`, `executor`, `roster`, `runner`, `bell`, `calls`, `handle`; then `driving` and `in_place`.
//!
//! There is no manager task and no command queue: each call takes the lock of its group for a few dozen instructions. What must hold is
//! said in `state` (the counts) and `executor` (the tasks).

pub(crate) mod builder;
pub(crate) mod calls;
pub(crate) mod collect;
pub(crate) mod error;
pub(crate) mod executor;
pub(crate) mod handle;
pub(crate) mod in_place;
pub(crate) mod new_task;
pub(crate) mod overflow;
pub(crate) mod runners;
pub(crate) mod state;
pub(crate) mod task;
pub(crate) mod task_waker;
pub(crate) mod wait_queue;
