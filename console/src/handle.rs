//! [`ConsoleHandle`]: a running console.

use crate::server::routes::Api;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// A running console. Dropping it does not end the console.
pub struct ConsoleHandle {
    pub(crate) url: String,
    pub(crate) addr: SocketAddr,
    pub(crate) api: Arc<Api>,
    pub(crate) served: JoinHandle<()>,
}

impl ConsoleHandle {
    /// Returns the URL to open in a browser. It contains the token: anyone who has it can use the
    /// console.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the address that the console listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Ends the console: closes all connections, and waits until its tasks have ended.
    pub async fn shutdown(self) {
        self.api.hub.close();
        self.api.orders.bulks.close();
        self.served.abort();
        // The error says that the task was aborted.
        let _ = self.served.await;
    }
}

impl fmt::Debug for ConsoleHandle {
    /// Leaves out the URL, because it contains the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsoleHandle").field("addr", &self.addr).finish_non_exhaustive()
    }
}
