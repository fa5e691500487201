//! [`Server`]: a PostgreSQL server that can be killed, behind a proxy that loses answers.

use crate::processes::Processes;
use crate::proxy::Proxy;
use crate::store_address::StoreAddress;
use tokio::runtime::Handle;
use tokio_postgres::NoTls;
use xtask::postgres::Postgres;

/// The application name of drivers, so that only their connections are cut.
const NAME: &str = "pleach-crash-driver";

/// Terminates one connection of a driver.
const TERMINATE: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name = 'pleach-crash-driver' ORDER BY random() LIMIT 1";

pub struct Server {
    postgres: Postgres,
    proxy: Proxy,
    handle: Handle,
    processes: Processes,
}

impl Server {
    pub fn start(processes: &Processes, handle: &Handle, seed: u64) -> Result<Self, String> {
        let postgres = Postgres::start()?;
        processes.adopt(postgres.pid());
        let proxy = handle.block_on(Proxy::start(postgres.port(), seed)).map_err(|error| error.to_string())?;
        Ok(Self { postgres, proxy, handle: handle.clone(), processes: processes.clone() })
    }

    /// The address without the proxy.
    pub fn direct(&self) -> StoreAddress {
        StoreAddress::Postgres(self.postgres.url())
    }

    /// The address for drivers.
    pub fn through_proxy(&self) -> StoreAddress {
        StoreAddress::Postgres(format!("postgres://pleach@127.0.0.1:{}/postgres?application_name={NAME}", self.proxy.port))
    }

    /// Loses the answers to this many of the next commits.
    pub fn lose_answers(&self, count: u64) {
        self.proxy.lose(count);
    }

    /// How many answers were lost after their commits had landed.
    pub fn answers_lost(&self) -> u64 {
        self.proxy.lost()
    }

    /// Makes the server close one connection of a driver.
    pub fn terminate_one(&self) -> Result<(), String> {
        let ended = self.handle.block_on(async {
            let (client, connection) = tokio_postgres::connect(&self.postgres.url(), NoTls).await?;
            tokio::spawn(connection);
            client.batch_execute(TERMINATE).await
        });
        ended.map_err(|error| format!("cannot end a connection: {error}"))
    }

    /// Kills the server with SIGKILL and starts another one on its data.
    pub fn kill_and_restart(&mut self) -> Result<(), String> {
        self.processes.forget(self.postgres.pid());
        self.postgres.kill();
        self.postgres.restart()?;
        self.processes.adopt(self.postgres.pid());
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.processes.forget(self.postgres.pid());
    }
}
