//! A system in the test process, with an inspection socket, for the words that look at a process.

use pleach::BoxError;
use pleach::inspect::{InspectAction, InspectBuilder as _, InspectOptions};
use pleach::prelude::*;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use tokio::sync::Semaphore;

/// A message of a test actor.
pub enum Job {
    /// Waits until the gate opens.
    Hold,
    /// Is counted.
    Note,
    Fail(String),
    /// Asks another actor, which does not answer.
    Ask(ActorRef<Job>),
    Reply(Reply<()>),
}

pub struct Clerk {
    gate: Arc<Semaphore>,
}

impl Actor for Clerk {
    type Msg = Job;
    type Error = BoxError;

    async fn handle(&mut self, job: Job, _: &mut Context<Self>) -> Result<(), BoxError> {
        match job {
            Job::Hold => drop(self.gate.acquire().await?),
            Job::Note => {}
            Job::Fail(reason) => return Err(reason.into()),
            Job::Ask(other) => other.ask(Job::Reply).await?,
            Job::Reply(reply) => drop(reply),
        }
        Ok(())
    }
}

/// A system with an inspection socket.
pub struct Shop {
    pub system: ActorSystem,
    pub gate: Arc<Semaphore>,
    folder: PathBuf,
    actions: Vec<InspectAction>,
}

impl Shop {
    /// A shop that allows these actions.
    pub fn open(actions: impl IntoIterator<Item = InspectAction>) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("pleach_shop_{}_{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
        let actions: Vec<_> = actions.into_iter().collect();
        let system = system(&folder, &actions);
        Self { system, gate: Arc::new(Semaphore::new(0)), folder, actions }
    }

    /// The argument SOCKET.
    pub fn socket(&self) -> String {
        self.folder.join("shop.sock").display().to_string()
    }

    /// Ends the system.
    pub async fn shut_down(&self) {
        drop(self.system.shutdown(Duration::from_secs(5)).await);
    }

    /// Starts another system with the same socket.
    pub fn reopen(&mut self) {
        self.system = system(&self.folder, &self.actions);
        self.gate = Arc::new(Semaphore::new(0));
    }

    pub fn props(&self) -> Props<Clerk> {
        let gate = Arc::clone(&self.gate);
        Props::new(move || Clerk { gate: Arc::clone(&gate) }).mailbox(Mailbox::bounded(64))
    }

    /// Starts an actor that handles one message for ever, with this many others in its mailbox.
    pub async fn stuck(&self, name: &str, queued: usize) -> ActorRef<Job> {
        let actor = self.system.spawn_started(name, self.props()).await.unwrap();
        actor.tell(Job::Hold).unwrap();
        while actor.any().info().handling_for().is_none() {
            tokio::task::yield_now().await;
        }
        (0..queued).for_each(|_| actor.tell(Job::Note).unwrap());
        actor
    }
}

fn system(folder: &std::path::Path, actions: &[InspectAction]) -> ActorSystem {
    let options = InspectOptions::at(folder.join("shop.sock")).allow(actions.iter().copied());
    ActorSystem::builder("shop").inspect(options).build().unwrap()
}

impl Drop for Shop {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}
