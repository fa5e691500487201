//! F2: the outputs that a node may have.
use pleach::prelude::*;
use pleach::runtime::block_on;

async fn double(n: u32) -> u32 {
    n * 2
}

async fn add_attempt(cx: NodeContext, n: u32) -> u32 {
    n + cx.attempt()
}

#[test]
fn f2_node_may_return_the_state_alone() {
    // The state type is inferred from the first node.
    let graph = Graph::new("plain")
        .add_node("closure", |n: u32| async move { n + 1 })
        .add_node("context closure", |cx: NodeContext, n: u32| async move { n + cx.attempt() })
        .add_node("function", double)
        .add_node("context function", add_attempt)
        .add_node("fallible", |n: u32| async move { if n > 0 { Ok(n * 10) } else { Err("zero") } })
        .add_edge("closure", "context closure")
        .add_edge("context closure", "function")
        .add_edge("function", "context function")
        .add_edge("context function", "fallible")
        .add_edge("fallible", END)
        .set_entry("closure")
        .compile()
        .unwrap();
    assert_eq!(block_on(async { graph.run(1).await }).unwrap(), 70);
}

#[test]
fn f2_state_that_is_a_result_is_not_a_failure() {
    type Answer = Result<u32, String>;
    let graph = Graph::<Answer>::new("answer")
        .add_node("refuse", |_: Answer| async move { Answer::Err("not today".to_string()) })
        .add_edge("refuse", END)
        .set_entry("refuse")
        .compile()
        .unwrap();
    assert_eq!(block_on(async { graph.run(Ok(1)).await }).unwrap(), Err("not today".to_string()));
}

#[test]
fn f2_panic_in_a_node_that_returns_the_state_alone_fails_the_run() {
    let graph = Graph::<u32>::new("panics")
        .add_node("panics", |n: u32| async move { if n > 0 { panic!("too large") } else { n } })
        .add_edge("panics", END)
        .set_entry("panics")
        .compile()
        .unwrap();
    assert_eq!(block_on(async { graph.run(0).await }).unwrap(), 0);
    let error = block_on(async { graph.run(1).await }).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Panic(panic) if panic.node == "panics"), "{error}");
}
