//! [`Queue`]: creates runs for workers, answers their questions and watches their end, from
//! outside, through the store alone.

use crate::graph::{State, everything};
use crate::reading;
use crate::site::Site;
use pleach::CompiledGraph;
use pleach::store::{Held, Lease, NewMessage, Release, RunStatus, Store, StoreError, Wanted};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of open runs.
const OPEN: usize = 16;
/// The interval between two checks.
const LOOK_EVERY: Duration = Duration::from_millis(40);

pub struct Queue {
    lot: String,
    graph: CompiledGraph<State>,
    looked_at: Instant,
}

impl Queue {
    pub fn new(lot: &str) -> Result<Self, String> {
        let graph = everything().map_err(|error| error.to_string())?;
        Ok(Self { lot: lot.into(), graph, looked_at: Instant::now() })
    }

    /// Checks all runs if the interval has passed. A failed step is repeated the next time.
    pub fn tend(&mut self, site: &Site, is_open: bool) {
        if self.looked_at.elapsed() < LOOK_EVERY {
            return;
        }
        self.looked_at = Instant::now();
        let mut open: Vec<String> = site.ledger.with(|book| {
            let tasks = book.assignments.tasks.iter().filter(|(_, task)| task.lot == self.lot && !task.is_done);
            tasks.map(|(run, _)| run.clone()).collect()
        });
        while is_open && open.len() < OPEN {
            open.push(site.ledger.with(|book| book.assignments.leave(&self.lot)).0);
        }
        for run in open {
            drop(site.ledger.handle().block_on(self.see_to(site, &run)));
        }
    }

    async fn see_to(&self, site: &Site, run: &str) -> Result<(), StoreError> {
        let store: &Arc<dyn Store> = site.ledger.store();
        let info = match store.head(run).await {
            Err(StoreError::Unknown { .. }) => {
                let variant = site.ledger.with(|book| book.assignments.tasks[run].variant);
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
                site.ledger.with(|book| {
                    if let Some(task) = book.assignments.tasks.get_mut(run) {
                        (task.is_done, task.state) = (true, state.filter(|_| status == RunStatus::Finished));
                    }
                });
            }
            _ => {}
        }
        Ok(())
    }
}
