//! Random graphs: what a plan says is what happens. Each effect, undo and question is counted when
//! it really happens, and compared with the lists of the plan.

use super::fixture::Fixture;
use super::graphs::Done;
use pleach::durable::RunRemote;
use pleach::graph::{END, FanOut};
use pleach::prelude::{CompiledGraph, Graph, NodeContext};
use pleach::store::{MemoryStore, RunStatus};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What one node does, in this order.
#[derive(Clone, Debug)]
struct Work {
    effects: usize,
    asks: bool,
    has_undo: bool,
    /// The branches of the fan-out after it. Each has one effect.
    branches: usize,
}

fn works() -> impl Strategy<Value = Vec<Work>> {
    let branches = prop_oneof![3 => Just(0), 1 => 1..4_usize];
    let work = (0..3_usize, prop::bool::weighted(0.3), prop::bool::weighted(0.4), branches);
    prop::collection::vec(work.prop_map(|(effects, asks, has_undo, branches)| Work { effects, asks, has_undo, branches }), 1..5)
}

/// Runs one effect.
async fn effect(cx: &NodeContext, done: &Done, node: &str, name: String) -> Result<(), String> {
    let (done, said) = (done.clone(), format!("{name} of {node}"));
    let work = |_key| async move {
        done.note(said);
        Ok::<_, String>(0)
    };
    cx.effect(name, work).await.map(drop).map_err(|error| error.to_string())
}

/// A chain of nodes, and a last one that fails while `is_broken`.
fn chain(works: &[Work], done: &Done, is_broken: &Arc<AtomicBool>) -> CompiledGraph<u64> {
    let mut graph = Graph::<u64>::new("chain");
    for (number, work) in works.iter().enumerate() {
        let (node, next, work) = (format!("n{number}"), format!("n{}", number + 1), work.clone());
        let (branches, has_undo) = (work.branches, work.has_undo);
        let (said, name) = (done.clone(), node.clone());
        graph = graph.add_node(node.as_str(), move |cx: NodeContext, state: u64| {
            let (work, said, name) = (work.clone(), said.clone(), name.clone());
            async move {
                if work.has_undo {
                    cx.record_undo(state);
                }
                for at in 0..work.effects {
                    effect(&cx, &said, &name, format!("e{at}")).await?;
                }
                if work.asks {
                    let _: u64 = cx.interrupt(format!("q-{name}"), "well?").await;
                }
                Ok::<_, String>(state + 1)
            }
        });
        if has_undo {
            let (said, name) = (done.clone(), node.clone());
            graph = graph.compensate(node.as_str(), move |_cx: NodeContext, _: u64| {
                said.note(format!("undo of {name}"));
                async { Ok::<_, String>(()) }
            });
        }
        if branches == 0 {
            graph = graph.add_edge(node.as_str(), next.as_str());
            continue;
        }
        let (said, branch) = (done.clone(), format!("b{number}"));
        let name = branch.clone();
        graph = graph.add_node(branch.as_str(), move |cx: NodeContext, state: u64| {
            let (said, name) = (said.clone(), name.clone());
            async move {
                effect(&cx, &said, &name, "eb".to_string()).await?;
                Ok::<_, String>(state)
            }
        });
        let split = move |state: &u64| vec![*state; branches];
        let merge = FanOut::merge(|before: u64, _: Vec<u64>| before);
        graph = graph.map(node.as_str(), split, branch.as_str(), next.as_str(), merge).add_edge(branch.as_str(), next.as_str());
    }
    let (last, is_broken) = (format!("n{}", works.len()), Arc::clone(is_broken));
    let end = move |state: u64| {
        let is_broken = is_broken.load(Ordering::Relaxed);
        async move { if is_broken { Err("broken".to_string()) } else { Ok(state) } }
    };
    graph.add_node(last.as_str(), end).add_edge(last.as_str(), END).set_entry("n0").compile().unwrap()
}

/// Drives a run until it ends. Returns the keys of the questions that were asked.
async fn drive(fixture: &Fixture, graph: &CompiledGraph<u64>, run: &str) -> Vec<String> {
    let mut asked = Vec::new();
    for _ in 0..50 {
        drop(graph.resume(run).checkpoint(&fixture.store).await);
        if fixture.head(run).await.status.has_ended() {
            return asked;
        }
        let view = fixture.remote(run).view().await.unwrap();
        let Some(wait) = view.waits().next() else { continue };
        asked.push(wait.key.clone());
        RunRemote::new(&fixture.store, run).resume_with(&wait.key, &1).await.unwrap();
    }
    panic!("{run} does not end: {:?}", fixture.head(run).await);
}

fn sorted(mut list: Vec<String>) -> Vec<String> {
    list.sort();
    list
}

/// Returns one text for each entry of a list of a preview.
fn listed(preview: &Value, list: &str, text: impl Fn(&Value) -> String) -> Vec<String> {
    sorted(preview[list].as_array().unwrap().iter().map(text).collect())
}

fn of_node(field: &'static str) -> impl Fn(&Value) -> String {
    move |entry| format!("{} of {}", entry[field].as_str().unwrap(), entry["node"].as_str().unwrap())
}

/// Compares a plan with what happened after it was carried out.
fn compare(plan: &crate::action::Plan, did: Vec<String>, asked: Vec<String>, fails: bool, case: &str) {
    let preview = plan.preview.as_ref().unwrap();
    let (undos, effects): (Vec<String>, Vec<String>) = did.into_iter().partition(|what| what.starts_with("undo"));
    let again = listed(preview, "effects_again", of_node("name"));
    assert_eq!(sorted(effects), again, "{case}: effects, {:?}", plan.will);
    let key = |wait: &Value| wait["key"].as_str().unwrap().to_string();
    assert_eq!(sorted(asked), listed(preview, "waits_again", key), "{case}: questions, {:?}", plan.will);
    // Each consequence is a sentence, up to ten of a kind.
    for what in again.iter().filter(|_| again.len() <= 10) {
        assert!(plan.will.iter().any(|will| *will == format!("effect {what} runs again")), "{case}: {what}, {:?}", plan.will);
    }
    assert_eq!(plan.will.contains(&"no recorded effect runs again".to_string()), again.is_empty(), "{case}: {:?}", plan.will);
    // Undos that are kept run if the run fails; those of later steps do not run unless their steps do.
    let kept = listed(preview, "undos_kept", |undo| format!("undo of {}", undo["node"].as_str().unwrap()));
    match fails {
        true => assert!(kept.iter().all(|undo| undos.contains(undo)), "{case}: {kept:?} of {undos:?}"),
        false => assert!(undos.is_empty(), "{case}: {undos:?}"),
    }
}

/// Runs a graph to its end, and goes back to every record of it, by rewind and by fork.
async fn check(works: &[Work], fails_first: bool, fails_again: bool) {
    let (done, is_broken) = (Done::default(), Arc::new(AtomicBool::new(fails_first)));
    let graph = chain(works, &done, &is_broken);
    let fixture = Fixture::of(&MemoryStore::new());
    graph.run(0).id("r").checkpoint(&fixture.store).enqueue().await.unwrap();
    drive(&fixture, &graph, "r").await;
    done.taken();
    let head = fixture.head("r").await.head;
    for record in 1..=head {
        let case = format!("record {record} of {head}");
        is_broken.store(fails_again, Ordering::Relaxed);
        let fork = json!({ "kind": "fork", "run": "r", "record": record, "new": format!("f-{record}") });
        let rewind = json!({ "kind": "rewind", "run": format!("r-{record}"), "record": record });
        // A fork only reads.
        let before = fixture.head("r").await;
        let plan = fixture.plan(fork.clone()).await;
        let outcome = fixture.act(fork, &plan).await.unwrap();
        assert_eq!(plan.refusal.is_some(), outcome.outcome == "refused", "{case}: {plan:?}, {outcome:?}");
        assert_eq!(fixture.head("r").await, before, "{case}");
        if plan.refusal.is_none() {
            let asked = drive(&fixture, &graph, &format!("f-{record}")).await;
            let is_undoing = plan.preview.as_ref().unwrap()["is_undoing"] == true;
            if is_undoing {
                done.taken();
            } else {
                compare(&plan, done.taken(), asked, fails_again, &format!("fork, {case}"));
            }
        }
        // A run of its own, for the rewind.
        let run = format!("r-{record}");
        is_broken.store(fails_first, Ordering::Relaxed);
        graph.run(0).id(run.as_str()).checkpoint(&fixture.store).enqueue().await.unwrap();
        drive(&fixture, &graph, &run).await;
        done.taken();
        is_broken.store(fails_again, Ordering::Relaxed);
        let plan = fixture.plan(rewind.clone()).await;
        let outcome = fixture.act(rewind, &plan).await.unwrap();
        assert_eq!(plan.refusal.is_some(), outcome.outcome == "refused", "{case}: {plan:?}, {outcome:?}");
        if plan.refusal.is_some() {
            continue;
        }
        let asked = drive(&fixture, &graph, &run).await;
        if plan.preview.as_ref().unwrap()["is_undoing"] == true {
            // The undos go on: nothing else happens.
            let did = done.taken();
            assert!(did.iter().all(|what| what.starts_with("undo")) && asked.is_empty(), "{case}: {did:?}, {asked:?}");
            continue;
        }
        compare(&plan, done.taken(), asked, fails_again, &format!("rewind, {case}"));
        let ended = fixture.head(&run).await.status;
        assert_eq!(ended == RunStatus::Finished, !fails_again, "{case}: {ended}");
    }
}

#[test]
fn k4_plans_of_rewinds_and_forks_say_what_happens_property() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    proptest!(ProptestConfig::with_cases(10), |(works in works(), fails_again in any::<bool>())| {
        runtime.block_on(check(&works, false, fails_again));
    });
}

#[test]
fn k4_plans_of_failed_runs_say_what_happens_property() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    proptest!(ProptestConfig::with_cases(6), |(works in works(), fails_again in any::<bool>())| {
        runtime.block_on(check(&works, true, fails_again));
    });
}
