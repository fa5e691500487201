//! The PostgreSQL store: conformance, and servers and connections that fail, freeze, block or
//! reject.
#![cfg(feature = "postgres")]

#[path = "../common/mod.rs"]
mod common;

mod batches;
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
