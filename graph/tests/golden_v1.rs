//! C7: checkpoints that version 1 of the format wrote are kept, and every later version goes on with them.
//!
//! `golden/v1/run.db` is a SQLite file and `golden/v1/rows.json` the rows in it, of one run that was cut off in the middle of everything: after a
//! loop, inside nested fan-outs, a map, a subgraph, a retry, and a node with effects, a sleep, one answer and one open question. The rows are never
//! written again for a format that was released. While a format is new:
//!
//! ```text
//! PLEACH_WRITE_GOLDEN=1 cargo test -p pleach-graph --all-features --test golden_v1
//! ```
#![cfg(all(feature = "sqlite", feature = "tokio"))]

use pleach_graph::store::{
    FORMAT, GraphVersion, Kind, MemoryStore, NewRun, Parts, Row, Rows, RunStatus, SqliteStore, Store, StoreError, Wake,
};
use pleach_graph::{Compensation, CompiledGraph, END, FanOut, Graph, NodeContext, Policy, Retry, RunFault, RunOptions};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const RUN: &str = "golden-1";

/// The nodes at which the run was cut off, besides the one that asks.
const HANGING: [&str; 6] = ["d2", "flaky", "item 2", "item 3", "late", "sub/right"];

/// What each node did, in the order of its branch.
type Done = Vec<String>;

/// Whether nodes may end, and what they did in this process.
#[derive(Clone, Default)]
struct World {
    is_cut_off: bool,
    fails_at_last: bool,
    hanging: Arc<Mutex<BTreeSet<String>>>,
    started: Arc<Mutex<Vec<String>>>,
    outside: Arc<Mutex<Vec<String>>>,
}

impl World {
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
            let world = cx.extension::<World>().unwrap().clone();
            let item = done.last().filter(|last| last.starts_with("item") && name == "item").cloned();
            let name = item.unwrap_or_else(|| cx.node().to_string());
            world.started.lock().unwrap().push(name.clone());
            if HANGING.contains(&name.as_str()) && (name != "flaky" || cx.attempt() > 1) {
                world.hang(&name).await;
            }
            match name.as_str() {
                "turn" => cx.record_undo(done.len()),
                "flaky" if cx.attempt() == 1 => return Err("the first attempt fails".into()),
                "flaky" => done.push(format!("attempt {}", cx.attempt())),
                "asks" => done.push(ask(&cx, &world).await?),
                "last" if world.fails_at_last => return Err("told to fail".into()),
                _ => {}
            }
            done.push(name);
            Ok(done)
        })
    }
}

/// Two effects, one that happens once at most, a sleep, and two questions.
async fn ask(cx: &NodeContext, world: &World) -> Result<String, String> {
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
        cx.extension::<World>().unwrap().outside.lock().unwrap().push(format!("undid turn {turn}"));
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

/// The end that the run comes to.
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
    "7 4 true nobody",
    "asks",
    "last",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1")
}

/// A row as text: bodies of this size are not compressed, and all of it is JSON.
#[derive(Serialize, Deserialize)]
struct TextRow {
    sequence: u64,
    header: String,
    body: String,
    sum: u32,
}

/// The run goes on to its end, and only what was not done is done.
async fn goes_on(store: &(impl Store + Clone)) {
    let world = World::default();
    let state = resumed(store, &world).await.unwrap();
    assert_eq!(state, END_STATE);
    let mut started = world.started.lock().unwrap().clone();
    started.sort();
    let expected = ["asks", "d2", "d3", "flaky", "gathered", "item 2", "item 3", "last", "late", "sub/out", "sub/right"];
    assert_eq!(started, expected);
    assert!(world.outside.lock().unwrap().is_empty(), "effects are not repeated");
    assert_eq!(store.head(RUN).await.unwrap().status, RunStatus::Finished);
}

fn resumed(store: &(impl Store + Clone), world: &World) -> RunOptions<'static, Done> {
    graph().resume(RUN).resume_with("second", "nobody").checkpoint(store).extension(world.clone())
}

/// The rows of the golden run in a store of this process.
async fn from_rows(change: impl Fn(Row) -> Row) -> MemoryStore {
    let text = std::fs::read_to_string(folder().join("rows.json")).unwrap();
    let rows: Vec<TextRow> = serde_json::from_str(&text).unwrap();
    let rows = rows.into_iter().map(|TextRow { sequence, header, body, sum }| {
        change(Row { sequence, header: header.into_bytes(), body: body.into_bytes(), sum })
    });
    let store = MemoryStore::new();
    let version = GraphVersion { fingerprint: graph().fingerprint().to_string(), schema: 0 };
    let (id, graph) = (RUN.to_string(), "golden".to_string());
    let (instance, deadline) = (0, None);
    let new = NewRun { id, graph, version, instance, from: None, lease: None, wake: Wake::Now, deadline };
    store.create(new, rows.collect()).await.unwrap();
    store
}

/// The golden file, in a place of its own, since going on changes it.
struct Copied(PathBuf);

impl Copied {
    fn new(test: &str) -> Self {
        let copy = std::env::temp_dir().join(format!("pleach-golden-{test}-{}.db", std::process::id()));
        std::fs::copy(folder().join("run.db"), &copy).unwrap();
        Self(copy)
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        for end in ["", "-wal", "-shm"] {
            drop(std::fs::remove_file(format!("{}{end}", self.0.display())));
        }
    }
}

#[tokio::test]
async fn c7_a_golden_sqlite_file_is_gone_on_with() {
    write_if_told().await;
    let copy = Copied::new("on");
    let store = SqliteStore::open(&copy.0).await.unwrap();
    assert_eq!(
        store.head(RUN).await.unwrap().version.fingerprint,
        graph().fingerprint(),
        "the same graph has the same fingerprint"
    );
    goes_on(&store).await;
}

#[tokio::test]
async fn c7_golden_rows_are_gone_on_with() {
    write_if_told().await;
    goes_on(&from_rows(|row| row).await).await;
}

#[tokio::test]
async fn c7_a_golden_run_that_fails_is_undone_and_one_that_is_rewound_comes_to_the_same_end() {
    write_if_told().await;
    let copy = Copied::new("undo");
    let store = SqliteStore::open(&copy.0).await.unwrap();
    let world = World { fails_at_last: true, ..World::default() };
    let error = resumed(&store, &world).await.unwrap_err();
    let undone = vec!["turn".to_string(); 3];
    assert_eq!(error.compensation(), Some(&Compensation::Compensated { undone }), "{error}");
    assert_eq!(*world.outside.lock().unwrap(), ["undid turn 2", "undid turn 1", "undid turn 0"]);
    let world = World::default();
    let rewound = graph().resume(RUN).rewind_to(1).resume_with("first", &true).resume_with("second", "nobody");
    assert_eq!(rewound.checkpoint(&store).extension(world.clone()).await.unwrap(), END_STATE);
    assert_eq!(*world.outside.lock().unwrap(), ["charged", "sent"]);
}

#[tokio::test]
async fn c7_a_record_of_a_later_format_is_refused_with_both_formats_named() {
    write_if_told().await;
    let later = |mut row: Row| {
        let mut header: serde_json::Value = serde_json::from_slice(&row.header).unwrap();
        assert_eq!(header["format"], 1);
        header["format"] = (FORMAT + 1).into();
        row.header = serde_json::to_vec(&header).unwrap();
        let mut sum = crc32fast::Hasher::new();
        for part in [RUN.as_bytes(), &row.sequence.to_le_bytes(), &row.header] {
            sum.update(&(part.len() as u64).to_le_bytes());
            sum.update(part);
        }
        Row { sum: sum.finalize(), ..row }
    };
    let store = from_rows(later).await;
    let error = resumed(&store, &World::default()).await.unwrap_err();
    let RunFault::Checkpoint(checkpoint) = error.fault() else { panic!("{error}") };
    let known = FORMAT;
    assert!(
        matches!(checkpoint.store_error(), Some(StoreError::Future { format, known: k, .. }) if (*format, *k) == (known + 1, known))
    );
    assert_eq!(store.head(RUN).await.unwrap().owner, None, "whoever knows the format need not wait");
}

/// Writes the golden files, if that is asked for: once, whichever test comes first.
async fn write_if_told() {
    static WRITING: tokio::sync::OnceCell<()> = tokio::sync::OnceCell::const_new();
    if std::env::var_os("PLEACH_WRITE_GOLDEN").is_some() {
        WRITING.get_or_init(write).await;
    }
}

async fn write() {
    let path = folder().join("run.db");
    drop(std::fs::remove_file(&path));
    let store = SqliteStore::open(&path).await.unwrap();
    let world = World { is_cut_off: true, ..World::default() };
    let run = graph().run(vec![]).id(RUN).checkpoint(&store).extension(world.clone());
    cut_off(run, &store, &world, 1).await;
    let run = graph().resume(RUN).resume_with("first", &true).checkpoint(&store).extension(world.clone());
    cut_off(run, &store, &world, 2).await;
    let head = store.head(RUN).await.unwrap().head;
    let rows = store.read(RUN, Rows::Range(1..=head), Parts::Whole).await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let rows: Vec<TextRow> = rows
        .into_iter()
        .map(|row| TextRow { sequence: row.sequence, header: text(row.header), body: text(row.body), sum: row.sum })
        .collect();
    std::fs::write(folder().join("rows.json"), serde_json::to_string_pretty(&rows).unwrap() + "\n").unwrap();
    drop(store);
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE;").unwrap();
}

/// Drives a run until every node that hangs does, and so many questions are asked; then it is dropped.
async fn cut_off(run: RunOptions<'static, Done>, store: &SqliteStore, world: &World, questions: usize) {
    world.hanging.lock().unwrap().clear();
    let run = tokio::spawn(run.into_future());
    loop {
        tokio::task::yield_now().await;
        let head = store.head(RUN).await.unwrap().head;
        let rows = store.read(RUN, Rows::Range(1..=head), Parts::Headers).await.unwrap();
        let kinds = rows.iter().map(|row| row.open_header(RUN).unwrap());
        let asked = kinds.filter(|header| header.kind == Kind::Wait && header.node == "asks").count();
        let is_hanging = world.hanging.lock().unwrap().len() == HANGING.len();
        // The sleep is a wait as well.
        if is_hanging && asked == questions + 1 {
            break;
        }
    }
    run.abort();
    drop(run.await);
    while store.head(RUN).await.unwrap().owner.is_some() {
        tokio::task::yield_now().await;
    }
}
