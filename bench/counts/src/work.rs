//! Operations of groups, graphs and stores.

use std::convert::Infallible;
use std::hint::black_box;
use std::{env, fs, process};

use pleach::group::{Group, GroupBuilder};
use pleach::store::SqliteStore;
use pleach::{CompiledGraph, END, Graph, token};

/// Tasks of a group.
const GROUP: u64 = 125;

/// Nodes of a line.
const LINE: u64 = 10;

/// Adds and runs tasks that are ready at once, and reads their results.
pub async fn group_task(n: u64) {
    let token = token().expect("the current thread has a runtime");
    for _ in 0..n / GROUP {
        let group: Group<u64> = GroupBuilder::under(&token).build().expect("a group");
        for number in 0..GROUP {
            group.go(async move { Ok::<_, Infallible>(number) }).await.expect("the group is open");
        }
        group.close();
        while let Some(result) = group.next().await {
            black_box(result).expect("no task fails");
        }
    }
}

async fn node(number: u64) -> Result<u64, Infallible> {
    Ok(black_box(number + 1))
}

fn sum(_before: u64, branches: Vec<u64>) -> u64 {
    branches.into_iter().sum()
}

/// Runs graphs of [`LINE`] nodes; one operation is a node.
pub async fn graph_node(n: u64) {
    let id = |node: u64| if node < LINE { format!("node-{node}") } else { END.to_string() };
    let mut line = Graph::new("line").set_entry(id(0));
    for at in 0..LINE {
        line = line.add_node(id(at), node).add_edge(id(at), id(at + 1));
    }
    run(&line.compile().expect("a graph"), n / LINE).await;
}

/// Runs graphs of a node, eight parallel nodes, and a node; one operation is a run.
pub async fn fan_out(n: u64) {
    let heads: Vec<String> = (0..8).map(|branch| format!("branch-{branch}")).collect();
    let mut graph = Graph::new("fan-out").add_node("split", node).add_node("join", node).set_entry("split");
    for head in &heads {
        graph = graph.add_node(head, node).add_edge(head, "join");
    }
    let graph = graph.add_parallel_edge("split", heads, "join", sum).add_edge("join", END);
    run(&graph.compile().expect("a graph"), n).await;
}

async fn run(graph: &CompiledGraph<u64>, times: u64) {
    for _ in 0..times {
        black_box(graph.run(0).await.expect("no node fails"));
    }
}

/// Runs one node again and again; each run of it is a durable step with a state of 1 KB.
pub async fn commit(n: u64) {
    let folder = env::temp_dir().join(format!("pleach-counts-{}", process::id()));
    fs::create_dir_all(&folder).expect("a folder for the store");
    let turn = |(number, text): (u64, String)| async move { Ok::<_, Infallible>((number + 1, text)) };
    let graph = Graph::new("turns")
        .add_node("turn", turn)
        .add_conditional_edge("turn", ["turn", END], move |(number, _): &(u64, String)| if *number < n { "turn" } else { END })
        .set_entry("turn")
        .compile()
        .expect("a graph");
    let store = SqliteStore::open(folder.join("store.db")).await.expect("a store");
    let state = (0, "x".repeat(1_000));
    graph.run(state).id("run").checkpoint(&store).max_iterations(u64::MAX).await.expect("the run finishes");
    drop(store);
    fs::remove_dir_all(folder).expect("the folder is removed");
}
