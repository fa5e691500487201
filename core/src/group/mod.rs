//! Groups: run tasks and read their results in completion order.
//!
//! ```text
//!                        GroupState                             GroupState
//!    go ─► GoFuture ─► admission: in flight ─► Executor ─► results: unread ─► NextFuture ─► next
//!                      (limit, buffer)            │
//!                                                 ├─ RunnerExecutor: runners, tasks of the runtime
//!                                                 └─ InPlace: the task that awaits the group
//! ```
//!
//! [`state::GroupState`] owns the coordination: it decides which task is admitted, which caller
//! reads which result, and when the group is drained. It runs nothing. Two executors poll the
//! tasks; the waiting calls (`calls`) are the same for both.
//!
//! | module | owns |
//! |---|---|
//! | `builder`, `handle`, `in_place`, `new_task`, `collect` | the public API |
//! | `calls` | the futures of `go`, `next`, `next_or`, `wait` |
//! | `state` | counts, admission, results, waiters; pure |
//! | `wait_queue`, `overflow` | the FIFO of waiting callers; the rules of a full group |
//! | `executor` | the `Executor` trait; polling, failing and dropping one task |
//! | `task`, `task_waker` | a boxed task with its options; its waker |
//! | `runners` | tasks polled by runners on the runtime |
//! | `in_place` | tasks polled by the caller |
//!
//! Read in this order: `state`, `executor`, `runners`, `task_waker`, `calls`, `handle`; then
//! `in_place`.
//!
//! No manager task and no command queue exist. Each call takes the lock of its group for a few
//! dozen instructions. No user code runs under that lock: tasks and results are polled and dropped,
//! and callers' wakers are cloned, woken and dropped, outside it. Only a runner's own waker is
//! cloned under it, when the runner parks.

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
