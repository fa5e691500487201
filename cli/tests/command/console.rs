//! `pleach console` and `pleach demo --console`: the URL, what is served, the end, and errors.

use crate::fixture::{Fixture, Place, pleach};
use crate::process::{Process, socket_folder};
use pleach::inspect::InspectAction;
use pleach::store::RunStatus;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::process::{Child, ChildStdout, Command, Stdio};

/// A running command with a console.
pub struct Serving {
    child: Child,
    lines: BufReader<ChildStdout>,
    url: String,
}

impl Serving {
    fn start(arguments: &[&str]) -> Self {
        Self::of(pleach(&[&["console"], arguments].concat()))
    }

    /// Starts a command, and reads up to the line with the URL.
    pub fn of(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        let url = loop {
            let before = said.len();
            lines.read_line(&mut said).unwrap();
            assert!(said.len() > before, "it ended without a URL: {said}");
            let line = said[before..].trim();
            if line.starts_with("http://") {
                break line.to_string();
            }
        };
        Self { child, lines, url }
    }

    /// Reads up to a line with this text. The command must write it.
    pub fn says(&mut self, text: &str) {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "it ended without {text:?}");
        }
    }

    fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap().split('/').next().unwrap()
    }

    fn token(&self) -> &str {
        self.url.split_once("#token=").unwrap().1
    }

    /// Sends a request with the token, and returns the status and the body.
    fn send(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        request(self.address(), method, path, Some(self.token()), body)
    }

    pub fn json(&self, path: &str) -> Value {
        let (status, body) = self.send("GET", path, "");
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Orders an action, and returns the status and the answer.
    fn act(&self, action: &Value) -> (u16, Value) {
        let post = |body: Value| {
            let (status, body) = self.send("POST", "/api/act", &body.to_string());
            (status, serde_json::from_str::<Value>(&body).unwrap())
        };
        let (status, plan) = post(json!({ "action": action, "is_plan": true, "reason": "", "plan": null }));
        assert_eq!(status, 200, "{plan}");
        post(json!({ "action": action, "is_plan": false, "reason": "a test", "plan": plan["plan"] }))
    }

    /// Sends a signal. Returns the exit code, what else it printed, and what it complained about.
    pub fn end(mut self, signal: Signal) -> (Option<i32>, String, String) {
        kill_process(Pid::from_raw(self.child.id().cast_signed()).unwrap(), signal).unwrap();
        let (mut said, mut complained) = (String::new(), String::new());
        self.lines.read_to_string(&mut said).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut complained).unwrap();
        (self.child.wait().unwrap().code(), said, complained)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn request(address: &str, method: &str, path: &str, token: Option<&str>, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{token}");
    write!(stream, "{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    // The page is compressed.
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn k1_console_prints_one_url_serves_and_ends_with_code_0() {
    let fixture = Fixture::full(Place::Sqlite).await;
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let serving = Serving::start(&[&fixture.store]);
        let address = serving.address().to_string();
        assert!(address.starts_with("127.0.0.1:"), "{address}");
        let (status, page) = request(&address, "GET", "/", None, "");
        assert!(status == 200 && !page.is_empty(), "{status} {page}");
        assert_eq!(request(&address, "GET", "/api/console", None, "").0, 401);
        assert_eq!(serving.json("/api/console")["stores"][0]["target"], fixture.store);
        let (code, said, complained) = serving.end(signal);
        assert_eq!((code, said.as_str()), (Some(0), ""), "{complained}");
        assert!(complained.contains("The console is read-only."), "{complained}");
        assert!(TcpStream::connect(&address).is_err(), "it still listens");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k1_console_shows_stores_and_processes_in_order() {
    let (fixture, process) = (Fixture::full(Place::Sqlite).await, Process::start([InspectAction::Stop]));
    let socket = format!("unix:{}", process.socket);
    let serving = Serving::start(&[&fixture.store, &socket, "--name", "the shop", "--environment", "production=red"]);
    let console = serving.json("/api/console");
    assert_eq!(console["name"], "the shop");
    assert_eq!(console["environment"], json!({ "name": "production", "colour": "red" }));
    assert_eq!((&console["processes"][0]["key"], &console["processes"][0]["target"]), (&json!("p0"), &json!(process.socket)));
    assert_eq!(console["stores"][0]["key"], "s0");
    let home = serving.json("/api/view?q=%7B%22view%22:%22home%22%7D");
    assert!(home["problems"].is_array(), "{home}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k1_console_shows_a_store_in_postgres() {
    let fixture = Fixture::full(Place::Postgres).await;
    let serving = Serving::start(&[&fixture.store]);
    let store = serving.json("/api/console")["stores"][0].clone();
    assert_eq!((&store["kind"], &store["problem"]), (&json!("postgres"), &Value::Null), "{store}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k4_console_only_looks_unless_actions_are_allowed() {
    let fixture = Fixture::full(Place::Sqlite).await;
    let retry = json!({ "kind": "cancel", "store": "s0", "run": "order-2", "cancel_reason": "sold out" });
    let reading = Serving::start(&[&fixture.store]);
    assert_eq!(reading.json("/api/console")["is_read_only"], true);
    let (status, answer) = reading.act(&retry);
    assert_eq!((status, &answer["error"]["code"]), (403, &json!("read_only")), "{answer}");
    assert_eq!(fixture.status("order-2").await, RunStatus::Waiting);
    for option in ["--allow-actions", "--write"] {
        let acting = Serving::start(&[&fixture.store, option]);
        assert_eq!(acting.json("/api/console")["is_read_only"], false);
        let run = if option == "--write" { "order-2" } else { "-dash" };
        let (status, answer) = acting.act(&json!({ "kind": "pause", "store": "s0", "run": run }));
        assert_eq!(status, 200, "{answer}");
        let (code, _, complained) = acting.end(Signal::TERM);
        assert!(code == Some(0) && complained.contains("Actions are allowed."), "{complained}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k4_console_continues_the_record_of_actions_in_a_file() {
    let fixture = Fixture::full(Place::Sqlite).await;
    let file = format!("{}.actions", fixture.store);
    let arguments = ["--allow-actions", "--record", &file, &fixture.store];
    let serving = Serving::start(&arguments);
    let pause = json!({ "kind": "pause", "store": "s0", "run": "-dash" });
    assert_eq!(serving.act(&pause).0, 200);
    let second = pleach(&[&["console"], &arguments[..]].concat()).output().unwrap();
    let complained = String::from_utf8_lossy(&second.stderr).to_string();
    assert!(second.status.code() == Some(2) && complained.contains("another console writes to it"), "{complained}");
    assert_eq!(serving.end(Signal::TERM).0, Some(0));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let serving = Serving::start(&arguments[1..]);
    let (status, body) = serving.send("POST", "/api/view", &json!({ "view": "actions" }).to_string());
    let page: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, page["entries"].as_array().map(Vec::len)), (200, Some(1)), "{page}");
    assert_eq!((&page["entries"][0]["subject"], &page["entries"][0]["reason"]), (&json!("-dash"), &json!("a test")));
    std::fs::remove_file(&file).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn k1_console_writes_its_url_as_json() {
    let fixture = Fixture::empty(Place::Sqlite).await;
    let mut child =
        pleach(&["console", &fixture.store, "--json"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&said["version"], &said["is_read_only"]), (&json!(1), &json!(true)), "{line}");
    assert!(said["url"].as_str().unwrap().starts_with(&format!("http://{}/#token=", said["addr"].as_str().unwrap())), "{line}");
}

/// Fails unless the command ends with this code and text, before it serves anything.
fn assert_refused(arguments: &[&str], code: i32, part: &str) {
    let mut command = pleach(&[&["console"], arguments].concat());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if !line.is_empty() {
        drop(child.kill());
    }
    let output = child.wait_with_output().unwrap();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(code) && complained.contains(part), "{arguments:?}: {line} {output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k1_console_refuses_wrong_targets_and_addresses() {
    let fixture = Fixture::empty(Place::Sqlite).await;
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let folder = socket_folder();
    let dead = folder.join("dead.sock");
    drop(UnixListener::bind(&dead).unwrap());
    let text = fixture.exports(&"no store");
    let silent = folder.join("silent.sock");
    let _silent = UnixListener::bind(&silent).unwrap();
    let (store, dead, silent) = (fixture.store.as_str(), dead.to_str().unwrap(), silent.to_str().unwrap());
    for (arguments, code, part) in [
        (&[][..], 2, "<STORE|SOCKET>"),
        (&["/nosuch/runs.db"], 3, "there is no file /nosuch/runs.db"),
        (&["unix:/nosuch/x.sock"], 3, "there is no socket /nosuch/x.sock"),
        (&[&text], 5, "cannot open the store"),
        (&[dead], 5, "no process serves the socket"),
        (&[silent, "--timeout", "100ms"], 6, "did not answer within"),
        (&["mysql://h/d"], 2, "unknown kind of store"),
        (&[store, "--addr", "0.0.0.0:0"], 2, "can be reached from other machines"),
        (&[store, "--addr", "nonsense"], 2, "use an address such as 127.0.0.1:0"),
        (&[store, "--addr", &taken], 1, "use port 0 for a free port"),
        (&[store, "--environment", "production=pink"], 2, "the colours are red, amber, green, blue, violet, grey"),
    ] {
        assert_refused(arguments, code, part);
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn k7_console_opens_the_browser_without_the_token_in_its_arguments() {
    let fixture = Fixture::empty(Place::Sqlite).await;
    let opener = fixture.folder.join(if cfg!(target_os = "macos") { "open" } else { "xdg-open" });
    let (seen, fifo) = (fixture.folder.join("seen"), fixture.folder.join("fifo"));
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let script = format!("#!/bin/sh\necho \"$@\" > {0}\ncat \"$1\" >> {0}\necho > {1}\n", seen.display(), fifo.display());
    std::fs::write(&opener, script).unwrap();
    std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = pleach(&["console", &fixture.store, "--open"]);
    let path = format!("{}:{}", fixture.folder.display(), std::env::var("PATH").unwrap());
    command.env("PATH", path).env("XDG_RUNTIME_DIR", &fixture.folder);
    let serving = Serving::of(command);
    // The fake browser writes there when it has read its page.
    std::fs::read(&fifo).unwrap();
    let text = std::fs::read_to_string(&seen).unwrap();
    let (arguments, page) = text.split_once('\n').unwrap();
    assert!(!arguments.contains(serving.token()), "{arguments}");
    assert!(page.contains(&serving.url), "{page}");
    assert_eq!(serving.end(Signal::TERM).0, Some(0));
    assert!(!std::path::Path::new(arguments).exists(), "the page is left");
}
