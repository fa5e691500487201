//! C5: a run is resumed at a named node. C9: a paused run shows its open questions, and a resumed
//! failed run accepts messages at once. F12: a resumed compensation continues.
use crate::common::flaky_store::{FlakyStore, WriteFailure};
use crate::common::stored::{Names, NodeControl, NodeFuture, StoredRunFixture, merge, named};
use pleach::durable::{Resume, ResumeError, RunControlError, RunRemote};
use pleach::graph::{Compensation, RunEvent, RunOptions, StartError};
use pleach::prelude::*;
use pleach::store::{Kind, RunStatus, Store};
use pleach::worker::Worker;

fn chain() -> CompiledGraph<Names> {
    let booking = |cx: NodeContext, names: Names| -> NodeFuture<Names> {
        cx.record_undo("a".to_string());
        named("a")(cx, names)
    };
    let undo = |cx: NodeContext, name: String| async move {
        cx.extension::<NodeControl>().unwrap().enter(&cx).await?;
        cx.extension::<NodeControl>().unwrap().outside.push(format!("undo {name}"));
        Ok::<_, String>(())
    };
    Graph::new("chain")
        .add_node("a", booking)
        .compensate("a", undo)
        .add_node("b", named("b"))
        .add_node("c", named("c"))
        .add_node("left", named("left"))
        .add_node("right", named("right"))
        .add_node("d", named("d"))
        .add_edge("a", "b")
        .add_edge("b", "c")
        .add_parallel_edge("c", ["left", "right"], "d", merge)
        .add_edge("left", "d")
        .add_edge("right", "d")
        .add_edge("d", END)
        .set_entry("a")
        .compile()
        .unwrap()
}

/// The last state of the run after this worker drove it to its end.
fn driven_by(fixture: &StoredRunFixture, worker: Worker, graph: &CompiledGraph<Names>) -> Names {
    let worker = worker.runtime(fixture.sim.runtime()).start().unwrap();
    let end = fixture.sim.run(graph.outcome_of("r", &fixture.store).runtime(fixture.sim.runtime()).into_future()).unwrap();
    fixture.sim.run(worker.close(Duration::from_secs(1)));
    end
}

/// A run that stopped before `c`.
fn before_c() -> (StoredRunFixture, CompiledGraph<Names>) {
    let (fixture, graph) = (StoredRunFixture::new(1), chain());
    fixture.nodes.hang(&["c"]);
    fixture.leave(fixture.run(&graph, vec![]));
    fixture.nodes.hang(&[]);
    (fixture, graph)
}

#[test]
fn c5_run_resumes_at_a_named_node_with_its_state_and_new_keys() {
    for node in ["a", "b", "c", "d"] {
        let (fixture, graph) = before_c();
        let first = fixture.nodes.starts.take();
        let head = fixture.info("r").head;
        let end = fixture.end(fixture.resume(&graph, |run| run).start_at(node)).unwrap();
        let again = fixture.nodes.starts.take();
        let (from_a, from_b, from_c) = (["a", "b", "c"], ["b", "c"], ["c"]);
        let before_fan_out: &[&str] = match node {
            "a" => &from_a,
            "b" => &from_b,
            "c" => &from_c,
            _ => &[],
        };
        let fan_out: &[&str] = if node == "d" { &[] } else { &["left", "right"] };
        let expected = [&["a", "b"], before_fan_out, fan_out, &["d"]].concat();
        assert_eq!(end, expected, "{node}");
        assert_eq!(again[0].0, node);
        assert!(again.iter().all(|(_, key)| first.iter().all(|(_, old)| old != key)), "{node}");
        let history = fixture.history(&graph, "r");
        assert_eq!((history[head as usize].kind, history[head as usize].parent), (Kind::Rewind, head));
    }
}

#[test]
fn c5_resume_at_a_node_combines_with_states_forks_and_rewinds() {
    let (fixture, graph) = before_c();
    let other = |_: Names| vec!["other".to_string()];
    let fork = graph.resume("r").with_state(other).fork_as("fork").checkpoint(&fixture.store);
    assert_eq!(fixture.end(fixture.here(fork).start_at("d")).unwrap(), ["other", "d"]);
    assert_eq!(fixture.info("r").status, RunStatus::Running, "the origin is unchanged");
    let back = fixture.resume(&graph, |run: Resume<Names>| run.rewind_to(2)).start_at("c");
    assert_eq!(fixture.end(back).unwrap(), ["a", "c", "left", "right", "d"]);
    // An ended run continues with its final state.
    let ended = fixture.resume(&graph, |run: Resume<Names>| run).start_at("d");
    assert_eq!(fixture.end(ended).unwrap(), ["a", "c", "left", "right", "d", "d"]);
    let changed = fixture.resume(&graph, |run: Resume<Names>| run.with_state(|_| vec![])).start_at("b");
    assert_eq!(fixture.end(changed).unwrap(), ["b", "c", "left", "right", "d"]);
    // After a crash, a resume continues at that node.
    let (fixture, graph) = before_c();
    let store = FlakyStore::new(fixture.store.clone());
    store.fail_at(2, WriteFailure::Lost);
    let resumed = fixture.here(graph.resume("r").checkpoint(&store)).start_at("d");
    assert!(matches!(fixture.end(resumed).unwrap_err().fault(), RunFault::Checkpoint(_)));
    assert_eq!(fixture.end(fixture.resume(&graph, |run| run)).unwrap(), ["a", "b", "d"]);
}

#[test]
fn c5_resume_at_a_node_keeps_earlier_undos() {
    let (fixture, graph) = before_c();
    fixture.nodes.fail(&["d"]);
    let error = fixture.end(fixture.resume(&graph, |run| run).start_at("d")).unwrap_err();
    assert_eq!(error.compensation(), Some(&Compensation::Compensated { undone: vec!["a".into()] }), "{error}");
    // The run was undone: only an earlier record can be rewound to.
    let error = fixture.end(fixture.resume(&graph, |run| run).start_at("b")).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Ended { status: RunStatus::Compensated, .. }), "{error}");
    fixture.nodes.fail(&[]);
    assert_eq!(fixture.end(fixture.resume(&graph, |run| run.rewind_to(3)).start_at("d")).unwrap(), ["a", "b", "d"]);
}

#[test]
fn c5_resume_at_an_invalid_node_is_rejected_and_changes_nothing() {
    let (fixture, graph) = before_c();
    let before = fixture.info("r");
    let start = |node: &str| match fixture.end(fixture.resume(&graph, |run| run).start_at(node)).unwrap_err().into_fault() {
        RunFault::Start(error) => error,
        other => panic!("{other}"),
    };
    assert_eq!(start("bb"), StartError::Unknown { node: "bb".into(), did_you_mean: Some("b".into()) });
    assert_eq!(start("left"), StartError::InBranch { node: "left".into(), fan_out: "c".into() });
    assert_eq!(fixture.info("r"), before);
    fixture.nodes.hang(&["left"]);
    fixture.leave(fixture.resume(&graph, |run| run));
    let head = fixture.info("r").head;
    let error = fixture.end(fixture.resume(&graph, |run| run).start_at("d")).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Resume(ResumeError::Branched { open, .. }) if *open == ["c"]), "{error}");
    assert_eq!(fixture.info("r").head, head);
    // Also while it is being undone.
    fixture.nodes.hang(&[]);
    fixture.nodes.fail(&["d", "a"]);
    let error = fixture.end(fixture.resume(&graph, |run| run)).unwrap_err();
    assert!(matches!(error.compensation(), Some(Compensation::CompensationFailed { .. })), "{error}");
    let error = fixture.end(fixture.resume(&graph, |run| run).start_at("d")).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Resume(ResumeError::Undoing { .. })), "{error}");
    assert_eq!(fixture.info("r").status, RunStatus::CompensationFailed);
}

#[test]
fn c9_worker_ignores_the_start_node_of_its_run_options() {
    let (fixture, graph) = before_c();
    let stage = fixture.nodes.clone();
    let clock = fixture.sim.runtime();
    let options = move |run: RunOptions<'static, Names>| run.start_at("a").extension(stage.clone()).extension(clock.clone());
    let worker = Worker::new(&fixture.store).graph_with(&graph, options);
    let end = driven_by(&fixture, worker, &graph);
    assert_eq!(end, ["a", "b", "c", "left", "right", "d"]);
}

/// Waits for a signal and asks a question of the same name.
fn asking() -> CompiledGraph<Names> {
    let ask = |cx: NodeContext, mut names: Names| async move {
        let signal = cx.signal::<String>("go");
        let question = cx.interrupt::<String>("go", &vec!["really", "go?"]);
        let (signal, answer) = futures::join!(signal, question);
        names.extend([signal, answer]);
        let until = cx.signal::<String>("until");
        let sleep = cx.sleep("nap", Duration::from_secs(3_600));
        futures::future::select(until, sleep).await;
        Ok::<_, String>(names)
    };
    Graph::new("asking").add_node("ask", ask).add_edge("ask", END).set_entry("ask").compile().unwrap()
}

#[test]
fn c9_open_question_stays_visible_after_a_signal_of_its_name() {
    let (fixture, graph) = (StoredRunFixture::new(1), asking());
    let remote = RunRemote::new(&fixture.store, "r");
    let seen = || {
        let view = fixture.sim.run(remote.view()).unwrap();
        view.waits().map(|wait| (wait.key.clone(), wait.question.clone(), wait.is_signal)).collect::<Vec<_>>()
    };
    let question = || ("go".to_string(), Some(r#"["really","go?"]"#.to_string()), false);
    let error = fixture.end(fixture.run(&graph, vec![])).unwrap_err();
    let RunFault::Paused { keys, waits, .. } = error.fault() else { panic!("{error}") };
    assert_eq!(keys, &["go", "go"]);
    let mut reported: Vec<_> = waits.iter().map(|wait| (wait.key.clone(), wait.question.clone(), wait.is_signal)).collect();
    reported.sort();
    assert_eq!(reported, [("go".to_string(), None, true), question()]);
    let mut viewed = seen();
    viewed.sort();
    assert_eq!(viewed, reported);
    fixture.sim.run(remote.signal("go", &"signal")).unwrap();
    let error = fixture.end(fixture.resume(&graph, |run| run)).unwrap_err();
    let RunFault::Paused { waits, .. } = error.fault() else { panic!("{error}") };
    assert_eq!(
        waits.iter().map(|wait| (wait.key.clone(), wait.question.clone(), wait.is_signal)).collect::<Vec<_>>(),
        [question()]
    );
    assert_eq!(seen(), [question()]);
    // An in-memory run shows the same.
    let scope = fixture.sim.scope();
    let run = graph.run(vec![]).in_scope(&scope).into_future();
    fixture.sim.settle();
    let view = fixture.sim.run(run.control().unwrap().view()).unwrap();
    assert!(view.waits().any(|wait| wait.question == question().1) && view.waits().any(|wait| wait.is_signal));
}

#[test]
fn c9_resumed_failed_run_accepts_messages_and_can_be_taken_over() {
    let slow = |cx: NodeContext, names: Names| async move {
        let stage = cx.extension::<NodeControl>().unwrap().clone();
        let calls = stage.outside.len();
        if calls == 0 {
            stage.outside.push("failed".into());
            return Err("not now".to_string());
        }
        let go: String = cx.signal("go").await;
        Ok([names, vec![go]].concat())
    };
    let graph = Graph::new("slow").add_node("slow", slow).add_edge("slow", END).set_entry("slow").compile().unwrap();
    let fixture = StoredRunFixture::new(1);
    let remote = RunRemote::new(&fixture.store, "r");
    fixture.end(fixture.run(&graph, vec![])).unwrap_err();
    assert!(matches!(
        fixture.sim.run(remote.signal("go", &"x")),
        Err(RunControlError::Ended { status: RunStatus::Failed, .. })
    ));
    // The driver dies before the node has done anything, and without a release.
    let store = FlakyStore::new(fixture.store.clone());
    store.swallow_releases(true);
    store.fail_at(2, WriteFailure::Lost);
    let error = fixture.end(fixture.here(graph.resume("r").checkpoint(&store))).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Checkpoint(_)), "{error}");
    let info = fixture.info("r");
    assert_eq!(info.status, RunStatus::Running);
    assert!(info.wake_at.is_some(), "a worker claims it once its lease has ended");
    fixture.sim.run(remote.signal("go", &"on")).unwrap();
    let stage = fixture.nodes.clone();
    let worker = Worker::new(&fixture.store).graph_with(&graph, move |run| run.extension(stage.clone()));
    assert_eq!(driven_by(&fixture, worker, &graph), ["on"]);
}

#[test]
fn f12_resumed_compensation_continues_with_any_driver() {
    let (fixture, graph) = (StoredRunFixture::new(1), chain());
    fixture.nodes.fail(&["d", "a"]);
    let hooks = {
        let stage = fixture.nodes.clone();
        stage.fail(&["d"]);
        Hooks::new(move |event: &RunEvent<&Names>| {
            if let RunEvent::NodeFinished { outcome: Err(_), .. } = event {
                stage.fail(&["a"]);
            }
        })
    };
    fixture.end(fixture.run(&graph, vec![]).hooks(hooks)).unwrap_err();
    assert_eq!(fixture.info("r").status, RunStatus::CompensationFailed);
    // The run is resumed, and its driver dies at once.
    fixture.nodes.fail(&[]);
    let store = FlakyStore::new(fixture.store.clone());
    store.fail_at(2, WriteFailure::Lost);
    fixture.end(fixture.here(graph.resume("r").checkpoint(&store))).unwrap_err();
    let info = fixture.info("r");
    assert_eq!((info.status, info.wake_at.is_some()), (RunStatus::Running, true));
    fixture.sim.run(RunRemote::new(&fixture.store, "r").cancel("")).unwrap();
    fixture.nodes.outside.take();
    let error = fixture.end(fixture.resume(&graph, |run| run)).unwrap_err();
    assert_eq!(error.compensation(), Some(&Compensation::Compensated { undone: vec!["a".into()] }), "{error}");
    assert_eq!(fixture.nodes.outside.take(), ["undo a"]);
    assert_eq!(fixture.info("r").status, RunStatus::Compensated);
    assert!(fixture.sim.run(async { fixture.store.inbox("r", 0).await }).unwrap().is_empty());
}
