//! Waits: asks, sends and wakers that wait for each other, and that none of them waits for ever.

#[path = "../common/mod.rs"]
mod common;

mod ending_circles;
mod hostile_wakers;
mod net;
mod send_cycles;
mod send_cycles_groups;
mod sends;
mod waits;
