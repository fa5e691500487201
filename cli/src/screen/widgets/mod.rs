//! Parts of views. Graphs are texts that fit into any line; the others paint an area.
//!
//! | file | has |
//! |---|---|
//! | `graphs` | [`mailbox_bar`], [`sparkline`] |
//! | `panel` | [`panel`]: a frame with a title; [`dialog`]: one in the middle of the screen |
//! | `footer` | [`Hint`] and [`footer`]: the keys that work here |
//! | `help` | [`Help`]: all keys, on `?` |
//! | `confirm` | [`Confirm`]: a question that names the consequence |
//! | `prompt` | [`Prompt`]: a line of text that is being typed |

mod confirm;
mod footer;
mod graphs;
mod help;
mod panel;
mod prompt;

pub use confirm::{Answer, Confirm};
pub use footer::{Hint, footer};
pub use graphs::{mailbox_bar, sparkline};
pub use help::{Help, HelpSection};
pub use panel::{dialog, panel};
pub use prompt::{Prompt, Typed};
