//! [`Console`], its builder, and the handle of a running one.

use crate::durable::StoreSource;
use crate::error::ConsoleError;
use crate::redact::Redaction;
use crate::report::NamedStore;
use crate::server::connections::{CONNECTIONS_MAX, Connections};
use crate::server::guard::{Guard, Token};
use crate::server::listen::{Bounds, listen};
use crate::server::routes::{Api, router};
use crate::settings::{Colour, Environment, Settings};
use crate::sources::Sources;
use pleach::store::Store;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, ToSocketAddrs, lookup_host};
use tokio::task::JoinHandle;

/// The web console: shows processes and stores in the browser, and steers them.
#[derive(Debug)]
#[non_exhaustive]
pub struct Console;

impl Console {
    /// Returns a builder of a console that shows nothing yet.
    pub fn builder() -> ConsoleBuilder {
        ConsoleBuilder {
            settings: Settings::default(),
            sources: Sources::default(),
            redaction: Redaction::new(),
            bounds: Bounds::default(),
        }
    }
}

/// Builds a console. From [`Console::builder`].
#[must_use = "a console starts with `serve`"]
pub struct ConsoleBuilder {
    settings: Settings,
    sources: Sources,
    redaction: Redaction,
    bounds: Bounds,
}

impl ConsoleBuilder {
    /// Sets the name of the console. Default: that of the first process or store.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = Some(name.into());
        self
    }

    /// Shows the name and colour of the environment on every page. Default: none.
    pub fn environment(mut self, name: impl Into<String>, colour: Colour) -> Self {
        self.settings.environment = Some(Environment { name: name.into(), colour });
        self
    }

    /// Allows actions. Default: the console is read-only.
    ///
    /// A process has the last word about its members: it refuses what it does not allow itself.
    pub fn allow_actions(mut self) -> Self {
        self.settings.allows_actions = true;
        self
    }

    /// Sets who orders actions, for the record of actions. Default: `unknown`.
    pub fn user(mut self, name: impl Into<String>) -> Self {
        self.settings.user = name.into();
        self
    }

    /// Sets what is hidden in everything that leaves the console. Default: [`Redaction::new`].
    pub fn redact(mut self, redaction: Redaction) -> Self {
        self.redaction = redaction;
        self
    }

    /// Shows the durable runs of a store, under a name for people.
    pub fn store<S: Store + Clone>(self, name: impl Into<String>, store: &S) -> Self {
        self.add_store(NamedStore::of(store), Some(name.into()))
    }

    /// Shows the durable runs of a store that commands know by a name.
    pub fn named_store(self, store: NamedStore) -> Self {
        self.add_store(store, None)
    }

    fn add_store(mut self, store: NamedStore, name: Option<String>) -> Self {
        let source = StoreSource::new(format!("s{}", self.sources.stores.len()), store);
        self.sources.stores.push(Arc::new(match name {
            Some(name) => source.named(name),
            None => source,
        }));
        self
    }

    /// Starts the console on an address of the loopback interface, such as `127.0.0.1:0`; port 0
    /// takes a free one.
    ///
    /// It runs in tasks of the current Tokio runtime until [`ConsoleHandle::shutdown`] is called or
    /// the runtime ends; dropping the handle does not end it. While nobody is connected it does
    /// nothing.
    ///
    /// # Errors
    /// [`ConsoleError::NotLoopback`] for an address that other machines can reach,
    /// [`ConsoleError::NothingToShow`] without any process or store, [`ConsoleError::Listen`] if
    /// the address cannot be used.
    pub async fn serve(self, addr: impl ToSocketAddrs) -> Result<ConsoleHandle, ConsoleError> {
        if self.sources.all().next().is_none() {
            return Err(ConsoleError::NothingToShow);
        }
        let addr = lookup_host(addr).await.ok().and_then(|mut found| found.next()).ok_or(ConsoleError::NoAddress)?;
        if !addr.ip().is_loopback() {
            return Err(ConsoleError::NotLoopback(addr));
        }
        let token = Token::random().map_err(ConsoleError::NoRandomness)?;
        let listener = TcpListener::bind(addr).await.map_err(|error| ConsoleError::Listen { addr, error })?;
        let addr = listener.local_addr().map_err(|error| ConsoleError::Listen { addr, error })?;
        let guard = Guard { token: token.clone(), hosts: Vec::new(), is_loopback: true, scheme: "http" };
        let api = Api::new(self.settings, guard, self.sources, self.redaction);
        let served = listen(listener, router(Arc::clone(&api)), Connections::new(CONNECTIONS_MAX), self.bounds);
        Ok(ConsoleHandle { url: format!("http://{addr}/#token={}", token.text()), addr, api, served: tokio::spawn(served) })
    }
}

impl fmt::Debug for ConsoleBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsoleBuilder").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// A running console. Dropping it does not end the console.
pub struct ConsoleHandle {
    url: String,
    addr: SocketAddr,
    api: Arc<Api>,
    served: JoinHandle<()>,
}

impl ConsoleHandle {
    /// Returns the URL to open in a browser. It contains the token: whoever has it can use the
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
