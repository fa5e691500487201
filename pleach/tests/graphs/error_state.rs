//! F5, F9, F10: which node an error of a run names, and which state it carries.
use crate::add_one;
use crate::common::{INJECTED, quiet};
use pleach::graph::{During, FanOutTimeout, RunOptions};
use pleach::prelude::*;
use pleach::runtime::block_on;
use pleach::scope::Elapsed;
use pleach::sim::Sim;
use pleach::store::MemoryStore;
use std::error::Error;
use std::future::pending;

/// `fork` and two branches. The second branch loops forever.
fn looping() -> CompiledGraph<u32> {
    Graph::new("looping")
        .add_node("fork", add_one)
        .add_node("ends", add_one)
        .add_node("loops", add_one)
        .add_parallel_edge("fork", ["ends", "loops"], END, FanOut::merge(|n: u32, _| n))
        .add_edge("ends", END)
        .add_conditional_edge("loops", ["loops", END], |_: &u32| "loops")
        .set_entry("fork")
        .compile()
        .unwrap()
}

#[test]
fn f5_limit_inside_a_fan_out_returns_the_state_before_it() {
    let options: [fn(RunOptions<'static, u32>) -> RunOptions<'static, u32>; 2] =
        [|run| run.max_iterations(9), |run| run.max_visits(9)];
    for limit in options {
        let error = block_on(async { limit(looping().run(10)).await }).unwrap_err();
        assert!(error.fault().to_string().contains("reached the limit of"), "{error}");
        assert!(error.branch().branches().is_empty());
        assert_eq!(error.into_state(), Some(11));
    }
}

#[test]
fn f5_cancel_inside_a_branch_returns_the_state_before_the_fan_out() {
    let sim = Sim::new(1);
    let token = CancelToken::root(sim.runtime());
    let cancels = token.clone();
    let graph = Graph::new("cancels")
        .add_node("fork", add_one)
        .add_node("a", move |n: u32| {
            cancels.cancel("now");
            add_one(n)
        })
        .add_node("b", add_one)
        .add_parallel_edge("fork", ["a"], END, FanOut::merge(|n: u32, _| n))
        .add_edge("a", "b")
        .add_edge("b", END)
        .set_entry("fork")
        .compile()
        .unwrap();
    let error = sim.run(graph.run(10).token(&token).into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Cancelled { node, .. } if node == "b"), "{error}");
    assert_eq!(error.into_state(), Some(11));
}

#[test]
fn f5_branch_error_names_the_branch_and_carries_its_state() {
    let fails = |n: u32| async move { if n == 2 { Err("no".to_string()) } else { Ok(n) } };
    let graph = |fan_out: FanOut<u32>| {
        Graph::new("fails")
            .add_node("fork", add_one)
            .add_node("item", fails)
            .map("fork", |_: &u32| vec![1, 2, 3], "item", END, fan_out)
            .add_edge("item", END)
            .set_entry("fork")
            .compile()
            .unwrap()
    };
    for fail_fast in [true, false] {
        let graph = graph(FanOut::merge(|n: u32, _| n).fail_fast(fail_fast));
        let error = block_on(async { graph.run(10).keep_state().await }).unwrap_err();
        assert_eq!((error.branch().branches(), error.into_state()), (vec![1], Some(2)));
    }
    let collected = graph(FanOut::collect(|_: u32, all: Vec<Result<u32, RunError<u32>>>| {
        let branches: Vec<_> = all.into_iter().filter_map(Result::err).map(|error| error.branch().branches()).collect();
        if branches == [[1]] { Ok(7) } else { Err(format!("{branches:?}")) }
    }));
    assert_eq!(block_on(async { collected.run(10).await }).unwrap(), 7);
}

fn timed(fan_out: FanOut<u32>) -> CompiledGraph<u32> {
    Graph::new("timed")
        .add_node("fork", add_one)
        .add_node("hangs", |n: u32| async move {
            pending::<()>().await;
            Ok::<_, String>(n)
        })
        .add_parallel_edge("fork", ["hangs"], END, fan_out.timeout(Duration::from_secs(2)))
        .add_edge("hangs", END)
        .set_entry("fork")
        .compile()
        .unwrap()
}

#[test]
fn f9_fan_out_timeout_is_a_separate_fault() {
    let sim = Sim::new(1);
    let expected = FanOutTimeout { node: "fork".into(), elapsed: Elapsed(Duration::from_secs(2)) };
    let graph = timed(FanOut::merge(|n: u32, _| n));
    let error = sim.run(graph.run(1).runtime(sim.runtime()).into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::FanOutTimeout(timeout) if *timeout == expected), "{error}");
    assert_eq!(error.source().and_then(|source| source.downcast_ref::<Elapsed>()), Some(&expected.elapsed));
    // A stored run reports the same fault later.
    let store = MemoryStore::on(sim.runtime());
    sim.run(graph.run(1).id("r").checkpoint(&store).runtime(sim.runtime()).into_future()).unwrap_err();
    let stored = sim.run(graph.outcome_of("r", &store).runtime(sim.runtime()).into_future()).unwrap_err();
    assert!(matches!(stored.fault(), RunFault::FanOutTimeout(timeout) if *timeout == expected), "{stored}");
}

/// A graph whose only node is the subgraph `inner`.
fn around(inner: Graph<u32>) -> CompiledGraph<u32> {
    let inner = inner.compile().unwrap();
    let graph = Graph::new("outer").add_subgraph("sub", inner, |n: &u32| *n, |_: u32, n: u32| n);
    graph.add_edge("sub", END).set_entry("sub").compile().unwrap()
}

#[test]
fn f10_every_failure_in_a_subgraph_names_the_inner_node() {
    quiet();
    let one = |graph: Graph<u32>| graph.set_entry("node");
    let node = one(Graph::new("i").add_node("node", |_: u32| async { Err::<u32, _>("no") }).add_edge("node", END));
    let panics = one(Graph::new("i")
        .add_node("node", |_: u32| async { panic!("{INJECTED}") as Result<u32, String> })
        .add_edge("node", END));
    let router = one(Graph::new("i").add_node("node", add_one).add_conditional_edge("node", [END], |_: &u32| "nowhere"));
    let merge = FanOut::try_merge(|_: u32, _| Err::<u32, _>("no"));
    let merge = Graph::new("i").add_node("node", add_one).add_node("b", add_one).add_parallel_edge("node", ["b"], END, merge);
    let merge = one(merge.add_edge("b", END));
    for (graph, of) in [(node, "node"), (panics, "panic"), (router, "router"), (merge, "merge")] {
        let error = block_on(async { around(graph).run(0).await }).unwrap_err();
        let named = match error.fault() {
            RunFault::Node(error) => (&error.node, "node"),
            RunFault::Panic(error) => (&error.node, "panic"),
            RunFault::Router(error) => (&error.node, "router"),
            RunFault::Merge(error) => (&error.node, "merge"),
            other => panic!("{other}"),
        };
        assert_eq!((named.0.as_str(), named.1), ("sub/node", of));
    }
}

#[test]
fn f10_run_fault_inside_a_plain_node_becomes_the_node_error() {
    let inner =
        Graph::new("i").add_node("node", |_: u32| async { Err::<u32, _>("no") }).add_edge("node", END).set_entry("node");
    let inner = inner.compile().unwrap();
    let runs = move |n: u32| {
        let inner = inner.clone();
        async move { inner.run(n).await.map_err(RunError::into_fault) }
    };
    let graph = Graph::new("o").add_node("runs", runs).add_edge("runs", END).set_entry("runs").compile().unwrap();
    let error = block_on(async { graph.run(0).await }).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Node(error) if error.node == "runs"), "{error}");
}

type Merging = fn(u32, Vec<u32>) -> Result<u32, String>;

#[test]
fn f5_failed_merge_returns_the_state_before_the_fan_out() {
    quiet();
    let merges: [Merging; 2] = [|_, _| Err("no".into()), |_, _| panic!("{INJECTED}")];
    for merge in merges {
        let graph = Graph::new("merges")
            .add_node("fork", add_one)
            .add_node("a", add_one)
            .add_parallel_edge("fork", ["a"], END, FanOut::try_merge(merge))
            .add_edge("a", END)
            .set_entry("fork")
            .compile()
            .unwrap();
        let is_of_merge = |fault: &RunFault| match fault {
            RunFault::Merge(_) => true,
            RunFault::Panic(panic) => panic.during == During::Merge,
            _ => false,
        };
        let error = block_on(async { graph.run(10).keep_state().await }).unwrap_err();
        assert!(is_of_merge(error.fault()), "{error}");
        assert_eq!(error.into_state(), Some(11));
        let sim = Sim::new(1);
        let run = graph.run(10).checkpoint(&MemoryStore::on(sim.runtime())).runtime(sim.runtime());
        let error = sim.run(run.into_future()).unwrap_err();
        assert!(is_of_merge(error.fault()), "{error}");
        assert_eq!(error.into_state(), Some(11));
    }
}

#[test]
fn s7_panic_with_an_io_error_shows_its_text() {
    quiet();
    let node = |_: u32| async { std::panic::panic_any(std::io::Error::other("the disk is full")) as Result<u32, String> };
    let graph = Graph::new("p").add_node("node", node).add_edge("node", END).set_entry("node").compile().unwrap();
    let error = block_on(async { graph.run(0).await }).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Panic(panic) if panic.payload == "the disk is full"), "{error}");
}
