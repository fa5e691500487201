//! `MemoryStore` is a store.
#![cfg(feature = "conformance")]

mod common;

use common::{create_held, row};
use pleach_core::block_on;
use pleach_graph::store::{Commit, MemoryStore, Prune, Store, conformance};
use std::sync::Arc;
use std::time::Instant;

#[test]
fn c11_the_memory_store_conforms() {
    block_on(conformance::check_all(async || Arc::new(MemoryStore::new()) as Arc<dyn Store>));
}

#[test]
fn c11_a_long_log_of_which_much_is_kept_is_pruned_sooner_than_it_was_written() {
    let rows = 200_000;
    block_on(async {
        let store = MemoryStore::new();
        create_held(&store, "r").await;
        let began = Instant::now();
        for first in (2..rows).step_by(1_000) {
            let commit = (first..(first + 1_000).min(rows + 1)).map(|sequence| row("r", sequence, 1, b"{}")).collect();
            store.commit(Commit::new(common::holding("r", 1), commit)).await.unwrap();
        }
        let written = began.elapsed();
        let (held, keep) = (common::holding("r", 1), (1..rows).step_by(2).collect());
        let began = Instant::now();
        assert_eq!(store.prune(Prune::Rows { held, before: rows, keep }).await.unwrap(), rows / 2 - 1);
        assert!(began.elapsed() < written, "{:?} after {written:?}", began.elapsed());
    });
}
