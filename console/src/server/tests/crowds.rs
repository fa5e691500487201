//! Many, slow and silent connections do not keep out a browser with the token.

use crate::Console;
use crate::server::listen::Bounds;
use crate::testing::{HOST, Server};
use pleach::store::MemoryStore;
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

async fn read_to_end(connection: &mut DuplexStream) -> String {
    let mut answer = Vec::new();
    let _ = connection.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(start_paused = true)]
async fn k7_a_head_that_comes_slowly_is_given_up() {
    let server = Server::new();
    let mut slow = server.connect(64 * 1024);
    let began = Instant::now();
    let mut sent = 0;
    for byte in format!("GET / HTTP/1.1\r\nHost: {HOST}\r\nX-Slow: {}", "y".repeat(1_000)).bytes() {
        if slow.write_all(&[byte]).await.is_err() {
            break;
        }
        sent += 1;
        sleep(Duration::from_secs(1)).await;
    }
    let limit = Bounds::default().head_within;
    assert!(sent < 30 && began.elapsed() <= limit + Duration::from_secs(2), "{sent} bytes in {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn k7_a_body_that_comes_slowly_is_given_up() {
    let server = Server::new();
    let mut slow = server.connect(64 * 1024);
    let bearer = server.bearer();
    let head = format!(
        "POST /api/view HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: {bearer}\r\nContent-Type: application/json\r\n\
         Content-Length: 100000\r\n\r\n{{"
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    let began = Instant::now();
    let answer = read_to_end(&mut slow).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn k7_a_reader_that_takes_nothing_is_given_up() {
    let server = Server::new();
    let mut slow = server.connect(1_024);
    server.source.set(json!({ "members": "x".repeat(500_000) }));
    let bearer = server.bearer();
    let q = "%7B%22view%22%3A%22not_well%22%2C%22process%22%3A%22p0%22%7D";
    let head = format!("GET /api/view?q={q} HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: {bearer}\r\n\r\n");
    slow.write_all(head.as_bytes()).await.unwrap();
    sleep(Duration::from_secs(30)).await;
    let answer = read_to_end(&mut slow).await;
    assert!(answer.len() < 10_000, "the rest of {} bytes was kept for a reader that was gone", answer.len());
    let mut next = server.connect(1 << 20);
    next.write_all(head.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n").as_bytes()).await.unwrap();
    assert!(read_to_end(&mut next).await.len() > 500_000, "others are served");
}

#[tokio::test(start_paused = true)]
async fn k7_a_thousand_idle_connections_do_not_keep_out_a_browser() {
    let server = Server::new();
    let mut idle: Vec<DuplexStream> = (0..1_000).map(|_| server.connect(1_024)).collect();
    let mut browser = server.connect(64 * 1024);
    let bearer = server.bearer();
    let head = format!("GET /api/console HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: {bearer}\r\nConnection: close\r\n\r\n");
    browser.write_all(head.as_bytes()).await.unwrap();
    assert!(read_to_end(&mut browser).await.starts_with("HTTP/1.1 200"));
    // The first ones were closed for the later ones; all end when they stay silent.
    for connection in &mut idle {
        read_to_end(connection).await;
    }
}

#[tokio::test]
async fn k7_idle_connections_of_a_real_socket_make_room() {
    let console = Console::builder().store(&MemoryStore::new()).serve("127.0.0.1:0").await.unwrap();
    let mut idle = Vec::new();
    for _ in 0..300 {
        idle.push(TcpStream::connect(console.addr()).await.unwrap());
    }
    let token = console.url().split_once("#token=").unwrap().1;
    let mut browser = TcpStream::connect(console.addr()).await.unwrap();
    let host = console.addr();
    let head =
        format!("GET /api/console HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n");
    browser.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(Duration::from_secs(10), browser.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let mut first = [0; 16];
    let closed = timeout(Duration::from_secs(10), idle[0].read(&mut first)).await;
    assert!(matches!(closed, Ok(Ok(0) | Err(_))), "the oldest one was closed: {closed:?}");
    console.shutdown().await;
}
