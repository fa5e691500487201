//! Tests of streams in paused time, over the real server without a socket.

use super::{Hub, Look};
use crate::source::Answer;
use crate::testing::Server;
use crate::view::View;
use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::StatusCode;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep, timeout};

/// A browser that reads a stream.
struct Browser {
    body: Body,
    id: String,
    lines: Vec<String>,
    seq: u64,
}

impl Browser {
    async fn open(server: &Server) -> Self {
        let response = server.send(server.request("GET", "/api/stream").body(Body::empty()).unwrap()).await;
        assert_eq!(response.status(), StatusCode::OK);
        let mut browser = Self { body: response.into_body(), id: String::new(), lines: Vec::new(), seq: 0 };
        let greeting = browser.frame().await.unwrap();
        let greeting: Value = serde_json::from_slice(&greeting).unwrap();
        assert_eq!(greeting["protocol"], 1);
        browser.id = greeting["stream"].as_str().unwrap().to_string();
        browser
    }

    async fn watch(&self, server: &Server, watches: Value) {
        let wish = json!({ "stream": self.id, "watches": watches });
        assert_eq!(server.ask("POST", "/api/watch", wish).await, (StatusCode::OK, json!({})));
    }

    /// Returns the next frame; `None` at the end.
    async fn frame(&mut self) -> Option<Bytes> {
        let frame = poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx)).await?;
        Some(frame.unwrap().into_data().unwrap())
    }

    /// Returns the next line, and checks its number.
    async fn line(&mut self) -> Value {
        while self.lines.is_empty() {
            let frame = self.frame().await.expect("the stream has ended");
            assert!(frame.len() <= 64 * 1024);
            self.lines.extend(String::from_utf8(frame.to_vec()).unwrap().lines().map(str::to_string));
        }
        let line: Value = serde_json::from_str(&self.lines.remove(0)).unwrap();
        self.seq += 1;
        assert_eq!(line["seq"], self.seq, "a gap");
        line
    }
}

/// Panics at the first look, while it is called or while it is awaited.
struct Panicking {
    looks: AtomicUsize,
    is_awaited: bool,
}

impl Look for Panicking {
    fn look<'a>(&'a self, _: &'a View) -> Answer<'a, Value> {
        let is_first = self.looks.fetch_add(1, Ordering::Relaxed) == 0;
        assert!(!is_first || self.is_awaited, "hunter2");
        Box::pin(async move {
            assert!(!is_first, "hunter2");
            Ok(json!("seen"))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn k6_a_panic_while_looking_is_an_error_of_the_view_and_it_is_looked_at_again() {
    for is_awaited in [false, true] {
        let hub = Hub::new(Arc::new(Panicking { looks: AtomicUsize::new(0), is_awaited }));
        let body = Body::new(hub.open("one".to_string()).unwrap());
        let mut browser = Browser { body, id: String::new(), lines: Vec::new(), seq: 0 };
        browser.frame().await.unwrap();
        hub.replace("one", BTreeMap::from([("a".to_string(), serde_json::from_value(tree(0)).unwrap())])).unwrap();
        let failed = timeout(Duration::from_secs(5), browser.line()).await.expect("a line");
        assert_eq!((&failed["error"]["code"], failed.to_string().contains("hunter2")), (&json!("internal"), false));
        let seen = timeout(Duration::from_secs(5), browser.line()).await.expect("a second line");
        assert_eq!(seen["value"], "seen", "{seen}");
    }
}

fn tree(first: u64) -> Value {
    json!({ "view": "tree", "process": "p0", "first": first })
}

#[tokio::test(start_paused = true)]
async fn k6_nothing_is_asked_while_nobody_watches() {
    let server = Server::new();
    sleep(Duration::from_secs(600)).await;
    assert_eq!(server.source.asked(), 0);
    let mut browser = Browser::open(&server).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(server.source.asked(), 0);
    browser.watch(&server, json!({ "a": tree(0) })).await;
    browser.seq = 0;
    sleep(Duration::from_secs(10)).await;
    assert_ne!(server.source.asked(), 0);
    browser.watch(&server, json!({})).await;
    let asked = server.source.asked();
    sleep(Duration::from_secs(600)).await;
    assert_eq!(server.source.asked(), asked);
    browser.watch(&server, json!({ "a": tree(0) })).await;
    sleep(Duration::from_secs(10)).await;
    assert_ne!(server.source.asked(), asked);
    drop(browser);
    sleep(Duration::from_secs(1)).await;
    let asked = server.source.asked();
    sleep(Duration::from_secs(600)).await;
    assert_eq!(server.source.asked(), asked);
}

#[tokio::test(start_paused = true)]
async fn k6_equal_watches_share_one_look_at_most_four_times_a_second() {
    let server = Server::new();
    let mut browsers = Vec::new();
    for _ in 0..10 {
        let browser = Browser::open(&server).await;
        browser.watch(&server, json!({ "a": tree(0), "b": tree(0) })).await;
        browsers.push(browser);
    }
    let (before, begin) = (server.source.asked(), Instant::now());
    sleep(Duration::from_secs(10)).await;
    let asked = server.source.asked() - before;
    assert!((39..=41).contains(&asked), "{asked} looks in {:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn k6_only_what_changed_is_sent_and_at_most_four_frames_a_second() {
    let server = Server::new();
    server.source.set(json!({ "total": 1 }));
    let mut browser = Browser::open(&server).await;
    browser.watch(&server, json!({ "a": tree(0), "b": tree(1) })).await;
    for key in ["a", "b"] {
        let line = browser.line().await;
        assert_eq!((&line["key"], &line["value"]), (&json!(key), &json!({ "total": 1 })));
    }
    // Nothing changes: only signs of life.
    let begin = Instant::now();
    assert_eq!(browser.line().await["alive"], true);
    assert_eq!(begin.elapsed().as_secs(), 10);
    // Something changes all the time.
    let (begin, mut frames) = (Instant::now(), Vec::new());
    for number in 0.. {
        server.source.set(json!({ "total": number }));
        let next = timeout(Duration::from_millis(10), browser.frame()).await;
        frames.extend(next.is_ok().then(|| begin.elapsed()));
        if begin.elapsed() > Duration::from_secs(20) {
            break;
        }
    }
    assert!(frames.len() >= 40, "{} frames in 20 s", frames.len());
    for window in frames.windows(5) {
        assert!(window[4] - window[0] >= Duration::from_millis(990), "{window:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn k6_a_new_watch_is_answered_at_once() {
    let server = Server::new();
    server.source.set(json!({ "total": 1 }));
    let mut browser = Browser::open(&server).await;
    browser.watch(&server, json!({ "a": tree(0) })).await;
    browser.line().await;
    let begin = Instant::now();
    browser.watch(&server, json!({ "a": tree(60) })).await;
    assert_eq!(browser.line().await["key"], "a");
    assert!(begin.elapsed() < Duration::from_millis(5), "{:?}", begin.elapsed());
    // The same watch again is not sent again.
    browser.watch(&server, json!({ "a": tree(60), "b": tree(60) })).await;
    assert_eq!(browser.line().await["key"], "b");
    assert_eq!(browser.line().await["alive"], true);
}

#[tokio::test(start_paused = true)]
async fn k6_a_pause_of_the_reader_ends_with_the_newest_value() {
    let server = Server::new();
    let mut browser = Browser::open(&server).await;
    browser.watch(&server, json!({ "a": tree(0) })).await;
    for number in 0..100 {
        server.source.set(json!({ "total": number }));
        sleep(Duration::from_millis(300)).await;
    }
    // One old frame was made before the pause; the next one is the present.
    let first = browser.line().await;
    let second = browser.line().await;
    assert!(first["value"]["total"].as_u64() < Some(5), "{first}");
    assert_eq!(second["value"]["total"], 99);
}

#[tokio::test(start_paused = true)]
async fn k6_large_values_are_counted_and_not_sent() {
    let server = Server::new();
    server.source.set(json!({ "text": "x".repeat(70_000) }));
    let mut browser = Browser::open(&server).await;
    browser.watch(&server, json!({ "a": tree(0) })).await;
    assert_eq!(browser.line().await["too_large"], 70_011);
    // Many values of half a frame: each frame is bounded, and each key gets its turn.
    server.source.set(json!({ "text": "x".repeat(30_000) }));
    let watches: serde_json::Map<String, Value> = (0..10).map(|number| (format!("k{number}"), tree(number))).collect();
    browser.watch(&server, Value::Object(watches)).await;
    let mut keys = Vec::new();
    for _ in 0..10 {
        keys.push(browser.line().await["key"].as_str().unwrap().to_string());
    }
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 10);
}

#[tokio::test(start_paused = true)]
async fn k6_a_failure_is_shown_and_so_is_a_late_answer() {
    let server = Server::new();
    server.source.set(json!("gone"));
    let mut browser = Browser::open(&server).await;
    browser.watch(&server, json!({ "a": tree(0) })).await;
    assert_eq!(browser.line().await["error"]["code"], "unreachable");
    *server.source.delay.lock().unwrap() = Duration::from_secs(60);
    server.source.set(json!({}));
    loop {
        let line = browser.line().await;
        if line["error"]["code"] == "timed_out" {
            break;
        }
        assert_ne!(line["alive"], json!(null), "{line}");
    }
    loop {
        let line = browser.line().await;
        if line["value"] == json!({}) {
            break;
        }
        assert_ne!(line["alive"], json!(null), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn k6_streams_are_bounded() {
    let server = Server::new();
    let mut browsers = Vec::new();
    for _ in 0..32 {
        browsers.push(Browser::open(&server).await);
    }
    let (status, answer) = server.ask("GET", "/api/stream", Value::Null).await;
    assert_eq!((status, &answer["error"]["code"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("too_many_streams")));
    browsers.pop();
    sleep(Duration::from_millis(1)).await;
    browsers.push(Browser::open(&server).await);
    let wish = json!({ "stream": "none", "watches": {} });
    assert_eq!(server.ask("POST", "/api/watch", wish).await.0, StatusCode::NOT_FOUND);
    let many: serde_json::Map<String, Value> = (0..33).map(|number| (format!("k{number}"), tree(number))).collect();
    let wish = json!({ "stream": browsers[0].id, "watches": many });
    assert_eq!(server.ask("POST", "/api/watch", wish).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test(start_paused = true)]
async fn k6_a_browser_that_does_not_read_is_closed() {
    let server = Server::new();
    let mut connection = server.connect(4 * 1024);
    let bearer = server.bearer();
    let head = format!("GET /api/stream HTTP/1.1\r\nhost: 127.0.0.1:4000\r\nauthorization: {bearer}\r\n\r\n");
    connection.write_all(head.as_bytes()).await.unwrap();
    let mut read = String::new();
    let id = loop {
        let mut part = [0; 1024];
        let count = connection.read(&mut part).await.unwrap();
        read.push_str(std::str::from_utf8(&part[..count]).unwrap());
        if let Some((_, rest)) = read.split_once("{\"stream\":\"") {
            break rest.split('"').next().unwrap().to_string();
        }
    };
    let wish = json!({ "stream": id, "watches": { "a": tree(0) } });
    assert_eq!(server.ask("POST", "/api/watch", wish).await.0, StatusCode::OK);
    // It does not read. The buffers fill, and 10 s later it is closed, and nothing is asked any more.
    for number in 0..120 {
        server.source.set(json!({ "total": number, "text": "x".repeat(20_000) }));
        sleep(Duration::from_millis(250)).await;
    }
    let asked = server.source.asked();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(server.source.asked(), asked);
    let mut rest = Vec::new();
    connection.read_to_end(&mut rest).await.unwrap();
    assert!(rest.len() < 256 * 1024, "{} bytes were kept for a reader that does not read", rest.len());
}
