//! The tables of a file, and the migration from earlier formats.

use super::clock::{Clock, Now};
use super::{holders, read};
use crate::store::run_sum::NO_TIME;
use rusqlite::{Connection, params};

/// The format of the tables that this version writes, stored in the file's `user_version`.
///
/// - Format 2 added `run.sum`.
/// - Format 3 added `run.instance`, `run.trouble`, `run.deadline` and `run.holder`, and replaced
///   `lease_until` by `lease_end`, which uses another clock. The column has a new name so that a
///   process of an earlier version that still has the file open fails, instead of misreading leases
///   as expired.
/// - Format 4 added `run.tags`, `run.failure`, `inbox.refused` and the table `tag`, and indexes for
///   lists by time of creation.
/// - Format 5 added `inbox.cause`.
pub(super) const FORMAT: u32 = 5;

/// The table and the indexes that format 4 added. The key of a run, `no`, is the last column of
/// each index of `run`.
macro_rules! added_in_4 {
    () => {
        "
    CREATE TABLE tag (
        key TEXT NOT NULL, value TEXT NOT NULL, run_created INTEGER NOT NULL, run INTEGER NOT NULL REFERENCES run(no) ON DELETE CASCADE,
        PRIMARY KEY (key, value, run_created, run)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX tag_run ON tag (run);
    CREATE INDEX inbox_refused ON inbox (run, n) WHERE refused IS NOT NULL;
    CREATE INDEX run_created ON run (created);
    CREATE INDEX run_status ON run (status, created);
    CREATE INDEX run_graph ON run (graph, created);
    CREATE INDEX run_graph_status ON run (graph, status, created);
"
    };
}

/// - `run.lease_end` uses the lease clock; all other times are times of day. `run.wake_at` is
///   negative if the time had already come when it was written (see `clock`).
/// - `run.holder` is the store that holds the lease (see `holders`). It is NULL if the run has no
///   lease, or once the lease was found to be expired. In the second case `owner` and `lease_end`
///   stay, and the next claim is a takeover.
/// - `run.ended` equals `changed` for an ended run, and is NULL for any other.
/// - `run.tags` has all tags as JSON, so that reading a run reads one row. The table `tag` is the
///   index for lists by tag: its primary key has the order of lists.
///
/// A commit that only adds rows changes no index. (With an index over `status NOT IN (..)`, each
/// commit would create two temporary tables.)
pub(super) const TABLES: &str = concat!(
    "
    CREATE TABLE run (
        no INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, graph TEXT NOT NULL, fingerprint TEXT NOT NULL, schema INTEGER NOT NULL,
        status TEXT NOT NULL, epoch INTEGER NOT NULL, head INTEGER NOT NULL, oldest INTEGER NOT NULL, owner TEXT, lease_end INTEGER,
        wake_at INTEGER, takeovers INTEGER NOT NULL, posted INTEGER NOT NULL, from_run TEXT, from_seq INTEGER, created INTEGER NOT NULL,
        changed INTEGER NOT NULL, ended INTEGER, sum INTEGER NOT NULL DEFAULT 0, instance INTEGER NOT NULL DEFAULT 0, trouble TEXT,
        deadline INTEGER, holder TEXT, tags TEXT, failure TEXT
    ) STRICT;
    CREATE TABLE log (
        run INTEGER NOT NULL REFERENCES run(no) ON DELETE CASCADE, seq INTEGER NOT NULL, sum INTEGER NOT NULL, header BLOB NOT NULL,
        body BLOB NOT NULL, PRIMARY KEY (run, seq)
    ) STRICT;
    CREATE TABLE inbox (
        run INTEGER NOT NULL REFERENCES run(no) ON DELETE CASCADE, n INTEGER NOT NULL, at INTEGER NOT NULL, name TEXT NOT NULL, dedup TEXT,
        sum INTEGER NOT NULL, taken_seq INTEGER, payload BLOB NOT NULL, refused TEXT, cause TEXT, PRIMARY KEY (run, n), UNIQUE (run, dedup)
    ) STRICT;
    CREATE INDEX inbox_untaken ON inbox (run, n) WHERE taken_seq IS NULL;
    CREATE INDEX run_due ON run (graph, fingerprint, schema, wake_at) WHERE wake_at IS NOT NULL AND holder IS NULL;
    CREATE INDEX run_leased ON run (holder, lease_end) WHERE holder IS NOT NULL;
    CREATE INDEX run_ended ON run (ended) WHERE ended IS NOT NULL;
",
    added_in_4!()
);

const TO_2: &str = "ALTER TABLE run ADD COLUMN sum INTEGER NOT NULL DEFAULT 0";

const TO_3: &str = "
    DROP INDEX run_due;
    ALTER TABLE run RENAME COLUMN lease_until TO lease_end;
    ALTER TABLE run ADD COLUMN instance INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE run ADD COLUMN trouble TEXT;
    ALTER TABLE run ADD COLUMN deadline INTEGER;
    ALTER TABLE run ADD COLUMN holder TEXT;
    CREATE INDEX run_due ON run (graph, fingerprint, schema, wake_at) WHERE wake_at IS NOT NULL AND holder IS NULL;
    CREATE INDEX run_leased ON run (holder, lease_end) WHERE holder IS NOT NULL;
";

const TO_4: &str = concat!(
    "
    DROP INDEX run_status;
    ALTER TABLE run ADD COLUMN tags TEXT;
    ALTER TABLE run ADD COLUMN failure TEXT;
    ALTER TABLE inbox ADD COLUMN refused TEXT;
",
    added_in_4!()
);

const TO_5: &str = "ALTER TABLE inbox ADD COLUMN cause TEXT";

/// Migrates the tables of an earlier format to [`FORMAT`].
pub(super) fn migrate(db: &Connection, from: u32, clock: &Clock) -> rusqlite::Result<()> {
    let now = clock.now();
    if from < 2 {
        db.execute_batch(TO_2)?;
    }
    if from < 3 {
        db.execute_batch(TO_3)?;
        convert_leases(db, now, &holders::name_without_lock(clock.boot_id(), now))?;
    }
    if from < 4 {
        db.execute_batch(TO_4)?;
    }
    db.execute_batch(TO_5)?;
    if from < 2 { seal_runs(db, now) } else { Ok(()) }
}

/// Converts leases of earlier formats, which use the time of day. Their holders are unknown, so the
/// remaining time of each lease must pass.
fn convert_leases(db: &Connection, now: Now, holder: &str) -> rusqlite::Result<()> {
    // Damaged rows stay unchanged.
    let mut leases = db.prepare(
        "SELECT no, lease_end, sum FROM run WHERE owner IS NOT NULL AND typeof(lease_end) = 'integer' AND typeof(sum) = 'integer'",
    )?;
    let leases = leases.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let leases: Vec<(i64, i64, i64)> = leases.collect::<rusqlite::Result<_>>()?;
    let mut convert = db.prepare("UPDATE run SET lease_end = ?2, holder = ?3, sum = ?4 WHERE no = ?1")?;
    for (run, until, sum) in leases {
        let left = until.saturating_sub(now.wall.as_millis()).max(0);
        let lease_end = now.lease.saturating_add(left);
        convert.execute(params![run, lease_end, holder, sum ^ until ^ lease_end])?;
    }
    Ok(())
}

/// Adds the checksums that format 1 did not have.
fn seal_runs(db: &Connection, now: Now) -> rusqlite::Result<()> {
    let mut statement = db.prepare("UPDATE run SET sum = ?2 WHERE no = ?1")?;
    read::sums(db, now)?.into_iter().try_for_each(|(run, sum)| statement.execute([run, sum]).map(drop))
}

/// Returns the value of a stored time in the checksum of its row.
pub(super) fn sum_value(time: Option<i64>) -> i64 {
    time.unwrap_or(NO_TIME)
}
