//! A store with runs of every kind, and the command.

use pleach::prelude::*;
use pleach::store::{Held, Lease, PostgresStore, Release, RunStatus, SqliteStore, TAKEOVERS_MAX, Wanted};
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
        Self { folder, store, opened }
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
    let (client, connection) = tokio_postgres::connect(&server, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("DROP SCHEMA IF EXISTS {name} CASCADE; CREATE SCHEMA {name}")).await.unwrap();
    format!("{server}?options=-csearch_path%3D{name}")
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
