//! The words that look at a running process through its inspection socket.
//!
//! | file | owns |
//! |---|---|
//! | `args` | the arguments |
//! | `tree`, `tree_text`, `tree_drawing` | `pleach tree` |
//! | `health` | `pleach health` |
//! | `events` | `pleach events` |
//! | `why`, `why_text` | `pleach why` for a member of a process |
//! | `act` | `pleach stop`, `restart`, `suspend`, `resume` and `log-level` |
//! | `member` | one member in words |

pub mod act;
pub mod args;
pub mod events;
pub mod health;
pub mod member;
pub mod tree;
mod tree_drawing;
mod tree_text;
pub mod why;
mod why_text;
