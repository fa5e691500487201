//! O8: runs that no worker serves are visible in events, in the log, in the health and in the
//! worker.
use crate::common::Log;
use crate::common::logged::logged;
use pleach::durable::{Migrations, RunFit};
use pleach::inspect::{Health, HealthReason};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::store::{Held, Lease, MemoryStore, Release, RunStatus, Store, TAKEOVERS_MAX, Wanted};
use pleach::system::System;
use pleach::worker::{RunningWorker, UnservedRuns, Worker, WorkerEvent};

const LIMIT: Duration = Duration::from_secs(60);

async fn ask(cx: NodeContext, n: u32) -> Result<u32, String> {
    let more: u32 = cx.interrupt("more", "how many more?").await;
    Ok(n + more)
}

async fn same(n: u32) -> u32 {
    n
}

/// The graph before the deploy.
fn old_graph(name: &str) -> CompiledGraph<u32> {
    Graph::new(name).add_node("ask", ask).add_edge("ask", END).set_entry("ask").compile().unwrap()
}

/// The graph after the deploy: it has one node more.
fn new_graph(name: &str) -> CompiledGraph<u32> {
    Graph::new(name)
        .add_node("ask", ask)
        .add_node("ship", same)
        .add_edge("ask", "ship")
        .add_edge("ship", END)
        .set_entry("ask")
        .compile()
        .unwrap()
}

struct Fixture {
    sim: Sim,
    system: System,
    scope: Scope,
    store: MemoryStore,
    events: Log<WorkerEvent>,
}

impl Fixture {
    fn new() -> Self {
        let sim = Sim::new(7);
        let system = System::builder("shop", sim.runtime()).build().unwrap();
        let (scope, store) = (system.scope("workers").unwrap(), MemoryStore::on(sim.runtime()));
        Self { sim, system, scope, store, events: Log::new() }
    }

    fn start(&self, name: &str, worker: impl FnOnce(Worker) -> Worker) -> RunningWorker {
        let seen = self.events.clone();
        let listen = move |event: &WorkerEvent| match event {
            WorkerEvent::DeployChecked { .. } | WorkerEvent::Unserved { .. } | WorkerEvent::AllServed => {
                seen.push(event.clone());
            }
            _ => {}
        };
        worker(Worker::new(&self.store)).name(name).on_event(listen).start_in(&self.scope).unwrap()
    }

    async fn enqueue(&self, graph: &CompiledGraph<u32>, id: &str) {
        graph.run(1).id(id).runtime(self.sim.runtime()).checkpoint(&self.store).enqueue().await.unwrap();
    }

    async fn answer(&self, run: &str) {
        RunRemote::new(&self.store, run).resume_with("more", &2_u32).await.unwrap();
    }

    async fn status(&self, run: &str) -> RunStatus {
        self.store.head(run).await.unwrap().status
    }

    /// The keys of the problems that members have reported.
    fn problems(&self) -> Vec<String> {
        let Health::Degraded(reasons) = self.system.health() else { return Vec::new() };
        let reported = |reason| match reason {
            HealthReason::Reported { source, key, .. } => Some(format!("{source} {key}")),
            _ => None,
        };
        reasons.into_iter().filter_map(reported).collect()
    }
}

fn ids(unserved: &UnservedRuns) -> Vec<&str> {
    unserved.overdue.iter().flat_map(|of| &of.runs).map(|run| run.id.as_str()).collect()
}

fn logged_with(text: &str, graph: &str) -> usize {
    logged().seen().iter().filter(|line| line.contains(text) && line.contains(graph)).count()
}

#[test]
fn o8_deploy_with_one_node_more_is_reported_everywhere() {
    logged();
    let fixture = Fixture::new();
    let (old, new) = (old_graph("one-node-more"), new_graph("one-node-more"));
    fixture.sim.run(async {
        let worker = fixture.start("old", |worker| worker.graph(&old));
        for run in ["a", "b", "c"] {
            fixture.enqueue(&old, run).await;
        }
        fixture.sim.sleep(Duration::from_secs(5)).await;
        assert_eq!(fixture.status("a").await, RunStatus::Waiting);
        worker.close(Duration::from_secs(1)).await;
        assert_eq!(fixture.events.take(), [], "the old program serves all runs");

        // At its start the new worker says that it serves none of the waiting runs.
        let worker = fixture.start("new", |worker| worker.graph(&new));
        fixture.sim.sleep(Duration::from_secs(1)).await;
        let events = fixture.events.take();
        let [WorkerEvent::DeployChecked { report }] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((report.checked, report.count(RunFit::UnknownFingerprint)), (3, 3));
        assert_eq!(logged_with("are not served by it", "one-node-more"), 1);
        fixture.sim.sleep(Duration::from_secs(600)).await;
        assert_eq!((fixture.events.take(), fixture.problems()), (vec![], vec![]), "they wait for answers");

        // A run that gets its answer is due. No worker claims it.
        fixture.answer("a").await;
        fixture.sim.sleep(LIMIT / 2).await;
        assert_eq!(fixture.events.take(), [], "it may be served by another worker");
        fixture.sim.sleep(LIMIT * 2).await;
        let events = fixture.events.take();
        let [WorkerEvent::Unserved { runs }] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((ids(runs), runs.overdue[0].fit), (vec!["a"], RunFit::UnknownFingerprint));
        assert_eq!(&worker.unserved(), runs);
        assert_eq!(fixture.problems(), ["/user/workers/new runs-unserved"]);
        let health = fixture.system.health().to_string();
        assert!(health.contains("1 due runs of graph \"one-node-more\"") && health.contains("start a worker"), "{health}");

        // One episode is logged and reported once.
        fixture.answer("b").await;
        fixture.sim.sleep(LIMIT * 10).await;
        assert_eq!(fixture.events.take(), []);
        assert_eq!(logged_with("no worker serves these runs", "one-node-more"), 1);
        assert_eq!(ids(&worker.unserved()), ["a", "b"]);
        worker.close(Duration::from_secs(1)).await;
        assert_eq!(fixture.problems(), Vec::<String>::new(), "a closed worker reports nothing");

        // The repaired deploy accepts the old version.
        let migrations = Migrations::new().accept_compatible();
        let print = old.fingerprint().to_string();
        let worker = fixture.start("repaired", |worker| {
            worker.graph_with(&new, move |run| run.migrations(&migrations)).accept_fingerprints([print])
        });
        fixture.sim.sleep(LIMIT * 2).await;
        let events = fixture.events.take();
        let [WorkerEvent::DeployChecked { report }] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((report.unserved_runs(), report.count(RunFit::Migrated)), (0, 3));
        assert_eq!((fixture.status("a").await, fixture.status("b").await), (RunStatus::Finished, RunStatus::Finished));
        assert!(worker.unserved().is_empty() && fixture.system.health().is_healthy());
        worker.close(Duration::from_secs(1)).await;
    });
}

#[test]
fn o8_episode_ends_when_another_worker_serves_the_runs() {
    let fixture = Fixture::new();
    let (old, new) = (old_graph("ends"), new_graph("ends"));
    fixture.sim.run(async {
        fixture.enqueue(&old, "r").await;
        let worker = fixture.start("new", |worker| worker.graph(&new));
        fixture.sim.sleep(LIMIT * 3).await;
        assert_eq!(ids(&worker.unserved()), ["r"]);
        let old_worker = fixture.start("old", |worker| worker.graph(&old));
        fixture.sim.sleep(LIMIT).await;
        assert!(worker.unserved().is_empty());
        let events = fixture.events.take();
        assert_eq!(events.last(), Some(&WorkerEvent::AllServed), "{events:?}");
        assert_eq!(fixture.problems(), Vec::<String>::new());
        old_worker.close(Duration::ZERO).await;
        worker.close(Duration::ZERO).await;
    });
}

#[test]
fn o8_runs_served_by_workers_of_another_version_are_not_reported() {
    let fixture = Fixture::new();
    let (old, new, other) = (old_graph("rolling"), new_graph("rolling"), old_graph("other"));
    fixture.sim.run(async {
        let workers = [
            fixture.start("old", |worker| worker.graph(&old)),
            fixture.start("new", |worker| worker.graph(&new)),
            fixture.start("other", |worker| worker.graph(&other)),
        ];
        for turn in 0..20 {
            for graph in [&old, &new, &other] {
                let run = format!("{turn} {}", graph.fingerprint());
                fixture.enqueue(graph, &format!("{run} {}", graph.name())).await;
            }
            fixture.sim.sleep(Duration::from_secs(30)).await;
            for graph in [&old, &new, &other] {
                fixture.answer(&format!("{turn} {} {}", graph.fingerprint(), graph.name())).await;
            }
        }
        fixture.sim.sleep(LIMIT * 3).await;
        let is_report = |event: &&WorkerEvent| !matches!(event, WorkerEvent::DeployChecked { .. });
        assert_eq!(fixture.events.take().iter().filter(is_report).count(), 0, "others serve them within the limit");
        assert_eq!(fixture.problems(), Vec::<String>::new());
        for worker in workers {
            assert!(worker.unserved().is_empty());
            worker.close(Duration::ZERO).await;
        }
    });
}

#[test]
fn o8_stuck_runs_and_unknown_graphs_are_reported() {
    let fixture = Fixture::new();
    let graph = new_graph("known");
    // Its state cannot be read as the state of this graph.
    let broken = Graph::<String>::new("known")
        .add_node("ask", |s: String| async move { s })
        .add_node("ship", |s: String| async move { s });
    let broken = broken.add_edge("ask", "ship").add_edge("ship", END).set_entry("ask").compile().unwrap();
    assert_eq!(broken.fingerprint(), graph.fingerprint());
    fixture.sim.run(async {
        let run = broken.run("text".to_string()).id("broken").runtime(fixture.sim.runtime());
        run.checkpoint(&fixture.store).enqueue().await.unwrap();
        fixture.enqueue(&old_graph("unknown"), "unknown").await;
        let worker = fixture.start("known", |worker| worker.graph(&graph));
        fixture.sim.sleep(Duration::from_secs(3_600)).await;
        let unserved = worker.unserved();
        assert_eq!(ids(&unserved), ["unknown"]);
        assert_eq!(unserved.overdue[0].fit, RunFit::UnknownGraph);
        assert_eq!(unserved.stuck.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), ["broken"]);
        assert!(unserved.stuck[0].reason.as_ref().is_some_and(|reason| reason.contains("does not decode")), "{unserved:?}");
        let problems = ["/user/workers/known runs-stuck", "/user/workers/known runs-unserved"];
        let mut found = fixture.problems();
        found.sort();
        assert_eq!(found, problems);
        // Both are removed by an operator.
        fixture.store.delete("broken").await.unwrap();
        fixture.store.delete("unknown").await.unwrap();
        fixture.sim.sleep(LIMIT).await;
        assert!(worker.unserved().is_empty() && fixture.system.health().is_healthy());
        worker.close(Duration::ZERO).await;
    });
}

/// Makes a run stuck, as repeated failures to execute it do.
async fn make_stuck(store: &MemoryStore, run: &str) {
    let lease = Lease { owner: "a worker".into(), length: LIMIT };
    for _ in 0..=TAKEOVERS_MAX {
        let wanted = Wanted::One { run: run.into(), force: false };
        let Ok(claims) = store.claim(wanted, lease.clone()).await else { return };
        let how = Release::Failed { reason: "on request".into(), delay: Duration::ZERO };
        store.release(vec![Held::of(&claims[0].run)], how).await.unwrap();
    }
}

#[test]
fn o8_stuck_runs_of_other_graphs_do_not_hide_its_own() {
    let fixture = Fixture::new();
    let graph = new_graph("own");
    fixture.sim.run(async {
        fixture.enqueue(&graph, "own").await;
        make_stuck(&fixture.store, "own").await;
        for number in 0..150 {
            let id = format!("other {number}");
            fixture.enqueue(&old_graph("other"), &id).await;
            make_stuck(&fixture.store, &id).await;
        }
        let worker = fixture.start("own", |worker| worker.graph(&graph));
        fixture.sim.sleep(LIMIT * 2).await;
        let unserved = worker.unserved();
        assert_eq!(unserved.stuck.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), ["own"]);
        assert!(!unserved.has_more_stuck);
        worker.close(Duration::ZERO).await;
    });
}

#[test]
fn o8_worker_can_refuse_to_start() {
    let fixture = Fixture::new();
    let (old, new) = (old_graph("refused"), new_graph("refused"));
    fixture.sim.run(async {
        fixture.enqueue(&old, "r").await;
        let refused = Worker::new(&fixture.store).graph(&new).refuse_unserved().await.unwrap_err();
        let text = refused.to_string();
        assert!(text.contains("1 runs of graph \"refused\"") && text.contains("accept_fingerprints"), "{text}");
        let pleach::durable::DeployError::Unserved(report) = refused else { panic!("{refused}") };
        assert_eq!(report.groups[0].samples, ["r"]);
        // Without a migration every attempt would fail, so accepting the fingerprint is not enough.
        let accepting = Worker::new(&fixture.store).graph(&new).accept_fingerprints([old.fingerprint()]);
        let report = accepting.check_deploy().await.unwrap();
        assert_eq!(report.count(RunFit::NoShapeMigration), 1);
        assert!(accepting.refuse_unserved().await.is_err());
        assert!(Worker::new(&fixture.store).graph(&old).refuse_unserved().await.is_ok());
    });
}

/// The process that drives the run dies, and no worker serves the run.
#[test]
fn o8_view_of_a_run_whose_driver_died_says_that_it_is_unclaimed() {
    let Fixture { sim, store, .. } = &Fixture::new();
    sim.run(async {
        let run = old_graph("old").run(40).id("x").runtime(sim.runtime()).checkpoint(store);
        let remote = run.enqueue().await.unwrap();
        let lease = Lease { owner: "dead".into(), length: Duration::from_secs(30) };
        let claims = store.claim(Wanted::One { run: "x".into(), force: false }, lease).await.unwrap();
        let until = claims[0].run.lease_until.unwrap();
        let view = remote.view().await.unwrap();
        assert_eq!(view.due, Some(until), "the lease is live");
        assert_eq!(view.problems(until), []);
        sim.sleep(Duration::from_secs(100)).await;
        let view = remote.view().await.unwrap();
        let [problem] = &view.problems(until.after(Duration::from_secs(70)))[..] else { panic!("{view:?}") };
        assert!(problem.text.contains("has been due for 70s, and no worker has claimed it"), "{problem}");
    });
}
