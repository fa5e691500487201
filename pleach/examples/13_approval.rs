//! A run that waits for a person. It pauses, and resumes with the answer in any process. The answer
//! comes with the resume, or through `RunRemote`, which needs the store and the run id only.
//!
//! Run it with `cargo run --package pleach --features graph --example 13_approval`.

use pleach::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Debug, Default, Serialize, Deserialize)]
struct Post {
    text: String,
    published: bool,
}

/// The answer of an editor.
#[derive(Serialize, Deserialize)]
enum Review {
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
    // A waiting run uses no thread and no task. The process can end.
    match cx.interrupt("verdict", &post.text).await {
        Review::Publish => post.published = true,
        Review::Rewrite(text) => post.text = text,
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

    // An answer that is not a `Review` is rejected, and the run keeps waiting.
    let refused = graph.resume("post-1").resume_with("verdict", &42).checkpoint(&store).await.expect_err("42 is not a verdict");
    println!("{refused}");

    // An editor elsewhere, such as a web handler, reads the question and posts a stored answer.
    let editor = RunRemote::new(&store, "post-1");
    println!("{:?}", editor.view().await?.tokens);
    editor.resume_with("verdict", &Review::Rewrite("Actors are bounded".into())).await?;

    // The next driver takes the answer. A `Worker` does this automatically.
    let paused = graph.resume("post-1").checkpoint(&store).await.expect_err("it asks again");
    assert!(matches!(paused.fault(), RunFault::Paused { .. }));

    let post = graph.resume("post-1").resume_with("verdict", &Review::Publish).checkpoint(&store).await?;
    println!("{post:?}");
    assert_eq!((post.text.as_str(), post.published), ("Actors are bounded", true));
    Ok(())
}
