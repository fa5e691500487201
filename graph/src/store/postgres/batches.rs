//! [`Batches`]: the calls of many runs that share round trips.
//!
//! | calls | statement |
//! |---|---|
//! | commits | `commit_many` |
//! | reads of one row, which open a run | `rows_many` |
//! | renewals | `renew` |
//!
//! Left to the callers, one by one:
//! - commits that find a locked row or another fence, and commits with tags, a new version or
//!   refused messages,
//! - reads of a row or a run that is damaged or not there, and what exceeds `READ_BYTES_MAX`,
//! - renewals of locked rows.
//!
//! No statement of a batch waits for a row, so no run delays another, and batches of several
//! connections cannot block each other.

use super::batcher::{Batcher, CallResult};
use super::connections::{Connection, Connections};
use super::fault::{BatchFailure, Failure};
use super::leases::{self, NotDone, Renewal};
use super::read::{self, SingleRow};
use super::{commit_many, schema};
use crate::store::error::StoreError;
use crate::store::row::Row;
use crate::store::time::Timestamp;
use crate::store::{Commit, Committed};
use std::sync::Arc;
use std::time::Duration;

pub(super) struct Batches {
    pub(super) commits: Arc<Batcher<Commit, Committed>>,
    pub(super) reads: Arc<Batcher<SingleRow, Vec<Row>>>,
    pub(super) renewals: Arc<Batcher<Renewal, (NotDone, Timestamp)>>,
}

impl Batches {
    pub(super) fn new(connections: &Arc<Connections>) -> Self {
        let commits = Batcher::new({
            let connections = Arc::clone(connections);
            move |commits: Vec<Arc<Commit>>| {
                let connections = Arc::clone(&connections);
                Box::pin(async move {
                    let taken = connections.take().await;
                    on(&connections, taken, commits.len(), async |client| commit_many::commit(client, &commits).await).await
                })
            }
        });
        let reads = Batcher::new({
            let connections = Arc::clone(connections);
            move |wanted: Vec<Arc<SingleRow>>| {
                let connections = Arc::clone(&connections);
                Box::pin(async move {
                    let taken = connections.take().await;
                    on(&connections, taken, wanted.len(), async |client| read::rows_many(client, &wanted).await).await
                })
            }
        });
        let renewals = Batcher::new({
            let connections = Arc::clone(connections);
            move |renewals: Vec<Arc<Renewal>>| {
                let connections = Arc::clone(&connections);
                Box::pin(async move { renew(&connections, &renewals).await })
            }
        });
        Self { commits, reads, renewals }
    }
}

/// Renews leases within the time limit of the longest of them. Each caller has its own limit too.
async fn renew(connections: &Connections, renewals: &[Arc<Renewal>]) -> Vec<CallResult<(NotDone, Timestamp)>> {
    let longest = renewals.iter().map(|renewal| renewal.lease).max().unwrap_or(Duration::ZERO);
    let renewing = async {
        let taken = connections.take_for_renewal().await;
        let renewed = on(connections, taken, renewals.len(), async |client| {
            let renewed = leases::renew_free(client, renewals.iter().map(|renewal| &**renewal)).await?;
            Ok(renewed.into_iter().map(CallResult::Done).collect())
        });
        Ok(renewed.await)
    };
    connections.renewal(longest, renewing).await.unwrap_or_else(|error| failed(&error, renewals.len()))
}

/// Makes a batch of `count` calls on a connection.
async fn on<A>(
    connections: &Connections,
    taken: Result<Connection, StoreError>,
    count: usize,
    make: impl AsyncFnOnce(&Connection) -> Result<Vec<CallResult<A>>, Failure>,
) -> Vec<CallResult<A>> {
    let connection = match taken {
        Ok(connection) => connection,
        Err(error) => return failed(&error, count),
    };
    let answer = connections.answer(async {
        match make(&connection).await {
            Err(failure) => Err(schema::explain(&connection, failure).await),
            answer => answer,
        }
    });
    let answer = answer.await;
    connection.give_back(&answer);
    let failure = match answer {
        Ok(results) => return results,
        Err(failure) => failure,
    };
    match failure.of_batch() {
        BatchFailure::Lost => (0..count).map(|_| CallResult::Lost).collect(),
        BatchFailure::Undone => (0..count).map(|_| CallResult::Alone).collect(),
        BatchFailure::Of(failure) => failed(&failure.into_store_error(&connections.target), count),
    }
}

/// Each call fails with an error of its own.
fn failed<A>(error: &StoreError, count: usize) -> Vec<CallResult<A>> {
    (0..count).map(|_| CallResult::Failed(error.clone())).collect()
}
