//! Groups: tasks whose results are read in the order they come.
//!
//! ```text
//!      go ──► Books: in flight ──► Engine: polls ──► Books: unread ──► next
//!             (limit, buffer)      Crew    runners on the runtime
//!                                  InPlace whoever awaits something of the group
//! ```
//!
//! One owner of the coordination state, [`books::Books`], says who may go, who reads what, and when the group is drained; it runs nothing.
//! Two engines run the tasks: `crew` with `runner`, and `driving` with `spot`. What waits (`calls`) is the same for both. The order to read in:
//! `books`, `crew`, `roster`, `runner`, `bell`, `calls`, `handle`; then `driving` and `in_place`.
//!
//! There is no manager task and no command queue: each call takes the lock of its group for a few dozen instructions. What must hold is
//! said in `books` (the counts) and `crew` (the tasks).

pub(crate) mod builder;
pub(crate) mod calls;
pub(crate) mod collect;
pub(crate) mod error;
pub(crate) mod executor;
pub(crate) mod handle;
pub(crate) mod in_place;
pub(crate) mod in_place_executor;
pub(crate) mod in_place_node;
pub(crate) mod new_task;
pub(crate) mod overflow;
pub(crate) mod runner;
pub(crate) mod runner_count;
pub(crate) mod runners;
pub(crate) mod state;
pub(crate) mod task;
pub(crate) mod task_waker;
pub(crate) mod wait_queue;
