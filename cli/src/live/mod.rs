//! The words that look at a running process through its inspection socket.
//!
//! | file | owns |
//! |---|---|
//! | `args` | the arguments |
//! | `health` | `pleach health` |
//! | `why` | `pleach why` for a member of a process |

pub mod args;
pub mod health;
pub mod why;
