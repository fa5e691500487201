//! Wakes the listeners of other machines; see `listen`.
//!
//! The notification is a statement of its own, sent right behind the statement that may give other
//! drivers something to do. So it costs no round trip, and no transaction that writes rows waits
//! for the lock of the whole server that a notification takes. No task waits for its answer: a lost
//! notification delays a run until the next poll.

use super::sql::{self, Statement};
use deadpool_postgres::ClientWrapper;
use std::pin::pin;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

/// Executes a statement, and wakes the listeners once the server has executed it.
pub(super) async fn query_and_ring(
    client: &ClientWrapper,
    statement: &Statement,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, Error> {
    // Both are prepared before the first is sent, so that nothing comes between them.
    let (statement, ring) = (client.prepare_cached(statement).await?, client.prepare_cached(&sql::RING).await?);
    let mut answer = pin!(client.query(&statement, parameters));
    let mut ringing = Some(Box::pin(client.execute(&ring, &[])));
    std::future::poll_fn(|cx| {
        // The first poll sends a request.
        let polled = answer.as_mut().poll(cx);
        if let Some(mut ringing) = ringing.take() {
            drop(ringing.as_mut().poll(cx));
        }
        polled
    })
    .await
}
