//! pleach on the executors of Embassy: its std platform, in mock time.

mod common;
mod driving;
mod feeding;
mod starting;
