//! What an observer sees of a tree: [`Snapshot`](snapshot::Snapshot), rates and health, as plain
//! values.
//!
//! | module | owns |
//! |---|---|
//! | `info` | `MemberInfo`: one member as a value |
//! | `snapshot` | a page of members below a path |
//! | `children` | the children of a member from the n-th one on |
//! | `cursor` | where the next page begins, as text |
//! | `display` | values as text: one line per member, indented |
//! | `any_ref` | the same for one member, and what a user may order it to do |
//! | `supervision` | what would follow a failure of a member |
//! | `rates` | messages per second, from counts that exist anyway |
//! | `health` | the health of a system, with reasons, as a value |
//! | `health_check` | finds the reasons: kept events, and a look at members |
//! | `serde_impls` | paths and durations in JSON (feature `serde`) |
//!
//! Rules:
//! 1. An observer sends no message and wakes no task.
//! 2. It holds a lock for one member at a time, and never two.
//! 3. Nothing here costs anything until it is called. A tell and a handler do no work for it.
//! 4. Every answer is bounded: by depth, by count, by the number of places examined.

pub(crate) mod any_ref;
pub(crate) mod children;
pub(crate) mod cursor;
pub(crate) mod display;
pub(crate) mod health;
pub(crate) mod health_check;
pub(crate) mod info;
pub(crate) mod rates;
#[cfg(feature = "serde")]
pub(crate) mod serde_impls;
pub(crate) mod snapshot;
pub(crate) mod supervision;
