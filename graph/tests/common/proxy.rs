//! [`Proxy`]: between a store and its server, behaves like a broken network or a frozen machine.
//!
//! It forwards whole requests of the client, which tokio-postgres writes at once: all messages up
//! to a sync. It can swallow everything on existing connections while new ones work, and it can
//! freeze a client in the middle of a call.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub struct Proxy {
    port: u16,
    plan: Arc<Plan>,
}

struct Plan {
    /// Connections of an earlier generation swallow everything.
    generation: AtomicU64,
    /// How many requests of clients are still forwarded.
    budget: AtomicI64,
    /// Whether a request was held back.
    is_frozen: watch::Sender<bool>,
    accepted: AtomicU64,
}

impl Proxy {
    /// Starts a proxy in front of the server of this address.
    pub async fn start(url: &str) -> Self {
        let config: tokio_postgres::Config = url.parse().unwrap();
        let server = config.get_ports()[0];
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let plan = Arc::new(Plan {
            generation: AtomicU64::new(0),
            budget: AtomicI64::new(i64::MAX),
            is_frozen: watch::Sender::new(false),
            accepted: AtomicU64::new(0),
        });
        let proxy = Self { port, plan: Arc::clone(&plan) };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let generation = plan.generation.load(SeqCst);
                plan.accepted.fetch_add(1, SeqCst);
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await {
                    join(client, server, generation, Arc::clone(&plan));
                }
            }
        });
        proxy
    }

    /// The same address, through the proxy.
    pub fn url(&self, url: &str) -> String {
        let config: tokio_postgres::Config = url.parse().unwrap();
        url.replacen(&format!(":{}/", config.get_ports()[0]), &format!(":{}/", self.port), 1)
    }

    /// Makes the existing connections swallow everything. New ones work.
    pub fn swallow_old_connections(&self) {
        self.plan.generation.fetch_add(1, SeqCst);
    }

    /// Freezes all clients after this many further requests.
    pub fn freeze_after(&self, requests: i64) {
        self.plan.budget.store(requests, SeqCst);
    }

    /// Resolves when a request was held back.
    pub async fn frozen(&self) {
        self.plan.is_frozen.subscribe().wait_for(|is_frozen| *is_frozen).await.unwrap();
    }

    /// The number of accepted connections.
    pub fn accepted(&self) -> u64 {
        self.plan.accepted.load(SeqCst)
    }
}

fn join(client: TcpStream, server: TcpStream, generation: u64, plan: Arc<Plan>) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::spawn(async move {
        let asking = ask(from_client, to_server, generation, &plan);
        let answering = answer(from_server, to_client, generation, &plan);
        // The first to end drops all four halves.
        tokio::select! { _ = asking => {}, _ = answering => {} }
    });
}

/// Forwards from the client to the server.
async fn ask(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, generation: u64, plan: &Plan) -> io::Result<()> {
    let (mut is_first, mut request) = (true, Vec::new());
    loop {
        let message = read_message(&mut from, is_first).await?;
        let is_whole = is_first || matches!(message[0], b'S' | b'Q' | b'p' | b'X');
        is_first = false;
        request.extend(message);
        if !is_whole {
            continue;
        }
        let request = std::mem::take(&mut request);
        if plan.generation.load(SeqCst) != generation {
            continue;
        }
        if plan.budget.fetch_sub(1, SeqCst) <= 0 {
            plan.is_frozen.send_replace(true);
            continue;
        }
        to.write_all(&request).await?;
    }
}

/// Forwards from the server to the client.
async fn answer(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, generation: u64, plan: &Plan) -> io::Result<()> {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let count = from.read(&mut bytes).await?;
        if count == 0 {
            return Ok(());
        }
        if plan.generation.load(SeqCst) == generation {
            to.write_all(&bytes[..count]).await?;
        }
    }
}

/// Reads one message. The first message of a connection has no type byte.
async fn read_message(from: &mut OwnedReadHalf, is_first: bool) -> io::Result<Vec<u8>> {
    let at = usize::from(!is_first);
    let mut message = vec![0; at + 4];
    from.read_exact(&mut message).await?;
    let length = u32::from_be_bytes([message[at], message[at + 1], message[at + 2], message[at + 3]]) as usize;
    let have = message.len();
    message.resize(at + length.max(4), 0);
    from.read_exact(&mut message[have..]).await?;
    Ok(message)
}
