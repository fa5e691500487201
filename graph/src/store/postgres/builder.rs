//! [`PostgresBuilder`]: the connection options of a store.

use super::connections::{ANSWER_TIMEOUT, CONNECT_TIMEOUT, Connections};
use super::target::Target;
#[cfg(feature = "postgres-tls")]
use super::tls::PostgresTls;
use super::{PostgresStore, listen};
use crate::store::error::StoreError;
use crate::store::hint::Hints;
use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use std::fmt;
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Config, NoTls, Socket};

/// The default number of connections for calls.
const CONNECTIONS_MAX: usize = 8;

/// The largest pool size: the highest possible `max_connections` of a server.
const POOL_SIZE_MAX: usize = 262_143;

/// The time without an acknowledgement after which a connection counts as lost.
const TCP_TIMEOUT: Duration = Duration::from_secs(20);

/// The idle time after which TCP probes a connection, and the interval and number of the probes.
pub(super) const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_RETRIES: u32 = 3;

/// Options for connecting to PostgreSQL, created by [`PostgresStore::builder`].
///
/// # Examples
///
/// ```no_run
/// # async fn open() -> Result<(), pleach::store::StoreError> {
/// use pleach::store::PostgresStore;
/// use std::time::Duration;
///
/// let store = PostgresStore::builder("postgres://app:secret@db.internal/app")
///     .pool_size(16)
///     .answer_timeout(Duration::from_secs(20))
///     .connect()
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until `connect` is called"]
pub struct PostgresBuilder {
    url: String,
    pool_size: usize,
    connect_timeout: Option<Duration>,
    answer_timeout: Duration,
    migrates: bool,
    #[cfg(feature = "postgres-tls")]
    tls: Option<PostgresTls>,
}

impl PostgresBuilder {
    pub(super) fn new(url: &str) -> Self {
        Self {
            url: url.to_string(),
            pool_size: CONNECTIONS_MAX,
            connect_timeout: None,
            answer_timeout: ANSWER_TIMEOUT,
            migrates: true,
            #[cfg(feature = "postgres-tls")]
            tls: None,
        }
    }

    /// Sets the largest number of connections for calls. Default: 8.
    ///
    /// One more connection renews leases, and one listens for notifications.
    /// [`connect`](Self::connect) rejects 0, and more than 262,143, which no server accepts.
    pub fn pool_size(mut self, connections: usize) -> Self {
        self.pool_size = connections;
        self
    }

    /// Sets how long a call waits for a free connection, and how long connecting may take.
    ///
    /// Default: the `connect_timeout` of the URL, or 10 s. [`connect`](Self::connect) rejects zero.
    pub fn connect_timeout(mut self, time: Duration) -> Self {
        self.connect_timeout = Some(time);
        self
    }

    /// Sets how long a call waits for the server's answer. Default: 60 s.
    ///
    /// A call without an answer fails with [`Unavailable`](StoreError::Unavailable), and its
    /// connection is dropped. A statement waits for a lock at most half of this time, and never
    /// longer than 10 s. [`connect`](Self::connect) rejects zero.
    pub fn answer_timeout(mut self, time: Duration) -> Self {
        self.answer_timeout = time;
        self
    }

    /// Sets whether missing tables are created and older ones migrated. Default: `true`.
    ///
    /// Tools beside the programs that own the store pass `false`: a migration would shut out
    /// programs of earlier versions. [`connect`](Self::connect) then fails with
    /// [`OlderFormat`](StoreError::OlderFormat).
    pub fn migrate(mut self, migrates: bool) -> Self {
        self.migrates = migrates;
        self
    }

    /// Connects with TLS only, and verifies the server's certificate and host name. Requires the
    /// feature `postgres-tls`.
    ///
    /// Default: TLS with the system's roots if the URL has `sslmode=require`, and no TLS otherwise.
    #[cfg(feature = "postgres-tls")]
    pub fn tls(mut self, tls: PostgresTls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Connects, and creates or migrates the tables if needed and [allowed](Self::migrate).
    ///
    /// # Errors
    /// - [`Unusable`](StoreError::Unusable): the URL or an option is wrong, or the server rejects
    ///   the login, the database or the tables. The text says what to change.
    /// - [`Unreachable`](StoreError::Unreachable): the server cannot be reached. Try again later.
    /// - [`NewerFormat`](StoreError::NewerFormat): a later version of this library has migrated the
    ///   tables.
    pub async fn connect(self) -> Result<PostgresStore, StoreError> {
        let config = self.config()?;
        #[cfg(feature = "postgres-tls")]
        if let Some(tls) = self.wanted_tls(&config)? {
            return self.connect_with(config, tls).await;
        }
        #[cfg(not(feature = "postgres-tls"))]
        if config.get_ssl_mode() == SslMode::Require {
            let reason = "the connection URL has `sslmode=require`, but this program was built without TLS; build it with the feature \
                       `postgres-tls`";
            return Err(StoreError::Unusable { store: Target::new(&config).to_string(), reason: reason.into() });
        }
        self.connect_with(config, NoTls).await
    }

    /// Returns the TLS connector if the connection must be encrypted.
    #[cfg(feature = "postgres-tls")]
    fn wanted_tls(&self, config: &Config) -> Result<Option<super::tls::Connector>, StoreError> {
        let unusable = |reason| StoreError::Unusable { store: Target::new(config).to_string(), reason };
        match &self.tls {
            Some(tls) => tls.connector().map(Some).map_err(unusable),
            None if config.get_ssl_mode() == SslMode::Require => {
                PostgresTls::system_roots().connector().map(Some).map_err(unusable)
            }
            None => Ok(None),
        }
    }

    fn config(&self) -> Result<Config, StoreError> {
        let unusable = |reason: String| StoreError::Unusable { store: "of this connection URL".into(), reason };
        let mut config = Config::from_str(&self.url).map_err(|error| {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            unusable(format!("{error}{cause}; write postgres://user:password@host:port/database"))
        })?;
        if self.pool_size == 0 {
            return Err(unusable("the pool size is 0; allow at least 1 connection".into()));
        }
        if self.pool_size > POOL_SIZE_MAX {
            return Err(unusable(format!("the pool size is {}; allow at most {POOL_SIZE_MAX} connections", self.pool_size)));
        }
        if self.answer_timeout.is_zero() || self.connect_timeout.is_some_and(|time| time.is_zero()) {
            return Err(unusable("a timeout of 0 would end every call; use at least one second".into()));
        }
        let from_url = config.get_connect_timeout().copied();
        config.connect_timeout(self.connect_timeout.or(from_url).unwrap_or(CONNECT_TIMEOUT));
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(TCP_TIMEOUT.min(self.answer_timeout));
        }
        if config.get_keepalives_interval().is_none() {
            config.keepalives_idle(config.get_keepalives_idle().min(KEEPALIVE_IDLE));
            config.keepalives_interval(KEEPALIVE_INTERVAL);
            config.keepalives_retries(KEEPALIVE_RETRIES);
        }
        #[cfg(feature = "postgres-tls")]
        if self.tls.is_some() {
            config.ssl_mode(SslMode::Require);
        }
        Ok(config)
    }

    async fn connect_with<T>(self, config: Config, tls: T) -> Result<PostgresStore, StoreError>
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + Sync,
        T::TlsConnect: Send + Sync,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let target = Target::new(&config);
        let connect_timeout = config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT);
        let manager =
            Manager::from_config(config.clone(), tls.clone(), ManagerConfig { recycling_method: RecyclingMethod::Fast });
        // One more connection for renewals.
        let pool = Pool::builder(manager).max_size(self.pool_size + 1).runtime(Runtime::Tokio1);
        let pool = pool.wait_timeout(Some(connect_timeout)).create_timeout(Some(connect_timeout)).build();
        let pool = pool.map_err(|error| StoreError::Unusable { store: target.to_string(), reason: error.to_string() })?;
        let (calls_max, answer_timeout) = (self.pool_size, self.answer_timeout);
        let permits = Arc::new(Semaphore::new(calls_max));
        let connections = Connections { pool, permits, calls_max, target, is_own_pool: true, connect_timeout, answer_timeout };
        let hints = Arc::new(Hints::default());
        let listening = listen::listen(config, tls, Arc::clone(&hints));
        PostgresStore::open(connections, hints, Some(listening), self.migrates).await
    }
}

/// Does not print the URL, which can contain a password.
impl fmt::Debug for PostgresBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("PostgresBuilder");
        shown.field("pool_size", &self.pool_size).field("connect_timeout", &self.connect_timeout);
        shown.field("answer_timeout", &self.answer_timeout).finish_non_exhaustive()
    }
}
