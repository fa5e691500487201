//! A graph that counts, with an effect and a wait in each step.

use super::Log;
use pleach::prelude::*;
use pleach::runtime::Runtime;
use std::sync::Arc;

/// Counts to `last`. Each step first waits for the duration that `wait` returns.
pub fn counting(
    clock: Arc<dyn Runtime>,
    outside: &Log<String>,
    last: u32,
    wait: impl Fn(&dyn Runtime) -> Duration + Send + Sync + 'static,
) -> CompiledGraph<u32> {
    let outside = outside.clone();
    let step = move |cx: NodeContext, n: u32| {
        let (until, outside) = (clock.now() + wait(&*clock), outside.clone());
        let waited = clock.sleep_until(until);
        async move {
            waited.await;
            let effect = cx.effect("count", move |_| async move {
                outside.note(n);
                Ok::<_, String>(n + 1)
            });
            effect.await
        }
    };
    Graph::new("counting")
        .add_node("step", step)
        .add_conditional_edge("step", ["step", END], move |n: &u32| if *n < last { "step" } else { END })
        .set_entry("step")
        .compile()
        .unwrap()
}
