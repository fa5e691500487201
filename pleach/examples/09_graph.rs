//! A state graph: steps in a line, a branch, and a loop with a limit, one of whose steps fails now and then and is tried again.
//!
//! Run it with `cargo run --package pleach --example 09_graph`.

use pleach::prelude::*;

#[derive(Clone, Debug, Default)]
struct Essay {
    topic: String,
    text: String,
    score: u32,
    drafts: u32,
}

/// A node takes the state and gives it back changed. An `Err` or a panic is a failure.
async fn outline(mut essay: Essay) -> Result<Essay, String> {
    if essay.topic.is_empty() {
        return Err("an essay about nothing".into());
    }
    essay.text = format!("On {}.", essay.topic);
    Ok(essay)
}

/// It may take a context as well: here it asks which attempt it is. The first one of every draft fails.
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
    // Everything about the graph is checked here, and everything that is wrong with it is reported at once.
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

    // A limit keeps a loop from going on for ever, and gives the state back.
    let error = graph.run(first).max_iterations(4).await.expect_err("four nodes are too few");
    println!("{error}");
    assert!(matches!(error.fault(), RunFault::MaxIterations { limit: 4, .. }));
    assert_eq!(error.into_state().map(|essay| essay.drafts), Some(2));

    // A node that fails past its retries fails the run. The error says which node, which attempt, and why.
    let error = graph.run(Essay::default()).await.expect_err("it has no topic");
    println!("{error}");
    assert!(matches!(error.fault(), RunFault::Node(NodeError { node, attempt: 1, .. }) if node == "outline"));
    Ok(())
}
