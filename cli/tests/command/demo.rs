//! `pleach demo` without a terminal: its lines, its account, its end, and what a kill leaves.

use crate::console::Serving;
use crate::fixture::pleach;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;

/// How long a process may take to notice that another one has died.
const LIMIT: Duration = Duration::from_secs(20);

/// The last line of a good account.
pub const ACCOUNTED: &str = "Every message, every failure and every charge is accounted for.\n";

/// A temporary folder, in which demos make theirs.
pub struct Temporary(PathBuf);

impl Temporary {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("pleach_cli_demo_{}_{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    fn demo(&self, arguments: &[&str]) -> Command {
        let mut command = pleach(&[&["demo"], arguments].concat());
        command.env("TMPDIR", &self.0).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn start(&self, arguments: &[&str]) -> Running {
        let mut child = self.demo(arguments).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Running { child, lines, said: String::new() }
    }

    /// Returns the names of the folders that demos have now.
    pub fn folders(&self) -> Vec<PathBuf> {
        std::fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// A demo that writes lines.
struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
    said: String,
}

impl Running {
    /// Reads up to a line with this text, and returns it. The demo ends on its own, so this does.
    fn says(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            self.lines.read_line(&mut line).unwrap();
            assert!(!line.is_empty(), "the demo ended without {text:?}: {}", self.said);
            self.said.push_str(&line);
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Waits until the worker is up, and returns its process.
    fn worker(&mut self) -> Pid {
        pid_in(&self.says(" is up: "))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id().cast_signed()).unwrap(), signal).unwrap();
    }

    /// Reads everything else, and returns the exit code.
    fn end(&mut self) -> Option<i32> {
        self.lines.read_to_string(&mut self.said).unwrap();
        self.child.wait().unwrap().code()
    }
}

/// Returns the process in a line such as `worker 17 is up`.
pub fn pid_in(line: &str) -> Pid {
    let after = line.split("worker ").nth(1).unwrap();
    Pid::from_raw(after.split(' ').next().unwrap().parse().unwrap()).unwrap()
}

pub fn is_alive(process: Pid) -> bool {
    test_kill_process(process).is_ok()
}

/// Waits until no worker uses a folder: it holds a lock until its process ends.
fn wait_without_worker(folder: &Path) {
    let lock = File::open(folder.join("worker.lock")).unwrap();
    let (ended, has_ended) = mpsc::channel();
    std::thread::spawn(move || ended.send(lock.lock()));
    has_ended.recv_timeout(LIMIT).expect("the worker outlives its show").unwrap();
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn demo_tells_what_happens_and_accounts_for_everything() {
    let temporary = Temporary::new();
    let mut demo = temporary.start(&["--duration", "6s", "--seed", "7"]);
    let first = demo.says("pleach demo: ");
    assert_eq!(first, "pleach demo: a shop of supervised actors and durable orders, for 6 s (seed 7).\n");
    let worker = demo.worker();
    demo.says("stock failed: shelf ");
    demo.says(&format!("kill -9 {worker}", worker = worker.as_raw_nonzero()));
    demo.says("continues \"order-");
    let next = pid_in(&demo.says(" after their last step on disk; "));
    assert_ne!(worker, next);
    assert_eq!(demo.end(), Some(0), "{}", demo.said);
    assert!(demo.said.contains("Worker processes killed before: 1."), "{}", demo.said);
    assert!(demo.said.ends_with(ACCOUNTED), "{}", demo.said);
    assert!(!is_alive(worker) && !is_alive(next));
    assert_eq!(temporary.folders(), [] as [PathBuf; 0]);
}

#[test]
fn demo_writes_its_account_as_json() {
    let temporary = Temporary::new();
    let output = temporary.demo(&["--duration", "1500ms", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let account: serde_json::Value = serde_json::from_str(&text(&output)).unwrap();
    assert_eq!((&account["version"], &account["fault"]), (&1.into(), &serde_json::Value::Null));
    let of = |actor: &serde_json::Value, field: &str| actor[field].as_u64().unwrap();
    let actors = account["actors"].as_array().unwrap();
    assert_eq!(actors.len(), 6);
    for actor in actors {
        let accepted = of(actor, "handled") + of(actor, "failed") + of(actor, "dead_lettered");
        assert_eq!(of(actor, "accepted"), accepted, "{actor}");
        assert_eq!(of(actor, "sent"), accepted + of(actor, "returned"), "{actor}");
        assert!(accepted > 0, "{actor}");
    }
}

#[test]
fn two_demos_at_once_do_not_disturb_each_other() {
    let temporary = Temporary::new();
    let mut demos = [(); 2].map(|()| temporary.start(&["--duration", "4s"]));
    let stores = demos.each_mut().map(|demo| demo.says("pleach runs list "));
    let workers = demos.each_mut().map(Running::worker);
    assert_ne!(stores[0], stores[1]);
    assert_ne!(workers[0], workers[1]);
    assert_eq!(temporary.folders().len(), 2);
    for demo in &mut demos {
        assert_eq!(demo.end(), Some(0), "{}", demo.said);
        assert!(demo.said.ends_with(ACCOUNTED), "{}", demo.said);
    }
    assert_eq!(temporary.folders(), [] as [PathBuf; 0]);
}

#[test]
fn demo_ends_in_order_on_sigterm() {
    let temporary = Temporary::new();
    let mut demo = temporary.start(&["--duration", "60s"]);
    let worker = demo.worker();
    demo.signal(Signal::TERM);
    assert_eq!(demo.end(), Some(143), "{}", demo.said);
    assert!(demo.said.ends_with(ACCOUNTED), "{}", demo.said);
    assert!(!is_alive(worker));
    assert_eq!(temporary.folders(), [] as [PathBuf; 0]);
}

#[test]
fn demo_ends_quietly_when_its_pipe_closes() {
    let temporary = Temporary::new();
    let mut demo = temporary.start(&["--duration", "10m"]);
    let worker = demo.worker();
    let Running { child, lines, .. } = demo;
    drop(lines);
    let (ended, has_ended) = mpsc::channel();
    std::thread::spawn(move || ended.send(child.wait_with_output()));
    let output = has_ended.recv_timeout(LIMIT).expect("the demo does not notice the end of its pipe").unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (Some(141), String::new()));
    assert!(!is_alive(worker));
    assert_eq!(temporary.folders(), [] as [PathBuf; 0]);
}

#[test]
fn killed_demo_leaves_no_process_and_its_orders_are_picked_up() {
    let temporary = Temporary::new();
    let mut demo = temporary.start(&["--duration", "60s"]);
    demo.says("order-1 was shipped");
    demo.signal(Signal::KILL);
    assert_eq!(demo.end(), None);
    let [folder] = &temporary.folders()[..] else { panic!("{:?}", temporary.folders()) };
    wait_without_worker(folder);

    let mut next = temporary.start(&["--duration", "3s"]);
    next.says("picked up \"order-");
    next.says("orders of a demo that was killed");
    assert_eq!(next.end(), Some(0), "{}", next.said);
    assert!(next.said.ends_with(ACCOUNTED), "{}", next.said);
    assert_eq!(temporary.folders(), [] as [PathBuf; 0]);
}

#[test]
fn k1_demo_serves_a_console_of_its_worker_and_its_orders() {
    let temporary = Temporary::new();
    let mut command = temporary.demo(&["--console", "--duration", "30s"]);
    command.stdin(Stdio::null());
    let mut serving = Serving::of(command);
    serving.says(" is up: ");
    let console = serving.json("/api/console");
    assert_eq!((&console["name"], &console["is_read_only"]), (&"demo".into(), &false.into()), "{console}");
    assert!(console["processes"][0]["target"].as_str().unwrap().ends_with("inspect.sock"), "{console}");
    assert!(console["stores"][0]["target"].as_str().unwrap().ends_with("runs.db"), "{console}");
    let (code, said, complained) = serving.end(Signal::TERM);
    assert_eq!(code, Some(143), "{said} {complained}");
    assert!(said.ends_with(ACCOUNTED), "{said}");
    assert_eq!(temporary.folders(), [] as [PathBuf; 0]);
}
