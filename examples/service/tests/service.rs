//! O2, O3, O5: drives the real process: requests, readiness, metrics, log lines, and SIGTERM.

use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;

/// Sends a request and returns the status and the body.
async fn get(address: &str, path: &str) -> (u16, String) {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    connection.read_to_string(&mut response).await.unwrap();
    let status = response.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, response.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_string()))
}

#[tokio::test]
async fn o5_service_is_ready_counts_logs_and_stops_on_sigterm() {
    let mut process = Command::new(env!("CARGO_BIN_EXE_pleach-example-service"))
        .env_remove("RUST_LOG")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut said = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).await.unwrap();
    let address = line.trim().strip_prefix("listening on ").unwrap().to_string();

    assert_eq!(get(&address, "/ready").await, (200, "healthy".into()));
    assert_eq!(get(&address, "/orders/3").await, (200, "42".into()));
    assert_eq!(get(&address, "/orders/0").await.0, 503, "a failed handler answers its asks");
    let (status, metrics) = get(&address, "/metrics").await;
    assert_eq!(status, 200);
    for series in [
        "pleach_messages_accepted{system=\"shop\"} 2",
        "pleach_messages{system=\"shop\",outcome=\"handled\"} 1",
        "pleach_messages{system=\"shop\",outcome=\"failed\"} 1",
        "pleach_supervision_decisions{system=\"shop\",directive=\"restart\"} 1",
        "pleach_actors{system=\"shop\",actor=\"stock\"} 1",
    ] {
        assert!(metrics.contains(series), "{series} in\n{metrics}");
    }

    // The fourth failure within 5 s exceeds the restart limit: the stock stays stopped.
    for _ in 0..3 {
        assert_eq!(get(&address, "/orders/0").await.0, 503);
    }
    let (status, why) = get(&address, "/ready").await;
    assert_eq!(status, 503, "{why}");
    assert!(why.contains("supervisor /user gave up on /user/stock"), "{why}");

    let id = process.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().await.unwrap().success());
    let status = tokio::time::timeout(Duration::from_secs(20), process.wait()).await.expect("it stops").unwrap();
    assert!(status.success(), "{status}");
    let (mut rest, mut log) = (String::new(), String::new());
    said.read_to_string(&mut rest).await.unwrap();
    process.stderr.take().unwrap().read_to_string(&mut log).await.unwrap();
    assert!(rest.contains("stopped: 5 accepted = 1 handled + 4 failed + 0 dead-lettered"), "{rest}");
    assert!(log.contains("WARN pleach::supervision: /user/stock failed and restarts now"), "{log}");
    assert!(log.contains("reason=\"item 0 does not exist\""), "{log}");
}
