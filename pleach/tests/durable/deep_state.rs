//! C3: a state that is nested too deeply to be read back.

use pleach::prelude::*;
use pleach::store::MemoryStore;
use serde_json::Value;

/// A run whose first node returns a state of this depth and whose second node asks a question.
fn deep(depth: usize) -> CompiledGraph<Value> {
    Graph::<Value>::new("g")
        .add_node("a", move |_: Value| async move {
            Ok::<_, String>((0..depth).fold(Value::Null, |value, _| Value::Array(vec![value])))
        })
        .add_node("b", |cx: NodeContext, value: Value| async move {
            let _: u32 = cx.interrupt("k", "?").await;
            Ok::<_, String>(value)
        })
        .add_edge("a", "b")
        .add_edge("b", END)
        .set_entry("a")
        .compile()
        .unwrap()
}

#[tokio::test]
async fn c3_state_too_deep_to_read_back_is_rejected_at_commit() {
    let mut rejected = Vec::new();
    for depth in 120..135 {
        let (graph, store) = (deep(depth), MemoryStore::new());
        let first = graph.run(Value::Null).id("r").checkpoint(&store).await.unwrap_err();
        if matches!(first.fault(), RunFault::Paused { .. }) {
            graph.resume("r").resume_with("k", &1u32).checkpoint(&store).await.unwrap();
        } else {
            assert!(first.to_string().contains("recursion limit"), "{first}");
            rejected.push(depth);
        }
    }
    assert_eq!(rejected, (127..135).collect::<Vec<_>>());
}
