//! [`Ledger`]: what happened, in one total order, outside of all killed processes. Drivers report
//! over a local socket and wait until the report is recorded, so everything that a driver does
//! after a report comes after its entry.

use crate::assignments::Assignments;
use crate::ledger_client::lock;
use crate::report::{Reply, Report};
use pleach::store::{NewMessage, Store};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// How long the last reports of a driver may take after its end.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// One report, its position in the total order, and the process that made it.
#[derive(Clone, Debug)]
pub struct Entry {
    pub order: u64,
    pub pid: u32,
    pub report: Report,
}

/// All recorded reports.
pub struct Book {
    pub assignments: Assignments,
    pub entries: HashMap<String, Vec<Entry>>,
    /// The number of processes that died at a kill point, by class.
    pub deaths: BTreeMap<String, u64>,
    /// Processes that were stopped, or kept waiting by the ledger: their leases may have expired
    /// meanwhile.
    pub were_stopped: HashSet<u32>,
    order: u64,
    connections: HashMap<u32, usize>,
    paused: HashSet<u32>,
}

/// The ledger of one store.
#[derive(Clone)]
pub struct Ledger {
    pub port: u16,
    state: Arc<LedgerState>,
}

struct LedgerState {
    book: Mutex<Book>,
    changed: Condvar,
    store: Arc<dyn Store>,
    handle: Handle,
}

impl Ledger {
    /// Listens on a free port. Reads `store` and posts answers there.
    pub fn start(store: Arc<dyn Store>, handle: Handle, seed: u64) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let book = Book {
            assignments: Assignments::new(seed),
            entries: HashMap::new(),
            deaths: BTreeMap::new(),
            were_stopped: HashSet::new(),
            order: 0,
            connections: HashMap::new(),
            paused: HashSet::new(),
        };
        let state = Arc::new(LedgerState { book: Mutex::new(book), changed: Condvar::new(), store, handle });
        let ledger = Self { port, state };
        let server = ledger.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = server.clone();
                thread::spawn(move || server.serve(stream));
            }
        });
        Ok(ledger)
    }

    pub fn with<T>(&self, act: impl FnOnce(&mut Book) -> T) -> T {
        act(&mut lock(&self.state.book))
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.state.store
    }

    pub fn handle(&self) -> &Handle {
        &self.state.handle
    }

    /// The next position in the total order.
    pub fn now(&self) -> u64 {
        self.with(|book| {
            book.order += 1;
            book.order
        })
    }

    /// Waits until all reports of a dead process are recorded.
    pub fn drain(&self, pid: u32) {
        self.wait(DRAIN_MAX, |book| !book.connections.contains_key(&pid));
        self.with(|book| book.assignments.died(pid));
    }

    /// Waits until a process pauses at its point. Returns whether it does.
    pub fn wait_for_pause(&self, pid: u32, time: Duration) -> bool {
        self.wait(time, |book| book.paused.contains(&pid))
    }

    /// Lets a paused process continue.
    pub fn continue_paused(&self, pid: u32) {
        self.with(|book| book.paused.remove(&pid));
        self.state.changed.notify_all();
    }

    /// Waits until the condition is true. Returns whether that happened in time.
    pub fn wait(&self, time: Duration, is_true: impl Fn(&Book) -> bool) -> bool {
        let until = Instant::now() + time;
        let mut book = lock(&self.state.book);
        while !is_true(&book) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.state.changed.wait_timeout(book, left);
            book = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        true
    }

    /// Serves one connection of a driver until it ends.
    fn serve(&self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let mut connection = BufReader::new(stream);
        let (mut pid, mut text) = (0, String::new());
        while connection.read_line(&mut text).is_ok_and(|bytes| bytes > 0) {
            let Ok(report) = serde_json::from_str(&text) else { break };
            text.clear();
            if let Report::PausedAt { pid } = report {
                self.pause(pid);
            } else if let Report::Hello { pid: its } = report {
                pid = its;
                self.with(|book| *book.connections.entry(pid).or_default() += 1);
            }
            let Ok(mut reply) = serde_json::to_string(&self.note(pid, report)) else { break };
            reply.push('\n');
            if connection.get_mut().write_all(reply.as_bytes()).is_err() {
                break;
            }
        }
        self.with(|book| book.connections.remove(&pid));
        self.state.changed.notify_all();
    }

    fn pause(&self, pid: u32) {
        self.with(|book| book.paused.insert(pid));
        self.state.changed.notify_all();
        self.wait(DRAIN_MAX, |book| !book.paused.contains(&pid));
    }

    fn note(&self, pid: u32, report: Report) -> Reply {
        let reply = self.with(|book| book.note(pid, report));
        self.state.changed.notify_all();
        match reply {
            Reply::Begin { run, variant } => self.check_created(run, variant),
            Reply::Resume { run, variant, take_over, answer: true } => self.answer(run, variant, take_over),
            reply => reply,
        }
    }

    /// Checks whether a run is in the store, if its creation was lost or its driver died.
    fn check_created(&self, run: String, variant: crate::graph::Variant) -> Reply {
        let is_created = self.state.handle.block_on(self.state.store.head(&run)).is_ok();
        self.with(|book| book.assignments.runs.get_mut(&run).into_iter().for_each(|tracked| tracked.is_created |= is_created));
        let (take_over, answer) = (false, false);
        if is_created { Reply::Resume { run, variant, take_over, answer } } else { Reply::Begin { run, variant } }
    }

    /// Posts half of the answers to the run, and gives the others to its driver.
    fn answer(&self, run: String, variant: crate::graph::Variant, take_over: bool) -> Reply {
        let answer = run.bytes().map(usize::from).sum::<usize>().is_multiple_of(2);
        if !answer {
            let message = NewMessage::seal(&run, "answer/approve", Some("the answer".into()), b"true".to_vec());
            // If this fails, the run pauses again and is answered again.
            drop(self.state.handle.block_on(self.state.store.send_message(&run, message)));
        }
        Reply::Resume { run, variant, take_over, answer }
    }
}

impl Book {
    fn note(&mut self, pid: u32, report: Report) -> Reply {
        self.order += 1;
        match &report {
            Report::Next { set, preferred } => return self.assignments.next(pid, set, *preferred),
            Report::Dies { class } => *self.deaths.entry(class.clone()).or_default() += 1,
            Report::Waited => drop(self.were_stopped.insert(pid)),
            Report::Hello { .. } | Report::PausedAt { .. } => {}
            Report::Ended { run, how } => self.assignments.ended(pid, run, how.clone()),
            Report::Claimed { run, .. } | Report::Began { run, .. } | Report::Acknowledged { run, .. } => {
                if matches!(report, Report::Claimed { .. }) {
                    self.assignments.claimed(pid, run);
                }
                let entry = Entry { order: self.order, pid, report: report.clone() };
                self.entries.entry(run.clone()).or_default().push(entry);
            }
        }
        Reply::Noted
    }
}
