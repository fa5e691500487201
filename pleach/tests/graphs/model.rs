//! F4 to F6 and F9 against a model.
//!
//! Random graphs are executed by the engine and by a small interpreter that follows one token at a
//! time. Both must give the same visits, final state and error.
use pleach::graph::RunUpdate;
use pleach::prelude::*;
use pleach::runtime::Random;
use pleach::sim::Sim;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// What follows a node. Nodes are numbered from 0; the number of nodes means `END`.
#[derive(Clone, Debug)]
enum Next {
    To(usize),
    /// Chosen by the length of the trail.
    Choice(Vec<usize>),
    Fork {
        heads: Vec<usize>,
        join: usize,
    },
    Map {
        head: usize,
        items: usize,
        join: usize,
    },
}

#[derive(Clone, Debug)]
struct Model {
    nodes: Vec<Next>,
    /// Nodes that fail once the trail has this length.
    failing: BTreeMap<usize, usize>,
    fallbacks: BTreeMap<usize, usize>,
    limit: u64,
}

/// The visited nodes of a token.
type Trail = Vec<u32>;

fn merged(before: Trail, branches: Vec<Trail>) -> Trail {
    branches.into_iter().fold(before.clone(), |mut all, branch| {
        all.extend(&branch[before.len()..]);
        all.push(1_000);
        all
    })
}

/// The interpreter: moves one token from `at` to `until` and returns its trail and its count of
/// visits in a row.
///
/// `Err(Some(node))` names the failed node; `Err(None)` means that the limit was reached.
fn follow(
    model: &Model,
    (visits, mut in_a_row): (&mut u64, u64),
    mut at: usize,
    until: usize,
    mut trail: Trail,
) -> Result<(Trail, u64), Option<usize>> {
    while at != until {
        if in_a_row == model.limit {
            return Err(None);
        }
        (*visits, in_a_row) = (*visits + 1, in_a_row + 1);
        if model.failing.get(&at).is_some_and(|from| trail.len() >= *from) {
            at = *model.fallbacks.get(&at).ok_or(Some(at))?;
            continue;
        }
        trail.push(at as u32);
        at = match &model.nodes[at] {
            Next::To(to) => *to,
            Next::Choice(targets) => targets[trail.len() % targets.len()],
            Next::Fork { heads, join } => {
                let branch = |head: &usize| follow(model, (visits, in_a_row), *head, *join, trail.clone());
                let ends: Result<Vec<_>, _> = heads.iter().map(branch).collect();
                (trail, in_a_row) = joined(trail, in_a_row, ends?);
                *join
            }
            Next::Map { head, items, join } => {
                let starts = (0..*items).map(|item| trail.iter().copied().chain([item as u32]).collect());
                let branch = |start| follow(model, (visits, in_a_row), *head, *join, start);
                let ends: Result<Vec<_>, _> = starts.map(branch).collect();
                (trail, in_a_row) = joined(trail, in_a_row, ends?);
                *join
            }
        };
    }
    Ok((trail, in_a_row))
}

/// After a join the count of the longest branch continues.
fn joined(before: Trail, in_a_row: u64, ends: Vec<(Trail, u64)>) -> (Trail, u64) {
    let (trails, counts): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
    (merged(before, trails), counts.into_iter().fold(in_a_row, u64::max))
}

/// Generates a random graph. Some of them do not compile.
fn random_model(random: &mut Random) -> Model {
    let count = 1 + random.below(9);
    let mut nodes = Vec::new();
    for node in 0..count {
        let near = |random: &mut Random, least: usize| match random.below(10) {
            0 => random.below(count + 1),
            _ => (node + least + random.below(2)).min(count),
        };
        let some = |random: &mut Random| {
            let mut targets: Vec<usize> = (0..1 + random.below(3)).map(|_| near(random, 1)).collect();
            targets.sort_unstable();
            targets.dedup();
            targets
        };
        nodes.push(match random.below(10) {
            0..=3 => Next::To(near(random, 1)),
            4..=6 => Next::Choice(some(random)),
            7 => Next::Map { head: near(random, 1), items: random.below(4), join: near(random, 2) },
            _ => Next::Fork { heads: some(random), join: near(random, 3) },
        });
    }
    let mut chosen = |share: usize, below: usize| -> BTreeMap<usize, usize> {
        let picked: Vec<usize> = (0..count).filter(|_| random.below(share) == 0).collect();
        picked.into_iter().map(|node| (node, random.below(below))).collect()
    };
    let failing = chosen(8, 6);
    let mut fallbacks = chosen(4, 2);
    fallbacks.iter_mut().for_each(|(node, to)| *to = (node + 1 + *to).min(count));
    Model { nodes, failing, fallbacks, limit: if random.below(4) == 0 { random.below(12) as u64 } else { 200 } }
}

fn graph_of(model: &Model, sim: &Sim, waits: bool, spawned: bool) -> Option<CompiledGraph<Trail>> {
    let count = model.nodes.len();
    let name = move |node: usize| if node == count { END.to_string() } else { format!("n{node}") };
    let fan_out = || {
        let fan_out = FanOut::merge(merged);
        if spawned { fan_out.spawned() } else { fan_out }
    };
    let mut graph = Graph::<Trail>::new("random").set_entry("n0");
    for (node, next) in model.nodes.iter().enumerate() {
        let (failing, runtime) = (model.failing.get(&node).copied(), sim.runtime());
        graph = graph.add_node(name(node), move |mut trail: Trail| {
            let runtime = Arc::clone(&runtime);
            async move {
                if waits && runtime.random() % 2 == 0 {
                    runtime.sleep_until(runtime.now() + Duration::from_millis(runtime.random() % 5)).await;
                }
                if failing.is_some_and(|from| trail.len() >= from) {
                    return Err("fails");
                }
                trail.push(node as u32);
                Ok(trail)
            }
        });
        graph = match next.clone() {
            Next::To(to) => graph.add_edge(name(node), name(to)),
            Next::Choice(targets) => {
                let names: Vec<String> = targets.into_iter().map(name).collect();
                let answers = names.clone();
                graph.add_conditional_edge(name(node), names, move |trail: &Trail| answers[trail.len() % answers.len()].clone())
            }
            Next::Fork { heads, join } => {
                graph.add_parallel_edge(name(node), heads.into_iter().map(name), name(join), fan_out())
            }
            Next::Map { head, items, join } => {
                let starts = move |trail: &Trail| (0..items as u32).map(|item| [&trail[..], &[item]].concat()).collect();
                graph.map(name(node), starts, name(head), name(join), fan_out())
            }
        };
        if let Some(to) = model.fallbacks.get(&node) {
            graph = graph.policy(name(node), Policy::new().fallback(name(*to)));
        }
    }
    graph.compile().ok()
}

#[test]
fn f4_random_graphs_match_the_interpreter() {
    let mut random = Random::seeded(11);
    let (mut sound, mut ended, mut failed, mut limited, mut forked) = (0, 0, 0, 0, 0);
    for round in 0..30_000 {
        let model = random_model(&mut random);
        let sim = Sim::new(round);
        let (waits, spawned) = (round % 2 == 1, round % 5 == 4);
        let Some(graph) = graph_of(&model, &sim, waits, spawned) else { continue };
        sound += 1;
        let mut visits = 0;
        let expected = follow(&model, (&mut visits, 0), 0, model.nodes.len(), Vec::new()).map(|(trail, _)| trail);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&seen);
        let hooks = Hooks::around_nodes(move |visit, _: &Trail| noted.lock().unwrap().push(visit.iteration), |_, _| {});
        let run = graph.run(Vec::new()).max_iterations(model.limit);
        // A run without hooks takes the fast path and must have the same outcome. Without a runtime
        // it has no engine until it needs one.
        let has_hooks = round % 3 != 0;
        let run = if has_hooks || spawned || round % 2 == 0 { run.runtime(sim.runtime()) } else { run };
        let outcome = sim.run(if has_hooks { run.hooks(hooks).into_future() } else { run.into_future() });
        let seen = seen.lock().unwrap();
        let started = if has_hooks { seen.len() as u64 } else { visits };
        let has_branches = model.nodes.iter().any(|next| !matches!(next, Next::To(_) | Next::Choice(_)));
        forked += u32::from(has_branches && expected.is_ok());
        assert!(seen.iter().all(|iteration| *iteration <= model.limit), "{model:?}");
        match (outcome, expected) {
            (Ok(trail), Ok(expected)) => {
                assert_eq!((trail, started), (expected, visits), "{model:?}");
                ended += 1;
            }
            // With parallel branches, the order of several faults is not defined.
            (Err(error), Err(expected)) => {
                let found = match error.fault() {
                    RunFault::Node(failure) => Some(failure.node[1..].parse().unwrap()),
                    RunFault::MaxIterations { .. } => None,
                    other => panic!("{other} in {model:?}"),
                };
                assert!(found == expected || has_branches, "got {error}, expected {expected:?} in {model:?}");
                failed += u32::from(found.is_some());
                limited += u32::from(found.is_none());
            }
            (outcome, expected) => panic!("got {outcome:?}, expected {expected:?} in {model:?}"),
        }
        sim.settle();
        assert_eq!(sim.tasks_alive(), 0, "no task is left");
    }
    let enough = sound > 5_000 && ended > 2_000 && failed > 500 && limited > 300 && forked > 500;
    assert!(enough, "{sound} sound, {ended} ended, {failed} failed, {limited} limited, {forked} with branches");
}

#[test]
fn f8_stream_has_the_same_outcome_as_the_run() {
    let mut random = Random::seeded(5);
    for round in 0..2_000 {
        let model = random_model(&mut random);
        let sim = Sim::new(round);
        let Some(graph) = graph_of(&model, &sim, true, false) else { continue };
        let mut stream = graph.run(Vec::new()).runtime(sim.runtime()).max_iterations(model.limit).stream();
        let streamed = sim.run(async {
            let mut last = None;
            while let Some(update) = stream.next().await {
                last = Some(update);
            }
            last
        });
        let again = Sim::new(round);
        let graph = graph_of(&model, &again, true, false).unwrap();
        let run = again.run(graph.run(Vec::new()).runtime(again.runtime()).max_iterations(model.limit).into_future());
        let Some(RunUpdate::Ended(streamed)) = streamed else { panic!("{streamed:?}") };
        assert_eq!(streamed.ok(), run.ok(), "{model:?}");
    }
}
