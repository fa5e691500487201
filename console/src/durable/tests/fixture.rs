//! [`Fixture`]: an empty store of each kind, and its source.

use crate::action::{Action, Outcome, Plan};
use crate::durable::StoreSource;
use crate::failure::Failure;
use crate::report::NamedStore;
use crate::source::{Findings, Part, Source as _};
use crate::view::{ValueAt, View};
use pleach::durable::RunRemote;
use pleach::store::{MemoryStore, RunInfo, SqliteStore, Store};
use pleach::worker::{RunningWorker, Worker};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A store of any kind.
pub type AnyStore = Arc<dyn Store>;

/// How long a test waits for a worker.
const PATIENCE: Duration = Duration::from_secs(30);

/// Which store a test uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Memory,
    Sqlite,
    #[cfg(feature = "postgres")]
    Postgres,
}

/// An empty store and its source. A file is removed when this is dropped.
pub struct Fixture {
    pub source: StoreSource,
    pub store: AnyStore,
    folder: Folder,
}

/// The folder of the file, if there is one.
#[derive(Default)]
struct Folder(Option<PathBuf>);

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some(folder) = &self.0 {
            drop(std::fs::remove_dir_all(folder));
        }
    }
}

impl Fixture {
    pub async fn new(place: Place) -> Self {
        match place {
            Place::Memory => Self::of(&MemoryStore::new()),
            Place::Sqlite => {
                let folder = std::env::temp_dir().join(format!("pleach-console-{}", fresh_name()));
                std::fs::create_dir(&folder).unwrap();
                let store = SqliteStore::open(folder.join("runs.db")).await.unwrap();
                Self { folder: Folder(Some(folder)), ..Self::of(&store) }
            }
            #[cfg(feature = "postgres")]
            Place::Postgres => {
                let store = pleach::store::PostgresStore::connect(&fresh_schema().await).await.unwrap();
                Self::of(&store)
            }
        }
    }

    pub fn of<S: Store + Clone>(store: &S) -> Self {
        let source = StoreSource::new("s0", NamedStore::new(store, "runs.db"));
        Self { source, store: Arc::new(store.clone()), folder: Folder::default() }
    }

    pub fn into_source(self) -> StoreSource {
        self.source
    }

    /// The path of the file of a SQLite store.
    pub fn file(&self) -> PathBuf {
        self.folder.0.as_ref().unwrap().join("runs.db")
    }

    /// Changes the file behind the back of its store.
    pub fn damage(&self, statements: &str) {
        rusqlite::Connection::open(self.file()).unwrap().execute_batch(statements).unwrap();
    }

    pub fn worker(&self) -> Worker {
        Worker::new(&self.store).name("worker").poll_every(Duration::from_millis(20))
    }

    pub fn remote(&self, run: &str) -> RunRemote {
        RunRemote::new(&self.store, run)
    }

    pub async fn head(&self, run: &str) -> RunInfo {
        self.store.head(run).await.unwrap()
    }

    /// Returns a view. The JSON has the fields of `docs/console-api.md`.
    pub async fn view(&self, view: Value) -> Value {
        self.try_view(view.clone()).await.unwrap_or_else(|failure| panic!("{view}: {failure}"))
    }

    pub async fn try_view(&self, view: Value) -> Result<Value, Failure> {
        let view: View = serde_json::from_value(with_store(view)).unwrap();
        view.check()?;
        self.source.view(&view).await
    }

    pub async fn text(&self, at: Value) -> Result<String, Failure> {
        let at: ValueAt = serde_json::from_value(with_store(at)).unwrap();
        Ok(self.source.text(&at).await?.text)
    }

    pub async fn part(&self, at: Value) -> Part {
        let at: ValueAt = serde_json::from_value(with_store(at)).unwrap();
        self.source.text(&at).await.unwrap()
    }

    /// Lets the console believe that it is later, for a minute.
    pub fn later(&self, by: Duration) {
        self.source.clock.set_ahead(by);
    }

    pub async fn examine(&self) -> Findings {
        self.source.examine().await.unwrap()
    }

    pub async fn plan(&self, action: Value) -> Plan {
        self.try_plan(action.clone()).await.unwrap_or_else(|failure| panic!("{action}: {failure}"))
    }

    pub async fn try_plan(&self, action: Value) -> Result<Plan, Failure> {
        self.source.plan(&self.action(action)).await
    }

    /// Carries out what was planned.
    pub async fn act(&self, action: Value, plan: &Plan) -> Result<Outcome, Failure> {
        self.source.carry_out(&self.action(action), &plan.guard).await
    }

    /// Plans an action that must be possible, and carries it out.
    pub async fn order(&self, action: Value) -> (Plan, Outcome) {
        let plan = self.plan(action.clone()).await;
        assert_eq!(plan.refusal, None, "{action}");
        let outcome = self.act(action.clone(), &plan).await.unwrap_or_else(|failure| panic!("{action}: {failure}"));
        (plan, outcome)
    }

    fn action(&self, action: Value) -> Action {
        Action::parse(with_store(action)).unwrap()
    }

    /// Waits until the run is as wanted.
    pub async fn until(&self, run: &str, is_so: impl Fn(&RunInfo) -> bool) -> RunInfo {
        let until = std::time::Instant::now() + PATIENCE;
        let mut hint = tokio::time::interval(Duration::from_millis(5));
        loop {
            hint.tick().await;
            let info = self.head(run).await;
            if is_so(&info) {
                return info;
            }
            assert!(std::time::Instant::now() < until, "{run} is {info:?}");
        }
    }
}

/// Stops a worker, and waits until it has released its runs.
pub async fn stop(worker: RunningWorker) {
    worker.cancel().await;
}

fn with_store(mut value: Value) -> Value {
    value["store"] = json!("s0");
    value
}

fn fresh_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Returns the address of a new schema.
#[cfg(feature = "postgres")]
async fn fresh_schema() -> String {
    let server = std::env::var("PLEACH_POSTGRES_URL").expect(
        "PLEACH_POSTGRES_URL is not set; these tests need a PostgreSQL server. \
         `cargo xtask postgres cargo test -p pleach-console --all-features --lib` starts one",
    );
    let name = format!("console_{}", fresh_name());
    let (client, connection) = tokio_postgres::connect(&server, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("DROP SCHEMA IF EXISTS {name} CASCADE; CREATE SCHEMA {name}")).await.unwrap();
    format!("{server}?options=-csearch_path%3D{name}")
}

/// Makes a test of each function for each store.
macro_rules! on_all_stores {
    ($($test:ident),+ $(,)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $test() {
                super::$test($crate::durable::tests::fixture::Fixture::new($crate::durable::tests::fixture::Place::Memory).await).await;
            })+
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test($crate::durable::tests::fixture::Fixture::new($crate::durable::tests::fixture::Place::Sqlite).await).await;
            })+
        }
        #[cfg(feature = "postgres")]
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test($crate::durable::tests::fixture::Fixture::new($crate::durable::tests::fixture::Place::Postgres).await).await;
            })+
        }
    };
}
pub(super) use on_all_stores;
