//! A store with runs of every kind, and the command.

use pleach::prelude::*;
use pleach::store::{Held, Lease, PostgresStore, Release, RunStatus, SqliteStore, StoreError, TAKEOVERS_MAX, Wanted};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A number that a float cannot hold.
pub const BIG: u128 = 340_282_366_920_938_463_463_374_607_431_768_211_455;

/// An id that would change the colour of a terminal.
pub const ESCAPE: &str = "esc\u{1b}[31m";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    pub number: u128,
    pub cents: u64,
    pub note: String,
    pub steps: Vec<String>,
}

impl Order {
    pub fn new(note: &str) -> Self {
        Self { number: BIG, cents: 500, note: note.into(), steps: Vec::new() }
    }

    fn after(mut self, step: &str) -> Self {
        self.steps.push(step.into());
        self
    }
}

async fn pay(cx: NodeContext, order: Order) -> Result<Order, pleach::BoxError> {
    let cents = order.cents;
    cx.effect("charge", move |_key| async move { Ok::<_, String>(cents) }).await?;
    Ok(order.after("pay"))
}

async fn approve(cx: NodeContext, order: Order) -> Result<Order, pleach::BoxError> {
    let approved: bool = cx.interrupt("approve", &format!("ship {}?", order.note)).await;
    Ok(order.after(if approved { "approved" } else { "rejected" }))
}

async fn ship(order: Order) -> Result<Order, pleach::BoxError> {
    if order.note == "broken" { Err("the truck\nis \u{1b}[31mbroken".into()) } else { Ok(order.after("ship")) }
}

async fn wait(cx: NodeContext, order: Order) -> Result<Order, pleach::BoxError> {
    let more: u64 = cx.signal("more").await;
    Ok(Order { cents: order.cents + more, ..order })
}

/// Pays, asks, and ships.
pub fn orders() -> CompiledGraph<Order> {
    Graph::new("order")
        .add_node("pay", pay)
        .add_node("approve", approve)
        .add_node("ship", ship)
        .add_edge("pay", "approve")
        .add_edge("approve", "ship")
        .add_edge("ship", END)
        .set_entry("pay")
        .compile()
        .unwrap()
}

/// Waits for a signal.
pub fn waits() -> CompiledGraph<Order> {
    Graph::new("waits").add_node("wait", wait).add_edge("wait", END).set_entry("wait").compile().unwrap()
}

/// Where the runs of a test are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Sqlite,
    Postgres,
}

/// A store of one test.
pub struct Fixture {
    pub folder: PathBuf,
    /// The argument STORE.
    pub store: String,
    pub opened: Arc<dyn Store>,
    pub place: Place,
}

impl Fixture {
    /// An empty store.
    pub async fn empty(place: Place) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("pleach_cli_{}_{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let folder = std::env::temp_dir().join(&name);
        std::fs::create_dir_all(&folder).unwrap();
        let (store, opened): (String, Arc<dyn Store>) = match place {
            Place::Sqlite => {
                let path = folder.join("runs.db");
                (path.display().to_string(), Arc::new(SqliteStore::open(&path).await.unwrap()))
            }
            Place::Postgres => {
                let url = fresh_schema(&name).await;
                let opened = PostgresStore::connect(&url).await.unwrap();
                (url, Arc::new(opened))
            }
        };
        Self { folder, store, opened, place }
    }

    /// A store with runs: finished, waiting, failed, stuck, and two with awkward ids.
    pub async fn full(place: Place) -> Self {
        let fixture = Self::empty(place).await;
        let (orders, store) = (orders(), &fixture.opened);
        let waiting = async |id: &str, note: &str, customer: &str| {
            let run = orders.run(Order::new(note)).id(id).tag("customer", customer).checkpoint(store);
            run.await.unwrap_err();
        };
        waiting("order-1", "tea", "41").await;
        waiting("order-2", "rice", "42").await;
        waiting("order-3", "broken", "42").await;
        waiting("-dash", "salt", "42").await;
        waiting(ESCAPE, "\u{9b}31m", "42").await;
        orders.resume("order-1").resume_with("approve", &true).checkpoint(store).await.unwrap();
        orders.resume("order-3").resume_with("approve", &true).checkpoint(store).await.unwrap_err();
        waits().run(Order::new("oil")).id("signal-1").checkpoint(store).await.unwrap_err();
        waiting("stuck-1", "ink", "7").await;
        fixture.make_stuck("stuck-1").await;
        fixture
    }

    /// Releases a run with trouble until it is stuck.
    pub async fn make_stuck(&self, run: &str) {
        for _ in 0..TAKEOVERS_MAX {
            let lease = Lease { owner: "tester".into(), length: Duration::from_secs(60) };
            let claim = self.opened.claim(Wanted::One { run: run.into(), force: false }, lease).await.unwrap().remove(0);
            let how = Release::Failed { reason: "no printer".into(), delay: Duration::ZERO };
            self.opened.release(vec![Held::of(&claim.run)], how).await.unwrap();
        }
        assert_eq!(self.status(run).await, RunStatus::Stuck);
    }

    /// Runs a statement in the database of the store.
    pub async fn sql(&self, statement: &str) {
        match self.place {
            Place::Sqlite => rusqlite::Connection::open(&self.store).unwrap().execute_batch(statement).unwrap(),
            Place::Postgres => client(&self.store).await.batch_execute(statement).await.unwrap(),
        }
    }

    /// Lets `count` drivers claim a run and die: their leases expire without a commit.
    pub async fn lose_drivers(&self, run: &str, count: u32) {
        for number in 0..count {
            let lease = Lease { owner: format!("424{number}-abc"), length: Duration::from_millis(1) };
            let wanted = Wanted::One { run: run.into(), force: false };
            while let Err(error) = self.opened.claim(wanted.clone(), lease.clone()).await {
                // The lease of the one before lasts a millisecond.
                match error {
                    StoreError::Held { .. } => tokio::task::yield_now().await,
                    StoreError::Stuck { .. } => return,
                    error => panic!("{error}"),
                }
            }
        }
    }

    /// Makes a run due two minutes ago. Its checksum changes with the time.
    pub async fn make_overdue(&self, run: &str) {
        // SQLite has no operator for XOR.
        let xor = |one: &str, other: &str| format!("(({one} & ~{other}) | (~{one} & {other}))");
        let earlier = "(wake_at - 120000)";
        let table = if self.place == Place::Sqlite { "run" } else { "pleach_run" };
        let sum = xor(&xor("sum", "wake_at"), earlier);
        let statement = format!("UPDATE {table} SET wake_at = {earlier}, sum = {sum}");
        self.sql(&format!("{statement} WHERE id = '{run}'")).await;
    }

    /// Sets the format of the tables, as another version of pleach would.
    pub async fn set_format(&self, format: u32) {
        match self.place {
            Place::Sqlite => self.sql(&format!("PRAGMA user_version = {format}")).await,
            Place::Postgres => self.sql(&format!("UPDATE pleach_format SET format = {format}")).await,
        }
    }

    pub async fn format(&self) -> u32 {
        match self.place {
            Place::Sqlite => {
                let db = rusqlite::Connection::open(&self.store).unwrap();
                db.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
            }
            Place::Postgres => {
                let row = client(&self.store).await.query_one("SELECT format FROM pleach_format", &[]).await.unwrap();
                u32::try_from(row.get::<_, i64>(0)).unwrap()
            }
        }
    }

    /// Changes a column in the row of a run, without its checksum.
    pub async fn damage_row(&self, run: &str) {
        let table = if self.place == Place::Sqlite { "run" } else { "pleach_run" };
        self.sql(&format!("UPDATE {table} SET epoch = epoch + 1 WHERE id = '{run}'")).await;
    }

    /// Replaces the body of a record.
    pub async fn damage_record(&self, run: &str, record: u64) {
        let (prefix, junk) = if self.place == Place::Sqlite { ("", "x'7b7d'") } else { ("pleach_", "'\\x7b7d'::bytea") };
        let of_run = format!("(SELECT no FROM {prefix}run WHERE id = '{run}')");
        self.sql(&format!("UPDATE {prefix}log SET body = {junk} WHERE run = {of_run} AND seq = {record}")).await;
    }

    pub async fn status(&self, run: &str) -> RunStatus {
        self.opened.head(run).await.unwrap().status
    }

    /// Writes the exported graphs of the program to a file.
    pub fn exports(&self, exports: &impl Serialize) -> String {
        let path = self.folder.join("graphs.json");
        std::fs::write(&path, serde_json::to_string(exports).unwrap()).unwrap();
        path.display().to_string()
    }

    /// Calls `pleach runs WORD STORE ARGUMENTS`.
    pub fn runs(&self, word: &str, arguments: &[&str]) -> Called {
        let mut all = vec!["runs", word, &self.store];
        all.extend(arguments);
        call(&all)
    }

    /// Calls it, and parses the output as JSON.
    pub fn json(&self, word: &str, arguments: &[&str]) -> serde_json::Value {
        let called = self.runs(word, &[arguments, &["--json"]].concat());
        assert_eq!(called.code, 0, "{called:?}");
        serde_json::from_str(&called.out).unwrap()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

async fn fresh_schema(name: &str) -> String {
    let server = std::env::var("PLEACH_POSTGRES_URL").expect(
        "PLEACH_POSTGRES_URL is not set; these tests need a PostgreSQL server. \
         `cargo xtask postgres cargo test -p pleach-cli` starts one",
    );
    client(&server).await.batch_execute(&format!("DROP SCHEMA IF EXISTS {name} CASCADE; CREATE SCHEMA {name}")).await.unwrap();
    format!("{server}?options=-csearch_path%3D{name}")
}

/// Connects to PostgreSQL.
pub async fn client(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Looks until something is there. Each look takes the time of a call of the command.
pub fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let until = std::time::Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(std::time::Instant::now() < until, "it did not happen within a minute");
    }
}

/// What a call of the command did.
#[derive(Debug)]
pub struct Called {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl From<Output> for Called {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// The command, without a terminal.
pub fn pleach(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pleach"));
    command.args(arguments).stdin(Stdio::null()).env_remove("NO_COLOR").env("TZ", "UTC");
    command
}

pub fn call(arguments: &[&str]) -> Called {
    pleach(arguments).output().unwrap().into()
}

/// Makes two tests of one function: on SQLite and on PostgreSQL.
macro_rules! on_both_stores {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(crate::fixture::Place::Sqlite).await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(crate::fixture::Place::Postgres).await;
            })+
        }
    };
}
pub(crate) use on_both_stores;
