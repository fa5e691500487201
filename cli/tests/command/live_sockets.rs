//! What is at the path of a socket instead of a healthy process, and what the command makes of it.

use crate::fixture::{Called, Fixture, Place, call, pleach};
use crate::process::{Process, socket_folder};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Stdio;

/// The words that look at a process, with their arguments.
const WORDS: [(&str, &[&str]); 5] =
    [("tree", &[]), ("health", &[]), ("why", &["/user"]), ("suspend", &["/user/a", "--yes"]), ("log-level", &["info"])];

fn calls(socket: &str, options: &[&str]) -> Vec<Called> {
    WORDS.iter().map(|(word, arguments)| call(&[&[*word, socket], *arguments, options].concat())).collect()
}

/// A socket on which `serve` answers one connection after another.
struct Fake {
    path: PathBuf,
}

impl Fake {
    fn new(serve: impl Fn(UnixStream) + Send + 'static) -> Self {
        let path = socket_folder().join("fake.sock");
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || listener.incoming().for_each(|stream| serve(stream.unwrap())));
        Self { path }
    }

    /// Greets like a process, then answers each request with this line.
    fn answering(line: &'static str) -> Self {
        Self::new(move |mut stream| {
            let greeting = r#"{"hello":{"protocol":1,"name":"f","pid":1,"version":"9","actions":["suspend","log_level","fly"],"stats":{"connections":1,"refused":0,"too_slow":0,"requests":0,"missed_events":0},"new":1}}"#;
            drop(writeln!(stream, "{greeting}"));
            let requests = BufReader::new(stream.try_clone().unwrap()).lines();
            for _ in requests.map_while(Result::ok) {
                drop(writeln!(stream, "{line}"));
            }
        })
    }

    fn name(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(self.path.parent().unwrap()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn store_file_and_missing_file_are_no_sockets() {
    let fixture = Fixture::full(Place::Sqlite).await;
    let store = call(&["tree", &fixture.store]);
    assert!(store.code == 5 && store.err.contains("is a SQLite file, not an inspection socket"), "{store:?}");
    assert!(store.err.contains("help: for the runs of a store use: pleach runs list "), "{store:?}");
    let file = fixture.exports(&"text");
    assert!(call(&["health", &file]).err.contains("is a file, not an inspection socket"));
    assert!(call(&["health", fixture.folder.to_str().unwrap()]).err.contains("is a folder, not"));
    for called in [call(&["tree", "/nosuch/x.sock"]), call(&["why", "unix:/nosuch/x.sock", "/user"])] {
        assert!(called.code == 3 && called.err.contains("there is no socket /nosuch/x.sock"), "{called:?}");
    }
    for wrong in ["postgres://h/d", "sqlite:a.db", "env:PLEACH_NO_SUCH_VARIABLE", "unix:", ""] {
        assert_eq!(call(&["tree", wrong]).code, 2, "{wrong}");
    }
    let socket = format!("env:{}", "PLEACH_TEST_SOCKET");
    let process = Process::start([]);
    let health = pleach(&["health", &socket]).env("PLEACH_TEST_SOCKET", format!("unix:{}", process.socket)).output().unwrap();
    assert!(health.status.success(), "{health:?}");
}

#[test]
fn socket_of_a_killed_process_is_recognised() {
    let folder = socket_folder();
    let path = folder.join("dead.sock");
    drop(UnixListener::bind(&path).unwrap());
    for called in calls(path.to_str().unwrap(), &[]) {
        assert!(called.code == 5 && called.err.contains("the process that made it was killed"), "{called:?}");
        assert!(called.err.contains("help: start the process again"), "{called:?}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn process_that_does_not_answer_is_a_timeout() {
    for greets in [false, true] {
        let fake = Fake::new(move |mut stream| {
            if greets {
                drop(writeln!(
                    stream,
                    r#"{{"hello":{{"protocol":1,"name":"f","pid":1,"version":"1","actions":["suspend"],"stats":{{"connections":1,"refused":0,"too_slow":0,"requests":0,"missed_events":0}}}}}}"#
                ));
            }
            // Open until the command has gone.
            std::thread::spawn(move || BufReader::new(stream).lines().map_while(Result::ok).count());
        });
        for called in calls(fake.name(), &["--timeout", "200ms"]) {
            assert!(called.code == 6 && called.err.contains("did not answer within 200ms"), "{called:?}");
        }
    }
}

#[test]
fn garbage_is_an_error_with_an_exit_code() {
    for garbage in [
        "",
        "\u{1b}]0;title\u{7} not JSON",
        "[]",
        "{}",
        "\"hello\"",
        "{\"hello\":null}",
        "{\"hello\":{}}",
        "{\"id\":1,\"ok\":{}}",
    ] {
        let fake = Fake::new(move |mut stream| drop(writeln!(stream, "{garbage}")));
        for called in calls(fake.name(), &[]) {
            assert!(called.code == 5 && called.err.contains("is not an inspection socket of pleach"), "{garbage} {called:?}");
            assert!(!called.err.contains('\u{1b}'), "{called:?}");
        }
    }
    for garbage in ["not JSON", r#"{"id":1,"ok":7}"#, r#"{"id":1}"#, r#"{"id":1,"error":7}"#] {
        let fake = Fake::answering(garbage);
        for called in calls(fake.name(), &["--timeout", "500ms"]) {
            let is_done = called.code == 0 && garbage.contains("\"ok\"");
            assert!(is_done || called.code == 5, "{garbage} {called:?}");
        }
    }
}

#[test]
fn process_that_vanishes_is_unreachable() {
    for called in calls(Fake::new(drop).name(), &[]) {
        assert!(called.code == 5 && called.err.contains("closed before it greeted"), "{called:?}");
    }
    let greets = Fake::new(|mut stream| {
        drop(writeln!(
            stream,
            r#"{{"hello":{{"protocol":1,"name":"f","pid":1,"version":"1","actions":["log_level","suspend"],"stats":{{"connections":1,"refused":0,"too_slow":0,"requests":0,"missed_events":0}}}}}}"#
        ));
        let mut request = String::new();
        drop(BufReader::new(stream).read_line(&mut request));
    });
    for called in calls(greets.name(), &[]) {
        assert!(called.code == 5 && called.err.contains("error: the "), "{called:?}");
    }
}

#[test]
fn version_from_the_future_is_refused_whatever_its_greeting_has() {
    let fake = Fake::new(|mut stream| drop(writeln!(stream, r#"{{"hello":{{"protocol":2,"who":["f"]}}}}"#)));
    for called in calls(fake.name(), &[]) {
        assert!(called.code == 5 && called.err.contains("speaks version 2 of the inspection protocol"), "{called:?}");
        assert!(called.err.contains("help: use the command of the same version as the process"), "{called:?}");
    }
}

#[test]
fn kinds_and_states_of_a_newer_process_are_shown_as_unknown() {
    let page = r#"{"id":1,"ok":{"members":[{"path":"/user/x","id":7,"kind":"robot","depth":0,"activity":{"state":"dreaming","of":"sheep"},"waits":[{"kind":"luck","on":"/user/y","id":8}],"waits_left_out":0,"cancelled_for_us":null,"children":0,"pool_size":null,"actor":null,"restarts":null,"last_failure":null,"aura":"blue"}],"next":null}}"#;
    let fake = Fake::answering(page);
    let tree = call(&["tree", fake.name(), "/user/x"]);
    assert_eq!(tree.out, "/user/x (unknown) in a state that this version does not know, waits for /user/y\n", "{tree:?}");
    let health = r#"{"id":1,"ok":{"status":"degraded","reasons":[{"kind":"sun_flare","strength":3}]}}"#;
    let health = call(&["health", Fake::answering(health).name()]);
    assert!(health.code == 7 && health.out.contains("- a problem of a kind that this version does not know"), "{health:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_connections_are_said_to_be_so() {
    let process = Process::with(|options| options.connections_max(1));
    let taken = UnixStream::connect(&process.socket).unwrap();
    let mut greeting = String::new();
    BufReader::new(&taken).read_line(&mut greeting).unwrap();
    for called in calls(&process.socket, &[]) {
        assert!(called.code == 5 && called.err.contains("1 connections are open, which is the limit"), "{called:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_pipe_and_full_device_are_exit_codes() {
    let process = Process::start([]);
    for (word, arguments) in [("tree", &[][..]), ("health", &[]), ("why", &["/user"])] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let arguments = [&[word, process.socket.as_str()], arguments].concat();
        let output = pleach(&arguments).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(141), &b""[..]), "{arguments:?}");
        #[cfg(target_os = "linux")]
        {
            let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
            let output = pleach(&arguments).stdout(full).stderr(Stdio::piped()).output().unwrap();
            assert_eq!(output.status.code(), Some(8), "{arguments:?}");
        }
    }
}
