//! Hints from other machines: `NOTIFY pleach` means that a run may have become ready.
//!
//! A lost hint only delays a run until the next poll. The listener uses a separate connection,
//! because a pool does not forward notifications. A dead connection is as silent as one without
//! news, so the listener sends a query at intervals. It drops a connection or a login that gets no
//! answer.

use super::builder::KEEPALIVE_IDLE;
use super::connections::CONNECT_TIMEOUT;
use crate::store::hint::Hints;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{AsyncMessage, Client, Config, Socket};

/// The delay before the listener connects again.
const RECONNECT_DELAY: Duration = Duration::from_secs(2);

/// The minimum interval of the queries, if the keepalive interval of the configuration is shorter.
const PROBE_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// Listens until the store is dropped, which aborts this task.
pub(super) async fn listen<T>(config: Config, tls: T, hints: Arc<Hints>)
where
    T: MakeTlsConnect<Socket> + Clone + Send,
    T::Stream: Send,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    loop {
        listen_once(&config, tls.clone(), &hints).await;
        // Notifications since the connection ended were missed.
        hints.notify();
        tokio::time::sleep(RECONNECT_DELAY).await;
    }
}

/// Listens on one connection until it ends, or the server does not answer.
async fn listen_once<T: MakeTlsConnect<Socket>>(config: &Config, tls: T, hints: &Hints) {
    // The timeout of the configuration covers only the socket, not the login.
    let timeout = config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT);
    let Ok(Ok((client, mut connection))) = tokio::time::timeout(timeout, config.connect(tls)).await else { return };
    let interval = config.get_keepalives_idle().clamp(PROBE_INTERVAL_MIN, KEEPALIVE_IDLE);
    let mut probing = pin!(probe(&client, timeout, interval, hints));
    std::future::poll_fn(|cx| {
        if probing.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        loop {
            match connection.poll_message(cx) {
                Poll::Ready(Some(Ok(AsyncMessage::Notification(_)))) => hints.notify(),
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
}

/// Sends `LISTEN` at intervals; repeating it has no effect. Returns when the server does not
/// answer.
async fn probe(client: &Client, timeout: Duration, interval: Duration, hints: &Hints) {
    let is_answered = async || {
        let answer = tokio::time::timeout(timeout, client.batch_execute("LISTEN pleach")).await;
        matches!(answer, Ok(Ok(())))
    };
    if is_answered().await {
        // Notifications before the first `LISTEN` were missed.
        hints.notify();
        tokio::time::sleep(interval).await;
        while is_answered().await {
            tokio::time::sleep(interval).await;
        }
    }
}
