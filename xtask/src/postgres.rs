//! A temporary PostgreSQL server for tests.
//!
//! [`Postgres`] runs in a temporary folder on a free loopback port, and is removed on drop. A test
//! can kill it and start it again on the same folder and port.

use crate::step::{Outcome, output_of, run_in_sight, without_package};
use crate::tools::install;
use std::env;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The variable that gives tests the URL of the server.
pub const URL_VARIABLE: &str = "PLEACH_POSTGRES_URL";

/// If this variable is set, the server writes each commit to disk, as one in production does.
const SYNC_VARIABLE: &str = "PLEACH_POSTGRES_SYNC";

/// Time limit of a start.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time limit of a restart: the processes of the killed server must exit first.
const PATIENCE_AGAIN: Duration = Duration::from_secs(30);

/// A server that runs until this value is dropped.
pub struct Postgres {
    server: Child,
    port: u16,
    folder: PathBuf,
    programs: PathBuf,
    owner: Option<(u32, u32)>,
    sync: bool,
}

/// Runs a command, with its output shown, while a server is running.
pub fn with_server(words: &[&str]) -> Outcome {
    let [program, arguments @ ..] = words else { return Err("which command? `cargo xtask postgres cargo test ..`".into()) };
    let server = Postgres::start()?;
    let mut command = Command::new(program);
    without_package(&mut command);
    run_in_sight(command.args(arguments).env(URL_VARIABLE, server.url()))
}

impl Postgres {
    /// Starts a server that does not sync its files, unless `PLEACH_POSTGRES_SYNC` is set. Installs
    /// PostgreSQL first if it is missing.
    pub fn start() -> Result<Self, String> {
        Self::start_with(false)
    }

    /// Starts a server that syncs its log at every commit, as a real one does. For measurements.
    pub fn start_durable() -> Result<Self, String> {
        Self::start_with(true)
    }

    fn start_with(sync: bool) -> Result<Self, String> {
        let programs = programs()?;
        let folder = env::temp_dir().join(format!("pleach-postgres-{}", std::process::id()));
        let complain = |error: std::io::Error| format!("cannot make {}: {error}", folder.display());
        fs::create_dir_all(&folder).map_err(complain)?;
        let owner = owner(&folder)?;
        let data = folder.join("data");
        let mut initdb = command(&programs.join("initdb"), owner);
        output_of(initdb.arg("--pgdata").arg(&data).args([
            "--username=pleach",
            "--auth=trust",
            "--encoding=UTF8",
            "--no-sync",
        ]))?;
        let port = free_port()?;
        let server = spawn(&programs, &folder, port, owner, sync)?;
        let mut postgres = Self { server, port, folder, programs, owner, sync };
        postgres.wait_until_ready()?;
        Ok(postgres)
    }

    /// Kills the main process only. The processes that it started notice and exit later.
    pub fn kill(&mut self) {
        drop(self.server.kill());
        drop(self.server.wait());
    }

    /// Starts a killed server again.
    pub fn restart(&mut self) -> Outcome {
        let begun = Instant::now();
        loop {
            self.server = spawn(&self.programs, &self.folder, self.port, self.owner, self.sync)?;
            match self.wait_until_ready() {
                Ok(()) => return Ok(()),
                Err(why) if begun.elapsed() > PATIENCE_AGAIN => return Err(why),
                // It does not start while processes of the killed server are running.
                Err(_) => self.kill(),
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// The URL by which clients connect.
    pub fn url(&self) -> String {
        format!("postgres://pleach@127.0.0.1:{}/postgres", self.port)
    }

    /// The id of the main process.
    pub fn pid(&self) -> u32 {
        self.server.id()
    }

    /// The loopback port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn wait_until_ready(&mut self) -> Outcome {
        let begun = Instant::now();
        let mut is_ready = Command::new(self.programs.join("pg_isready"));
        is_ready.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]).stdout(Stdio::null());
        while begun.elapsed() < PATIENCE {
            if is_ready.status().is_ok_and(|status| status.success()) {
                return Ok(());
            }
            if let Ok(Some(status)) = self.server.try_wait() {
                return Err(format!("PostgreSQL has ended ({status}) instead of starting, in {}", self.folder.display()));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Err(format!("PostgreSQL did not start in {PATIENCE:?}"))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // An interrupt lets the server stop its other processes; a kill would leave them running.
        let asked = Command::new("kill").args(["-INT", &self.server.id().to_string()]).status();
        if !asked.is_ok_and(|status| status.success()) {
            drop(self.server.kill());
        }
        drop(self.server.wait());
        drop(fs::remove_dir_all(&self.folder));
    }
}

fn spawn(programs: &Path, folder: &Path, port: u16, owner: Option<(u32, u32)>, sync: bool) -> Result<Child, String> {
    let mut server = command(&programs.join("postgres"), owner);
    let sync = if sync || env::var_os(SYNC_VARIABLE).is_some() { "fsync=on" } else { "fsync=off" };
    let settings = ["-c", "listen_addresses=127.0.0.1", "-c", sync, "-c", "unix_socket_directories="];
    server.arg("-D").arg(folder.join("data")).args(["-p", &port.to_string()]).args(settings);
    server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    server.spawn().map_err(|error| format!("cannot start PostgreSQL: {error}"))
}

/// Returns the folder of the server's programs: on the path, or where Debian installs them.
fn programs() -> Result<PathBuf, String> {
    if let Some(folder) = find_programs() {
        return Ok(folder);
    }
    let installed = install("postgresql");
    if let Some(folder) = find_programs().filter(|_| installed) {
        return Ok(folder);
    }
    Err("PostgreSQL's server is missing: install it (Debian: `apt-get install postgresql`), or put `initdb` and `postgres` on the path".into())
}

fn find_programs() -> Option<PathBuf> {
    let on_path = env::split_paths(&env::var_os("PATH")?).collect::<Vec<_>>();
    let versions =
        fs::read_dir("/usr/lib/postgresql").into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    let has_all = |folder: &PathBuf| ["initdb", "postgres", "pg_isready"].iter().all(|program| folder.join(program).exists());
    versions.chain(on_path).find(has_all)
}

/// Returns the user and group to run as. PostgreSQL refuses to run as root, so root gives the
/// folder to the user `postgres`.
fn owner(folder: &Path) -> Result<Option<(u32, u32)>, String> {
    let id = |arguments: &[&str]| -> Result<u32, String> {
        let said = output_of(Command::new("id").args(arguments))?;
        said.trim().parse().map_err(|_| format!("`id` said {said:?}"))
    };
    if id(&["-u"])? != 0 {
        return Ok(None);
    }
    let (user, group) = (id(&["-u", "postgres"])?, id(&["-g", "postgres"])?);
    std::os::unix::fs::chown(folder, Some(user), Some(group))
        .map_err(|error| format!("cannot give {}: {error}", folder.display()))?;
    Ok(Some((user, group)))
}

fn command(program: &Path, owner: Option<(u32, u32)>) -> Command {
    use std::os::unix::process::CommandExt as _;
    let mut command = Command::new(program);
    command.current_dir("/");
    if let Some((user, group)) = owner {
        command.uid(user).gid(group);
    }
    command
}

fn free_port() -> Result<u16, String> {
    let complain = |error: std::io::Error| format!("no port is free: {error}");
    Ok(TcpListener::bind(("127.0.0.1", 0)).map_err(complain)?.local_addr().map_err(complain)?.port())
}
