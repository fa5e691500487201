//! A run that asks somebody: it pauses durably, and goes on with the answer, in this process or another. The answer may come with the
//! resume, or from outside: `RunRemote` needs the store and the run's id, not the graph.
//!
//! Run it with `cargo run --package pleach --example 13_approval`.

use pleach::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Debug, Default, Serialize, Deserialize)]
struct Post {
    text: String,
    published: bool,
}

/// What an editor says.
#[derive(Serialize, Deserialize)]
enum Verdict {
    Publish,
    Rewrite(String),
}

async fn write(mut post: Post) -> Result<Post, pleach::BoxError> {
    if post.text.is_empty() {
        post.text = "Actors are fun".into();
    }
    Ok(post)
}

async fn review(cx: NodeContext, mut post: Post) -> Result<Post, pleach::BoxError> {
    // Nothing is held meanwhile: not a thread, not a task, not the process.
    match cx.interrupt("verdict", &post.text).await {
        Verdict::Publish => post.published = true,
        Verdict::Rewrite(text) => post.text = text,
    }
    Ok(post)
}

#[tokio::main]
async fn main() -> Result<(), pleach::Error> {
    let graph = Graph::<Post>::new("post")
        .add_node("write", write)
        .add_node("review", review)
        .add_edge("write", "review")
        .add_conditional_edge("review", ["write", END], |post: &Post| if post.published { END } else { "write" })
        .set_entry("write")
        .compile()?;
    let store = MemoryStore::new();

    let paused = graph.run(Post::default()).id("post-1").checkpoint(&store).await.expect_err("it waits");
    println!("{paused}");
    assert!(matches!(paused.fault(), RunFault::Paused { keys, .. } if *keys == ["verdict"]));

    // What is no verdict is refused, and the run waits on.
    let refused = graph.resume("post-1").resume_with("verdict", &42).checkpoint(&store).await.expect_err("that is no verdict");
    println!("{refused}");

    // An editor elsewhere, as in a web handler: it sees what the run asks, and posts an answer that outlives both of them.
    let editor = RunRemote::new(&store, "post-1");
    println!("{:?}", editor.look().await?.tokens);
    editor.resume_with("verdict", &Verdict::Rewrite("Actors are bounded".into())).await?;

    // Whoever drives the run next takes the answer; a `Worker` would do so by itself.
    let paused = graph.resume("post-1").checkpoint(&store).await.expect_err("it asks again");
    assert!(matches!(paused.fault(), RunFault::Paused { .. }));

    let post = graph.resume("post-1").resume_with("verdict", &Verdict::Publish).checkpoint(&store).await?;
    println!("{post:?}");
    assert_eq!((post.text.as_str(), post.published), ("Actors are bounded", true));
    Ok(())
}
