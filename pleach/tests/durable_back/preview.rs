//! C5: the preview of a rewind, replay or fork lists exactly what then happens.
use crate::common::stored::{Names, NodeControl, NodeFuture, StoredRunFixture, merge};
use pleach::durable::{ResumeError, RewindPreview, RewindTo, RunRemote};
use pleach::graph::RunOptions;
use pleach::prelude::*;
use pleach::sim::SEEDS_VARIABLE;
use pleach::store::{Kind, StoreError};
use std::collections::BTreeMap;

/// How often each effect ran or each question was asked: node, branch and name.
type Calls = BTreeMap<String, usize>;

/// What a node does before it adds its name to the state.
#[derive(Clone, Copy, PartialEq)]
enum Does {
    Effects(u64),
    /// Fails in its first attempt, after its first effect.
    FailsOnce,
    Asks,
}

fn node(does: Does) -> impl Fn(NodeContext, Names) -> NodeFuture<Names> {
    move |cx, mut names| {
        Box::pin(async move {
            let control = cx.extension::<NodeControl>().unwrap().clone();
            control.enter(&cx).await?;
            let place = format!("{} {:?}", cx.node(), cx.branch().branches());
            let effects = if let Does::Effects(count) = does { count } else { 2 };
            for effect in 0..effects {
                let (control, call) = (control.clone(), format!("{place} e{effect}"));
                let work = move |_key| async move {
                    control.outside.note(call);
                    Ok::<_, String>(())
                };
                let effect_result = cx.effect(format!("e{effect}"), work);
                if effect == 1 {
                    effect_result.once().await?;
                } else {
                    effect_result.await?;
                }
                if does == Does::FailsOnce && cx.attempt() == 1 {
                    return Err("the first attempt fails".into());
                }
                if does == Does::Asks && effect == 0 {
                    let key = format!("ask {place}");
                    let () = cx.interrupt(key, "continue?").await;
                }
            }
            names.push(cx.node().to_string());
            Ok(names)
        })
    }
}

/// Builds random graphs: chains of nodes, loops, nested fan-outs, subgraphs.
struct RandomGraph<'a> {
    fixture: &'a StoredRunFixture,
    nodes: usize,
}

impl RandomGraph<'_> {
    fn chance(&self, below: u64) -> u64 {
        self.fixture.sim.runtime().random() % below
    }

    fn build(fixture: &StoredRunFixture) -> CompiledGraph<Names> {
        let mut random = RandomGraph { fixture, nodes: 0 };
        let (graph, entry) = random.chain(Graph::new("random"), 0, END.to_string(), 2);
        graph.set_entry(entry).compile().unwrap()
    }

    fn id(&mut self) -> String {
        self.nodes += 1;
        format!("n{}", self.nodes)
    }

    /// Adds a chain of elements that leads to `next`. Returns its first node.
    fn chain(&mut self, mut graph: Graph<Names>, depth: u32, mut next: String, length: u64) -> (Graph<Names>, String) {
        for _ in 0..1 + self.chance(length + 1) {
            let id = self.id();
            let kinds = if depth < 2 { 8 } else { 6 };
            graph = match self.chance(kinds) {
                0 | 1 => graph.add_node(id.as_str(), node(Does::Effects(self.chance(3)))).add_edge(id.as_str(), next),
                2 => {
                    let (own, to) = (id.clone(), next.clone());
                    let route = move |names: &Names| {
                        if names.iter().filter(|name| name.rsplit('/').next() == Some(&own)).count() < 2 {
                            own.clone()
                        } else {
                            to.clone()
                        }
                    };
                    let looping = graph.add_node(id.as_str(), node(Does::Effects(1)));
                    looping.add_conditional_edge(id.as_str(), [id.clone(), next], route)
                }
                3 => graph.add_node(id.as_str(), node(Does::Asks)).add_edge(id.as_str(), next),
                4 | 5 => {
                    let failing = graph.add_node(id.as_str(), node(Does::FailsOnce));
                    failing.policy(id.as_str(), Policy::new().retry(Retry::times(2))).add_edge(id.as_str(), next)
                }
                6 => {
                    let join = self.id();
                    let mut graph = graph.add_node(join.as_str(), node(Does::Effects(1))).add_edge(join.as_str(), next);
                    let mut heads = Vec::new();
                    for _ in 0..2 + self.chance(2) {
                        let head;
                        (graph, head) = self.chain(graph, depth + 1, join.clone(), 1);
                        heads.push(head);
                    }
                    graph.add_node(id.as_str(), node(Does::Effects(1))).add_parallel_edge(id.as_str(), heads, join, merge)
                }
                _ => {
                    let (inner, entry) = self.chain(Graph::new("inner"), depth + 1, END.to_string(), 1);
                    let inner = inner.set_entry(entry).compile().unwrap();
                    graph.add_subgraph(id.as_str(), inner, Names::clone, |_, inner| inner).add_edge(id.as_str(), next)
                }
            };
            next = id;
        }
        (graph, next)
    }
}

struct Travel<'a> {
    fixture: &'a StoredRunFixture,
    graph: CompiledGraph<Names>,
}

impl Travel<'_> {
    fn chance(&self, below: u64) -> u64 {
        self.fixture.sim.runtime().random() % below
    }

    fn set(&self, run: RunOptions<'static, Names>) -> RunOptions<'static, Names> {
        self.fixture.here(run).keep_records(100_000)
    }

    /// Drives a run and answers its questions, until it ends or its driver is cancelled. Returns
    /// the answered questions.
    fn drive(&self, run: &str, mut options: RunOptions<'static, Names>, time: Option<Duration>) -> Result<Calls, RunFault> {
        let mut answered = Calls::new();
        loop {
            let limited = match time {
                Some(time) => self.fixture.cut_off_after(self.set(options), time),
                None => self.set(options),
            };
            let keys = match self.fixture.end(limited).map_err(|error| error.into_fault()) {
                Ok(_) => return Ok(answered),
                Err(RunFault::Paused { keys, .. }) => keys,
                Err(RunFault::Cancelled { .. }) if time.is_some() => return Ok(answered),
                Err(fault) => return Err(fault),
            };
            let key = keys.first().expect("it waits for an answer").clone();
            *answered.entry(key.clone()).or_default() += 1;
            options = self.graph.resume(run).resume_with(key, &()).checkpoint(&self.fixture.store);
        }
    }

    fn resume(&self, run: &str, to: RewindTo, fork: Option<&str>) -> RunOptions<'static, Names> {
        let resume = self.graph.resume(run);
        let resume = match to {
            RewindTo::Record(record) => resume.rewind_to(record),
            _ => resume.replay_last(),
        };
        let resume = if let Some(fork) = fork { resume.fork_as(fork) } else { resume };
        resume.checkpoint(&self.fixture.store)
    }

    fn random_target(&self, run: &str) -> RewindTo {
        if self.chance(3) == 0 { RewindTo::LastStep } else { RewindTo::Record(1 + self.chance(self.fixture.info(run).head)) }
    }

    fn preview(&self, run: &str, to: RewindTo, is_fork: bool) -> Result<RewindPreview, RunFault> {
        let remote = RunRemote::new(&self.fixture.store, run);
        self.fixture.sim.run(async { if is_fork { remote.preview_fork(to).await } else { remote.preview_rewind(to).await } })
    }

    fn calls(&self) -> Calls {
        let mut calls = Calls::new();
        for call in self.fixture.nodes.outside.take() {
            *calls.entry(call).or_default() += 1;
        }
        calls
    }
}

fn effects(preview: &RewindPreview) -> Calls {
    let mut calls = Calls::new();
    for effect in &preview.effects_again {
        *calls.entry(format!("{} {:?} {}", effect.node, effect.branch, effect.name)).or_default() += 1;
    }
    calls
}

fn waits(preview: &RewindPreview) -> Calls {
    let mut calls = Calls::new();
    for wait in &preview.waits_again {
        *calls.entry(wait.key.clone()).or_default() += 1;
    }
    calls
}

/// A run that is rewound to a record between the start of a `once` effect and its result fails.
fn is_unknown(fault: &RunFault) -> bool {
    fault.to_string().contains("\"e1\" was interrupted")
}

/// Runs a random graph to its end, goes back a few times, and compares the last preview with what
/// happens.
fn compare(seed: u64) -> [usize; 4] {
    let fixture = StoredRunFixture::new(seed);
    let travel = Travel { graph: RandomGraph::build(&fixture), fixture: &fixture };
    travel.drive("r", travel.graph.run(vec![]).id("r").checkpoint(&fixture.store), None).unwrap();
    for _ in 0..travel.chance(4) {
        let time = (travel.chance(2) == 0).then(|| Duration::from_millis(travel.chance(30)));
        let to = travel.random_target("r");
        match travel.drive("r", travel.resume("r", to, None), time) {
            Ok(_) | Err(RunFault::Resume(ResumeError::NothingToReplay { .. })) => {}
            Err(fault) => assert!(is_unknown(&fault), "seed {seed}: {fault}"),
        }
    }
    travel.calls();
    let (to, fork) = (travel.random_target("r"), (travel.chance(3) == 0).then_some("forked"));
    let preview = travel.preview("r", to, fork.is_some());
    let answered = travel.drive(fork.unwrap_or("r"), travel.resume("r", to, fork), None);
    let (preview, answered) = match (preview, answered) {
        (Ok(preview), Ok(answered)) => (preview, answered),
        (Err(RunFault::Resume(one)), Err(RunFault::Resume(other))) => {
            assert_eq!(one.to_string(), other.to_string(), "seed {seed}");
            return [0, 0, 0, 1];
        }
        (Ok(preview), Err(fault)) => {
            assert!(is_unknown(&fault), "seed {seed}: {fault}");
            let unknown: Vec<&str> = preview.effects_unknown.iter().map(|effect| effect.name.as_str()).collect();
            assert!(unknown.contains(&"e1"), "seed {seed}: {preview}");
            return [0, 0, 0, 1];
        }
        (preview, answered) => panic!("seed {seed}, {to:?}: {preview:?} {answered:?}"),
    };
    assert_eq!(effects(&preview), travel.calls(), "seed {seed}, {to:?}, {fork:?}: {preview}");
    assert_eq!(waits(&preview), answered, "seed {seed}, {to:?}, {fork:?}: {preview}");
    [preview.effects_again.len(), preview.effects_kept.len(), preview.waits_again.len(), 0]
}

#[test]
fn c5_preview_lists_what_a_rewind_replay_or_fork_does() {
    let seeds = std::env::var(SEEDS_VARIABLE).ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(400);
    let mut sums = [0; 4];
    for seed in 0..seeds {
        sums.iter_mut().zip(compare(seed)).for_each(|(sum, one)| *sum += one);
    }
    assert!(sums.iter().all(|sum| *sum as u64 >= seeds / 40), "again, kept, asked, rejected: {sums:?}");
}

/// A node that charges under its key and can be undone.
async fn charge(cx: NodeContext, mut names: Names) -> Result<Names, String> {
    let control = cx.extension::<NodeControl>().unwrap().clone();
    cx.record_undo(cx.node().to_string());
    cx.effect("charge", move |key| async move {
        control.outside.note(key);
        Ok::<_, String>(())
    })
    .await?;
    cx.sleep("nap", Duration::from_secs(1)).await;
    if &*cx.node() == "fails" {
        return Err("it fails".into());
    }
    names.push(cx.node().to_string());
    Ok(names)
}

async fn refund(_: NodeContext, _: String) -> Result<(), String> {
    Ok(())
}

fn charges(nodes: [&'static str; 3]) -> CompiledGraph<Names> {
    let mut graph = Graph::new("charges").set_entry(nodes[0]);
    for (at, node) in nodes.into_iter().enumerate() {
        let next = nodes.get(at + 1).copied().unwrap_or(END);
        graph = graph.add_node(node, charge).compensate(node, refund).add_edge(node, next);
    }
    graph.compile().unwrap()
}

fn preview_of(fixture: &StoredRunFixture, to: RewindTo) -> Result<RewindPreview, RunFault> {
    fixture.sim.run(async { RunRemote::new(&fixture.store, "r").preview_rewind(to).await })
}

fn names_of(undos: &[pleach::durable::UndoPreview]) -> Vec<&str> {
    undos.iter().map(|undo| undo.node.as_str()).collect()
}

#[test]
fn c5_preview_names_keys_sleeps_and_undos() {
    let fixture = StoredRunFixture::new(1);
    let graph = charges(["a", "b", "c"]);
    fixture.end(fixture.run(&graph, vec![])).unwrap();
    let keys = fixture.nodes.outside.take();
    let preview = preview_of(&fixture, RewindTo::Record(fixture.record("r", Kind::Step, "a"))).unwrap();
    let again: Vec<(&str, &str)> =
        preview.effects_again.iter().map(|effect| (effect.node.as_str(), effect.key.as_str())).collect();
    assert_eq!(again, [("b", keys[1].as_str()), ("c", keys[2].as_str())], "the keys are the ones that were used");
    let sleeps: Vec<(&str, bool)> = preview.waits_again.iter().map(|wait| (wait.node.as_str(), wait.due.is_some())).collect();
    assert_eq!(sleeps, [("b", true), ("c", true)]);
    assert_eq!((names_of(&preview.undos_kept), names_of(&preview.undos_dropped)), (vec!["a"], vec!["c", "b"]));
    assert_eq!(preview.nodes, ["b"]);
    assert!(!preview.is_undoing && !preview.is_cut);
    // Inside of "b", after its effect: the result and the deadline are kept.
    let preview = preview_of(&fixture, RewindTo::Record(fixture.record("r", Kind::Wait, "b"))).unwrap();
    assert_eq!(preview.effects_kept.iter().map(|effect| effect.node.as_str()).collect::<Vec<_>>(), ["b"]);
    assert_eq!(preview.waits_kept.iter().map(|wait| wait.node.as_str()).collect::<Vec<_>>(), ["b"]);
    assert_eq!(preview.effects_again.iter().map(|effect| effect.node.as_str()).collect::<Vec<_>>(), ["c"]);
    // A fork undoes nothing of the first run.
    let remote = RunRemote::new(&fixture.store, "r");
    let preview = fixture.sim.run(async { remote.preview_fork(RewindTo::Record(2)).await }).unwrap();
    assert!(preview.undos_kept.is_empty() && preview.undos_dropped.is_empty());
    let json = serde_json::to_string(&preview).unwrap();
    assert_eq!(serde_json::from_str::<RewindPreview>(&json).unwrap(), preview);
}

#[test]
fn c5_preview_of_a_compensated_run_lists_its_undone_effects() {
    let graph = charges(["a", "b", "fails"]);
    let (mut record, mut most) = (0, 0);
    loop {
        let fixture = StoredRunFixture::new(1);
        let failed = fixture.end(fixture.run(&graph, vec![])).unwrap_err();
        assert!(matches!(failed.fault(), RunFault::Node(_)), "{failed}");
        fixture.nodes.outside.take();
        record += 1;
        if record > fixture.info("r").head {
            break;
        }
        // A refunded node that runs again has to charge again.
        let preview = preview_of(&fixture, RewindTo::Record(record)).unwrap();
        drop(fixture.end(fixture.resume(&graph, |run| run.rewind_to(record))));
        let charged = fixture.nodes.outside.take().len();
        assert_eq!(preview.effects_again.len(), charged, "record {record}: {preview}");
        most = most.max(charged);
        // After the undos, no undo is kept.
        if record == fixture.info("r").head {
            assert!(preview.undos_kept.is_empty());
        }
    }
    assert_eq!(most, 3);
}

#[test]
fn c5_preview_rejects_what_a_resume_rejects() {
    let fixture = StoredRunFixture::new(1);
    let graph = charges(["a", "b", "c"]);
    fixture.end(fixture.run(&graph, vec![])).unwrap();
    let head = fixture.info("r").head;
    for record in [0, head + 1] {
        let fault = preview_of(&fixture, RewindTo::Record(record)).unwrap_err();
        let RunFault::Checkpoint(error) = &fault else { panic!("{fault}") };
        assert!(matches!(error.store_error(), Some(StoreError::NoSuchRow { .. })), "{fault}");
    }
    let remote = RunRemote::new(&fixture.store, "r");
    let fault = fixture.sim.run(async { remote.preview_fork(RewindTo::Record(head)).await }).unwrap_err();
    assert!(matches!(fault, RunFault::Resume(ResumeError::AtEnd { .. })), "{fault}");
}
