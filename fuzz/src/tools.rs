//! What tools send and read: requests of the inspection socket, exported graphs, cursors.

use crate::random::Random;
use pleach::durable::GraphExport;
use pleach::inspect::{Cursor, InspectOptions};
use pleach::prelude::*;
use pleach::sim::FaultKind;
use pleach::store::RunCursor;
use std::cell::RefCell;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process;
use tokio::runtime::Runtime;

/// A request is answered within this time, however busy the machine is.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);

/// Requests that the socket understands, as a beginning for mutations.
const REQUESTS: [&str; 10] = [
    r#"{"id":1,"op":"snapshot","path":"/user","depth":2,"limit":10,"kinds":["actor"],"not_well":true}"#,
    r#"{"id":2,"op":"rows","open":["/","/user"],"first":0,"count":10}"#,
    r#"{"id":3,"op":"member","path":"/user/till"}"#,
    r#"{"id":4,"op":"top","by":"queued","below":"/user","limit":5,"contains":"t"}"#,
    r#"{"id":5,"op":"why","path":"/user/till","incarnation":1}"#,
    r#"{"id":6,"op":"supervision","path":"/user"}"#,
    r#"{"id":7,"op":"rates","path":"/user/till"}"#,
    r#"{"id":8,"op":"follow","path":"/user","kinds":["failed","health"]}"#,
    r#"{"id":9,"op":"log_level","level":"debug"}"#,
    r#"{"id":10,"op":"health"}"#,
];

/// An export, as a beginning for mutations. Its graph has a branch, a loop and a fan-out.
fn export() -> Vec<u8> {
    let pass = |n: u32| async move { n };
    let graph = Graph::<u32>::new("order")
        .add_node("start", pass)
        .add_node("left", pass)
        .add_node("right", pass)
        .add_node("join", pass)
        .add_parallel_edge("start", ["left", "right"], "join", FanOut::merge(|n: u32, _| n))
        .add_edge("left", "join")
        .add_edge("right", "join")
        .add_conditional_edge("join", ["start", END], |_: &u32| END)
        .set_entry("start")
        .compile()
        .expect("a valid graph");
    serde_json::to_vec(&graph.export()).expect("an export is JSON")
}

/// An export that is read can be drawn, whatever its edges lead to.
pub fn exported_graph(random: &mut Random) {
    thread_local!(static EXPORT: Vec<u8> = export());
    let mut json = EXPORT.with(Clone::clone);
    random.mutate(&mut json);
    let Ok(export) = serde_json::from_slice::<GraphExport>(&json) else { return };
    let drawings = [export.graph.to_svg(), export.graph.to_mermaid(), export.graph.to_dot()];
    assert!(drawings.iter().all(|drawing| !drawing.is_empty()));
    let written = serde_json::to_vec(&export).expect("what is read can be written");
    let read: GraphExport = serde_json::from_slice(&written).expect("what is written can be read");
    assert_eq!(read.graph.fingerprint, export.graph.fingerprint);
}

/// Cursors and names of faults that parse are written back the same.
pub fn word(random: &mut Random) {
    let words = ["c1:7:3:0.2", "c1:1:4:1.2,3.4", "1700000000000-42", "-5-7", "handler-fails", "store-slow"];
    let mut bytes = words[random.below(words.len())].as_bytes().to_vec();
    random.mutate(&mut bytes);
    let text = if random.one_in(3) { random.text(40) } else { String::from_utf8_lossy(&bytes).into_owned() };
    if let Ok(cursor) = text.parse::<Cursor>() {
        assert_eq!(cursor.to_string().parse(), Ok(cursor), "{text:?}");
    }
    if let Ok(cursor) = text.parse::<RunCursor>() {
        assert_eq!(cursor.to_string().parse::<RunCursor>().ok(), Some(cursor), "{text:?}");
    }
    if let Ok(kind) = text.parse::<FaultKind>() {
        assert_eq!(kind.to_string(), text);
    }
}

/// Each line gets one line of JSON as its answer.
pub fn request(random: &mut Random) {
    thread_local!(static TOOL: RefCell<Option<Tool>> = const { RefCell::new(None) });
    let mut line = if random.one_in(8) {
        random.bytes(200)
    } else {
        let mut line = REQUESTS[random.below(REQUESTS.len())].as_bytes().to_vec();
        random.mutate(&mut line);
        line
    };
    line.retain(|byte| *byte != b'\n');
    line.push(b'\n');
    TOOL.with_borrow_mut(|tool| tool.get_or_insert_with(Tool::start).ask(&line));
}

/// A system with a socket, and a connection to it.
struct Tool {
    /// Serves the socket; dropped last.
    _runtime: Runtime,
    _system: ActorSystem,
    path: PathBuf,
    connection: Option<BufReader<UnixStream>>,
}

impl Tool {
    fn start() -> Self {
        let folder = env::temp_dir().join(format!("pleach-fuzz-{}", process::id()));
        fs::create_dir_all(&folder).expect("a temporary folder");
        let path = folder.join("inspect.sock");
        let runtime = Runtime::new().expect("a runtime");
        let guard = runtime.enter();
        let system = ActorSystem::builder("shop").inspect(InspectOptions::at(&path)).build().expect("a system");
        let till = Props::from_fn(|| (), |(), _: u32| Ok::<(), pleach::BoxError>(()));
        system.spawn("till", till).expect("the name is free");
        drop(guard);
        Self { _runtime: runtime, _system: system, path, connection: None }
    }

    fn ask(&mut self, line: &[u8]) {
        let mut connection = self.connection.take().unwrap_or_else(|| self.connect());
        connection.get_mut().write_all(line).expect("the socket takes a line");
        let answer = next_line(&mut connection);
        assert!(answer.get("ok").is_some() != answer.get("error").is_some(), "{answer}");
        // After `follow`, events come between the answers.
        if !String::from_utf8_lossy(line).contains("follow") {
            self.connection = Some(connection);
        }
    }

    fn connect(&self) -> BufReader<UnixStream> {
        let stream = UnixStream::connect(&self.path).expect("the system listens");
        stream.set_read_timeout(Some(ANSWER_TIME_MAX)).expect("a time limit");
        let mut connection = BufReader::new(stream);
        next_line(&mut connection);
        connection
    }
}

/// Reads one line, which must be JSON.
fn next_line(connection: &mut BufReader<UnixStream>) -> serde_json::Value {
    let mut line = String::new();
    connection.read_line(&mut line).expect("an answer within the time limit");
    serde_json::from_str(&line).expect("an answer is one line of JSON")
}

impl Drop for Tool {
    fn drop(&mut self) {
        drop(self.path.parent().map(fs::remove_dir_all));
    }
}
