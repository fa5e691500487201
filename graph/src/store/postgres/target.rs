//! [`Target`]: the name of the server in errors, without secrets.

use std::fmt;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// The server of a store, as errors name it. The alternate form (`{:#}`) names the role and the
/// database instead.
#[derive(Clone, Debug)]
pub(super) struct Target {
    server: String,
    role: String,
}

impl Target {
    pub(super) fn new(config: &Config) -> Self {
        let ports = config.get_ports();
        let port = |at: usize| ports.get(at).or(ports.last()).copied().unwrap_or(5432);
        let named = config.get_hosts().iter().enumerate().map(|(at, host)| match host {
            Host::Tcp(name) => format!("{name}:{}", port(at)),
            #[cfg(unix)]
            Host::Unix(path) => format!("{}:{}", path.display(), port(at)),
        });
        let numbered = config.get_hostaddrs().iter().enumerate().map(|(at, address)| format!("{address}:{}", port(at)));
        let mut hosts: Vec<String> = named.collect();
        if hosts.is_empty() {
            hosts = numbered.collect();
        }
        let server = format!("PostgreSQL at {}", hosts.join(", "));
        let user = config.get_user().map(|user| format!(" for role {user:?}")).unwrap_or_default();
        let database = config.get_dbname().map(|name| format!(" on database {name:?}")).unwrap_or_default();
        Self { server, role: format!("{user}{database}") }
    }

    /// Returns the target of a pool that the caller created.
    pub(super) fn of_callers_pool() -> Self {
        Self { server: "PostgreSQL".into(), role: String::new() }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if f.alternate() { &self.role } else { &self.server })
    }
}
