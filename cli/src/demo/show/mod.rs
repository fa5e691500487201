//! The show: it starts the worker process, watches it as any tool could, and tells what happens.
//!
//! | file | owns |
//! |---|---|
//! | `mod` | [`Stage`]: the worker's life, and what updates do to the picture |
//! | `process` | the worker as a child process |
//! | `watch` | reading the inspection socket and the store |
//! | `orders` | the durable orders, read from the store, and their audit |
//! | `picture` | [`Picture`]: what is known at one moment |
//! | `narrator` | sentences about what happened |
//! | `plain` | the show as lines |
//! | `live`, `paint` | the show on a terminal |
//! | `report` | the account at the end |
//!
//! The worker is started again when it dies, at most [`DEATHS_MAX`] times without an order to kill
//! it.

#[cfg(unix)]
mod live;
mod narrator;
mod orders;
#[cfg(unix)]
mod paint;
mod picture;
mod plain;
mod process;
mod report;
mod watch;

use super::folder::Folder;
use super::protocol::{Account, FinalAccount, Note, Order, PickedUp};
use crate::args::DemoArgs;
#[cfg(feature = "console")]
use crate::console;
use crate::failure::{Failure, Status};
use crate::output::Output;
use orders::{OrderBook, OrdersSeen};
use picture::{Picture, Tone, WorkerState};
use pleach::inspect::{Health, MemberInfo};
#[cfg(feature = "console")]
use pleach::store::SqliteStore;
#[cfg(feature = "console")]
use pleach_console::{Colour, ConsoleHandle};
use process::WorkerProcess;
use report::DemoReport;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// How often a worker may die on its own.
const DEATHS_MAX: u32 = 3;

/// The pause before a dead worker is started again: long enough to be seen.
const RESTART_AFTER: Duration = Duration::from_millis(1_100);

/// How long a worker may take to report its account.
const FINISH_LIMIT: Duration = Duration::from_secs(10);

/// How many updates wait for the show.
const UPDATES_MAX: usize = 1_024;

/// Something that the show learns.
pub enum Update {
    /// A worker, by its generation, reports something.
    Note(u32, Note),
    /// The output of a worker has ended.
    Gone(u32),
    /// The tree, read from the socket.
    Tree(Vec<MemberInfo>, Health),
    /// The orders, read from the store.
    Orders(OrdersSeen),
    /// The store is there.
    Book(OrderBook),
    /// An action of the user was carried out, or why not.
    Acted(Result<String, String>),
}

/// Runs the show until its end, and prints the account.
pub async fn run(args: &DemoArgs, output: &Output) -> Result<(), Failure> {
    #[cfg_attr(not(feature = "console"), expect(unused_mut, reason = "only a console changes it"))]
    let mut stage = Stage::set(args)?;
    #[cfg(feature = "console")]
    if args.console {
        stage.serve_console().await?;
    }
    #[cfg(unix)]
    if live::is_wanted(args, output) {
        return live::run(stage, args, output).await;
    }
    plain::run(stage, args, output).await
}

/// The show without a way to show it.
pub struct Stage {
    pub picture: Picture,
    pub updates: Receiver<Update>,
    sender: Sender<Update>,
    seed: u64,
    worker: Option<WorkerProcess>,
    /// When a dead worker is started again.
    restart_at: Option<Instant>,
    is_kill_ordered: bool,
    deaths: u32,
    book: Option<OrderBook>,
    last_account: Option<FinalAccount>,
    killed: Vec<Account>,
    /// The order that asked last. Its step asks again when it gets the answer.
    asked: String,
    watch: watch::Watch,
    #[cfg(feature = "console")]
    console: Option<ConsoleHandle>,
    // The last field: the folder is removed after the worker has ended.
    folder: Folder,
}

impl Stage {
    /// Prepares the folder. The worker is started by [`Stage::start`], so that the first line of
    /// the show does not wait for it.
    fn set(args: &DemoArgs) -> Result<Self, Failure> {
        let folder = Folder::open()?;
        let (sender, updates) = channel(UPDATES_MAX);
        Ok(Self {
            picture: Picture::new(Instant::now()),
            updates,
            sender,
            seed: args.seed.unwrap_or_else(seed_of_now),
            worker: None,
            restart_at: None,
            is_kill_ordered: false,
            deaths: 0,
            book: None,
            last_account: None,
            killed: Vec::new(),
            asked: String::new(),
            watch: watch::Watch::default(),
            #[cfg(feature = "console")]
            console: None,
            folder,
        })
    }

    /// Serves a web console of the worker process and of the store, and keeps its URL.
    #[cfg(feature = "console")]
    async fn serve_console(&mut self) -> Result<(), Failure> {
        let places = self.folder.places();
        let store = SqliteStore::open(places.store()).await?;
        let builder = console::builder(true).name("demo").environment("demo", Colour::Violet);
        let console = console::serve(builder.socket(places.socket()).store(&store), "127.0.0.1:0").await?;
        self.picture.console = Some(console.url().to_string());
        self.console = Some(console);
        Ok(())
    }

    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Starts a worker process.
    pub fn start(&mut self) -> Result<(), Failure> {
        let generation = self.picture.generation + 1;
        let worker = WorkerProcess::start(self.folder.places(), self.seed, generation, &self.sender);
        let worker =
            worker.map_err(|error| Failure::new(Status::Failed, format_args!("cannot start a worker process: {error}")))?;
        (self.picture.generation, self.picture.pid) = (generation, worker.pid());
        (self.picture.worker, self.restart_at) = (WorkerState::Starting, None);
        self.worker = Some(worker);
        Ok(())
    }

    /// Returns when [`Stage::start`] must be called again, if the worker has died.
    pub fn restart_at(&self) -> Option<Instant> {
        self.restart_at
    }

    /// Takes an update. Fails if the worker has died too often.
    pub fn apply(&mut self, update: Update) -> Result<(), Failure> {
        let now = Instant::now();
        match update {
            Update::Note(generation, note) if generation == self.picture.generation => self.note(now, note),
            Update::Gone(generation) if generation == self.picture.generation => self.worker_died(now)?,
            Update::Note(..) | Update::Gone(_) => {}
            Update::Tree(members, health) if self.picture.worker == WorkerState::Running => {
                self.picture.see_members(now, members);
                self.picture.health = Some(health);
            }
            Update::Tree(..) => {}
            Update::Orders(orders) => self.picture.orders = orders,
            Update::Book(book) => self.book = Some(book),
            Update::Acted(Ok(text)) => self.picture.say(now, Tone::User, text),
            Update::Acted(Err(text)) => self.picture.say(now, Tone::Trouble, text),
        }
        Ok(())
    }

    fn note(&mut self, now: Instant, note: Note) {
        if let Note::Asks { run, .. } = &note
            && std::mem::replace(&mut self.asked, run.clone()) == *run
        {
            return;
        }
        if let Some(said) = narrator::describe(&note, &self.picture) {
            if let Some(path) = &said.path {
                self.picture.flash(now, path);
            }
            self.picture.say(now, said.tone, said.text);
        }
        match note {
            Note::Ready { picked_up } => self.worker_is_ready(now, &picked_up),
            Note::Restarted { path } => self.picture.flash(now, &path),
            Note::Pulse(account) => self.picture.see_account(now, account),
            Note::Final(account) => self.last_account = Some(*account),
            _ => {}
        }
    }

    fn worker_is_ready(&mut self, now: Instant, picked_up: &[PickedUp]) {
        self.picture.worker = WorkerState::Running;
        self.picture.account = Account::default();
        if self.picture.is_paused {
            self.order(&Order::Pause);
        }
        self.watch.start(self.folder.places(), &self.sender);
        let is_first = self.picture.generation == 1;
        let begin = if is_first && self.folder.is_continued() { "picked up" } else { "continues" };
        for PickedUp { run, record, next } in picked_up {
            let next = if next.is_empty() {
                "it is between two steps".to_string()
            } else {
                format!("{} {} next", next.join(" and "), if next.len() == 1 { "is" } else { "are" })
            };
            self.picture.say(now, Tone::Good, format!("{begin} {run:?} after record {record}: {next}"));
        }
        let pid = self.picture.pid;
        let text = match (is_first, picked_up.len() as u64) {
            (true, 0) => format!("worker {pid} is up: a shop of actors, and durable orders"),
            (true, orders) => format!("worker {pid} has {} of a demo that was killed", narrator::counted(orders, "order")),
            (false, orders) => {
                let charges = &self.picture.orders.charges;
                let twice = charges.charged_twice().map_or("none twice".to_string(), |run| format!("{run} twice"));
                format!(
                    "worker {pid} continues {} after their last step on disk; {}, {twice}",
                    narrator::counted(orders, "order"),
                    narrator::counted(charges.made(), "charge"),
                )
            }
        };
        self.picture.say(now, Tone::Good, text);
    }

    fn worker_died(&mut self, now: Instant) -> Result<(), Failure> {
        let Some(worker) = self.worker.take() else { return Ok(()) };
        let pid = worker.pid();
        let status = worker.end();
        if self.last_account.is_some() {
            return Ok(());
        }
        let is_ordered = std::mem::take(&mut self.is_kill_ordered);
        if !is_ordered {
            self.deaths += 1;
            if self.deaths > DEATHS_MAX {
                let log = process::log_end(self.folder.places());
                let text =
                    format!("the worker process ended {} times on its own, the last time with {status}: {log}", self.deaths);
                return Err(Failure::new(Status::Failed, text).advice("run it again; if this repeats, please report it"));
            }
        }
        self.killed.push(self.picture.account);
        let in_flight = self.picture.account.in_flight();
        self.picture.lose_worker();
        self.restart_at = Some(now + RESTART_AFTER);
        let dead = if is_ordered { "is dead".to_string() } else { format!("has ended with {status}") };
        let text = format!(
            "worker {pid} {dead}: {} in memory are gone, all orders are on disk → another one starts",
            narrator::counted(in_flight, "message")
        );
        self.picture.say(now, Tone::Trouble, text);
        Ok(())
    }

    /// Kills the worker process with SIGKILL.
    pub fn kill_worker(&mut self) {
        let Some(worker) = &mut self.worker else { return };
        worker.kill();
        self.is_kill_ordered = true;
        self.picture.kills += 1;
        let text = format!("kill -9 {}: the worker process gets no chance to save anything", self.picture.pid);
        self.picture.say(Instant::now(), Tone::User, text);
    }

    /// Gives the worker an order.
    pub fn order(&mut self, order: &Order) {
        if let Some(worker) = &mut self.worker {
            worker.order(order);
        }
    }

    /// Approves the order that has waited longest. Returns false if none waits.
    pub fn approve(&mut self) -> bool {
        use pleach::store::RunStatus;
        let waiting = self.picture.orders.rows.iter().rfind(|row| row.status == RunStatus::Waiting);
        let (Some(book), Some(row)) = (self.book.clone(), waiting) else { return false };
        let (run, sender) = (row.id.clone(), self.sender.clone());
        tokio::spawn(async move {
            let approved = match book.approve(&run).await {
                Ok(()) => Ok(format!("approved {run}: the answer is in the store, and a worker takes it from there")),
                Err(error) => Err(format!("{run} could not be approved: {error}")),
            };
            drop(sender.send(Update::Acted(approved)).await);
        });
        true
    }

    pub fn sender(&self) -> Sender<Update> {
        self.sender.clone()
    }

    /// Ends the worker in order, and compares all tally.
    pub async fn finish(mut self) -> Result<DemoReport, Failure> {
        if self.worker.is_none() {
            self.start()?;
        }
        self.order(&Order::Finish);
        let account = tokio::time::timeout(FINISH_LIMIT, self.final_account()).await;
        let account = account.map_err(|_| {
            let text = format!("the worker process did not report its account within {FINISH_LIMIT:?}");
            Failure::new(Status::Failed, text)
        })??;
        drop(self.worker.take().map(WorkerProcess::end));
        self.watch.stop();
        #[cfg(feature = "console")]
        if let Some(console) = self.console.take() {
            console.shutdown().await;
        }
        let book = match self.book.take() {
            Some(book) => Ok(book),
            None => OrderBook::open(self.folder.places()).await,
        };
        let audit = match book {
            Ok(book) => book.audit().await,
            Err(error) => Err(error),
        };
        let audit = audit.map_err(|error| Failure::new(Status::Failed, format_args!("cannot read the orders: {error}")))?;
        Ok(DemoReport {
            seconds: self.picture.begun.elapsed().as_secs_f64(),
            seed: self.seed,
            killed: self.killed,
            account,
            audit,
        })
    }

    async fn final_account(&mut self) -> Result<FinalAccount, Failure> {
        loop {
            if let Some(account) = self.last_account.take() {
                return Ok(account);
            }
            if self.worker.is_none() {
                // It was killed just now: the next one has the same order.
                self.start()?;
                self.order(&Order::Finish);
            }
            // `self` has a sender, so the channel is never closed.
            if let Some(update) = self.updates.recv().await {
                self.apply(update)?;
            }
        }
    }
}

fn seed_of_now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_micros())
}
