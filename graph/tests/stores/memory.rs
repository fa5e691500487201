//! C9, C11: `MemoryStore` conforms to the store contract and stays fast.
#![cfg(feature = "conformance")]

use crate::common::{create_held, row};
use pleach_core::block_on;
use pleach_graph::store::{Commit, MemoryStore, NewMessage, Prune, Store, conformance};
use std::sync::Arc;
use std::time::Instant;

#[test]
fn c11_memory_store_conforms() {
    block_on(conformance::check_all(async || Arc::new(MemoryStore::new()) as Arc<dyn Store>));
}

#[test]
fn c11_pruning_a_long_log_is_faster_than_writing_it() {
    let rows = 200_000;
    block_on(async {
        let store = MemoryStore::new();
        create_held(&store, "r").await;
        let began = Instant::now();
        for first in (2..rows).step_by(1_000) {
            let commit = (first..(first + 1_000).min(rows + 1)).map(|sequence| row("r", sequence, 1, b"{}")).collect();
            store.commit(Commit::new(crate::common::holding("r", 1), commit)).await.unwrap();
        }
        let written = began.elapsed();
        let (held, keep) = (crate::common::holding("r", 1), (1..rows).step_by(2).collect());
        let began = Instant::now();
        assert_eq!(store.prune(Prune::Rows { held, before: rows, keep }).await.unwrap(), rows / 2 - 1);
        assert!(began.elapsed() < written, "{:?} after {written:?}", began.elapsed());
    });
}

/// Dedup texts are kept as long as the run exists. The last one must not cost more than the first.
#[test]
fn c9_many_dedup_texts_do_not_slow_posts_down() {
    block_on(async {
        let store = MemoryStore::new();
        let mut claim = create_held(&store, "r").await;
        let (mut times, began) = (Vec::new(), Instant::now());
        for number in 1..=20_000_u64 {
            let post = || NewMessage::seal("r", "signal/go", Some(format!("dedup {number}")), b"1".to_vec());
            assert_eq!(store.send_message("r", post()).await.unwrap(), number);
            store.commit(Commit { takes: vec![number], ..crate::common::next(&claim, b"{}") }).await.unwrap();
            claim.run.head += 1;
            if number % 100 == 0 {
                let (held, before) = (crate::common::holding("r", 1), claim.run.head);
                store.prune(Prune::Rows { held, before, keep: vec![] }).await.unwrap();
                assert_eq!(store.send_message("r", post()).await.unwrap(), number, "it is known after pruning");
            }
            if number % 5_000 == 0 {
                times.push(began.elapsed());
            }
        }
        let (first, last) = (times[0], times[3] - times[2]);
        assert!(last < first * 3, "the first 5,000 took {first:?}, the last {last:?}");
    });
}
