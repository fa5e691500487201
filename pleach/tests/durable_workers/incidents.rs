//! O2, O3, O8, O9: three incidents on a real system with a SQLite file. Each is visible in the log,
//! in the health and in the view of the run, with what to do.
use crate::common::logged::logged;
use pleach::BoxError;
use pleach::actor::Reply;
use pleach::durable::{RunProblem, RunView};
use pleach::graph::{Policy, Retry};
use pleach::inspect::HealthReason;
use pleach::prelude::*;
use pleach::routing::Pool;
use pleach::store::{SqliteStore, Timestamp};
use pleach::worker::Worker;
use std::time::{Instant, SystemTime};

const SOON: Duration = Duration::from_secs(30);

/// A page to print. No printer has ink.
struct Page(#[expect(dead_code, reason = "the printer fails before it answers")] Reply<u32>);

/// A program on one SQLite file.
struct Program {
    system: ActorSystem,
    scope: Scope,
    store: SqliteStore,
}

impl Program {
    fn new(name: &str, store: &SqliteStore) -> Self {
        let system = ActorSystem::new(name).unwrap();
        let scope = system.scope("workers").unwrap();
        Self { system, scope, store: store.clone() }
    }

    fn worker(&self, graph: &CompiledGraph<u32>) -> Worker {
        Worker::new(&self.store).graph(graph).name("worker").report_unserved_after(Duration::from_secs(1))
    }

    /// Waits for a reason, and returns its text.
    async fn reason(&self, wanted: impl Fn(&HealthReason) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let health = self.system.health();
            if let Some(reason) = health.reasons().iter().find(|reason| wanted(reason)) {
                return reason.to_string();
            }
            assert!(begun.elapsed() < SOON, "{health}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn view(&self, run: &str) -> RunView {
        RunRemote::new(&self.store, run).view().await.unwrap()
    }
}

fn reported(wanted: &'static str) -> impl Fn(&HealthReason) -> bool {
    move |reason| matches!(reason, HealthReason::Reported { key, .. } if key == wanted)
}

/// The one problem of a view, some minutes from now.
fn only_problem(view: &RunView) -> RunProblem {
    let later = Timestamp::from(SystemTime::now()).after(Duration::from_secs(180));
    match &view.problems(later)[..] {
        [problem] => problem.clone(),
        others => panic!("{others:?}"),
    }
}

/// Returns the only log line with all of these texts.
fn logged_once(texts: &[&str]) -> String {
    let lines = logged().seen().into_iter().filter(|line| texts.iter().all(|text| line.contains(text)));
    match &lines.collect::<Vec<_>>()[..] {
        [line] => line.clone(),
        others => panic!("{texts:?}: {others:?}"),
    }
}

async fn with_file(name: &str, check: impl AsyncFnOnce(SqliteStore)) {
    logged();
    let folder = std::env::temp_dir().join(format!("pleach-incident-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    check(SqliteStore::open(folder.join("store.db")).await.unwrap()).await;
    std::fs::remove_dir_all(&folder).unwrap();
}

fn printing(pool: &Pool<Page>) -> CompiledGraph<u32> {
    let pool = pool.clone();
    let print = move |_: u32| {
        let pool = pool.clone();
        async move { pool.ask(Page).await.map_err(|error| error.to_string()) }
    };
    let retried = Policy::new().retry(Retry::times(20).backoff(Duration::from_millis(5), Duration::from_millis(5)));
    let graph = Graph::new("printing").add_node("print", print).policy("print", retried);
    graph.add_edge("print", END).set_entry("print").compile().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn o2_pool_that_gave_up_is_in_log_health_and_view() {
    with_file("pool", async |store| {
        let program = Program::new("incident-pool", &store);
        let printer = |_| Props::from_fn(|| (), |(), _: Page| Err::<(), BoxError>("no ink".into()));
        let pool = program.system.pool("printers", 2, printer).build().unwrap();
        let graph = printing(&pool);
        let worker = program.worker(&graph).start_in(&program.scope).unwrap();
        graph.run(1).id("page-1").checkpoint(&store).enqueue().await.unwrap();
        let gave_up = program.reason(|reason| matches!(reason, HealthReason::GaveUp { .. })).await;
        assert!(gave_up.starts_with("supervisor /user/printers gave up on /user/printers/"), "{gave_up}");
        assert!(gave_up.ends_with("remove the cause of the failures, then start it again"), "{gave_up}");
        graph.outcome_of("page-1", &store).await.unwrap_err();
        let line = logged_once(&["ERROR", "/user/printers", "gave up", "incident-pool", "left=0"]);
        assert!(line.contains("no ink") && line.contains("Fix the cause"), "{line}");
        let RunProblem { text, advice, .. } = only_problem(&program.view("page-1").await);
        assert!(text.starts_with("run \"page-1\" failed at node \"print\", attempt ") && text.contains("printers"), "{text}");
        assert!(advice.starts_with("remove the cause, then retry the run"), "{advice}");
        worker.close(SOON).await;
    })
    .await;
}

/// Asks before it ships. The newer version has one node more.
fn ordering(is_new: bool) -> CompiledGraph<u32> {
    let ask = |cx: NodeContext, n: u32| async move { Ok::<_, String>(n + cx.interrupt::<u32>("more", "how many?").await) };
    let graph = Graph::new("ordering").add_node("ask", ask).set_entry("ask");
    let graph = match is_new {
        false => graph.add_edge("ask", END),
        true => graph.add_node("ship", |n: u32| async move { n }).add_edge("ask", "ship").add_edge("ship", END),
    };
    graph.compile().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn o8_run_orphaned_by_a_deploy_is_in_log_health_and_view() {
    with_file("deploy", async |store| {
        let old = Program::new("incident-old", &store);
        let worker = old.worker(&ordering(false)).start_in(&old.scope).unwrap();
        let remote = ordering(false).run(1).id("order-1").checkpoint(&store).enqueue().await.unwrap();
        while remote.view().await.unwrap().waits().next().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        worker.close(SOON).await;
        let new = Program::new("incident-new", &store);
        let worker = new.worker(&ordering(true)).start_in(&new.scope).unwrap();
        // The check at the start already says so.
        remote.resume_with("more", &2).await.unwrap();
        let unserved = new.reason(reported("runs-unserved")).await;
        assert!(unserved.contains("1 due runs of graph \"ordering\"") && unserved.contains("order-1"), "{unserved}");
        assert!(unserved.ends_with("start a worker that serves their version, or deploy a migration"), "{unserved}");
        logged_once(&["WARN", "are not served by it", "\"ordering\""]);
        let line = logged_once(&["WARN", "no worker serves these runs", "order-1"]);
        assert!(line.contains("start a worker that serves their version"), "{line}");
        let view = new.view("order-1").await;
        let RunProblem { text, advice, .. } = only_problem(&view);
        assert!(text.starts_with("run \"order-1\" has been due for ") && text.ends_with("no worker has claimed it"), "{text}");
        assert_eq!(view.version.fingerprint, ordering(false).fingerprint());
        let needed = format!("start a worker that serves graph \"ordering\" ({}, schema 0)", view.version.fingerprint);
        assert!(advice.starts_with(&needed), "{advice}");
        // The advice helps.
        let again = old.worker(&ordering(false)).name("again").start_in(&old.scope).unwrap();
        assert_eq!(ordering(false).outcome_of("order-1", &store).await.unwrap(), 3);
        again.close(SOON).await;
        worker.close(SOON).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn o9_answer_of_the_wrong_type_is_in_log_health_and_view() {
    with_file("answer", async |store| {
        let program = Program::new("incident-answer", &store);
        let graph = ordering(false);
        let worker = program.worker(&graph).start_in(&program.scope).unwrap();
        let remote = graph.run(1).id("order-9").checkpoint(&store).enqueue().await.unwrap();
        let refused = remote.resume_with("more", "a secret").confirmed(SOON).await.unwrap_err();
        assert!(refused.to_string().contains("expected u32"), "{refused}");
        let in_health = program.reason(reported("message-refused")).await;
        assert!(in_health.contains("run \"order-9\" refused the answer to \"more\": expected u32"), "{in_health}");
        let advice = "answer again with a value of the type u32";
        assert!(in_health.ends_with(advice) && !in_health.contains("secret"), "{in_health}");
        let line = logged_once(&["WARN", "the run refused a message", "order-9"]);
        assert!(line.contains(advice) && !line.contains("secret"), "{line}");
        let problem = only_problem(&program.view("order-9").await);
        assert_eq!(problem.advice, advice);
        assert!(problem.text.contains("refused the answer to \"more\": expected u32"), "{problem}");
        remote.resume_with("more", &2).confirmed(SOON).await.unwrap();
        assert_eq!(graph.outcome_of("order-9", &store).await.unwrap(), 3);
        let view = program.view("order-9").await;
        assert_eq!(view.problems(view.due.unwrap_or_default()), []);
        worker.close(SOON).await;
    })
    .await;
}
