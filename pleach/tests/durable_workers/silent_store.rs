//! C10: a store that does not answer is not mistaken for a blocked thread.

use crate::common::failing_connection::FailingConnection;
use pleach::prelude::*;
use pleach::store::MemoryStore;
use tokio::time::Instant;

/// How long an ending run waits for its release.
const RELEASE_MAX: Duration = Duration::from_secs(5);

/// A node that does nothing for an hour.
fn idle() -> CompiledGraph<u32> {
    Graph::<u32>::new("g")
        .add_node("n", |n: u32| async move {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            Ok::<_, String>(n)
        })
        .add_edge("n", END)
        .set_entry("n")
        .compile()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn c10_run_whose_store_is_silent_ends_before_its_lease() {
    // Tokio timers fire at whole milliseconds, so they are late for most of these leases.
    for micros in (1_000_000..1_010_000).step_by(700) {
        let (lease, store) = (Duration::from_micros(micros), FailingConnection::new(MemoryStore::new()));
        let (began, dying) = (Instant::now(), store.clone());
        let run = idle().run(0).id("r").checkpoint(&store).lease(lease).into_future();
        let (outcome, ()) = tokio::join!(run, async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            dying.kill();
        });
        let (error, lasted) = (outcome.unwrap_err().to_string(), began.elapsed() - RELEASE_MAX);
        assert!(lasted < lease && !error.contains("was not polled"), "lease {lease:?}, ended after {lasted:?}: {error}");
    }
}
