//! F5: how runs fail, and which text and state their errors carry.
use crate::common::{INJECTED, quiet};
use pleach::graph::During;
use pleach::prelude::*;
use pleach::runtime::block_on;
use pleach::sim::Sim;
use std::error::Error;
use std::future::pending;

#[derive(Debug, PartialEq)]
struct Broken(u32);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "broken {}", self.0)
    }
}

impl Error for Broken {}

fn breaking() -> CompiledGraph<u32> {
    Graph::new("breaking")
        .add_node("break", |n: u32| async move { Err::<u32, _>(Broken(n)) })
        .add_edge("break", END)
        .set_entry("break")
        .compile()
        .unwrap()
}

#[test]
fn f5_node_error_carries_its_source() {
    fn must_be<T: Error + Send + Sync + 'static>(_: &T) {}
    let error = block_on(async { breaking().run(7).await }).unwrap_err();
    must_be(&error);
    assert!(matches!(error.fault(), RunFault::Node(node) if node.node == "break" && node.attempt == 1));
    assert_eq!(error.source().and_then(|source| source.downcast_ref()), Some(&Broken(7)));
    assert_eq!(error.to_string(), "node \"break\" failed at attempt 1: broken 7");
    // The failed node consumed the state, unless `keep_state` was set.
    assert_eq!(error.into_state(), None);
    let error = block_on(async { breaking().run(7).keep_state().await }).unwrap_err();
    assert_eq!(error.into_state(), Some(7));
    let error: pleach::Error = block_on(async { breaking().run(7).await }).unwrap_err().into();
    assert!(matches!(error, pleach::Error::Run(RunFault::Node(_))));
}

#[test]
fn f5_panics_in_nodes_and_routers_carry_their_location() {
    // Not `quiet()`: its panic hook could run before the hook that records locations.
    let panicking = |during: During| {
        let graph = Graph::<u32>::new("panicking")
            .add_node("node", move |n: u32| {
                assert!(during != During::Split, "before the future");
                async move {
                    assert!(during != During::Node, "in it");
                    Ok::<_, String>(n)
                }
            })
            .add_conditional_edge("node", [END], move |_: &u32| {
                assert!(during != During::Router, "in the router");
                END
            })
            .set_entry("node")
            .compile()
            .unwrap();
        block_on(async { graph.run(3).await }).unwrap_err()
    };
    for during in [During::Node, During::Router, During::Split] {
        let error = panicking(during);
        let RunFault::Panic(panic) = error.fault() else { panic!("{error}") };
        let expected = if during == During::Split { During::Node } else { during };
        assert_eq!((panic.node.as_str(), panic.during), ("node", expected));
        assert!(panic.payload.contains("in it") || panic.payload.contains("the "), "{panic}");
        assert!(panic.location.as_ref().unwrap().contains("faults.rs:"), "{:?}", panic.location);
        assert_eq!(error.into_state(), (during == During::Router).then_some(3));
    }
}

#[derive(Debug)]
struct PanicsOnClone;

impl Clone for PanicsOnClone {
    fn clone(&self) -> Self {
        panic!("{INJECTED} in clone")
    }
}

#[test]
fn f5_panicking_clone_of_the_state_fails_only_its_run() {
    quiet();
    let graph = Graph::<PanicsOnClone>::new("state")
        .add_node("node", |state: PanicsOnClone| async move { Ok::<_, String>(state) })
        .add_edge("node", END)
        .set_entry("node")
        .compile()
        .unwrap();
    let error = block_on(async { graph.run(PanicsOnClone).keep_state().await }).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Panic(panic) if panic.during == During::CloneState));
    assert!(error.into_state().is_some(), "the original state is returned");
    assert!(block_on(async { graph.run(PanicsOnClone).await }).is_ok(), "without `keep_state` it is not cloned");
}

#[test]
fn f5_panicking_destructor_counts_as_a_panic_of_the_node() {
    quiet();
    struct PanicsOnDrop;
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("{INJECTED} in drop")
        }
    }
    let graph = Graph::<u32>::new("fuse")
        .add_node("node", |n: u32| async move {
            let _panics = PanicsOnDrop;
            if n > 0 {
                pending::<()>().await;
            }
            Ok::<_, String>(n)
        })
        .add_edge("node", END)
        .set_entry("node")
        .compile()
        .unwrap();
    let error = block_on(async { graph.run(0).await }).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Panic(panic) if panic.during == During::Node));
    // If the node is dropped while it waits, the panic is listed beside the cancel.
    let sim = Sim::new(1);
    let error = sim.run(async { graph.run(1).runtime(sim.runtime()).timeout(Duration::from_secs(1)).await }).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Cancelled { .. }));
    assert_eq!(error.panics().len(), 1);
}
