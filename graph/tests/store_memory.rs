//! `MemoryStore` is a store.
#![cfg(feature = "conformance")]

use pleach_graph::store::{MemoryStore, Store, conformance};
use std::sync::Arc;

#[test]
fn c11_the_memory_store_conforms() {
    pleach_core::block_on(conformance::check_all(async || Arc::new(MemoryStore::new()) as Arc<dyn Store>));
}
