//! [`Queue`]: creates runs for workers, answers their questions and watches their end, from
//! outside, through the store alone.

use crate::graph::{State, everything};
use crate::reading;
use crate::store_under_test::StoreUnderTest;
use pleach::CompiledGraph;
use pleach::store::{Held, Lease, NewMessage, Release, RunStatus, Store, StoreError, Wanted};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of open runs.
const OPEN: usize = 16;
/// The interval between two checks.
const CHECK_EVERY: Duration = Duration::from_millis(40);

pub struct Queue {
    set: String,
    graph: CompiledGraph<State>,
    checked_at: Instant,
}

impl Queue {
    pub fn new(set: &str) -> Result<Self, String> {
        let graph = everything().map_err(|error| error.to_string())?;
        Ok(Self { set: set.into(), graph, checked_at: Instant::now() })
    }

    /// Checks all runs if the interval has passed. A failed step is repeated the next time.
    pub fn advance_runs(&mut self, tested: &StoreUnderTest, is_open: bool) {
        if self.checked_at.elapsed() < CHECK_EVERY {
            return;
        }
        self.checked_at = Instant::now();
        let mut open: Vec<String> = tested.ledger.with(|book| {
            let runs = book.assignments.runs.iter().filter(|(_, tracked)| tracked.set == self.set && !tracked.is_done);
            runs.map(|(run, _)| run.clone()).collect()
        });
        while is_open && open.len() < OPEN {
            open.push(tested.ledger.with(|book| book.assignments.add_run_for_workers(&self.set)).0);
        }
        for run in open {
            drop(tested.ledger.handle().block_on(self.advance_run(tested, &run)));
        }
    }

    async fn advance_run(&self, tested: &StoreUnderTest, run: &str) -> Result<(), StoreError> {
        let store: &Arc<dyn Store> = tested.ledger.store();
        let info = match store.head(run).await {
            Err(StoreError::RunNotFound { .. }) => {
                let variant = tested.ledger.with(|book| book.assignments.runs[run].variant);
                drop(self.graph.run(State::new(variant)).id(run).checkpoint(store).enqueue().await);
                return Ok(());
            }
            info => info?,
        };
        match info.status {
            RunStatus::Waiting if info.wake_at.is_none() => {
                store
                    .send_message(run, NewMessage::seal(run, "answer/approve", Some("the answer".into()), b"true".to_vec()))
                    .await?;
            }
            RunStatus::Stuck => {
                let lease = Lease { owner: "stuck run cleanup".into(), length: Duration::from_secs(1) };
                let claims = store.claim(Wanted::One { run: run.into(), force: true }, lease).await?;
                let held = claims.iter().map(|claim| Held::of(&claim.run)).collect();
                store.release(held, Release::AsIs).await?;
            }
            status if status.has_ended() => {
                let state = reading::read(store, run).await?.and_then(|reading| reading.state);
                tested.ledger.with(|book| {
                    if let Some(tracked) = book.assignments.runs.get_mut(run) {
                        (tracked.is_done, tracked.state) = (true, state.filter(|_| status == RunStatus::Finished));
                    }
                });
            }
            _ => {}
        }
        Ok(())
    }
}
