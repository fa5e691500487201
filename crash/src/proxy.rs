//! [`Proxy`]: between drivers and a PostgreSQL server, loses the answer to a commit after the
//! commit has landed.
//!
//! It forwards whole messages. A commit is recognized by the text of its statement. Its answer is
//! complete when the server reports that it is ready, which it does after the commit is durable.
//! Then the proxy closes the connection instead of forwarding the answer.

use crate::ledger_client::lock;
use pleach::runtime::Random;
use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// A part of the text of a commit statement, of one run or of several, that no other statement has.
const COMMIT: &[u8] = b"advanced AS (";

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

/// One connection: its commit statements, and its requests in flight. A driver sends a request
/// without waiting for the answer to the one before.
#[derive(Default)]
struct Talk {
    commits: Mutex<HashSet<Vec<u8>>>,
    /// For each request without an answer, whether it is a commit.
    asked: Mutex<VecDeque<bool>>,
}

impl Talk {
    fn is_committing(&self) -> bool {
        lock(&self.asked).front().is_some_and(|is_commit| *is_commit)
    }
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
    let mut is_commit = false;
    loop {
        let message = read_message(&mut from).await?;
        let words: Vec<&[u8]> = message[5..].split(|byte| *byte == 0).take(2).collect();
        match (message[0], words.as_slice()) {
            (b'P', [name, text]) if text.windows(COMMIT.len()).any(|part| part == COMMIT) => {
                lock(&talk.commits).insert(name.to_vec());
            }
            (b'B', [_, name]) => is_commit = lock(&talk.commits).contains(*name),
            (b'S' | b'Q', _) => lock(&talk.asked).push_back(std::mem::take(&mut is_commit)),
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
        let is_committing = talk.is_committing();
        if is_last {
            // The login ends like an answer, and has no request.
            lock(&talk.asked).pop_front();
        }
        if is_committing && is_last && plan.loses_now() {
            return Ok(());
        }
        if !is_committing || is_last {
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
    fn the_commit_statements_are_recognized_and_no_other() {
        let has_mark = |text: &str| text.as_bytes().windows(COMMIT.len()).any(|part| part == COMMIT);
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../graph/src/store/postgres/sql");
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let marked: Vec<_> = files.filter(|path| has_mark(&std::fs::read_to_string(path).unwrap())).collect();
        let mut names: Vec<_> = marked.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, ["commit.sql", "commit_many.sql"]);
    }
}
