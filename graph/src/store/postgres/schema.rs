//! The tables, and how a database gets them.

use crate::store::StoreError;
use deadpool_postgres::Object;

/// The format of the tables that this version writes, in `pleach_format`.
const FORMAT: u32 = 1;

/// Only one process at a time makes tables.
const LOCK: &str = "SELECT pg_advisory_xact_lock(8100126734)";

/// A look into the catalogue itself: a name that was looked up in vain is remembered as missing, also while waiting for the lock.
const EXISTS: &str =
    "SELECT EXISTS (SELECT FROM pg_catalog.pg_class WHERE relname = 'pleach_format' AND pg_catalog.pg_table_is_visible(oid))";

/// `changed` is in no index, so that a commit that only adds rows leaves all indexes alone; hence `ended_at` for what retention looks for.
const TABLES: &str = "
    CREATE TABLE pleach_run (
        no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text COLLATE \"C\" NOT NULL UNIQUE, graph text COLLATE \"C\" NOT NULL,
        fingerprint text COLLATE \"C\" NOT NULL, schema bigint NOT NULL, status text NOT NULL, epoch bigint NOT NULL, head bigint NOT NULL,
        oldest bigint NOT NULL, owner text COLLATE \"C\", lease_until bigint, wake_at bigint, takeovers bigint NOT NULL,
        posted bigint NOT NULL, from_run text, from_seq bigint, created bigint NOT NULL, changed bigint NOT NULL, ended_at bigint
    ) WITH (fillfactor = 70);
    CREATE TABLE pleach_log (
        run bigint NOT NULL REFERENCES pleach_run (no) ON DELETE CASCADE, seq bigint NOT NULL, sum bigint NOT NULL, header bytea NOT NULL,
        body bytea NOT NULL, PRIMARY KEY (run, seq)
    );
    CREATE TABLE pleach_inbox (
        run bigint NOT NULL REFERENCES pleach_run (no) ON DELETE CASCADE, n bigint NOT NULL, at bigint NOT NULL, name text NOT NULL,
        dedup text COLLATE \"C\", sum bigint NOT NULL, taken_seq bigint, payload bytea NOT NULL, PRIMARY KEY (run, n), UNIQUE (run, dedup)
    );
    CREATE INDEX pleach_inbox_untaken ON pleach_inbox (run, n) WHERE taken_seq IS NULL;
    CREATE INDEX pleach_run_due ON pleach_run (graph, fingerprint, GREATEST(wake_at, lease_until)) WHERE wake_at IS NOT NULL;
    CREATE INDEX pleach_run_ended ON pleach_run (ended_at) WHERE ended_at IS NOT NULL;
    CREATE TABLE pleach_format (format bigint NOT NULL);
    INSERT INTO pleach_format VALUES (1);
";

/// Makes the tables if they are not there; refuses those of a later version.
pub(super) async fn prepare(client: &mut Object) -> Result<(), StoreError> {
    if let Some(format) = format(client).await? {
        return check(format);
    }
    let transaction = client.transaction().await.map_err(StoreError::unavailable)?;
    transaction.batch_execute(LOCK).await.map_err(StoreError::unavailable)?;
    // Another process may have made them meanwhile.
    match format(&transaction).await? {
        Some(format) => check(format),
        None => {
            transaction.batch_execute(TABLES).await.map_err(StoreError::unavailable)?;
            transaction.commit().await.map_err(StoreError::unavailable)
        }
    }
}

async fn format(client: &impl deadpool_postgres::GenericClient) -> Result<Option<i64>, StoreError> {
    let exists = client.query_one(EXISTS, &[]).await.map_err(StoreError::unavailable)?;
    if !exists.get::<_, bool>(0) {
        return Ok(None);
    }
    let row = client.query_one("SELECT max(format) FROM pleach_format", &[]).await.map_err(StoreError::unavailable)?;
    Ok(Some(row.get::<_, Option<i64>>(0).unwrap_or(0)))
}

fn check(format: i64) -> Result<(), StoreError> {
    match u32::try_from(format) {
        Ok(FORMAT) => Ok(()),
        Ok(format) if format > FORMAT => Err(StoreError::Future { what: "the database".into(), format, known: FORMAT }),
        _ => {
            let why = format!("its table pleach_format says {format}, which no version has written");
            Err(StoreError::Unusable { store: "in this database".into(), why })
        }
    }
}
