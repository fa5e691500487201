//! A graph: a sequence, a branch, a loop with a limit, and a node with retries.
//!
//! Run it with `cargo run --package pleach --features graph --example 09_graph`.

use pleach::prelude::*;

#[derive(Clone, Debug, Default)]
struct Essay {
    topic: String,
    text: String,
    score: u32,
    drafts: u32,
}

/// A node takes the state and returns the new state. An `Err` or a panic is a failure.
async fn outline(mut essay: Essay) -> Result<Essay, String> {
    if essay.topic.is_empty() {
        return Err("the essay has no topic".into());
    }
    essay.text = format!("On {}.", essay.topic);
    Ok(essay)
}

/// A node can also take a context. The first attempt of every draft fails.
async fn write(cx: NodeContext, mut essay: Essay) -> Result<Essay, String> {
    if cx.attempt() == 1 {
        return Err("no inspiration".into());
    }
    essay.drafts += 1;
    essay.text += " And then some.";
    println!("{} at attempt {}: draft {}", cx.node(), cx.attempt(), essay.drafts);
    Ok(essay)
}

async fn judge(mut essay: Essay) -> Result<Essay, String> {
    essay.score = essay.drafts * 30;
    Ok(essay)
}

#[tokio::main]
async fn main() -> Result<(), pleach::Error> {
    // `compile` checks the whole graph and reports all faults at once.
    let graph = Graph::<Essay>::new("essay")
        .add_node("outline", outline)
        .add_node("write", write)
        .add_node("judge", judge)
        .add_node("praise", |essay: Essay| async move { Ok::<_, String>(Essay { text: essay.text + " Bravo!", ..essay }) })
        .add_edge("outline", "write")
        .add_edge("write", "judge")
        .add_conditional_edge("judge", ["write", "praise"], |essay: &Essay| if essay.score < 80 { "write" } else { "praise" })
        .add_edge("praise", END)
        .policy("write", Policy::new().retry(Retry::times(3).backoff(Duration::from_millis(1), Duration::from_millis(10))))
        .set_entry("outline")
        .compile()?;
    println!("{}", graph.to_mermaid());

    let first = Essay { topic: "graphs".into(), ..Essay::default() };
    let essay = graph.run(first.clone()).max_iterations(32).await?;
    println!("{essay:?}");
    assert_eq!((essay.drafts, essay.score), (3, 90));

    // A limit ends an endless loop. The error contains the state.
    let error = graph.run(first).max_iterations(4).await.expect_err("four nodes are too few");
    println!("{error}");
    assert!(matches!(error.fault(), RunFault::MaxIterations { limit: 4, .. }));
    assert_eq!(error.into_state().map(|essay| essay.drafts), Some(2));

    // A node that fails after its retries fails the run. The error names node, attempt and reason.
    let error = graph.run(Essay::default()).await.expect_err("it has no topic");
    println!("{error}");
    assert!(matches!(error.fault(), RunFault::Node(NodeError { node, attempt: 1, .. }) if node == "outline"));
    Ok(())
}
