//! The web console of pleach: see and steer a living system and its durable runs in the browser.
//!
//! | module | owns |
//! |---|---|
//! | `builder`, `handle` | the public face: [`Console`], its options; the running console |
//! | `server` | HTTP: connections, the guard, routes, answers |
//! | `stream` | live views: one endless answer for each browser |
//! | `viewer` | the answer of every view |
//! | `download` | views, values and incidents as files |
//! | `sources`, `home` | the processes and stores of a console; what is wrong in them |
//! | `process` | the source of a running process |
//! | `durable` | the source of a store with durable runs |
//! | `tree_runs` | links from members that drive runs to the stores |
//! | `view`, `limits` | what the page can ask for, its parameters and their limits |
//! | `orders` | actions: what will happen, whether it may happen, what happened |
//! | `redact` | what is hidden in everything that leaves the console |
//! | `action` | what the page can order, plans and outcomes |
//! | `problem` | what is wrong now, for the home page |
//! | `failure` | why a request failed, as the page shows it |
//! | [`report`] | reports about stored runs as JSON, as the command writes them |
//! | `rust_text` | names, literals and comments of the tests that the console writes |
//! | `source` | what the server needs of a process or a store |
//!
//! `docs/console-api.md` describes the interface between the page and this crate.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod action;
mod assets;
mod builder;
mod clock;
mod download;
mod durable;
mod error;
mod failure;
mod handle;
mod home;
mod limits;
mod orders;
mod problem;
mod process;
mod redact;
pub mod report;
mod rust_text;
mod server;
mod settings;
mod source;
mod sources;
mod stream;
mod tree_runs;
mod view;
mod viewer;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use builder::{Console, ConsoleBuilder};
pub use error::ConsoleError;
pub use failure::Failure;
pub use handle::ConsoleHandle;
pub use redact::Redaction;
pub use settings::Colour;
pub use view::{Filters, View};
