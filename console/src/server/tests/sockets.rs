//! A console at a real socket refuses what is not exactly a request of its page.

use crate::server::guard::RouteKind;
use crate::server::routes::routes;
use crate::{Console, ConsoleHandle};
use axum::http::Method;
use pleach::store::MemoryStore;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A running console, and what a request to it needs.
struct Target {
    console: ConsoleHandle,
    host: String,
    token: String,
}

impl Target {
    async fn start() -> Self {
        let console = Console::builder().store(&MemoryStore::new()).serve("127.0.0.1:0").await.unwrap();
        let (host, token) = (console.addr().to_string(), console.url().split_once("#token=").unwrap().1.to_string());
        Self { console, host, token }
    }

    /// Sends bytes, and returns all bytes that come before the connection is closed.
    async fn raw(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut connection = TcpStream::connect(self.console.addr()).await.unwrap();
        // The server may refuse before it has read everything, and close.
        let _ = connection.write_all(bytes.as_ref()).await;
        let _ = connection.shutdown().await;
        let mut answer = Vec::new();
        let _ = connection.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Sends a request with these headers after `Host`, and returns the status.
    async fn status(&self, line: &str, headers: &str) -> String {
        let host = &self.host;
        status_of(&self.raw(format!("{line} HTTP/1.1\r\nHost: {host}\r\n{headers}Connection: close\r\n\r\n")).await)
    }

    fn bearer(&self) -> String {
        format!("Authorization: Bearer {}\r\n", self.token)
    }
}

fn status_of(answer: &str) -> String {
    answer.split(' ').nth(1).unwrap_or("closed").to_string()
}

#[tokio::test]
async fn k7_no_route_of_a_real_socket_answers_without_the_token() {
    let target = Target::start().await;
    for route in routes() {
        let line = format!("{} {}", route.method, route.path);
        let expected = if route.kind == RouteKind::Data { "401" } else { "200" };
        assert_eq!(target.status(&line, "").await, expected, "{line}");
        let wrong = format!("Authorization: Bearer {}\r\n", "0".repeat(target.token.len()));
        assert_eq!(target.status(&line, &wrong).await, expected, "{line}");
        let cookie = format!("Cookie: token={0}; Authorization={0}\r\n", target.token);
        assert_eq!(target.status(&format!("{line}?token={}", target.token), &cookie).await, expected, "{line}");
        if route.kind == RouteKind::Data && route.method == Method::GET && route.path != "/api/stream" {
            assert_ne!(target.status(&line, &target.bearer()).await, "401", "{line}");
        }
    }
    target.console.shutdown().await;
}

#[tokio::test]
async fn k7_a_real_socket_refuses_foreign_pages() {
    let target = Target::start().await;
    let (host, bearer) = (target.host.clone(), target.bearer());
    for route in routes() {
        let line = format!("{} {}", route.method, route.path);
        for headers in [
            "Origin: http://evil.example\r\n",
            "Origin: null\r\n",
            "Sec-Fetch-Site: cross-site\r\n",
            "Sec-Fetch-Site: same-site\r\n",
            "Sec-Fetch-Site: none\r\nSec-Fetch-Site: none\r\n",
            "Host: evil.example\r\n",
            &format!("Host: {host}\r\n"),
        ] {
            assert_eq!(target.status(&line, &format!("{bearer}{headers}")).await, "403", "{line} with {headers}");
        }
    }
    for host in ["evil.example", "127.0.0.1.evil.example", "", "[::1", "localhost@evil.example"] {
        let request = format!("GET /api/console HTTP/1.1\r\nHost: {host}\r\n{bearer}Connection: close\r\n\r\n");
        assert_eq!(status_of(&target.raw(request).await), "403", "{host:?}");
    }
    let form = "Origin: http://evil.example\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n\
                Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n";
    for route in routes().iter().filter(|route| route.method == Method::POST) {
        assert_eq!(target.status(&format!("POST {}", route.path), form).await, "403", "{}", route.path);
    }
    target.console.shutdown().await;
}

#[tokio::test]
async fn k7_a_real_socket_refuses_requests_in_other_forms() {
    let target = Target::start().await;
    let (host, bearer) = (target.host.clone(), target.bearer());
    for (request, expected) in [
        // As to a proxy.
        (format!("GET http://{host}/api/console HTTP/1.1\r\nHost: {host}\r\n{bearer}\r\n"), "403"),
        (format!("GET http://evil.example/api/console HTTP/1.1\r\nHost: {host}\r\n{bearer}\r\n"), "403"),
        (format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n{bearer}\r\n"), "403"),
        // HTTP/1.0 needs no `Host`; the console needs one.
        (format!("GET /api/console HTTP/1.0\r\n{bearer}\r\n"), "403"),
        (format!("GET /api/console HTTP/1.0\r\nHost: {host}\r\n\r\n"), "401"),
        ("GET /\r\n\r\n".to_string(), "400"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_string(), "closed"),
        // Methods that no route has.
        (format!("TRACE /api/console HTTP/1.1\r\nHost: {host}\r\n{bearer}\r\n"), "405"),
        (format!("OPTIONS /api/console HTTP/1.1\r\nHost: {host}\r\nOrigin: http://evil.example\r\n\r\n"), "403"),
        (format!("OPTIONS * HTTP/1.1\r\nHost: {host}\r\n{bearer}\r\n"), "404"),
        // Two readings of where a request ends.
        (
            format!("POST /api/act HTTP/1.1\r\nHost: {host}\r\n{bearer}Content-Length: 1\r\nContent-Length: 2\r\n\r\n{{}}"),
            "400",
        ),
        (format!("POST /api/act HTTP/1.1\r\nHost: {host}\r\n{bearer}Transfer-Encoding: gzip\r\n\r\n{{}}"), "400"),
        // Twice the token.
        (format!("GET /api/console HTTP/1.1\r\nHost: {host}\r\n{bearer}{bearer}\r\n"), "403"),
        // Slashes and dots that are not what they seem.
        (format!("GET /api%2Fconsole HTTP/1.1\r\nHost: {host}\r\n\r\n"), "401"),
        (format!("GET /assets/..%2f..%2fetc%2fpasswd HTTP/1.1\r\nHost: {host}\r\n{bearer}\r\n"), "404"),
        (format!("GET //evil.example/ HTTP/1.1\r\nHost: {host}\r\n{bearer}\r\n"), "404"),
    ] {
        let answer = target.raw(&request).await;
        let first = status_of(&answer);
        let is_closed = expected == "closed" && !answer.contains(" 200 ");
        assert!(first == expected || is_closed, "{request}: {answer}");
        assert!(!answer.contains("processes"), "{request}: {answer}");
    }
    target.console.shutdown().await;
}

#[tokio::test]
async fn k7_a_real_socket_refuses_what_is_too_large() {
    let target = Target::start().await;
    let (host, bearer) = (target.host.clone(), target.bearer());
    let long = "x".repeat(80 * 1024);
    let many: String = (0..150).map(|n| format!("X-{n}: 1\r\n")).collect();
    for (line, headers) in [
        ("GET /".to_string(), format!("X-Long: {long}\r\n")),
        ("GET /".to_string(), many),
        (format!("GET /api/view?q={long}"), bearer.clone()),
    ] {
        let status = target.status(&line, &headers).await;
        assert!(["431", "414", "400", "closed"].contains(&status.as_str()), "{line:.20} {headers:.20}: {status}");
    }
    // A body that is announced as too long is refused before it is sent; one that lies is cut.
    let announced = format!("{bearer}Content-Type: application/json\r\nContent-Length: 5000000\r\n");
    let body = " ".repeat(5_000_000);
    for route in routes().iter().filter(|route| route.method == Method::POST) {
        let request = format!("POST {} HTTP/1.1\r\nHost: {host}\r\n{announced}\r\n{body}", route.path);
        let status = status_of(&target.raw(request).await);
        // A reset may overtake the answer, because the rest of the body is not read.
        assert!(["413", "closed"].contains(&status.as_str()), "{}: {status}", route.path);
        let plain = format!("{bearer}Content-Type: text/plain\r\nContent-Length: 2\r\n");
        let request = format!("POST {} HTTP/1.1\r\nHost: {host}\r\n{plain}\r\n{{}}", route.path);
        assert_eq!(status_of(&target.raw(request).await), "400", "{}", route.path);
    }
    target.console.shutdown().await;
}

#[tokio::test]
async fn k7_a_refused_request_cannot_be_followed_by_another() {
    let target = Target::start().await;
    let (host, bearer) = (target.host.clone(), target.bearer());
    let hidden = format!("GET /api/console HTTP/1.1\r\nHost: {host}\r\n{bearer}\r\n");
    let first = format!("POST /api/act HTTP/1.1\r\nHost: evil.example\r\nContent-Length: {}\r\n\r\n{hidden}", hidden.len());
    let answer = target.raw(first).await;
    assert!(answer.starts_with("HTTP/1.1 403") && answer.matches("HTTP/1.1 ").count() == 1, "{answer}");
    target.console.shutdown().await;
}
