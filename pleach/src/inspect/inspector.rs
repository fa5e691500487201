//! [`Inspector`]: serves the inspection protocol to clients in the same process, over memory.
//!
//! Each client is served by an actor of its own below `/system`, which ends when the client is
//! dropped. Without clients an inspector costs nothing.

use crate::inspect::client::{Client, ClientError};
use crate::inspect::connection::Connection;
use crate::inspect::options::InspectOptions;
use crate::inspect::serve::Inspected;
use crate::inspect::stream::Stream;
use pleach_core::{Guardian, System};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The actors that serve clients are called `inspect-client-1` and so on.
pub(super) const NAME_PREFIX: &str = "inspect-client-";

/// The bytes that one side of a connection can write before the other side reads.
const BUFFER_LEN: usize = 64 * 1024;

/// The number of the last client in this process. Two inspectors of a system use different names.
static CLIENTS: AtomicU64 = AtomicU64::new(0);

/// Serves the inspection protocol to clients in the same process.
///
/// It opens no socket. Its clients see what the clients of the
/// [socket](crate::inspect::InspectBuilder::inspect) see, and may order what `options` allow.
/// Clones share their samplers. An inspector does not keep the system running.
///
/// ```
/// use pleach::inspect::{InspectOptions, Inspector};
/// use pleach::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let system = ActorSystem::new("shop")?;
/// let inspector = Inspector::new(&system, InspectOptions::in_memory());
/// let mut client = inspector.connect().await?;
/// assert_eq!(client.hello().name, "shop");
/// assert!(client.health().await?.is_healthy());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Inspector {
    inspected: Arc<Inspected>,
    guardian: Guardian,
}

impl Inspector {
    /// Creates an inspector of `system` with these options. It opens no socket: a path only says in
    /// [`Hello::socket`](crate::inspect::Hello::socket) where the system has one for commands.
    pub fn new(system: &System, options: InspectOptions) -> Self {
        Self { inspected: Arc::new(Inspected::new(system, options)), guardian: system.system_guardian() }
    }

    /// Connects a client. The number of clients has no limit.
    ///
    /// # Errors
    /// [`ClientError::Io`] with the kind `ConnectionRefused` if the system is shutting down or has
    /// ended.
    pub async fn connect(&self) -> Result<Client, ClientError> {
        let (own, served) = tokio::io::duplex(BUFFER_LEN);
        let name = format!("{NAME_PREFIX}{}", CLIENTS.fetch_add(1, Ordering::Relaxed) + 1);
        let spawned = self.guardian.spawn(&name, Connection::props(&self.inspected, Stream::from(served)));
        if let Err(refused) = spawned {
            let text = format!("the system {} accepts no client: {}", self.inspected.name, refused.reason);
            return Err(io::Error::new(io::ErrorKind::ConnectionRefused, text).into());
        }
        Client::greeted(Stream::from(own)).await
    }
}

impl fmt::Debug for Inspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inspector").field("name", &self.inspected.name).finish_non_exhaustive()
    }
}
