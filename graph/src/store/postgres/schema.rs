//! The tables, and how a database gets them.

use super::{Failure, write};
use crate::store::StoreError;
use deadpool_postgres::Object;

/// The format of the tables that this version writes, in `pleach_format`.
///
/// 1: as it began. 2: `pleach_run.sum`.
const FORMAT: u32 = 2;

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
        posted bigint NOT NULL, from_run text, from_seq bigint, created bigint NOT NULL, changed bigint NOT NULL, ended_at bigint,
        sum bigint NOT NULL DEFAULT 0
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
    INSERT INTO pleach_format VALUES (2);
";

/// From format 1 to 2. Nobody writes to the table until the runs in it have their checksums.
const ADD_SUMS: &str = "ALTER TABLE pleach_run ADD COLUMN sum bigint NOT NULL DEFAULT 0; UPDATE pleach_format SET format = 2";

/// Makes the tables if they are not there, or what an earlier version had not; refuses those of a later version.
pub(super) async fn prepare(client: &mut Object) -> Result<(), Failure> {
    if check(format(client).await?)? == FORMAT {
        return Ok(());
    }
    let transaction = client.transaction().await?;
    transaction.batch_execute(LOCK).await?;
    // Another process may have done it meanwhile.
    match check(format(&transaction).await?)? {
        0 => transaction.batch_execute(TABLES).await?,
        1 => {
            transaction.batch_execute(ADD_SUMS).await?;
            write::seal_runs(&transaction).await?;
        }
        _ => return Ok(()),
    }
    Ok(transaction.commit().await?)
}

async fn format(client: &impl deadpool_postgres::GenericClient) -> Result<Option<i64>, Failure> {
    let exists = client.query_one(EXISTS, &[]).await?;
    if !exists.get::<_, bool>(0) {
        return Ok(None);
    }
    let row = client.query_one("SELECT max(format) FROM pleach_format", &[]).await?;
    Ok(Some(row.get::<_, Option<i64>>(0).unwrap_or(0)))
}

/// The format, if this version knows it; 0 if there are no tables.
fn check(format: Option<i64>) -> Result<u32, StoreError> {
    let Some(format) = format else { return Ok(0) };
    match u32::try_from(format) {
        Ok(format) if (1..=FORMAT).contains(&format) => Ok(format),
        Ok(format) if format > FORMAT => Err(StoreError::Future { what: "the database".into(), format, known: FORMAT }),
        _ => {
            let why = format!("its table pleach_format says {format}, which no version has written");
            Err(StoreError::Unusable { store: "in this database".into(), why })
        }
    }
}
