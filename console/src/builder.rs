//! [`Console`] and its builder.

use crate::durable::StoreSource;
use crate::error::ConsoleError;
use crate::handle::ConsoleHandle;
use crate::orders::RecordFile;
use crate::process::ProcessSource;
use crate::redact::Redaction;
use crate::report::NamedStore;
use crate::server::accept::{Accept, Plain};
use crate::server::connections::{CONNECTIONS_MAX, Connections};
use crate::server::guard::{Guard, Token, host_names};
use crate::server::listen::{Bounds, Service, listen};
use crate::server::routes::{Api, router};
use crate::settings::{Colour, Environment, Settings};
use crate::sources::Sources;
use pleach::durable::GraphExport;
use pleach::inspect::{InspectAction, InspectOptions, Inspector};
use pleach::system::System;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::{TcpListener, ToSocketAddrs, lookup_host};

/// What can be ordered of the members of a system, if the console allows actions.
const ACTIONS: [InspectAction; 4] =
    [InspectAction::Stop, InspectAction::Restart, InspectAction::Suspend, InspectAction::Resume];

/// The web console: shows processes and stores in the browser, and steers them.
///
/// ```
/// use pleach::prelude::*;
/// use pleach_console::Console;
///
/// #[tokio::main]
/// async fn main() -> Result<(), pleach::BoxError> {
///     let system = ActorSystem::new("shop")?;
///     let store = MemoryStore::new();
///     let console = Console::builder().system(&system).store(&store).serve("127.0.0.1:0").await?;
///     println!("{}", console.url()); // http://127.0.0.1:41234/#token=…
///     console.shutdown().await;
///     Ok(())
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Console;

impl Console {
    /// Returns a builder of a console that shows nothing yet.
    pub fn builder() -> ConsoleBuilder {
        ConsoleBuilder {
            settings: Settings::default(),
            processes: Vec::new(),
            stores: Vec::new(),
            graphs: Vec::new(),
            redaction: Redaction::new(),
            record: None,
            hosts: Vec::new(),
            accept: Ok(Arc::new(Plain)),
            bounds: Bounds::default(),
        }
    }
}

/// Builds a console. From [`Console::builder`].
#[must_use = "a console starts with `serve`"]
pub struct ConsoleBuilder {
    settings: Settings,
    processes: Vec<Process>,
    /// Stores, with a name for people.
    stores: Vec<(NamedStore, Option<String>)>,
    graphs: Vec<GraphExport>,
    redaction: Redaction,
    /// The file with the record of actions.
    record: Option<PathBuf>,
    /// Names by which browsers reach the console, besides those of the loopback interface.
    hosts: Vec<String>,
    accept: Result<Arc<dyn Accept>, ConsoleError>,
    bounds: Bounds,
}

/// A process to show.
enum Process {
    /// A system of this process. What it allows depends on the console.
    System {
        reading: Inspector,
        acting: Inspector,
    },
    Inspector(Inspector),
    Socket(PathBuf),
}

impl Process {
    fn source(self, key: &str, allows_actions: bool) -> ProcessSource {
        match self {
            Self::System { reading, acting } => ProcessSource::of_inspector(key, if allows_actions { acting } else { reading }),
            Self::Inspector(inspector) => ProcessSource::of_inspector(key, inspector),
            Self::Socket(path) => ProcessSource::of_socket(key, path),
        }
    }
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

    /// Keeps the record of actions in a file, one JSON object on each line: who, when, why, and what
    /// really happened. Default: in memory, the newest 10,000, until the console ends.
    ///
    /// Only its owner may read the file. A console that starts again continues it. At 64 MiB it is
    /// renamed to `NAME.old`, which replaces an earlier one. An action whose entry cannot be written
    /// is carried out, and the log says so.
    pub fn record_actions(mut self, path: impl Into<PathBuf>) -> Self {
        self.record = Some(path.into());
        self
    }

    /// Sets what is hidden in everything that leaves the console. Default: [`Redaction::new`].
    pub fn redact(mut self, redaction: Redaction) -> Self {
        self.redaction = redaction;
        self
    }

    /// Shows a system of this program. Does not keep it running.
    ///
    /// With [`allow_actions`](Self::allow_actions) its members can be stopped, restarted, suspended
    /// and resumed, except those below `/system`. [`inspector`](Self::inspector) allows fewer
    /// actions, or the log level too. A system with an inspection socket is better shown through
    /// [`socket`](Self::socket): its pages then have commands to copy.
    pub fn system(mut self, system: &System) -> Self {
        self.processes.push(Process::System {
            reading: Inspector::new(system, InspectOptions::in_memory()),
            acting: Inspector::new(system, InspectOptions::in_memory().allow(ACTIONS)),
        });
        self
    }

    /// Shows the system of an inspector. Its options say which actions are allowed.
    pub fn inspector(mut self, inspector: Inspector) -> Self {
        self.processes.push(Process::Inspector(inspector));
        self
    }

    /// Shows the process behind an inspection socket, which says itself which actions it allows.
    ///
    /// The process need not run yet: the console connects when somebody looks, and connects again
    /// after the process has restarted.
    pub fn socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.processes.push(Process::Socket(path.into()));
        self
    }

    /// Shows the durable runs of a store, given by reference or as a [`NamedStore`]. People see its
    /// file name, or its kind.
    pub fn store(mut self, store: impl Into<NamedStore>) -> Self {
        self.stores.push((store.into(), None));
        self
    }

    /// Shows the durable runs of a store, under this name for people.
    pub fn store_named(mut self, name: impl Into<String>, store: impl Into<NamedStore>) -> Self {
        self.stores.push((store.into(), Some(name.into())));
        self
    }

    /// Adds exported graphs of this program, such as those of `Worker::exports`.
    ///
    /// Runs of any store are drawn with them, and the deploy check compares stored runs with them.
    pub fn graphs(mut self, exports: impl IntoIterator<Item = GraphExport>) -> Self {
        self.graphs.extend(exports);
        self
    }

    /// Returns the sources in the order in which they were added: `p0`, `p1`, then `s0`, `s1`.
    fn sources(&mut self) -> Sources {
        let allows_actions = self.settings.allows_actions;
        let mut sources = Sources::default();
        for (number, process) in self.processes.drain(..).enumerate() {
            sources.processes.push(Arc::new(process.source(&format!("p{number}"), allows_actions)));
        }
        for (number, (store, name)) in self.stores.drain(..).enumerate() {
            let source =
                StoreSource::new(format!("s{number}"), store).graphs(self.graphs.clone()).redact(self.redaction.clone());
            sources.stores.push(Arc::new(match name {
                Some(name) => source.named(name),
                None => source,
            }));
        }
        sources
    }

    /// Adds a name by which browsers reach the console, such as `console.example.org` or
    /// `console.example.org:8443`. Default: only `localhost` and addresses of the loopback interface.
    ///
    /// A request whose `Host` is another name is refused, so that no page of another name can use
    /// the console. Without a port, the usual port and that of the address are meant.
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into());
        self
    }

    /// Serves the console with TLS. It is needed for an address that other machines can reach.
    ///
    /// `certificates` are the certificate of the console and the chain to its root, `key` is
    /// its private key, all in PEM format. [`serve`](Self::serve) says if they cannot be used.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, certificates: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Self {
        let tls = crate::server::tls::Tls::new(certificates.as_ref(), key.as_ref());
        self.accept = match tls {
            Ok(tls) => Ok(Arc::new(tls)),
            Err(text) => Err(ConsoleError::Option { name: "tls", text }),
        };
        self
    }

    /// Starts the console on an address such as `127.0.0.1:0`; port 0 takes a free one.
    ///
    /// It runs in tasks of the current Tokio runtime until [`ConsoleHandle::shutdown`] is called or
    /// the runtime ends; dropping the handle does not end it. While nobody is connected it does
    /// nothing.
    ///
    /// An address that other machines can reach needs TLS, with the method `tls` of the feature
    /// `tls`, and a name, with [`host`](Self::host).
    ///
    /// # Errors
    /// [`ConsoleError::NotLoopback`] for an address that other machines can reach without TLS,
    /// [`ConsoleError::NoHost`] for one without a name, [`ConsoleError::NothingToShow`] without any
    /// process or store, [`ConsoleError::Option`] for an option with a wrong value,
    /// [`ConsoleError::NoAddress`] and [`ConsoleError::Listen`] if the address cannot be used.
    pub async fn serve(mut self, addr: impl ToSocketAddrs) -> Result<ConsoleHandle, ConsoleError> {
        let sources = self.sources();
        if sources.all().next().is_none() {
            return Err(ConsoleError::NothingToShow);
        }
        let accept = self.accept?;
        let record = self.record.map(|path| {
            let wrong = |error| ConsoleError::Option {
                name: "record_actions",
                text: format!("cannot use {}: {error}", path.display()),
            };
            RecordFile::open(&path).map_err(wrong)
        });
        let record = record.transpose()?;
        let addr = lookup_host(addr).await.ok().and_then(|mut found| found.next()).ok_or(ConsoleError::NoAddress)?;
        let is_loopback = addr.ip().is_loopback();
        if !is_loopback && accept.scheme() != "https" {
            return Err(ConsoleError::NotLoopback(addr));
        }
        if !is_loopback && self.hosts.is_empty() {
            return Err(ConsoleError::NoHost(addr));
        }
        let token = Token::random().map_err(ConsoleError::NoRandomness)?;
        let listener = TcpListener::bind(addr).await.map_err(|error| ConsoleError::Listen { addr, error })?;
        let addr = listener.local_addr().map_err(|error| ConsoleError::Listen { addr, error })?;
        let wrong = |text| ConsoleError::Option { name: "host", text };
        let hosts = host_names(&self.hosts, addr.port()).map_err(wrong)?;
        let name = hosts.first().filter(|_| !is_loopback);
        let shown = name.cloned().unwrap_or_else(|| addr.to_string());
        let url = format!("{}://{shown}/#token={}", accept.scheme(), token.text());
        let guard = Guard { token, hosts, is_loopback, scheme: accept.scheme() };
        let api = Api::new(self.settings, guard, sources, self.redaction);
        if let Some((file, entries)) = record {
            api.orders.log.keep_in(file, entries);
        }
        let (router, connections) = (router(Arc::clone(&api)), Connections::new(CONNECTIONS_MAX));
        let served = listen(listener, Service { router, accept, connections, bounds: self.bounds });
        Ok(ConsoleHandle { url, addr, api, served: tokio::spawn(served) })
    }
}

impl fmt::Debug for ConsoleBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsoleBuilder").field("settings", &self.settings).finish_non_exhaustive()
    }
}
