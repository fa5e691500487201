//! `Store` in PostgreSQL: what every store does, and servers and connections that fail, freeze, block or refuse.
#![cfg(feature = "postgres")]

#[path = "../common/mod.rs"]
mod common;

mod busy_rows;
mod columns;
mod conformance;
mod connections;
mod corrupt_data;
mod damage;
mod faults;
mod listener;
mod locks;
mod login;
mod plans;
mod upgrade;
mod worker;
