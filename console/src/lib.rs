//! The web console of pleach: see and steer a living system and its durable runs in the browser.
//!
//! | module | owns |
//! |---|---|
//! | `view` | what the page can ask for, and its parameters |
//! | `action` | what the page can order, plans and outcomes |
//! | `problem` | what is wrong now, for the home page |
//! | `failure` | why a request failed, as the page shows it |
//! | [`report`] | reports about stored runs as JSON, as the command writes them |
//! | `source` | what the server needs of a process or a store |
//!
//! `docs/console-api.md` describes the interface between the page and this crate.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod action;
mod failure;
mod problem;
pub mod report;
mod source;
mod view;

pub use failure::Failure;
pub use view::{Filters, View};
