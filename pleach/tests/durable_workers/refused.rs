//! O9: a message that a run refuses is visible in the health of the system that drives the run,
//! until its wait ends.
use crate::common::logged::logged;
use pleach::durable::RunView;
use pleach::graph::FanOut;
use pleach::inspect::{Health, HealthReason};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::store::{MemoryStore, RefusalCause, Store};
use pleach::system::System;
use pleach::worker::{RunningWorker, Worker};
use serde::Deserialize;

#[derive(Deserialize)]
pub struct Approval {
    pub ok: bool,
}

/// Asks for an approval.
pub fn asking() -> CompiledGraph<u32> {
    let ask = |cx: NodeContext, n: u32| async move {
        let Approval { ok } = cx.interrupt("approve", "publish?").await;
        Ok::<_, String>(if ok { n + 1 } else { n })
    };
    Graph::new("asking").add_node("ask", ask).add_edge("ask", END).set_entry("ask").compile().unwrap()
}

/// One process: a system with a worker.
pub struct Process {
    pub system: System,
    pub worker: RunningWorker,
    _scope: Scope,
}

pub fn process(sim: &Sim, store: &(impl Store + Clone), graph: &CompiledGraph<u32>) -> Process {
    let system = System::builder("shop", sim.runtime()).build().unwrap();
    let lease = Duration::from_secs(8);
    let worker = Worker::new(store).name("worker").graph(graph).lease(lease);
    let scope = system.scope("workers").unwrap();
    let worker = worker.start_in(&scope).unwrap();
    Process { system, worker, _scope: scope }
}

/// The reported problems about refused messages: text and advice.
pub fn problems(system: &System) -> Vec<(String, String)> {
    let Health::Degraded(reasons) = system.health() else { return Vec::new() };
    let refused = |reason| match reason {
        HealthReason::Reported { key, text, advice, .. } if key == "message-refused" => Some((text, advice)),
        _ => None,
    };
    reasons.into_iter().filter_map(refused).collect()
}

pub fn texts(system: &System) -> Vec<String> {
    problems(system).into_iter().map(|(text, _)| text).collect()
}

pub async fn enqueue(sim: &Sim, store: &MemoryStore, graph: &CompiledGraph<u32>, id: &str) -> RunRemote {
    graph.run(40).id(id).runtime(sim.runtime()).checkpoint(store).enqueue().await.unwrap()
}

pub async fn pass(sim: &Sim) {
    sim.sleep(Duration::from_secs(2)).await;
}

pub fn good() -> serde_json::Value {
    serde_json::json!({ "ok": true })
}

/// The cause and the advice of the first wait in a view that refused a message.
fn refused_wait(view: &RunView) -> Option<(RefusalCause, String)> {
    let refused = view.waits().find_map(|wait| wait.refused.clone())?;
    Some((refused.cause.clone(), refused.advice()))
}

#[test]
fn o9_refused_answer_is_in_log_health_and_view_until_it_is_answered() {
    let (log, sim) = (logged(), Sim::new(1));
    let store = MemoryStore::on(sim.runtime());
    let Process { system, worker, _scope } = process(&sim, &store, &asking());
    sim.run(async {
        let remote = enqueue(&sim, &store, &asking(), "o9 health").await;
        pass(&sim).await;
        assert_eq!((texts(&system), refused_wait(&remote.view().await.unwrap())), (vec![], None));
        remote.resume_with("approve", "banana").await.unwrap();
        pass(&sim).await;
        assert_eq!(worker.held(), [""; 0], "the run waits without a driver");
        let [(text, advice)] = &problems(&system)[..] else { panic!("{}", system.health()) };
        assert!(text.starts_with("run \"o9 health\" refused the answer to \"approve\": expected "), "{text}");
        assert!(text.contains("::Approval; the value has another type (line 1, column 8)"), "{text}");
        assert!(text.ends_with("; the run keeps waiting") && !text.contains("banana"), "{text}");
        assert!(advice.starts_with("answer again with a value of the type ") && advice.ends_with("::Approval"), "{advice}");
        assert!(system.health().is_ready(), "the other runs are served");
        let (cause, in_view) = refused_wait(&remote.view().await.unwrap()).unwrap();
        assert!(matches!(&cause, RefusalCause::WrongType { expected, .. } if expected.ends_with("::Approval")), "{cause:?}");
        assert_eq!(&in_view, advice);
        let lines: Vec<String> = log.seen().into_iter().filter(|line| line.contains("o9 health")).collect();
        assert!(lines.len() == 1 && lines[0].contains(advice.as_str()) && lines[0].contains(&cause.to_string()), "{lines:?}");

        // A second wrong answer belongs to the same wait.
        remote.resume_with("approve", &vec![1]).await.unwrap();
        pass(&sim).await;
        let again = texts(&system);
        assert!(again.len() == 1 && again[0].contains(" (2 messages so far); the run keeps waiting"), "{again:?}");
        remote.resume_with("approve", &good()).await.unwrap();
        pass(&sim).await;
        assert_eq!(system.health(), Health::Healthy);
        assert_eq!(remote.view().await.unwrap().refused.len(), 2, "the view keeps them");
    });
    drop(worker);
}

/// Two branches wait for one signal, with different types.
fn two_branches() -> CompiledGraph<u32> {
    let number = |cx: NodeContext, n: u32| async move { Ok::<_, String>(n + cx.signal::<u32>("more").await) };
    let answer = |cx: NodeContext, n: u32| async move {
        // Waits after the other branch, which therefore gets the first signal.
        cx.sleep("later", Duration::from_millis(10)).await;
        Ok::<_, String>(n + u32::from(cx.signal::<bool>("more").await))
    };
    let merge = |before: u32, all: Vec<u32>| all.into_iter().map(|one| one - before).sum::<u32>() + before;
    Graph::new("two")
        .add_node("open", |n: u32| async move { n })
        .add_node("number", number)
        .add_node("answer", answer)
        .add_node("last", |n: u32| async move { n })
        .add_parallel_edge("open", ["number", "answer"], "last", FanOut::merge(merge))
        .add_edge("number", "last")
        .add_edge("answer", "last")
        .add_edge("last", END)
        .set_entry("open")
        .compile()
        .unwrap()
}

#[test]
fn o9_report_of_a_signal_belongs_to_the_wait_that_refused_it() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let Process { system, worker, _scope } = process(&sim, &store, &two_branches());
    sim.run(async {
        let remote = enqueue(&sim, &store, &two_branches(), "x").await;
        pass(&sim).await;
        remote.signal("more", &true).await.unwrap();
        pass(&sim).await;
        let first = texts(&system);
        assert!(first.len() == 1 && first[0].contains("refused the signal \"more\": expected u32"), "{first:?}");
        let view = remote.view().await.unwrap();
        let refused = view.tokens.iter().filter(|token| token.waits.iter().any(|wait| wait.refused.is_some())).count();
        assert_eq!(refused, 1, "the other branch waits for the same signal and refused nothing");
        // The wait that refused it gets its number. The other one keeps waiting.
        remote.signal("more", &1).await.unwrap();
        pass(&sim).await;
        assert_eq!(texts(&system), [""; 0]);
        remote.signal("more", &7).await.unwrap();
        pass(&sim).await;
        let second = texts(&system);
        assert!(second.len() == 1 && second[0].contains("expected bool"), "{second:?}");
        remote.signal("more", &true).await.unwrap();
        assert_eq!(two_branches().outcome_of("x", &store).runtime(sim.runtime()).await.unwrap(), 42);
        assert_eq!(system.health(), Health::Healthy);
    });
    drop(worker);
}

/// Asks eight questions at once.
pub fn many_questions() -> CompiledGraph<u32> {
    let ask = |cx: NodeContext, n: u32| async move {
        let key = |n: u32| format!("key-{n}");
        Ok::<_, String>(cx.interrupt::<u32>(key(n), "how many?").await)
    };
    Graph::new("many")
        .add_node("open", |n: u32| async move { n })
        .add_node("ask", ask)
        .add_node("last", |n: u32| async move { n })
        .map("open", |_: &u32| (0..8).collect(), "ask", "last", FanOut::merge(|_, all: Vec<u32>| all.into_iter().sum()))
        .add_edge("ask", "last")
        .add_edge("last", END)
        .set_entry("open")
        .compile()
        .unwrap()
}

#[test]
fn o9_reports_of_one_run_are_bounded_and_the_rest_is_counted() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let Process { system, worker, _scope } = process(&sim, &store, &many_questions());
    sim.run(async {
        let remote = enqueue(&sim, &store, &many_questions(), "x").await;
        pass(&sim).await;
        for key in 0..8 {
            remote.resume_with(&format!("key-{key}"), "no").await.unwrap();
        }
        pass(&sim).await;
        let seen = texts(&system);
        assert_eq!(seen.iter().filter(|text| text.contains("the answer to \"key-")).count(), 4, "{seen:?}");
        assert_eq!(seen.len(), 5);
        assert!(seen.iter().any(|text| text.starts_with("run \"x\" refused 4 further messages")), "{seen:?}");
        // Only the last of these waits has no report of its own. Each of its messages counts.
        remote.resume_with("key-7", "no").await.unwrap();
        pass(&sim).await;
        let seen = texts(&system);
        assert!(seen.iter().any(|text| text.starts_with("run \"x\" refused 5 further messages")), "{seen:?}");
        // Each ended wait makes room for the report of another one.
        for left in (0..8).rev() {
            remote.resume_with(&format!("key-{left}"), &1).await.unwrap();
            pass(&sim).await;
            let seen = texts(&system);
            assert_eq!(seen.len(), if left > 4 { 5 } else { left }, "{seen:?}");
        }
        assert_eq!(system.health(), Health::Healthy);
    });
    drop(worker);
}

#[test]
fn o9_reports_of_one_worker_are_bounded_and_the_rest_is_counted() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let Process { system, worker, _scope } = process(&sim, &store, &asking());
    sim.run(async {
        for run in 0..40 {
            let remote = enqueue(&sim, &store, &asking(), &format!("run {run}")).await;
            remote.resume_with("approve", "banana").await.unwrap();
        }
        sim.sleep(Duration::from_secs(20)).await;
        let seen = texts(&system);
        assert_eq!(seen.len(), 33, "{seen:?}");
        assert!(seen.iter().any(|text| text.starts_with("8 further runs refused messages")), "{seen:?}");
        for run in 0..40 {
            RunRemote::new(&store, format!("run {run}")).cancel("enough").await.unwrap();
        }
        sim.sleep(Duration::from_secs(20)).await;
        assert_eq!(system.health(), Health::Healthy);
    });
    drop(worker);
}

#[test]
fn o9_command_that_comes_too_late_is_in_the_health_until_the_end() {
    let undo = |cx: NodeContext, _: u32| async move {
        cx.sleep("undoing", Duration::from_secs(30)).await;
        Ok::<_, String>(())
    };
    let done = |cx: NodeContext, n: u32| async move {
        cx.record_undo(n);
        Ok::<_, String>(n)
    };
    let graph = Graph::new("undone")
        .add_node("done", done)
        .compensate("done", undo)
        .add_node("fails", |_: u32| async { Err::<u32, _>("on request".to_string()) })
        .add_edge("done", "fails")
        .add_edge("fails", END)
        .set_entry("done")
        .compile()
        .unwrap();
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let Process { system, worker, _scope } = process(&sim, &store, &graph);
    sim.run(async {
        let remote = enqueue(&sim, &store, &graph, "x").await;
        pass(&sim).await;
        remote.cancel("too late").await.unwrap();
        pass(&sim).await;
        let [(text, advice)] = &problems(&system)[..] else { panic!("{}", system.health()) };
        assert_eq!(text, "run \"x\" refused the command \"cancel\": the run is already ending, so the command has no effect");
        assert!(advice.starts_with("wait for the end of the run"), "{advice}");
        sim.sleep(Duration::from_secs(40)).await;
        assert!(store.head("x").await.unwrap().status.has_ended());
        assert_eq!(system.health(), Health::Healthy);
    });
    drop(worker);
}

#[test]
fn o9_refusal_of_an_in_memory_run_is_reported_by_its_scope() {
    let sim = Sim::new(1);
    let system = System::builder("shop", sim.runtime()).build().unwrap();
    let scope = system.scope("orders").unwrap();
    let run = asking().run(40).id("x").in_scope(&scope).into_future();
    sim.run(async {
        let control = run.control().unwrap().clone();
        control.resume_with("approve", &"banana").await.unwrap();
        pass(&sim).await;
        let health = system.health().to_string();
        assert!(health.contains("/user/orders/x: run \"x\" refused the answer to \"approve\""), "{health}");
        control.resume_with("approve", &good()).await.unwrap();
        assert_eq!(run.await.unwrap(), 41);
        assert_eq!(system.health(), Health::Healthy);
    });
}

/// One poll of the node rejects the first message and takes the second one.
#[test]
fn o9_refusal_followed_by_a_good_message_at_once_is_not_reported() {
    let ask = |cx: NodeContext, n: u32| async move {
        let Approval { ok } = cx.interrupt("approve", "publish?").await;
        Ok::<_, String>(n + u32::from(ok) + cx.signal::<u32>("more").await)
    };
    let graph = Graph::new("asking").add_node("ask", ask).add_edge("ask", END).set_entry("ask").compile().unwrap();
    let sim = Sim::new(1);
    let system = System::builder("shop", sim.runtime()).build().unwrap();
    let scope = system.scope("orders").unwrap();
    let run = graph.run(40).id("x").in_scope(&scope).into_future();
    sim.run(async {
        let control = run.control().unwrap().clone();
        pass(&sim).await;
        control.resume_with("approve", &"banana").await.unwrap();
        control.resume_with("approve", &good()).await.unwrap();
        pass(&sim).await;
        assert_eq!(system.health(), Health::Healthy, "its wait is over");
        assert_eq!(control.view().await.unwrap().refused.len(), 1);
        control.signal("more", &1).await.unwrap();
        assert_eq!(run.await.unwrap(), 42);
    });
}
