//! C6 with real processes: a driver that was stopped past its lease (SIGSTOP) repeats nothing that
//! its successor did.
#![cfg(all(feature = "sqlite", feature = "tokio", target_os = "linux"))]

mod common;

use common::Folder;
use pleach_graph::store::SqliteStore;
use pleach_graph::{CompiledGraph, END, Graph, NodeContext, RunFault};
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// The folder of the test. If this variable is set, the test is the process that is stopped.
const FOLDER: &str = "PLEACH_STOPPED_FOLDER";

/// The lease duration. A quarter of it is the time to renew after a stop, also on a busy machine.
const LEASE: Duration = Duration::from_secs(4);

/// Upper limit of a wait in a test.
const SOON: Duration = Duration::from_secs(30);

/// Waits for a file named `go`, then charges: one line in a file. With `once`, the effect is a
/// `once` effect.
fn charging(folder: &Path, once: bool) -> CompiledGraph<u32> {
    let folder = folder.to_path_buf();
    let charge = move |cx: NodeContext, n: u32| {
        let folder = folder.clone();
        async move {
            println!("in the node");
            while !folder.join("go").exists() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let effect = cx.effect("charge", move |_| async move {
                let mut ledger = std::fs::File::options().create(true).append(true).open(folder.join("ledger")).unwrap();
                writeln!(ledger, "{}", std::process::id()).unwrap();
                Ok::<_, String>(n + 1)
            });
            if once { effect.once().await } else { effect.await }
        }
    };
    Graph::new("charging").add_node("charge", charge).add_edge("charge", END).set_entry("charge").compile().unwrap()
}

fn on_tokio<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(future)
}

/// The process that is stopped: drives the run and prints the outcome.
fn drive(folder: PathBuf) {
    on_tokio(async {
        let store = SqliteStore::open(folder.join("runs.db")).await.unwrap();
        let graph = charging(&folder, folder.join("once").exists());
        match graph.run(0).id("r").checkpoint(&store).lease(LEASE).await {
            Ok(end) => println!("finished with {end}"),
            Err(error) if matches!(error.fault(), RunFault::Fenced { .. }) => println!("fenced"),
            Err(error) => println!("failed: {error}"),
        }
    });
}

struct Driver {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Driver {
    fn start(test: &str, folder: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]).env(FOLDER, folder);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Waits for a line with one of these texts and returns that text.
    fn wait_for(&mut self, texts: &[&'static str]) -> &'static str {
        for line in &mut self.lines {
            let line = line.unwrap();
            if let Some(found) = texts.iter().find(|text| line.contains(**text)) {
                return found;
            }
        }
        panic!("the process ended before it printed one of {texts:?}");
    }

    fn send(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn charges(folder: &Path) -> usize {
    std::fs::read_to_string(folder.join("ledger")).map_or(0, |text| text.lines().count())
}

#[test]
fn c6_process_stopped_past_its_lease_repeats_no_effect() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return drive(folder.into());
    }
    for (once, takes_over) in [(false, false), (true, false), (false, true)] {
        // A process that is stopped during a transaction keeps the file locked. Then the case is
        // inconclusive and repeated.
        let is_conclusive = (0..5).any(|_| repeats_no_effect(once, takes_over));
        assert!(is_conclusive, "the file was locked each time");
    }
}

/// Checks that a stopped process repeats no effect of its successor. Returns whether the check was
/// conclusive.
fn repeats_no_effect(once: bool, takes_over: bool) -> bool {
    let folder = Folder::new();
    let path = folder.file("");
    if once {
        std::fs::write(path.join("once"), "").unwrap();
    }
    let mut first = Driver::start("c6_process_stopped_past_its_lease_repeats_no_effect", &path);
    first.wait_for(&["in the node"]);
    first.send("-STOP");
    let stopped_at = Instant::now();
    std::fs::write(path.join("go"), "").unwrap();
    let resumed = on_tokio(async {
        let store = SqliteStore::open(path.join("runs.db")).await.ok()?;
        let resume = charging(&path, once).resume("r");
        let resume = if takes_over { resume.take_over() } else { resume };
        match resume.checkpoint(&store).lease(LEASE).await {
            Err(error) if matches!(error.fault(), RunFault::Checkpoint(_)) => None,
            outcome => Some(outcome.unwrap()),
        }
    });
    if resumed.is_none() {
        return false;
    }
    std::thread::sleep((LEASE * 2).saturating_sub(stopped_at.elapsed()));
    first.send("-CONT");
    assert_eq!(first.wait_for(&["finished", "fenced", "failed"]), "fenced");
    assert_eq!(charges(&path), 1, "once {once}, takes over {takes_over}");
    assert!(stopped_at.elapsed() < SOON);
    true
}

#[test]
fn c6_stopped_process_continues_if_its_run_is_unclaimed() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return drive(folder.into());
    }
    let folder = Folder::new();
    let path = folder.file("");
    let mut first = Driver::start("c6_stopped_process_continues_if_its_run_is_unclaimed", &path);
    first.wait_for(&["in the node"]);
    first.send("-STOP");
    std::fs::write(path.join("go"), "").unwrap();
    std::thread::sleep(LEASE * 2);
    first.send("-CONT");
    assert_eq!(first.wait_for(&["finished", "fenced", "failed"]), "finished");
    assert_eq!(charges(&path), 1);
}
