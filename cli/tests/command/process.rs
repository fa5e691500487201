//! A system in the test process, with an inspection socket for the command.

use crate::fixture::{Called, call};
use pleach::inspect::{InspectAction, InspectBuilder as _, InspectOptions};
use pleach::prelude::*;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use tokio::sync::Semaphore;

/// What an actor of these tests does.
pub enum Job {
    /// Nothing.
    Note,
    /// Wait until the gate has a permit.
    Wait(Arc<Semaphore>),
    /// Ask another actor, at most this long.
    Ask(ActorRef<Job>, Duration),
    /// Wait until the gate has a permit, then ask another actor for a minute.
    WaitAndAsk(Arc<Semaphore>, ActorRef<Job>),
    /// Send to another actor, and wait for room.
    Send(ActorRef<Job>),
    Answer(Reply<()>),
    Fail(&'static str),
}

pub struct Worker;

impl Actor for Worker {
    type Msg = Job;
    type Error = pleach::BoxError;

    async fn handle(&mut self, job: Job, _: &mut Context<Self>) -> Result<(), pleach::BoxError> {
        match job {
            Job::Note => {}
            Job::Wait(gate) => gate.acquire().await?.forget(),
            Job::Ask(other, limit) => other.ask(Job::Answer).timeout(limit).await?,
            Job::WaitAndAsk(gate, other) => {
                gate.acquire().await?.forget();
                other.ask(Job::Answer).timeout(Duration::from_secs(60)).await?;
            }
            Job::Send(other) => other.send(Job::Note).await.map_err(|_| "the other actor has ended")?,
            Job::Answer(reply) => reply.send(()),
            Job::Fail(reason) => return Err(reason.into()),
        }
        Ok(())
    }
}

pub fn worker() -> Props<Worker> {
    Props::new(|| Worker)
}

/// A system with a socket that allows `actions`.
pub struct Process {
    pub system: ActorSystem,
    pub socket: String,
    pub folder: PathBuf,
}

/// An empty folder for sockets.
pub fn socket_folder() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let folder = std::env::temp_dir().join(format!("pleach_live_{}_{}", std::process::id(), COUNT.fetch_add(1, Relaxed)));
    std::fs::DirBuilder::new().mode(0o700).create(&folder).unwrap();
    folder
}

impl Process {
    pub fn start(actions: impl IntoIterator<Item = InspectAction>) -> Self {
        Self::with(|options| options.allow(actions))
    }

    pub fn with(options: impl FnOnce(InspectOptions) -> InspectOptions) -> Self {
        let folder = socket_folder();
        let socket = folder.join("inspect.sock");
        let system = ActorSystem::builder("shop").inspect(options(InspectOptions::at(&socket))).build().unwrap();
        Self { system, socket: socket.display().to_string(), folder }
    }

    /// Calls `pleach WORD SOCKET ARGUMENTS`.
    pub fn call(&self, word: &str, arguments: &[&str]) -> Called {
        call(&[&[word, &self.socket], arguments].concat())
    }

    /// Calls it, and parses the output as JSON.
    pub fn json(&self, word: &str, arguments: &[&str]) -> serde_json::Value {
        let called = self.call(word, &[arguments, &["--json"]].concat());
        serde_json::from_str(&called.out).unwrap_or_else(|error| panic!("{error}: {called:?}"))
    }

    pub async fn spawn(&self, name: &str) -> ActorRef<Job> {
        self.system.spawn_started(name, worker()).await.unwrap()
    }

    /// `/user/shop` asks `/user/till`, which asks `/user/bank`, which waits at the gate.
    pub async fn chain(&self) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        let (bank, till, shop) = (self.spawn("bank").await, self.spawn("till").await, self.spawn("shop").await);
        let minute = Duration::from_secs(60);
        bank.tell(Job::Wait(Arc::clone(&gate))).unwrap();
        till.tell(Job::Ask(bank, minute)).unwrap();
        shop.tell(Job::Ask(till.clone(), minute)).unwrap();
        until(|| till.any().info().waits.len() == 1 && shop.any().info().waits.len() == 1).await;
        gate
    }

    /// `/user/workers` gives up on `/user/workers/printer`.
    pub async fn give_up(&self) {
        let workers = self.system.supervisor("workers", OneForOne::new()).unwrap();
        let printer = workers.spawn_started("printer", worker()).await.unwrap();
        for _ in 0..4 {
            // Refused once the supervisor has given up.
            drop(printer.tell(Job::Fail("no paper")));
        }
        until(|| !self.system.health().is_healthy()).await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// Waits until the condition holds.
pub async fn until(condition: impl Fn() -> bool) {
    let limit = std::time::Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(std::time::Instant::now() < limit, "the condition did not become true");
        tokio::task::yield_now().await;
    }
}
