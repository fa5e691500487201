//! [`Ledger`]: what happened, in one total order, outside of all killed processes. Drivers report
//! over a local socket and wait until the report is recorded, so everything that a driver does
//! after a report comes after its entry.

use crate::assignments::Assignments;
use crate::outside::lock;
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
    /// The number of processes that died at a place, by class.
    pub deaths: BTreeMap<String, u64>,
    /// Processes that were stopped, or kept waiting by the ledger: their leases may have expired
    /// meanwhile.
    pub were_stopped: HashSet<u32>,
    order: u64,
    lines: HashMap<u32, usize>,
    holding: HashSet<u32>,
}

/// The ledger of one store.
#[derive(Clone)]
pub struct Ledger {
    pub port: u16,
    shared: Arc<Shared>,
}

struct Shared {
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
            lines: HashMap::new(),
            holding: HashSet::new(),
        };
        let shared = Arc::new(Shared { book: Mutex::new(book), changed: Condvar::new(), store, handle });
        let ledger = Self { port, shared };
        let clerk = ledger.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let clerk = clerk.clone();
                thread::spawn(move || clerk.serve(stream));
            }
        });
        Ok(ledger)
    }

    pub fn with<T>(&self, act: impl FnOnce(&mut Book) -> T) -> T {
        act(&mut lock(&self.shared.book))
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared.store
    }

    pub fn handle(&self) -> &Handle {
        &self.shared.handle
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
        self.wait(DRAIN_MAX, |book| !book.lines.contains_key(&pid));
        self.with(|book| book.assignments.died(pid));
    }

    /// Waits until a process holds at its place. Returns whether it does.
    pub fn wait_for_hold(&self, pid: u32, time: Duration) -> bool {
        self.wait(time, |book| book.holding.contains(&pid))
    }

    /// Lets a holding process continue.
    pub fn let_go(&self, pid: u32) {
        self.with(|book| book.holding.remove(&pid));
        self.shared.changed.notify_all();
    }

    /// Waits until the condition is true. Returns whether that happened in time.
    pub fn wait(&self, time: Duration, is_true: impl Fn(&Book) -> bool) -> bool {
        let until = Instant::now() + time;
        let mut book = lock(&self.shared.book);
        while !is_true(&book) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.changed.wait_timeout(book, left);
            book = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        true
    }

    /// Serves one connection of a driver until it ends.
    fn serve(&self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let mut line = BufReader::new(stream);
        let (mut pid, mut text) = (0, String::new());
        while line.read_line(&mut text).is_ok_and(|bytes| bytes > 0) {
            let Ok(report) = serde_json::from_str(&text) else { break };
            text.clear();
            if let Report::Holds { pid } = report {
                self.hold(pid);
            } else if let Report::Hello { pid: its } = report {
                pid = its;
                self.with(|book| *book.lines.entry(pid).or_default() += 1);
            }
            let Ok(mut reply) = serde_json::to_string(&self.note(pid, report)) else { break };
            reply.push('\n');
            if line.get_mut().write_all(reply.as_bytes()).is_err() {
                break;
            }
        }
        self.with(|book| book.lines.remove(&pid));
        self.shared.changed.notify_all();
    }

    fn hold(&self, pid: u32) {
        self.with(|book| book.holding.insert(pid));
        self.shared.changed.notify_all();
        self.wait(DRAIN_MAX, |book| !book.holding.contains(&pid));
    }

    fn note(&self, pid: u32, report: Report) -> Reply {
        let reply = self.with(|book| book.note(pid, report));
        self.shared.changed.notify_all();
        match reply {
            Reply::Begin { run, variant } => self.see_whether_made(run, variant),
            Reply::GoOn { run, variant, take_over, answer: true } => self.answer(run, variant, take_over),
            reply => reply,
        }
    }

    /// Checks whether a run is in the store, if its creation was lost or its driver died.
    fn see_whether_made(&self, run: String, variant: crate::graph::Variant) -> Reply {
        let is_made = self.shared.handle.block_on(self.shared.store.head(&run)).is_ok();
        self.with(|book| book.assignments.tasks.get_mut(&run).into_iter().for_each(|task| task.is_made |= is_made));
        let (take_over, answer) = (false, false);
        if is_made { Reply::GoOn { run, variant, take_over, answer } } else { Reply::Begin { run, variant } }
    }

    /// Posts half of the answers to the run, and gives the others to its driver.
    fn answer(&self, run: String, variant: crate::graph::Variant, take_over: bool) -> Reply {
        let answer = run.bytes().map(usize::from).sum::<usize>().is_multiple_of(2);
        if !answer {
            let post = NewMessage::seal(&run, "answer/approve", Some("the answer".into()), b"true".to_vec());
            // If this fails, the run pauses again and is answered again.
            drop(self.shared.handle.block_on(self.shared.store.send_message(&run, post)));
        }
        Reply::GoOn { run, variant, take_over, answer }
    }
}

impl Book {
    fn note(&mut self, pid: u32, report: Report) -> Reply {
        self.order += 1;
        match &report {
            Report::Next { lot, wish } => return self.assignments.next(pid, lot, *wish),
            Report::Dies { class } => *self.deaths.entry(class.clone()).or_default() += 1,
            Report::Waited => drop(self.were_stopped.insert(pid)),
            Report::Hello { .. } | Report::Holds { .. } => {}
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
