//! O7: every list of a SQLite store uses an index, and its work does not grow with the store.

use super::clock::Clock;
use super::list::{list, statement};
use super::read::UNTAKEN;
use super::schema::TABLES;
use crate::store::query::Query;
use crate::store::run_info::{Filter, RunCursor, RunInfo, RunStatus};
use crate::store::time::Timestamp;
use crate::store::{GraphVersion, LIST_EXAMINED_MAX, Tags};
use rusqlite::{Connection, StatementStatus, params, params_from_iter};

/// The steps of the plan for a page after the first.
fn plan(db: &Connection, filters: Vec<Filter>) -> Vec<String> {
    let query = Query::new(filters).unwrap();
    let after = RunCursor { created: Timestamp::from_millis(5), number: 3 };
    let (text, values) = statement(&query, query.before(Some(after)));
    let mut explained = db.prepare(&format!("EXPLAIN QUERY PLAN {text}")).unwrap();
    let steps = explained.query_map(params_from_iter(values), |row| row.get(3)).unwrap();
    steps.collect::<rusqlite::Result<_>>().unwrap()
}

#[test]
fn o7_every_list_uses_an_index_and_sorts_nothing() {
    let db = Connection::open_in_memory().unwrap();
    db.execute_batch(TABLES).unwrap();
    let (status, graph) = (Filter::Status(RunStatus::Stuck), Filter::Graph("g".into()));
    let (tag, since) = (Filter::tag("k", "v"), Filter::CreatedSince(Timestamp::from_millis(1)));
    let cases = [
        (vec![], "SEARCH run USING INDEX run_created (created<?)"),
        (vec![since.clone()], "SEARCH run USING INDEX run_created (created>? AND created<?)"),
        (vec![status.clone()], "SEARCH run USING INDEX run_status (status=? AND created<?)"),
        (vec![graph.clone()], "SEARCH run USING INDEX run_graph (graph=? AND created<?)"),
        (vec![status.clone(), graph.clone()], "SEARCH run USING INDEX run_graph_status (graph=? AND status=? AND created<?)"),
        (vec![tag.clone()], "SEARCH tag USING PRIMARY KEY (key=? AND value=? AND run_created<?)"),
        (
            vec![tag, status, graph, since],
            "SEARCH tag USING PRIMARY KEY (key=? AND value=? AND run_created>? AND run_created<?)",
        ),
    ];
    for (filters, first) in cases {
        let steps = plan(&db, filters.clone());
        assert_eq!(steps[0], first, "{filters:?}: {steps:?}");
        assert!(
            steps[1..].iter().all(|step| step == "SEARCH run USING INTEGER PRIMARY KEY (rowid=?)"),
            "{filters:?}: {steps:?}"
        );
    }
    let mut explained = db.prepare(&format!("EXPLAIN QUERY PLAN {}", super::list::OF_PREFIX)).unwrap();
    let step: String = explained.query_row(params!["a", "b", 9], |row| row.get(3)).unwrap();
    assert!(step.starts_with("SEARCH run USING INDEX sqlite_autoindex_run_1 (id>? AND id<?)"), "{step}");
}

/// A database with `ended` ended runs, and five newer and five older runs of a rare kind among
/// them.
fn filled(ended: i64) -> Connection {
    let db = Connection::open_in_memory().unwrap();
    db.execute_batch(TABLES).unwrap();
    fill(&db, ended);
    db
}

/// Inserts the runs of [`filled`].
pub(super) fn fill(db: &Connection, ended: i64) {
    let insert =
        "INSERT INTO run (no, id, graph, fingerprint, schema, status, epoch, head, oldest, takeovers, posted, created, changed,
        tags, sum) VALUES (?1, ?2, ?3, 'print', 1, ?4, 1, 1, 1, 0, 0, ?1, ?1, ?5, ?6)";
    let mut insert = db.prepare(insert).unwrap();
    let mut tag = db.prepare("INSERT INTO tag (key, value, run_created, run) VALUES ('kind', ?1, ?2, ?2)").unwrap();
    for no in 1..=ended + 10 {
        let is_rare = no <= 5 || no > ended + 5;
        let kind = if is_rare { "rare" } else { "usual" };
        let status = if is_rare { RunStatus::Waiting } else { RunStatus::Finished };
        let mut tags = Tags::default();
        tags.set("kind", kind).unwrap();
        let info = RunInfo {
            id: format!("{kind}-{no}"),
            graph: kind.into(),
            version: GraphVersion { fingerprint: "print".into(), schema: 1 },
            instance: 0,
            status,
            epoch: 1,
            head: 1,
            oldest: 1,
            owner: None,
            lease_until: None,
            wake_at: None,
            takeovers: 0,
            trouble: None,
            deadline: None,
            last_message: 0,
            from: None,
            created: Timestamp::from_millis(no),
            changed: Timestamp::from_millis(no),
            tags,
            failure: None,
        };
        insert.execute(params![no, info.id, info.graph, status.as_str(), info.tags.stored(), info.sum()]).unwrap();
        tag.execute(params![kind, no]).unwrap();
    }
}

/// The number of instructions of SQLite's machine that a page of this list takes.
fn work(db: &Connection, filters: Vec<Filter>, expected: usize) -> i32 {
    db.flush_prepared_statement_cache();
    let found = list(db, Clock::system().now(), filters.clone(), None, 10).unwrap().unwrap();
    assert_eq!((found.runs.len(), found.damaged), (expected, vec![]), "{filters:?}");
    let query = Query::new(filters).unwrap();
    let text = match query.ids() {
        Some(_) => super::list::OF_PREFIX.to_string(),
        None => statement(&query, query.before(None)).0,
    };
    let statement = db.prepare_cached(&text).unwrap();
    statement.get_status(StatementStatus::VmStep)
}

#[test]
fn o7_work_of_a_list_does_not_grow_with_ended_runs() {
    let time = Timestamp::from_millis;
    let (status, graph, tag) = (Filter::Status(RunStatus::Waiting), Filter::Graph("rare".into()), Filter::tag("kind", "rare"));
    let sizes = [1_000, 20_000];
    let stores = sizes.map(filled);
    let cases = |ended: i64| {
        vec![
            (vec![], 10),
            (vec![status.clone()], 10),
            (vec![graph.clone()], 10),
            (vec![status.clone(), graph.clone()], 10),
            (vec![tag.clone()], 10),
            (vec![tag.clone(), status.clone(), Filter::ChangedSince(time(ended))], 5),
            (vec![Filter::IdPrefix("rare-".into())], 10),
            (vec![Filter::CreatedSince(time(ended + 6))], 5),
            (vec![Filter::CreatedBefore(time(6))], 5),
            (vec![tag.clone(), Filter::CreatedBefore(time(6))], 5),
            (vec![Filter::Status(RunStatus::Finished)], 10),
            (vec![Filter::tag("kind", "usual")], 10),
        ]
    };
    let steps = |number: usize| -> Vec<i32> {
        cases(sizes[number]).into_iter().map(|(filters, expected)| work(&stores[number], filters, expected)).collect()
    };
    let (few, many) = (steps(0), steps(1));
    for (number, (few, many)) in few.iter().zip(&many).enumerate() {
        assert!(*few > 0 && f64::from(*many) <= f64::from(*few) * 1.2, "case {number}: {few} steps, then {many}");
    }
}

#[test]
fn o7_runs_of_the_same_millisecond_are_listed_by_number() {
    let db = filled(20);
    let same_time = "UPDATE run SET sum = (sum | created) - (sum & created), created = 7;
        UPDATE run SET sum = (sum | created) - (sum & created);
        UPDATE tag SET run_created = 7;";
    db.execute_batch(same_time).unwrap();
    for filters in [vec![], vec![Filter::tag("kind", "usual")], vec![Filter::Graph("usual".into())]] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = list(&db, Clock::system().now(), filters.clone(), after, 3).unwrap().unwrap();
            assert_eq!(page.damaged, []);
            seen.extend(page.runs.into_iter().map(|run| run.id.split_once('-').unwrap().1.parse::<i64>().unwrap()));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let expected: Vec<i64> = if filters.is_empty() { (1..=30).rev().collect() } else { (6..=25).rev().collect() };
        assert_eq!(seen, expected, "{filters:?}");
    }
}

#[test]
fn o7_one_call_examines_a_limited_number_of_runs() {
    let db = filled(LIST_EXAMINED_MAX as i64 + 500);
    let page = |filters: &[Filter], after| list(&db, Clock::system().now(), filters.to_vec(), after, 10).unwrap().unwrap();
    // No index has the time of the last change: the old runs are behind many others.
    let old = [Filter::ChangedBefore(Timestamp::from_millis(6))];
    let first = page(&old, None);
    assert!(first.runs.is_empty() && first.next.is_some(), "the page ends at the limit: {:?}", first.next);
    let second = page(&old, first.next);
    assert_eq!((second.runs.len(), second.next), (5, None));
    // A frequent prefix is a condition, and the order stays.
    let frequent = [Filter::IdPrefix("usual-".into()), Filter::CreatedBefore(Timestamp::from_millis(100))];
    let found: Vec<String> = page(&frequent, None).runs.into_iter().map(|run| run.id).collect();
    assert_eq!(found, (90..100).rev().map(|no| format!("usual-{no}")).collect::<Vec<_>>());
}

#[test]
fn o9_work_of_a_look_at_a_message_does_not_grow_with_the_inbox() {
    let work = |messages: i64| {
        let db = filled(20);
        let fill = format!(
            "WITH RECURSIVE message(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM message WHERE n < {messages})
            INSERT INTO inbox (run, n, at, name, sum, payload) SELECT 1, n, 1, 'signal/go', 0, x'' FROM message"
        );
        db.execute_batch(&fill).unwrap();
        let mut statement = db.prepare_cached(UNTAKEN).unwrap();
        assert!(statement.query_row([1, messages / 2], |row| row.get::<_, bool>(0)).unwrap());
        statement.get_status(StatementStatus::VmStep)
    };
    let (few, many) = (work(10), work(5_000));
    assert!(few > 0 && many <= few, "{few} steps with 10 messages, {many} with 5,000");
}
