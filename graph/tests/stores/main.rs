//! The memory and the SQLite store: conformance, and files that are damaged, full, shared, or hit
//! by a power cut.

#[path = "../common/mod.rs"]
mod common;
#[cfg(all(feature = "sqlite", target_os = "linux"))]
#[path = "../disk/mod.rs"]
mod disk;

mod damage;
mod faults;
mod memory;
mod power;
mod row;
mod sqlite;
mod sqlite_columns;
mod sqlite_corrupt_page;
mod sqlite_damage;
mod sqlite_existing;
mod sqlite_holders;
mod sqlite_limits;
mod sqlite_open;
mod sqlite_stray;
mod sqlite_tags;
mod worker;
