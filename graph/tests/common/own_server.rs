//! [`OwnServer`]: a private PostgreSQL server in a temporary folder, on a free local port. It
//! requires passwords and supports TLS.

use super::Folder;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The allowed logins. All others are rejected.
const LOGINS: &str = "
    host    all admin         127.0.0.1/32 trust
    host    all with_password 127.0.0.1/32 scram-sha-256
    hostssl all only_tls      127.0.0.1/32 scram-sha-256
    host    all without_role  127.0.0.1/32 trust
    host    all unprivileged  127.0.0.1/32 trust
    host    all unconnectable 127.0.0.1/32 trust
";

pub struct OwnServer {
    process: Child,
    port: u16,
    /// The self-signed certificate of the server.
    pub certificate: String,
    _folder: Folder,
}

impl OwnServer {
    pub fn start() -> Self {
        let folder = Folder::new();
        let programs = programs();
        let owner = owner();
        if let Some((user, group)) = owner {
            chown(&folder.0, Some(user), Some(group)).unwrap();
        }
        let data = folder.file("data");
        let mut initdb = command(&programs.join("initdb"), owner);
        initdb.arg("--pgdata").arg(&data).args(["--username=admin", "--auth=trust", "--encoding=UTF8", "--no-sync"]);
        let made = initdb.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
        write(&data.join("server.crt"), &cert.pem(), owner);
        write(&data.join("server.key"), &signing_key.serialize_pem(), owner);
        write(&data.join("pg_hba.conf"), LOGINS, owner);
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let mut server = command(&programs.join("postgres"), owner);
        server.arg("-D").arg(&data).args(["-p", &port.to_string()]);
        for setting in ["listen_addresses=127.0.0.1", "fsync=off", "unix_socket_directories=", "ssl=on"] {
            server.args(["-c", setting]);
        }
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = server.spawn().unwrap();
        let mut server = Self { process, port, certificate: cert.pem(), _folder: folder };
        server.wait_until_ready(&programs);
        server
    }

    /// The address for this login.
    pub fn url(&self, login: &str, host: &str, database: &str) -> String {
        format!("postgres://{login}@{host}:{}/{database}", self.port)
    }

    fn wait_until_ready(&mut self, programs: &Path) {
        let begun = Instant::now();
        let mut is_ready = Command::new(programs.join("pg_isready"));
        is_ready.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]).stdout(Stdio::null());
        while !is_ready.status().unwrap().success() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the server does not start");
            assert_eq!(self.process.try_wait().unwrap(), None, "the server has ended");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        // After an interrupt the server ends its own processes; a kill would leave them.
        let interrupted = Command::new("kill").args(["-INT", &self.process.id().to_string()]).status();
        if !interrupted.is_ok_and(|status| status.success()) {
            drop(self.process.kill());
        }
        drop(self.process.wait());
    }
}

/// The folder with the server programs: on the path, or the default of Debian.
fn programs() -> PathBuf {
    let on_path: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect();
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let has_all = |folder: &PathBuf| ["initdb", "postgres", "pg_isready"].iter().all(|name| folder.join(name).exists());
    let mut folders = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).chain(on_path);
    folders.find(has_all).expect("PostgreSQL's server is missing: install it, or put `initdb` and `postgres` on the path")
}

/// PostgreSQL does not run as root. Then the user `postgres` runs it.
fn owner() -> Option<(u32, u32)> {
    let id = |arguments: &[&str]| -> u32 {
        let output = Command::new("id").args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().parse().unwrap()
    };
    (id(&["-u"]) == 0).then(|| (id(&["-u", "postgres"]), id(&["-g", "postgres"])))
}

fn command(program: &Path, owner: Option<(u32, u32)>) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/");
    if let Some((user, group)) = owner {
        command.uid(user).gid(group);
    }
    command
}

fn write(path: &Path, text: &str, owner: Option<(u32, u32)>) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    if let Some((user, group)) = owner {
        chown(path, Some(user), Some(group)).unwrap();
    }
}
