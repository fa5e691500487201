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

mod bell;
mod books;
mod builder;
mod calls;
mod crew;
mod driving;
mod engine;
mod error;
mod full;
mod handle;
mod helpers;
mod in_place;
mod job;
mod line;
mod new_task;
mod roster;
mod runner;
mod spot;

pub use builder::{ERRORS_KEPT_DEFAULT, GroupBuilder, PanicPolicy};
pub use calls::NextOr;
pub use error::{Errors, GoError, GroupClosed, GroupError, NotTaken, TaskError};
pub use handle::Group;
pub use helpers::{Drained, MapError, RaceError};
pub use in_place::InPlace;
pub use job::{Elapsed, TaskOutput};
pub use new_task::NewTask;
