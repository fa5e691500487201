//! A small server with the part of OpenAI's API that the agent needs: streamed chat completions.

use serde_json::{Value, json};
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Starts the server on a free local port and returns its address.
pub async fn start() -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    Ok(format!("http://{address}/v1"))
}

/// Answers one request.
async fn serve(mut stream: TcpStream) -> io::Result<()> {
    let body = body_of(&mut stream).await?;
    let request: Value = serde_json::from_slice(&body)?;
    let prompt = request["messages"][0]["content"].as_str().unwrap_or_default();
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n").await?;
    for word in answer(prompt).split_inclusive(' ') {
        let choice = json!({ "index": 0, "delta": { "content": word }, "finish_reason": null });
        let chunk = json!({ "id": "1", "object": "chat.completion.chunk", "created": 0, "model": "fake", "choices": [choice] });
        stream.write_all(format!("data: {chunk}\n\n").as_bytes()).await?;
    }
    stream.write_all(b"data: [DONE]\n\n").await?;
    stream.shutdown().await
}

/// Reads the body of a request: `content-length` bytes after the blank line.
async fn body_of(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok()).unwrap_or(0);
            if read.len() >= end + 4 + length {
                return Ok(read[end + 4..end + 4 + length].to_vec());
            }
        }
        if stream.read_buf(&mut read).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// The replies of a small model: it plans in two rounds and accepts once it knows the sum.
fn answer(prompt: &str) -> &'static str {
    match (prompt.starts_with("Plan"), prompt.contains("= 42"), prompt.contains("= 48")) {
        (true, false, _) => "add 17 25\ncount pleach",
        (true, true, _) => "add 42 6",
        (false, _, false) => "again",
        (false, _, true) => "It is 48: 17 + 25 are 42, and `pleach` has 6 letters.",
    }
}
