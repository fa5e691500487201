//! [`Proxy`]: between drivers and a PostgreSQL server, loses the answer to a commit after the
//! commit has landed.
//!
//! It forwards whole messages. A commit is recognized by the text of its statement. Its answer is
//! complete when the server reports that it is ready, which it does after the commit is durable.
//! Then the proxy closes the connection instead of forwarding the answer.

use crate::ledger_client::lock;
use pleach::runtime::Random;
use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// A part of the text of a commit statement that no other statement has.
const COMMIT: &[u8] = b"WITH advanced AS";

pub struct Proxy {
    pub port: u16,
    plan: Arc<Plan>,
}

#[derive(Default)]
struct Plan {
    /// How many answers are still to be lost.
    to_lose: AtomicU64,
    lost: AtomicU64,
    random: Mutex<Option<Random>>,
}

/// One connection: its commit statements, and whether a commit is in flight.
#[derive(Default)]
struct Talk {
    commits: Mutex<HashSet<Vec<u8>>>,
    is_committing: AtomicBool,
}

impl Proxy {
    /// Starts a proxy in front of the server at this local port.
    pub async fn start(server: u16, seed: u64) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let plan = Arc::new(Plan { random: Mutex::new(Some(Random::seeded(seed))), ..Plan::default() });
        let proxy = Self { port, plan: Arc::clone(&plan) };
        tokio::spawn(async move {
            while let Ok((driver, _)) = listener.accept().await {
                let plan = Arc::clone(&plan);
                // If the server is gone, the connection closes at once.
                tokio::spawn(async move {
                    TcpStream::connect(("127.0.0.1", server)).await.map(|server| join(driver, server, plan))
                });
            }
        });
        Ok(proxy)
    }

    /// Loses the answers to this many commits, every second one on average.
    pub fn lose(&self, count: u64) {
        self.plan.to_lose.store(count, SeqCst);
    }

    pub fn lost(&self) -> u64 {
        self.plan.lost.load(SeqCst)
    }
}

impl Plan {
    fn loses_now(&self) -> bool {
        let is_its_turn = lock(&self.random).as_mut().is_some_and(|random| random.below(2) == 0);
        let loses = is_its_turn && self.to_lose.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
        self.lost.fetch_add(u64::from(loses), SeqCst);
        loses
    }
}

/// Forwards in both directions until one side closes.
fn join(driver: TcpStream, server: TcpStream, plan: Arc<Plan>) {
    let _ = (driver.set_nodelay(true), server.set_nodelay(true));
    let talk = Arc::new(Talk::default());
    let ((from_driver, to_driver), (from_server, to_server)) = (driver.into_split(), server.into_split());
    tokio::spawn({
        let talk = Arc::clone(&talk);
        async move {
            let asking = ask(from_driver, to_server, &talk);
            let answering = answer(from_server, to_driver, &talk, &plan);
            // The first to end drops all four halves.
            tokio::select! { _ = asking => {}, _ = answering => {} }
        }
    });
}

/// Forwards from the driver to the server.
async fn ask(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, talk: &Talk) -> io::Result<()> {
    // The first message has no type byte.
    let mut first = vec![0; 4];
    from.read_exact(&mut first).await?;
    read_rest(&mut from, &mut first, 0).await?;
    to.write_all(&first).await?;
    loop {
        let message = read_message(&mut from).await?;
        let words: Vec<&[u8]> = message[5..].split(|byte| *byte == 0).take(2).collect();
        match (message[0], words.as_slice()) {
            (b'P', [name, text]) if text.windows(COMMIT.len()).any(|part| part == COMMIT) => {
                lock(&talk.commits).insert(name.to_vec());
            }
            (b'B', [_, name]) => talk.is_committing.store(lock(&talk.commits).contains(*name), SeqCst),
            _ => {}
        }
        to.write_all(&message).await?;
    }
}

/// Forwards from the server to the driver. The answer to a commit is forwarded completely or not at
/// all.
async fn answer(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, talk: &Talk, plan: &Plan) -> io::Result<()> {
    let mut held = Vec::new();
    loop {
        let message = read_message(&mut from).await?;
        let is_last = message[0] == b'Z';
        held.extend(message);
        if !talk.is_committing.load(SeqCst) {
            to.write_all(&std::mem::take(&mut held)).await?;
        } else if is_last {
            talk.is_committing.store(false, SeqCst);
            if plan.loses_now() {
                return Ok(());
            }
            to.write_all(&std::mem::take(&mut held)).await?;
        }
    }
}

async fn read_message(from: &mut OwnedReadHalf) -> io::Result<Vec<u8>> {
    let mut message = vec![0; 5];
    from.read_exact(&mut message).await?;
    read_rest(from, &mut message, 1).await?;
    Ok(message)
}

/// Reads the rest of a message. Its length is at `at` and includes itself.
async fn read_rest(from: &mut OwnedReadHalf, message: &mut Vec<u8>, at: usize) -> io::Result<()> {
    let length = u32::from_be_bytes([message[at], message[at + 1], message[at + 2], message[at + 3]]) as usize;
    let have = message.len();
    message.resize(at + length.max(4), 0);
    from.read_exact(&mut message[have..]).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::COMMIT;

    #[test]
    fn the_commit_statement_is_recognized_and_no_other() {
        let has_mark = |text: &str| text.as_bytes().windows(COMMIT.len()).any(|part| part == COMMIT);
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../graph/src/store/postgres/sql");
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let marked: Vec<_> = files.filter(|path| has_mark(&std::fs::read_to_string(path).unwrap())).collect();
        let names: Vec<_> = marked.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["commit.sql"]);
    }
}
