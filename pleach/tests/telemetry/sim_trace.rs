//! O3: what is logged does not change the schedule of a simulation.

use crate::capture::capture;
use crate::common::{Job, Log, TestActor, quiet};
use pleach::BoxError;
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::store::{Filter, RunStatus};
use std::sync::Arc;
use tracing::Level;

/// A program with everything that the log watches with timers and samplers: handlers that take
/// long, mailboxes that fill and drain, dead letters, failures.
fn logged_program(sim: &Sim) {
    let system = sim.system("s");
    let log = Log::new();
    let actors: Vec<ActorRef<Job>> = (0..4)
        .map(|n| {
            let props = TestActor::props(&log).mailbox(Mailbox::bounded(5).drop_oldest());
            system.spawn(&n.to_string(), props).unwrap()
        })
        .collect();
    let scope = system.scope("tasks").unwrap();
    for n in 0..6_u32 {
        let (actor, runtime) = (actors[n as usize % 4].clone(), sim.runtime());
        let sends = async move {
            for round in 0..4_u32 {
                (0..6).for_each(|message| actor.tell(Job::Note(message)).unwrap());
                let (slow, wait) = (Arc::clone(&runtime), Duration::from_millis(1_500 * u64::from(n % 3) + 1));
                let work = move |_| async move {
                    slow.sleep_until(slow.now() + wait).await;
                    Ok(())
                };
                actor.tell(Job::work(work)).unwrap();
                if round == 2 {
                    actor.tell(Job::Fail("asked to")).unwrap();
                }
                runtime.sleep_until(runtime.now() + Duration::from_millis(700 + runtime.random() % 500)).await;
            }
            Ok::<(), BoxError>(())
        };
        scope.launch(sends).unwrap();
    }
    sim.run(async {
        scope.wait_all().await.unwrap();
        drop(scope);
        sim.sleep(Duration::from_secs(30)).await;
        system.shutdown(Duration::from_secs(60)).await.unwrap();
    });
    sim.mix_into_trace(system.counts().handled);
}

/// The trace of a seed, its hash, and the number of polls.
fn trace(seed: u64, program: impl Fn(&Sim)) -> (String, u64, u64) {
    let sim = Sim::recording(seed);
    program(&sim);
    (sim.trace(), sim.trace_hash(), sim.polls())
}

/// Checks that the program has the same trace with and without a subscriber, and that the log had
/// lines of this target.
fn same_at_every_level(program: impl Fn(&Sim), targets: &[&str]) {
    quiet();
    for seed in 0..20 {
        let without = trace(seed, &program);
        for level in [Level::ERROR, Level::WARN, Level::INFO, Level::TRACE] {
            let (captured, guard) = capture(level);
            assert_eq!(trace(seed, &program), without, "seed {seed} at level {level}");
            drop(guard);
            let lines = captured.take_all();
            let has = |target: &&str| lines.iter().any(|line| line.target == *target);
            assert!(level < Level::INFO || targets.iter().all(has), "{targets:?}: {lines:?}");
        }
    }
}

#[test]
fn o3_trace_of_a_seed_is_the_same_at_every_log_level() {
    same_at_every_level(logged_program, &["pleach::handler", "pleach::mailbox", "pleach::dead_letters", "pleach::supervision"]);
}

#[cfg(feature = "graph")]
#[test]
fn o4_trace_of_a_seed_is_the_same_with_spans_of_runs() {
    let program = |sim: &Sim| {
        let graph = Graph::<u32>::new("count")
            .add_node("one", |n: u32| async move { Ok::<_, BoxError>(n + 1) })
            .add_node("two", |cx: NodeContext, n: u32| async move {
                cx.sleep("wait", Duration::from_secs(2)).await;
                Ok::<_, BoxError>(n * 2)
            })
            .add_edge("one", "two")
            .add_edge("two", END)
            .set_entry("one")
            .compile()
            .unwrap();
        let system = sim.system("s");
        let (store, scope) = (MemoryStore::on(sim.runtime()), system.scope("workers").unwrap());
        let worker = pleach::worker::Worker::new(&store).graph(&graph).start_in(&scope).unwrap();
        sim.run(async {
            for n in 0..4 {
                let stored = graph.run(n).id(format!("run-{n}")).runtime(sim.runtime()).checkpoint(&store);
                stored.enqueue().await.unwrap();
                // Without ids.
                assert_eq!(graph.run(n).runtime(sim.runtime()).await.unwrap(), (n + 1) * 2);
                assert_eq!(graph.run(n).runtime(sim.runtime()).checkpoint(&store).await.unwrap(), (n + 1) * 2);
            }
            sim.sleep(Duration::from_secs(20)).await;
            let finished = store.list(vec![Filter::Status(RunStatus::Finished)], None, 9).await.unwrap();
            assert_eq!(finished.runs.len(), 8);
            drop((worker, scope));
            system.shutdown(Duration::from_secs(60)).await.unwrap();
        });
    };
    same_at_every_level(program, &[]);
}
