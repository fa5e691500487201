//! Hints from other machines: `NOTIFY pleach` says that a run may have become ready. A hint that is lost costs nothing but the wait for the next poll.
//!
//! Notifications come to a connection of their own: a pool does not hand out what its connections hear.

use crate::store::nudge::Nudge;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{AsyncMessage, Config, Socket};

/// How long to wait before connecting again.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// Listens for as long as the store lives, which aborts it.
pub(super) async fn listen<T>(config: Config, tls: T, nudge: Arc<Nudge>)
where
    T: MakeTlsConnect<Socket> + Clone + Send,
    T::Stream: Send,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    loop {
        listen_once(&config, tls.clone(), &nudge).await;
        // What was said meanwhile was not heard.
        nudge.ring();
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

/// Ends when the connection does.
async fn listen_once<T: MakeTlsConnect<Socket>>(config: &Config, tls: T, nudge: &Nudge) {
    let Ok((client, mut connection)) = config.connect(tls).await else { return };
    let mut listening = pin!(client.batch_execute("LISTEN pleach"));
    let mut is_listening = false;
    std::future::poll_fn(|cx| {
        loop {
            if !is_listening && let Poll::Ready(answer) = listening.as_mut().poll(cx) {
                is_listening = true;
                if answer.is_err() {
                    return Poll::Ready(());
                }
                nudge.ring();
            }
            match connection.poll_message(cx) {
                Poll::Ready(Some(Ok(AsyncMessage::Notification(_)))) => nudge.ring(),
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
}
