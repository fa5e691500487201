//! Hints from other machines: `NOTIFY pleach` says that a run may have become ready. A hint that is lost costs nothing but the wait for the next poll.
//!
//! Notifications come to a connection of their own: a pool does not hand out what its connections hear. A connection that was swallowed is as silent
//! as one without news, so the server is asked now and then. One that does not answer is given up, and so is a login without an answer.

use super::builder::KEEPALIVE_IDLE;
use super::connections::CONNECT_TIMEOUT;
use crate::store::hint::Hints;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{AsyncMessage, Client, Config, Socket};

/// How long to wait before connecting again.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// The server is asked no more often than this, however often the configuration has its connections probed.
const ASK_EVERY_MIN: Duration = Duration::from_secs(1);

/// Listens for as long as the store lives, which aborts it.
pub(super) async fn listen<T>(config: Config, tls: T, hints: Arc<Hints>)
where
    T: MakeTlsConnect<Socket> + Clone + Send,
    T::Stream: Send,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    loop {
        listen_once(&config, tls.clone(), &hints).await;
        // What was said meanwhile was not heard.
        hints.ring();
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

/// Ends when the connection does, or when the server does not answer.
async fn listen_once<T: MakeTlsConnect<Socket>>(config: &Config, tls: T, hints: &Hints) {
    // The time of the configuration is for the socket alone.
    let patience = config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT);
    let Ok(Ok((client, mut connection))) = tokio::time::timeout(patience, config.connect(tls)).await else { return };
    let every = config.get_keepalives_idle().clamp(ASK_EVERY_MIN, KEEPALIVE_IDLE);
    let mut asking = pin!(ask_now_and_then(&client, patience, every, hints));
    std::future::poll_fn(|cx| {
        if asking.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        loop {
            match connection.poll_message(cx) {
                Poll::Ready(Some(Ok(AsyncMessage::Notification(_)))) => hints.ring(),
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
}

/// Asks to be told, which changes nothing if it was asked before. Ends when there is no answer.
async fn ask_now_and_then(client: &Client, patience: Duration, every: Duration, hints: &Hints) {
    let is_heard = async || {
        let answer = tokio::time::timeout(patience, client.batch_execute("LISTEN pleach")).await;
        matches!(answer, Ok(Ok(())))
    };
    if is_heard().await {
        // What was said before was not heard.
        hints.ring();
        tokio::time::sleep(every).await;
        while is_heard().await {
            tokio::time::sleep(every).await;
        }
    }
}
