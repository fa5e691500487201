//! O8: the deploy check says which runs a program would serve, and why not the others.
use crate::common::failing_connection::FailingConnection;
use crate::common::stored::StoredRunFixture;
use pleach::durable::{DeployCheck, DeployReport, GraphExport, Migrations, RunFit};
use pleach::graph::FanOut;
use pleach::prelude::*;
use pleach::store::{Release, RunStatus, Store, TAKEOVERS_MAX};
use std::convert::Infallible;

async fn wait(cx: NodeContext, n: u32) -> Result<u32, String> {
    let more: u32 = cx.interrupt("more", "how many?").await;
    Ok(n + more)
}

async fn same(n: u32) -> u32 {
    n
}

/// A graph of plain nodes in a row. The node `wait…` waits.
fn chain(name: &str, nodes: &[&str]) -> CompiledGraph<u32> {
    let mut graph = Graph::new(name).set_entry(nodes[0]);
    for (at, node) in nodes.iter().enumerate() {
        graph = if node.starts_with("wait") { graph.add_node(*node, wait) } else { graph.add_node(*node, same) };
        graph = graph.add_edge(*node, nodes.get(at + 1).copied().unwrap_or(END));
    }
    graph.compile().unwrap()
}

/// Starts a run and leaves it waiting.
fn start(fixture: &StoredRunFixture, graph: &CompiledGraph<u32>, id: &str, schema: u32) {
    let run = graph.run(1).id(id).schema(schema).checkpoint(&fixture.store);
    let error = fixture.end(fixture.here(run)).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Paused { .. }), "{error}");
}

fn check(fixture: &StoredRunFixture, check: &DeployCheck) -> DeployReport {
    fixture.sim.run(async { check.run(&fixture.store).await }).unwrap()
}

/// The fit on the only run, and the node that decided it.
fn fit(fixture: &StoredRunFixture, export: GraphExport) -> (RunFit, Option<String>) {
    let report = check(fixture, &DeployCheck::new().export(export));
    assert_eq!(report.groups.len(), 1, "{report}");
    (report.groups[0].fit, report.groups[0].node.clone())
}

#[test]
fn o8_each_fit_has_its_reason() {
    use RunFit::*;
    let fixture = StoredRunFixture::new(1);
    let old = chain("order", &["first", "wait", "last"]);
    start(&fixture, &old, "r", 2);
    let (print, keep) = (old.fingerprint(), |state| Ok::<_, Infallible>(state));
    let of = |export: GraphExport| fit(&fixture, export);
    assert_eq!(of(old.export().schema(2)), (Served, None));
    assert_eq!(of(old.export().schema(3).migrations(&Migrations::new().state(2, keep))), (Migrated, None));
    assert_eq!(of(old.export().schema(1)), (NewerSchema, None));
    assert_eq!(of(old.export().schema(4).migrations(&Migrations::new().state(3, keep))), (NoSchemaMigration, None));
    assert_eq!(of(chain("other", &["first", "wait", "last"]).export().schema(2)), (UnknownGraph, None));
    let longer = || chain("order", &["first", "wait", "more", "last"]).export().schema(2);
    assert_eq!(of(longer()), (UnknownFingerprint, None));
    assert_eq!(of(longer().accept_fingerprints([print])), (NoShapeMigration, None));
    let compatible = Migrations::new().accept_compatible();
    assert_eq!(of(longer().migrations(&compatible).accept_fingerprints([print])), (Migrated, None));
    let renamed = || chain("order", &["first", "wait-2", "last"]).export().schema(2).accept_fingerprints([print]);
    assert_eq!(of(renamed().migrations(&compatible)), (MissingNode, Some("wait".into())));
    assert_eq!(of(renamed().migrations(&Migrations::new().rename_node("wait", "wait-2"))), (Migrated, None));
    assert!(check(&fixture, &DeployCheck::new()).require_served().is_err());
}

#[test]
fn o8_fit_is_what_a_resume_then_does() {
    let old = chain("order", &["first", "wait", "last"]);
    let graphs = [
        chain("order", &["first", "wait", "last"]),
        chain("order", &["first", "wait", "more", "last"]),
        chain("order", &["first", "wait-2", "last"]),
        chain("order", &["wait"]),
        chain("other", &["first", "wait", "last"]),
    ];
    let same = |state| Ok::<_, Infallible>(state);
    let migrations = [
        Migrations::new(),
        Migrations::new().accept_compatible(),
        Migrations::new().rename_node("wait", "wait-2"),
        Migrations::new().accept_compatible().state(1, same),
    ];
    let mut served = 0;
    for graph in &graphs {
        for migrations in &migrations {
            for schema in 0..3 {
                let fixture = StoredRunFixture::new(1);
                start(&fixture, &old, "r", 1);
                let export = graph.export().schema(schema).migrations(migrations).accept_fingerprints([old.fingerprint()]);
                let (fit, _) = fit(&fixture, export);
                let resume = graph.resume("r").resume_with("more", &2_u32).checkpoint(&fixture.store);
                let outcome = fixture.end(fixture.here(resume.schema(schema).migrations(migrations)));
                assert_eq!(fit.is_served(), outcome.is_ok(), "{fit:?} {outcome:?} {graph:?} {migrations:?} {schema}");
                served += usize::from(fit.is_served());
            }
        }
    }
    assert!((5..50).contains(&served), "{served}");
}

#[test]
fn o8_positions_in_fan_outs_are_checked() {
    let fixture = StoredRunFixture::new(1);
    let forked = |heads: &[&'static str], join: &'static str| {
        let merge = FanOut::merge(|before: u32, _: Vec<u32>| before);
        let mut graph = Graph::new("forked").add_node("fork", same).add_node(join, same).add_edge(join, END);
        for head in heads {
            graph = graph.add_node(*head, wait).add_edge(*head, join);
        }
        graph.add_parallel_edge("fork", heads.to_vec(), join, merge).set_entry("fork").compile().unwrap()
    };
    let old = forked(&["a", "b"], "join");
    start(&fixture, &old, "r", 0);
    let compatible = Migrations::new().accept_compatible();
    let of = |graph: CompiledGraph<u32>| {
        fit(&fixture, graph.export().migrations(&compatible).accept_fingerprints([old.fingerprint()]))
    };
    assert_eq!(of(forked(&["a", "b", "c"], "join")).0, RunFit::Migrated);
    assert_eq!(of(forked(&["a"], "join")).0, RunFit::MissingNode, "the second branch has no place");
    assert_eq!(of(chain("forked", &["a", "b"])).0, RunFit::MissingNode, "there is no fan-out");
}

#[test]
fn o8_run_that_changes_course_is_found_with_the_old_export() {
    let fixture = StoredRunFixture::new(1);
    let old = chain("order", &["first", "wait", "last"]);
    start(&fixture, &old, "r", 0);
    let migrations = Migrations::new().accept_compatible();
    let serve = |graph: CompiledGraph<u32>| graph.export().migrations(&migrations).accept_fingerprints([old.fingerprint()]);
    let of = |export: GraphExport| {
        let checking = DeployCheck::new().export(export).previous(old.export());
        let group = check(&fixture, &checking).groups.remove(0);
        (group.fit, group.node)
    };
    let changed = serve(chain("order", &["first", "wait", "more", "last"]));
    assert_eq!(of(changed), (RunFit::ChangesCourse, Some("wait".into())));
    let unchanged = serve(chain("order", &["before", "first", "wait", "last"]));
    assert_eq!(of(unchanged), (RunFit::Migrated, None), "the node that it is at leads to the same node");
    // A policy is not part of the fingerprint.
    let mut graph = Graph::new("order").add_node("first", same).add_node("wait", wait).add_node("last", same);
    graph = graph.add_edge("first", "wait").add_edge("wait", "last").add_edge("last", END).set_entry("first");
    let graph = graph.policy("wait", Policy::new().timeout(Duration::from_secs(5))).compile().unwrap();
    assert_eq!(graph.fingerprint(), old.fingerprint());
    assert_eq!(of(graph.export()), (RunFit::ChangesCourse, Some("wait".into())));
    assert_eq!(of(old.export()), (RunFit::Served, None));
}

#[test]
fn o8_report_counts_all_runs_by_pages_with_a_few_samples() {
    let fixture = StoredRunFixture::new(1);
    let (old, new) = (chain("order", &["wait"]), chain("order", &["wait", "more"]));
    fixture.sim.run(async {
        for run in 0..1_203 {
            let graph = if run % 3 == 0 { &new } else { &old };
            graph
                .run(1)
                .id(format!("r{run}"))
                .runtime(fixture.sim.runtime())
                .checkpoint(&fixture.store)
                .enqueue()
                .await
                .unwrap();
        }
    });
    let checking = DeployCheck::new().graph(&new);
    let report = check(&fixture, &checking);
    assert_eq!((report.checked, report.unserved_runs(), report.count(RunFit::Served)), (1_203, 802, 401));
    assert_eq!(report.groups[0].samples.len(), 10);
    assert!(!report.groups[0].fit.is_served(), "runs that are not served come first");
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<DeployReport>(&json).unwrap(), report);
    let cut = check(&fixture, &checking.clone().limit(700));
    assert_eq!((cut.checked, cut.is_cut), (700, true));
    assert!(!check(&fixture, &checking.limit(1_203)).is_cut);
}

#[test]
fn o8_stuck_ended_and_newer_runs_are_distinguished() {
    let fixture = StoredRunFixture::new(1);
    let graph = chain("order", &["wait"]);
    start(&fixture, &graph, "stuck", 0);
    fixture.sim.run(async {
        for _ in 0..TAKEOVERS_MAX {
            let wanted = pleach::store::Wanted::One { run: "stuck".into(), force: false };
            let lease = pleach::store::Lease { owner: "o".into(), length: Duration::from_secs(1) };
            let claim = fixture.store.claim(wanted, lease).await.unwrap().remove(0);
            let how = Release::Failed { reason: "it cannot be read".into(), delay: Duration::ZERO };
            fixture.store.release(vec![pleach::store::Held::of(&claim.run)], how).await.unwrap();
        }
        assert_eq!(fixture.store.head("stuck").await.unwrap().status, RunStatus::Stuck);
    });
    let ended = chain("order", &["first"]);
    fixture.end(fixture.here(ended.run(1).id("ended").checkpoint(&fixture.store))).unwrap();
    start(&fixture, &graph, "waiting", 0);
    let report = check(&fixture, &DeployCheck::new().graph(&graph));
    assert_eq!((report.checked, report.count(RunFit::Stuck), report.count(RunFit::Served)), (2, 1, 1));
    // A program that cannot read the format of the records.
    let outdated = FailingConnection::new(fixture.store.clone());
    outdated.outdate();
    let checking = DeployCheck::new().graph(&graph);
    let report = fixture.sim.run(async { checking.run(&outdated).await }).unwrap();
    assert_eq!(report.count(RunFit::NewerFormat), 1, "{report}");
    let rows_only = fixture.sim.run(async { checking.read_logs(false).run(&outdated).await }).unwrap();
    assert_eq!(rows_only.count(RunFit::Served), 1, "the log was not read");
}
