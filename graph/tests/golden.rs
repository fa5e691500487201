//! C7: checkpoints of earlier formats are kept, and every later version resumes them.
//!
//! `golden/vN/` belongs to one run that was interrupted in the middle of everything: after a loop,
//! inside nested fan-outs, a map, a subgraph, a retry, and a node with effects, a sleep, one answer
//! and one open question. In `v2` the run was also migrated, so its rows continue with the keys of
//! others. In `v3` it has tags; the format of its records is that of `v2`, and its tables have
//! format 4. The file of `v4` has format 5 and a second run, which refused an answer.
//! - `run.db`: a SQLite file.
//! - `rows.json`: the rows of the run.
//! - `keys.json`: the idempotency keys of the nodes in progress.
//!
//! The files of a released format are never written again. While the last format is new:
//!
//! ```text
//! PLEACH_WRITE_GOLDEN=1 cargo test -p pleach-graph --all-features --test golden
//! ```
#![cfg(all(feature = "sqlite", feature = "tokio"))]

use pleach_graph::store::{
    FORMAT, Filter, GraphVersion, Kind, MemoryStore, NewRun, Parts, RefusalCause, Row, Rows, RunStatus, SqliteStore, Store,
    StoreError, Tags, Wake,
};
use pleach_graph::{
    Compensation, CompiledGraph, END, FanOut, Graph, Migrations, NodeContext, Policy, Retry, RunFault, RunOptions, RunRemote,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const RUN: &str = "golden-1";

/// The run that refused an answer, in files since format 5.
const REFUSING: &str = "refusing-1";

/// A format whose files are kept.
#[derive(Clone, Copy, Debug)]
struct Version {
    folder: &'static str,
    /// The format of its records.
    format: u32,
    /// The schema of its run.
    schema: u32,
    /// The format of the tables in its file.
    tables: u32,
}

const VERSIONS: [Version; 4] = [
    Version { folder: "v1", format: 1, schema: 0, tables: 1 },
    Version { folder: "v2", format: 2, schema: 1, tables: 3 },
    Version { folder: "v3", format: 2, schema: 1, tables: 4 },
    Version { folder: "v4", format: 2, schema: 1, tables: 5 },
];

/// The format that this version writes.
const NEWEST: Version = VERSIONS[3];

/// The nodes at which the run was interrupted, besides the one that asks.
const HANGING: [&str; 6] = ["d2", "flaky", "item 2", "item 3", "late", "sub/right"];

/// The executed nodes, in the order of their branch.
type Done = Vec<String>;

/// Controls whether nodes may end, and logs what they did in this process.
#[derive(Clone, Default)]
struct NodeControl {
    is_cut_off: bool,
    fails_at_last: bool,
    hanging: Arc<Mutex<BTreeSet<String>>>,
    started: Arc<Mutex<Vec<String>>>,
    /// The idempotency keys of the started nodes.
    keys: Arc<Mutex<BTreeMap<String, String>>>,
    outside: Arc<Mutex<Vec<String>>>,
}

impl NodeControl {
    async fn hang(&self, name: &str) {
        if self.is_cut_off {
            self.hanging.lock().unwrap().insert(name.to_string());
            std::future::pending::<()>().await;
        }
    }
}

type Work = Pin<Box<dyn Future<Output = Result<Done, String>> + Send>>;

fn node(name: &'static str) -> impl Fn(NodeContext, Done) -> Work {
    move |cx, mut done| {
        Box::pin(async move {
            let world = cx.extension::<NodeControl>().unwrap().clone();
            let item = done.last().filter(|last| last.starts_with("item") && name == "item").cloned();
            let name = item.unwrap_or_else(|| cx.node().to_string());
            world.started.lock().unwrap().push(name.clone());
            world.keys.lock().unwrap().insert(name.clone(), cx.idempotency_key());
            if HANGING.contains(&name.as_str()) && (name != "flaky" || cx.attempt() > 1) {
                world.hang(&name).await;
            }
            match name.as_str() {
                "turn" => cx.record_undo(done.len()),
                "flaky" if cx.attempt() == 1 => return Err("the first attempt fails".into()),
                "flaky" => done.push(format!("attempt {}", cx.attempt())),
                "asks" => done.push(ask(&cx, &world).await?),
                "last" if world.fails_at_last => return Err("must fail".into()),
                _ => {}
            }
            done.push(name);
            Ok(done)
        })
    }
}

/// Two effects (one of them `once`), a sleep and two questions.
async fn ask(cx: &NodeContext, world: &NodeControl) -> Result<String, String> {
    let happens = |what: &'static str| {
        let outside = Arc::clone(&world.outside);
        move |_key: String| async move {
            outside.lock().unwrap().push(what.to_string());
            Ok::<_, String>(what.len())
        }
    };
    let charged = cx.effect("charge", happens("charged")).await?;
    let sent = cx.effect("send", happens("sent")).once().await?;
    cx.sleep("nap", Duration::from_millis(1)).await;
    let first: bool = cx.interrupt("first", "may I?").await;
    let second: String = cx.interrupt("second", &["who", "are", "you"]).await;
    Ok(format!("{charged} {sent} {first} {second}"))
}

fn merge(mut before: Done, branches: Vec<Done>) -> Done {
    let from = before.len();
    branches.into_iter().for_each(|branch| before.extend(branch.into_iter().skip(from)));
    before
}

fn graph() -> CompiledGraph<Done> {
    let inner = Graph::new("inner")
        .add_node("in", node("in"))
        .add_node("left", node("left"))
        .add_node("right", node("right"))
        .add_node("out", node("out"))
        .add_parallel_edge("in", ["left", "right"], "out", merge)
        .add_edge("left", "out")
        .add_edge("right", "out")
        .add_edge("out", END)
        .set_entry("in")
        .compile()
        .unwrap();
    let undo = |cx: NodeContext, turn: usize| async move {
        cx.extension::<NodeControl>().unwrap().outside.lock().unwrap().push(format!("undid turn {turn}"));
        Ok::<_, String>(())
    };
    let items = |done: &Done| (0..4).map(|n| done.iter().cloned().chain([format!("item {n}")]).collect()).collect();
    let all = |before: Done, branches: Vec<Done>| {
        let items = branches.into_iter().filter_map(|mut branch| branch.pop());
        before.iter().cloned().chain(items).collect::<Done>()
    };
    let heads = ["done", "deep", "late", "sub", "many", "flaky", "asks"];
    let mut graph = Graph::new("golden")
        .add_node("turn", node("turn"))
        .compensate("turn", undo)
        .add_conditional_edge("turn", ["turn", "open"], |done: &Done| if done.len() < 3 { "turn" } else { "open" })
        .add_node("open", node("open"))
        .add_parallel_edge("open", heads, "last", FanOut::merge(merge))
        .add_subgraph("sub", inner, Done::clone, |_, inner| inner)
        .add_edge("sub", "last")
        .add_parallel_edge("deep", ["d1", "d2"], "d3", merge)
        .map("many", items, "item", "gathered", FanOut::merge(all))
        .policy("flaky", Policy::new().retry(Retry::times(3).backoff(Duration::from_millis(1), Duration::from_millis(1))));
    for name in ["done", "deep", "late", "many", "flaky", "asks", "d1", "d2", "d3", "item", "gathered", "last"] {
        graph = graph.add_node(name, node(name));
    }
    for (from, to) in [("d1", "d3"), ("d2", "d3"), ("d3", "last"), ("item", "gathered"), ("gathered", "last"), ("last", END)] {
        graph = graph.add_edge(from, to);
    }
    graph = ["done", "late", "flaky", "asks"].into_iter().fold(graph, |graph, from| graph.add_edge(from, "last"));
    graph.set_entry("turn").compile().unwrap()
}

/// The final state of the run.
const END_STATE: [&str; 25] = [
    "turn",
    "turn",
    "turn",
    "open",
    "done",
    "deep",
    "d1",
    "d2",
    "d3",
    "late",
    "sub/in",
    "sub/left",
    "sub/right",
    "sub/out",
    "many",
    "item 0",
    "item 1",
    "item 2",
    "item 3",
    "gathered",
    "attempt 2",
    "flaky",
    "7 4 true absent",
    "asks",
    "last",
];

impl Version {
    fn file(self, name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(self.folder).join(name)
    }

    /// The keys of the nodes in progress.
    fn keys(self) -> BTreeMap<String, String> {
        serde_json::from_str(&std::fs::read_to_string(self.file("keys.json")).unwrap()).unwrap()
    }
}

/// A row as text. Bodies of this size are not compressed, and everything is JSON.
#[derive(Serialize, Deserialize)]
struct TextRow {
    sequence: u64,
    header: String,
    body: String,
    sum: u32,
}

/// Resumes the run to its end and checks that only unfinished nodes run.
async fn check_resume(version: Version, store: &(impl Store + Clone)) {
    let world = NodeControl::default();
    let state = resumed(version, store, &world).await.unwrap();
    assert_eq!(state, END_STATE, "{version:?}");
    let mut started = world.started.lock().unwrap().clone();
    started.sort();
    let expected = ["asks", "d2", "d3", "flaky", "gathered", "item 2", "item 3", "last", "late", "sub/out", "sub/right"];
    assert_eq!(started, expected);
    assert!(world.outside.lock().unwrap().is_empty(), "effects are not repeated");
    let keys = world.keys.lock().unwrap().clone();
    for (node, key) in version.keys() {
        assert_eq!(keys.get(&node), Some(&key), "{version:?}: the key of {node:?}");
    }
    assert_eq!(store.head(RUN).await.unwrap().status, RunStatus::Finished);
}

fn resumed(version: Version, store: &(impl Store + Clone), world: &NodeControl) -> RunOptions<'static, Done> {
    let run = graph().resume(RUN).resume_with("second", "absent").checkpoint(store);
    run.schema(version.schema).extension(world.clone())
}

/// The states of both schemas are equal.
fn migrations() -> Migrations {
    Migrations::new().state(0, Ok::<_, String>)
}

/// The rows of the golden run in a memory store.
async fn from_rows(of: Version, change: impl Fn(Row) -> Row) -> MemoryStore {
    let text = std::fs::read_to_string(of.file("rows.json")).unwrap();
    let rows: Vec<TextRow> = serde_json::from_str(&text).unwrap();
    let rows = rows.into_iter().map(|TextRow { sequence, header, body, sum }| {
        change(Row { sequence, header: header.into_bytes(), body: body.into_bytes(), sum })
    });
    let store = MemoryStore::new();
    let version = GraphVersion { fingerprint: graph().fingerprint().to_string(), schema: of.schema };
    let (id, graph) = (RUN.to_string(), "golden".to_string());
    // The file contains the instance. The first format had none.
    let copy = Copied::new(of, "instance");
    let instance = SqliteStore::open(&copy.0).await.unwrap().head(RUN).await.unwrap().instance;
    assert_eq!(instance == 0, of.format == 1);
    let deadline = None;
    let (wake, tags) = (Wake::Now, Tags::default());
    let new = NewRun { id, graph, version, instance, from: None, lease: None, wake, deadline, tags };
    store.create(new, rows.collect()).await.unwrap();
    store
}

/// A copy of the golden file, since a resume changes it.
struct Copied(PathBuf);

impl Copied {
    fn new(version: Version, test: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let name = format!("pleach-golden-{}-{test}-{}-{number}.db", version.folder, std::process::id());
        let copy = std::env::temp_dir().join(name);
        std::fs::copy(version.file("run.db"), &copy).unwrap();
        Self(copy)
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        for end in ["", "-wal", "-shm"] {
            drop(std::fs::remove_file(format!("{}{end}", self.0.display())));
        }
        drop(std::fs::remove_dir_all(format!("{}-holders", self.0.display())));
    }
}

#[tokio::test]
async fn c7_golden_sqlite_files_are_resumed() {
    write_if_requested().await;
    for version in VERSIONS {
        let copy = Copied::new(version, "on");
        let store = SqliteStore::open(&copy.0).await.unwrap();
        let stored = store.head(RUN).await.unwrap().version;
        assert_eq!(stored.fingerprint, graph().fingerprint(), "the same graph has the same fingerprint");
        check_resume(version, &store).await;
    }
}

#[tokio::test]
async fn o7_golden_files_are_migrated_and_can_be_listed() {
    write_if_requested().await;
    for version in VERSIONS {
        let copy = Copied::new(version, "lists");
        let tables = || -> u32 {
            let file = rusqlite::Connection::open(&copy.0).unwrap();
            file.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
        };
        assert_eq!(tables(), version.tables, "the golden file is unchanged");
        let store = SqliteStore::open(&copy.0).await.unwrap();
        assert_eq!(tables(), NEWEST.tables);
        let listed = async |filter| store.list(vec![filter], None, 9).await.unwrap().runs;
        let found = listed(Filter::IdPrefix("golden-".into())).await;
        assert_eq!((found.len(), found[0].status), (1, RunStatus::Running), "{version:?}");
        assert_eq!(listed(Filter::Graph("golden".into())).await, found);
        assert_eq!(listed(Filter::CreatedSince(found[0].created)).await, found);
        let of_customer = listed(Filter::tag("customer", "42")).await;
        let is_tagged = version.tables >= 4;
        assert_eq!(of_customer, if is_tagged { found.clone() } else { vec![] }, "{version:?}");
        assert_eq!(found[0].tags.to_string(), if is_tagged { "customer=42 stage=" } else { "" });
        let failure = found[0].failure.as_ref().map(|failure| (failure.node.as_str(), failure.attempt, failure.is_final));
        assert_eq!(failure, is_tagged.then_some(("flaky", 1, false)), "{version:?}");
        // The view finds the failed attempt in the log of every version.
        let view = RunRemote::new(&store, RUN).view().await.unwrap();
        let attempts: Vec<_> = view.tokens.iter().filter_map(|token| token.failure.as_ref()).collect();
        assert_eq!((attempts.len(), attempts[0].node.as_str(), attempts[0].attempt), (1, "flaky", 1), "{version:?}");
        assert!(store.refused(RUN).await.unwrap().is_empty());
        if version.tables >= 5 {
            let view = RunRemote::new(&store, REFUSING).view().await.unwrap();
            let refused = view.waits().next().unwrap().refused.as_ref().unwrap();
            let RefusalCause::WrongType { expected, .. } = &refused.cause else { panic!("{refused:?}") };
            assert_eq!((expected.as_str(), refused.name.as_str()), ("u32", "answer/count"), "{version:?}");
        }
    }
}

#[tokio::test]
async fn c7_golden_rows_are_resumed() {
    write_if_requested().await;
    for version in VERSIONS {
        check_resume(version, &from_rows(version, |row| row).await).await;
    }
}

#[tokio::test]
async fn c7_golden_runs_are_undone_and_rewound() {
    write_if_requested().await;
    for version in VERSIONS {
        let copy = Copied::new(version, "undo");
        let store = SqliteStore::open(&copy.0).await.unwrap();
        let world = NodeControl { fails_at_last: true, ..NodeControl::default() };
        let error = resumed(version, &store, &world).await.unwrap_err();
        let undone = vec!["turn".to_string(); 3];
        assert_eq!(error.compensation(), Some(&Compensation::Compensated { undone }), "{error}");
        assert_eq!(*world.outside.lock().unwrap(), ["undid turn 2", "undid turn 1", "undid turn 0"]);
        let world = NodeControl::default();
        let rewound = graph().resume(RUN).rewind_to(1).resume_with("first", &true).resume_with("second", "absent");
        let rewound = rewound.checkpoint(&store).schema(version.schema).migrations(&migrations());
        assert_eq!(rewound.extension(world.clone()).await.unwrap(), END_STATE);
        assert_eq!(*world.outside.lock().unwrap(), ["charged", "sent"]);
    }
}

#[tokio::test]
async fn c7_golden_runs_are_migrated_and_keep_their_keys() {
    write_if_requested().await;
    let version = VERSIONS[0];
    let store = from_rows(version, |row| row).await;
    let world = NodeControl::default();
    let run = graph().resume(RUN).resume_with("second", "absent").checkpoint(&store).schema(1).migrations(&migrations());
    assert_eq!(run.extension(world.clone()).await.unwrap(), END_STATE);
    let keys = world.keys.lock().unwrap().clone();
    assert!(version.keys().iter().all(|(node, key)| keys.get(node) == Some(key)), "{keys:?}");
}

#[tokio::test]
async fn c7_record_of_a_later_format_is_rejected_with_both_formats_named() {
    write_if_requested().await;
    let later = |mut row: Row| {
        let mut header: serde_json::Value = serde_json::from_slice(&row.header).unwrap();
        assert_eq!(header["format"], NEWEST.format);
        header["format"] = (FORMAT + 1).into();
        row.header = serde_json::to_vec(&header).unwrap();
        let mut sum = crc32fast::Hasher::new();
        for part in [RUN.as_bytes(), &row.sequence.to_le_bytes(), &row.header] {
            sum.update(&(part.len() as u64).to_le_bytes());
            sum.update(part);
        }
        Row { sum: sum.finalize(), ..row }
    };
    let store = from_rows(NEWEST, later).await;
    let error = resumed(NEWEST, &store, &NodeControl::default()).await.unwrap_err();
    let RunFault::Checkpoint(checkpoint) = error.fault() else { panic!("{error}") };
    let known = FORMAT;
    assert!(
        matches!(checkpoint.store_error(), Some(StoreError::NewerFormat { format, known: k, .. }) if (*format, *k) == (known + 1, known)),
        "{error}"
    );
    assert_eq!(store.head(RUN).await.unwrap().owner, None, "a newer version need not wait for the lease");
}

/// Writes the golden files on request, once, in the first test that runs.
async fn write_if_requested() {
    static WRITING: tokio::sync::OnceCell<()> = tokio::sync::OnceCell::const_new();
    if std::env::var_os("PLEACH_WRITE_GOLDEN").is_some() {
        WRITING.get_or_init(write).await;
    }
}

async fn write() {
    assert_eq!(NEWEST.format, FORMAT);
    let path = NEWEST.file("run.db");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    drop(std::fs::remove_file(&path));
    let store = SqliteStore::open(&path).await.unwrap();
    refuse_an_answer(&store).await;
    let world = NodeControl { is_cut_off: true, ..NodeControl::default() };
    let run = graph().run(vec![]).id(RUN).tag("customer", "42").tag("stage", "").checkpoint(&store).extension(world.clone());
    drive_until_hanging(run, &store, &world, 2).await;
    let run = graph().resume(RUN).resume_with("first", &true).checkpoint(&store).schema(1).migrations(&migrations());
    // Two of its waits were rewritten.
    drive_until_hanging(run.extension(world.clone()), &store, &world, 5).await;
    let head = store.head(RUN).await.unwrap().head;
    let rows = store.read(RUN, Rows::Range(1..=head), Parts::Whole).await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let rows: Vec<TextRow> = rows
        .into_iter()
        .map(|row| TextRow { sequence: row.sequence, header: text(row.header), body: text(row.body), sum: row.sum })
        .collect();
    let write = |name, text: serde_json::Result<String>| std::fs::write(NEWEST.file(name), text.unwrap() + "\n").unwrap();
    write("rows.json", serde_json::to_string_pretty(&rows));
    let mut keys = world.keys.lock().unwrap().clone();
    keys.retain(|node, _| HANGING.contains(&node.as_str()) || node == "asks");
    write("keys.json", serde_json::to_string_pretty(&keys));
    drop(store);
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE;").unwrap();
}

/// Drives a run that refuses an answer and keeps waiting.
async fn refuse_an_answer(store: &SqliteStore) {
    let ask = |cx: NodeContext, n: u32| async move { Ok::<_, String>(n + cx.interrupt::<u32>("count", "how many?").await) };
    let graph = Graph::new("refusing").add_node("ask", ask).add_edge("ask", END).set_entry("ask").compile().unwrap();
    let queued = graph.run(1).id(REFUSING).checkpoint(store).enqueue().await.unwrap();
    queued.resume_with("count", "none").await.unwrap();
    let paused = graph.resume(REFUSING).checkpoint(store).await.unwrap_err();
    assert!(matches!(paused.fault(), RunFault::Paused { .. }), "{paused}");
}

/// Drives a run until all nodes in [`HANGING`] hang and this many waits are recorded. Then drops
/// it.
async fn drive_until_hanging(run: RunOptions<'static, Done>, store: &SqliteStore, world: &NodeControl, waits: usize) {
    world.hanging.lock().unwrap().clear();
    let run = tokio::spawn(run.into_future());
    loop {
        tokio::task::yield_now().await;
        // The run is unknown before its first commit.
        let Ok(info) = store.head(RUN).await else { continue };
        let rows = store.read(RUN, Rows::Range(1..=info.head), Parts::Headers).await.unwrap();
        let kinds = rows.iter().map(|row| row.open_header(RUN).unwrap());
        let asked = kinds.filter(|header| header.kind == Kind::Wait && header.node == "asks").count();
        let is_hanging = world.hanging.lock().unwrap().len() == HANGING.len();
        if is_hanging && asked == waits {
            break;
        }
    }
    run.abort();
    drop(run.await);
    while store.head(RUN).await.unwrap().owner.is_some() {
        tokio::task::yield_now().await;
    }
}
