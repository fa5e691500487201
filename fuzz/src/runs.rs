//! Stored runs: one is cut off, damaged behind valid checksums, and then read and resumed.
//!
//! A damaged run may fail in any way or even complete, but it must not panic or hang. The graph
//! uses fan-out, a subgraph, effects, retries, waits and undos, to write each kind of record.

use crate::random::Random;
use crate::rows::sealed;
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::store::{GraphVersion, Kind, NewMessage, NewRun, Parts, Row, Rows, Wake};
use std::cell::OnceCell;
use std::collections::HashSet;

const RUN: &str = "r";

/// More than the whole run needs, in virtual time.
const TIME_MAX: Duration = Duration::from_secs(3_600);

/// A run that goes well visits fewer than ten nodes.
const VISITS_MAX: u64 = 100;

/// How many kinds of records the run has: all but `Rewind`.
const KINDS_MIN: usize = 11;

/// The rows of a run that was recorded, and the version of its graph.
struct Recorded {
    graph: CompiledGraph<Vec<u32>>,
    version: GraphVersion,
    rows: Vec<Row>,
}

/// Resumes a run of which some rows were changed.
pub fn damaged_run(random: &mut Random) {
    with_recorded(|recorded| {
        let count = 1 + random.below(recorded.rows.len());
        let mut rows = recorded.rows[..count].to_vec();
        for _ in 0..=random.below(2) {
            let at = random.below(rows.len());
            damage(random, &mut rows[at]);
        }
        read_and_resume(recorded, rows, &[], random);
    });
}

/// Resumes a sound run whose inbox has messages that no caller would send.
pub fn damaged_inbox(random: &mut Random) {
    with_recorded(|recorded| {
        let count = 1 + random.below(recorded.rows.len());
        let mut posts = Vec::new();
        for _ in 0..=random.below(4) {
            let names = ["answer/last", "answer/", "go", "command/pause", "command/resume", "command/cancel", "command/"];
            let name = if random.one_in(4) { random.text(12) } else { names[random.below(names.len())].into() };
            let payload = if random.one_in(2) { b"7".to_vec() } else { random.bytes(16) };
            posts.push(NewMessage::seal(RUN, name, None, payload));
        }
        read_and_resume(recorded, recorded.rows[..count].to_vec(), &posts, random);
    });
}

/// Changes the header or the body of a row; its checksums fit afterwards.
fn damage(random: &mut Random, row: &mut Row) {
    let (mut header, mut body) = (row.header.clone(), row.body.clone());
    let part = if random.one_in(2) { &mut header } else { &mut body };
    random.mutate(part);
    let sum_before = crc32fast::hash(&row.body).to_string();
    let header = String::from_utf8_lossy(&header).replace(&sum_before, &crc32fast::hash(&body).to_string());
    *row = sealed(RUN, row.sequence, header.into_bytes(), body);
}

/// Does to a stored run what a user can do: lists its history, views it, resumes or rewinds it.
fn read_and_resume(recorded: &Recorded, rows: Vec<Row>, posts: &[NewMessage], random: &mut Random) {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let new = NewRun {
        id: RUN.into(),
        graph: recorded.graph.name().into(),
        version: recorded.version.clone(),
        instance: 7,
        from: None,
        lease: None,
        wake: Wake::Now,
        deadline: None,
        tags: Default::default(),
    };
    let count = rows.len() as u64;
    if sim.run(store.create(new, rows)).is_err() {
        return;
    }
    for post in posts {
        let _ = sim.run(store.send_message(RUN, post.clone()));
    }
    let history = recorded.graph.history(RUN, &store);
    let _ = sim.run(history.page(1, 100));
    let _ = sim.run(history.state(1 + random.below(count as usize) as u64));
    let _ = sim.run(RunRemote::new(&store, RUN).view());
    let resume = recorded.graph.resume(RUN);
    let resume = match random.below(4) {
        0 => resume.rewind_to(random.below(count as usize + 2) as u64),
        1 => resume.replay_last(),
        2 => resume.fork_as("fork"),
        _ => resume,
    };
    let run = resume.checkpoint(&store).runtime(sim.runtime()).timeout(TIME_MAX).max_visits(VISITS_MAX);
    let _ = sim.run(run.into_future());
}

/// Records the run once per thread.
fn with_recorded(case: impl FnOnce(&Recorded)) {
    thread_local! {
        static RECORDED: OnceCell<Recorded> = const { OnceCell::new() };
    }
    RECORDED.with(|recorded| case(recorded.get_or_init(record)));
}

fn record() -> Recorded {
    let (sim, graph) = (Sim::new(1), graph());
    let store = MemoryStore::on(sim.runtime());
    let run = graph.run(vec![1]).id(RUN).extension(store.clone()).runtime(sim.runtime()).timeout(TIME_MAX);
    let error = sim.run(run.checkpoint(&store).into_future()).expect_err("the last node fails");
    let info = sim.run(store.head(RUN)).expect("the run is stored");
    let rows = sim.run(store.read(RUN, Rows::Range(1..=info.head), Parts::Whole)).expect("its rows can be read");
    let kinds: HashSet<Kind> = rows.iter().filter_map(|row| Some(row.open_header(RUN).ok()?.kind)).collect();
    assert!(kinds.len() >= KINDS_MIN, "only {kinds:?}, then {error}");
    Recorded { graph, version: info.version, rows }
}

/// first → (left | right) → last. `last` waits for a signal of `left` and fails; then `first` is
/// undone.
fn graph() -> CompiledGraph<Vec<u32>> {
    let inner = Graph::<u32>::new("inner")
        .add_node("add", |n: u32| async move { Ok::<_, String>(n.wrapping_add(1)) })
        .add_edge("add", END)
        .set_entry("add")
        .compile();
    let effects = |cx: NodeContext, mut numbers: Vec<u32>| async move {
        let paid = cx.effect("pay", |_| async { Ok::<_, String>(5u32) }).await?;
        cx.effect("send", |_| async { Ok::<_, String>(()) }).once().await?;
        cx.record_undo(paid);
        if cx.attempt() < 2 {
            return Err(pleach::BoxError::from("not yet"));
        }
        numbers.push(paid);
        Ok(numbers)
    };
    let wait = |cx: NodeContext, mut numbers: Vec<u32>| async move {
        cx.sleep("nap", Duration::from_secs(1)).await;
        if let Some(store) = cx.extension::<MemoryStore>() {
            RunRemote::new(store, RUN).signal("go", &7).await.map_err(|error| error.to_string())?;
        }
        numbers.push(cx.iteration() as u32);
        Ok::<_, String>(numbers)
    };
    let last = |cx: NodeContext, _: Vec<u32>| async move {
        let number: u32 = cx.signal("go").await;
        Err::<Vec<u32>, _>(format!("planned failure {number}"))
    };
    Graph::new("fuzzed")
        .add_node("first", effects)
        .policy("first", Policy::new().retry(Retry::times(2)))
        .compensate("first", |_cx: NodeContext, _paid: u32| async { Ok::<_, String>(()) })
        .add_node("left", wait)
        .add_subgraph(
            "right",
            inner.expect("the inner graph is sound"),
            |numbers: &Vec<u32>| numbers.len() as u32,
            |mut numbers: Vec<u32>, n| {
                numbers.push(n);
                numbers
            },
        )
        .add_node("last", last)
        .add_parallel_edge("first", ["left", "right"], "last", FanOut::merge(|_, parts| parts.concat()))
        .add_edge("left", "last")
        .add_edge("right", "last")
        .add_edge("last", END)
        .set_entry("first")
        .compile()
        .expect("the graph is sound")
}
