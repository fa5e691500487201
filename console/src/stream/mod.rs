//! Live views: one endless answer for each browser.
//!
//! | file | owns |
//! |---|---|
//! | `board` | which stream watches what, and the newest reading of each view; no time, no I/O |
//! | `hub` | the tasks: one for each watched view, one for each stream |
//! | `pace` | when a stream may send |
//!
//! Invariants:
//! 1. A view is looked at only while a stream watches it, by one task, however many streams do.
//! 2. A stream holds no frames back: a frame is made when the reader has taken the one before.
//! 3. A line is sent only if its content changed since the stream's last line for this key.

mod board;
mod hub;
mod pace;

pub(crate) use hub::{Hub, Look};

#[cfg(test)]
mod tests;
