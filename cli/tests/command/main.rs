//! Drives the real command on SQLite files and on PostgreSQL. `cargo xtask postgres cargo test -p
//! pleach-cli` starts a server.

mod check;
mod console;
mod demo;
mod demo_screen;
mod doctor;
mod fixture;
mod golden;
mod graphs;
mod live;
mod live_events;
mod live_golden;
mod live_sockets;
mod live_why;
mod manners;
mod process;
mod reading;
mod screen;
mod shop;
mod steering;
mod stores;
mod tail;
mod terminal;
mod top;
mod top_pictures;
mod top_terminal;
mod why;
mod writing;
