//! What happens in a tree, as values, and the hub that delivers it.
//!
//! The values (`Event`, `Cause`, `Exit`, `FailureInfo`, `Signal`, `Counts`) know nothing about the
//! tree. A failure carries its position in the tree as an opaque value (see `tree::lineage`).
//!
//! | module | owns |
//! |---|---|
//! | `cause` | why a member was cancelled, and how it ended |
//! | `failure`, `annotated` | one failure with its context; errors with metadata |
//! | `counts` | what became of each message |
//! | `give_ups` | the supervisors that gave up, kept for the health of the system |
//! | `health_report` | problems that parts of the program report |
//! | `event` | the event type and its kinds |
//! | `instrument` | code around the messages of chosen actors, for spans and timing |
//! | `hub`, `subscription` | the listeners of a tree; the bounded queue of one subscriber |
//! | `limit` | what a sealed system refuses |
//! | `signal` | what an actor's `signal` hook receives |

pub(crate) mod annotated;
pub(crate) mod cause;
pub(crate) mod counts;
pub(crate) mod event;
pub(crate) mod failure;
pub(crate) mod give_ups;
pub(crate) mod health_report;
pub(crate) mod hub;
pub(crate) mod instrument;
pub(crate) mod limit;
pub(crate) mod signal;
pub(crate) mod subscription;
