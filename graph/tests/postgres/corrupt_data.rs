//! C10: corrupt data that the server reports while it reads one run. `cargo xtask test` starts a
//! server.
#![cfg(all(feature = "conformance", feature = "postgres"))]

use crate::common::postgres::{connect, fresh_schema, store};
use crate::common::{create_held, next, queued, row};
use pleach_graph::store::{NewMessage, Parts, Rows, Store, StoreError};

/// Reading records and messages of run `bad` fails like a missing TOAST chunk.
const CORRUPT: &str = "
    CREATE FUNCTION broken(what bytea) RETURNS bytea LANGUAGE plpgsql VOLATILE AS
        $$ BEGIN RAISE EXCEPTION 'missing chunk number 0 for toast value 1' USING ERRCODE = '{code}'; END $$;
    ALTER TABLE pleach_log RENAME TO sound_log;
    CREATE VIEW pleach_log AS SELECT run, seq, sum, header,
        CASE WHEN run = (SELECT no FROM pleach_run WHERE id = 'bad') THEN broken(body) ELSE body END AS body FROM sound_log;
    ALTER TABLE pleach_inbox RENAME TO sound_inbox;
    CREATE VIEW pleach_inbox AS SELECT run, n, at, name, dedup, sum, taken_seq,
        CASE WHEN run = (SELECT no FROM pleach_run WHERE id = 'bad') THEN broken(payload) ELSE payload END AS payload FROM sound_inbox";

#[tokio::test]
async fn c10_corrupt_data_of_one_run_is_damage_to_that_run() {
    for code in ["XX001", "XX002"] {
        let url = fresh_schema().await;
        let store = store(&url).await;
        create_held(&store, "bad").await;
        store.create(queued("good"), vec![row("good", 1, 1, b"{}")]).await.unwrap();
        for id in ["bad", "good"] {
            store.send_message(id, NewMessage::seal(id, "signal/go", None, vec![])).await.unwrap();
        }
        connect(&url).await.batch_execute(&CORRUPT.replace("{code}", code)).await.unwrap();
        let read = async |id| store.read(id, Rows::Each(vec![1]), Parts::Whole).await.map(drop);
        for failed in [read("bad").await, store.inbox("bad", 0).await.map(drop)] {
            assert!(matches!(&failed, Err(StoreError::Damaged { run, .. }) if run == "bad"), "{code}: {failed:?}");
        }
        read("good").await.unwrap();
        assert_eq!(store.inbox("good", 0).await.unwrap().len(), 1);
    }
}

/// Writing records and messages fails like a corrupt index, which all runs share.
const CORRUPT_INDEX: &str = "
    CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'index contains unexpected zero page' USING ERRCODE = 'XX002'; END $$;
    CREATE TRIGGER broken BEFORE INSERT ON pleach_log FOR EACH ROW EXECUTE FUNCTION broken();
    CREATE TRIGGER broken BEFORE INSERT ON pleach_inbox FOR EACH ROW EXECUTE FUNCTION broken();";

#[tokio::test]
async fn c10_corrupt_index_is_not_damage_to_a_run() {
    let url = fresh_schema().await;
    let store = store(&url).await;
    let claim = create_held(&store, "good").await;
    connect(&url).await.batch_execute(CORRUPT_INDEX).await.unwrap();
    let committed = store.commit(next(&claim, b"{}")).await.map(drop);
    let posted = store.send_message("good", NewMessage::seal("good", "signal/go", None, vec![])).await.map(drop);
    for failed in [committed, posted] {
        assert!(matches!(&failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    }
}
