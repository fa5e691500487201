//! Fills a store with ended runs: copies of one real run, written straight into the tables.
//!
//! A copy has its own id, key, time of creation and checksums, so the store reads it like any other
//! run. The rows are inserted in the order of creation, as a program would.

use pleach::store::{Parts, Rows, Store};
use rusqlite::params;
use tokio_postgres::Client;

/// The run that is copied, and the prefix of the copies.
pub const ORIGINAL: &str = "ended-0";

/// The time between the creation of two copies.
const APART_MILLIS: i64 = 20;

/// Copies that are inserted by one statement.
const CHUNK: u64 = 20_000;

/// What differs between the original and its copies.
pub struct Original {
    created: i64,
    /// The sequence numbers and headers of its records.
    headers: Vec<(i64, Vec<u8>)>,
    /// The part of the checksum of its row that its id decides, and its time of creation.
    own_sum: i64,
    texts: [Vec<u8>; 5],
}

/// One copy.
struct Copy {
    id: String,
    created: i64,
    /// What the checksum of the row changes by.
    sum_change: i64,
}

impl Original {
    /// Reads the run that is copied.
    pub async fn read(store: &impl Store) -> Self {
        let info = store.head(ORIGINAL).await.expect("the original run");
        let rows = store.read(ORIGINAL, Rows::Range(1..=info.head), Parts::Whole).await.expect("its records");
        let headers = rows.into_iter().map(|row| (row.sequence as i64, row.header)).collect();
        let (graph, print) = (info.graph.into_bytes(), info.version.fingerprint.into_bytes());
        let texts = [graph, print, info.version.schema.to_le_bytes().to_vec(), Vec::new(), 0_u64.to_le_bytes().to_vec()];
        let created = info.created.as_millis();
        let original = Self { created, headers, own_sum: 0, texts };
        Self { own_sum: original.sum(ORIGINAL, created), ..original }
    }

    /// The part of the checksum of a run's row that its id and its time of creation decide.
    fn sum(&self, id: &str, created: i64) -> i64 {
        let parts: Vec<&[u8]> = [id.as_bytes()].into_iter().chain(self.texts.iter().map(Vec::as_slice)).collect();
        (i64::from(sum_of(&parts)) << 31) ^ created
    }

    /// The copy with this number, of `runs`. The last one was created just before the original.
    fn copy(&self, number: u64, runs: u64) -> Copy {
        let id = format!("ended-{number}");
        let created = self.created - (runs - number) as i64 * APART_MILLIS;
        let sum_change = self.own_sum ^ self.sum(&id, created);
        Copy { id, created, sum_change }
    }

    /// The checksum of a record of a copy.
    fn sum_of_record(id: &str, sequence: i64, header: &[u8]) -> i64 {
        i64::from(sum_of(&[id.as_bytes(), &sequence.to_le_bytes(), header]))
    }
}

/// The checksum of parts, as the stores compute it.
fn sum_of(parts: &[&[u8]]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    for part in parts {
        sum.update(&(part.len() as u64).to_le_bytes());
        sum.update(part);
    }
    sum.finalize()
}

/// Fills a SQLite file that no store has open.
pub fn sqlite(file: &std::path::Path, original: &Original, runs: u64) {
    let db = rusqlite::Connection::open(file).expect("the file of a store");
    db.execute_batch("PRAGMA synchronous = OFF; PRAGMA cache_size = -500000; BEGIN").expect("a transaction");
    let run = "INSERT INTO run (id, graph, fingerprint, schema, status, epoch, head, oldest, owner, lease_end, wake_at, takeovers, posted,
            created, changed, ended, sum, instance, trouble, deadline, holder, tags, failure)
        SELECT ?2, graph, fingerprint, schema, status, epoch, head, oldest, owner, lease_end, wake_at, takeovers, posted,
            ?3, ?3, ?3, (sum | ?4) - (sum & ?4), instance, trouble, deadline, holder, tags, failure FROM run WHERE id = ?1";
    let mut run = db.prepare(run).expect("a statement");
    let log =
        "INSERT INTO log SELECT ?2, seq, ?3, header, body FROM log WHERE run = (SELECT no FROM run WHERE id = ?1) AND seq = ?4";
    let mut log = db.prepare(log).expect("a statement");
    let tag = "INSERT INTO tag SELECT key, value, ?3, ?2 FROM tag WHERE run = (SELECT no FROM run WHERE id = ?1)";
    let mut tag = db.prepare(tag).expect("a statement");
    for number in 1..=runs {
        let Copy { id, created, sum_change } = original.copy(number, runs);
        run.execute(params![ORIGINAL, id, created, sum_change]).expect("a run");
        let key = db.last_insert_rowid();
        for (sequence, header) in &original.headers {
            let sum = Original::sum_of_record(&id, *sequence, header);
            log.execute(params![ORIGINAL, key, sum, sequence]).expect("a record");
        }
        tag.execute(params![ORIGINAL, key, created]).expect("a tag");
    }
    drop((run, log, tag));
    db.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)").expect("a checkpoint");
}

/// Fills a database with the tables of a store.
pub async fn postgres(client: &Client, original: &Original, runs: u64) {
    let first: i64 = client.query_one("SELECT max(no) + 1 FROM pleach_run", &[]).await.expect("a key").get(0);
    let run = "INSERT INTO pleach_run (no, id, graph, fingerprint, schema, status, epoch, head, oldest, owner, lease_until, wake_at,
            takeovers, posted, created, changed, ended_at, sum, instance, tags) OVERRIDING SYSTEM VALUE
        SELECT n.no, n.id, graph, fingerprint, schema, status, epoch, head, oldest, owner, lease_until, wake_at, takeovers, posted,
            n.created, n.created, n.created, o.sum # n.sum, instance, tags
        FROM pleach_run o, unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[]) AS n (no, id, created, sum) WHERE o.id = 'ended-0'";
    let log = "INSERT INTO pleach_log (run, seq, sum, header, body) SELECT n.run, n.seq, n.sum, header, body
        FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS n (run, seq, sum)
        JOIN pleach_log o ON o.seq = n.seq AND o.run = (SELECT no FROM pleach_run WHERE id = 'ended-0')";
    let tag = "INSERT INTO pleach_tag SELECT key, value, n.created, n.run
        FROM pleach_tag o, unnest($1::bigint[], $2::bigint[]) AS n (run, created)
        WHERE o.run = (SELECT no FROM pleach_run WHERE id = 'ended-0')";
    let mut number = 0;
    while number < runs {
        let copies: Vec<Copy> = (number + 1..=runs.min(number + CHUNK)).map(|number| original.copy(number, runs)).collect();
        let keys: Vec<i64> = (0..copies.len() as i64).map(|at| first + number as i64 + at).collect();
        let ids: Vec<&str> = copies.iter().map(|copy| copy.id.as_str()).collect();
        let created: Vec<i64> = copies.iter().map(|copy| copy.created).collect();
        let sums: Vec<i64> = copies.iter().map(|copy| copy.sum_change).collect();
        client.execute(run, &[&keys, &ids, &created, &sums]).await.expect("runs");
        let (mut runs_of, mut sequences, mut record_sums) = (Vec::new(), Vec::new(), Vec::new());
        for (key, copy) in keys.iter().zip(&copies) {
            for (sequence, header) in &original.headers {
                runs_of.push(*key);
                sequences.push(*sequence);
                record_sums.push(Original::sum_of_record(&copy.id, *sequence, header));
            }
        }
        client.execute(log, &[&runs_of, &sequences, &record_sums]).await.expect("records");
        client.execute(tag, &[&keys, &created]).await.expect("tags");
        number += copies.len() as u64;
    }
    let next = "SELECT setval(pg_get_serial_sequence('pleach_run', 'no'), (SELECT max(no) FROM pleach_run))";
    client.query_one(next, &[]).await.expect("the next key");
    client.batch_execute("VACUUM ANALYZE").await.expect("a vacuum");
}
