//! S1, S2, S13, A2 and A10: restart plans that overlap.

use crate::common::{Gate, Job, Log, TestActor};
use crate::named_actor::NamedActor;
use crate::{escalate, ms};
use pleach::prelude::*;
use pleach::sim::explore;
use pleach::supervise::{ExponentialBackoff, OneForAll, RestForOne, RestartPolicy};

fn ups(log: &Log<String>) -> Vec<String> {
    log.take().into_iter().filter(|line| line.starts_with("up")).collect()
}

#[test]
fn s13_escalated_child_restarts_even_if_its_supervisor_stops_later() {
    explore(0..200, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let top = system.supervisor("top", OneForAll::new()).unwrap();
        let outer = top.supervisor("outer", escalate()).unwrap();
        let inner = outer.supervisor("inner", escalate()).unwrap();
        let a = inner.spawn("a", NamedActor::props("a", &log)).unwrap();
        let b = inner.spawn("b", NamedActor::props("b", &log)).unwrap();
        // The younger child stops first, and slowly.
        let c = top.spawn("c", NamedActor::slow("c", &log, ms(100))).unwrap();
        sim.settle();
        log.take();
        a.tell(false).unwrap();
        a.tell(true).unwrap();
        sim.settle();
        // A further failure meanwhile changes nothing.
        b.tell(false).unwrap();
        sim.advance(ms(200));
        let seen = log.take();
        assert_eq!(seen.iter().filter(|line| line.starts_with("up")).collect::<Vec<_>>(), ["up a", "up b", "up c"]);
        assert!(seen.contains(&"handled a".to_string()), "address and mailbox survive: {seen:?}");
        assert!([a, b, c].iter().all(|child| child.exit().is_none()));
        assert_eq!(inner.any().exit(), None);
    });
}

#[test]
fn s2_restart_requested_during_a_group_stop_forgets_no_child() {
    explore(0..200, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let top = system.supervisor("top", OneForAll::new()).unwrap();
        let a = top.spawn("a", NamedActor::props("a", &log)).unwrap();
        let b = top.spawn("b", NamedActor::props("b", &log)).unwrap();
        let inner = top.supervisor("inner", OneForOne::new()).unwrap();
        inner.spawn("d", NamedActor::props("d", &log)).unwrap();
        let c = top.spawn("c", NamedActor::slow("c", &log, ms(100))).unwrap();
        sim.settle();
        log.take();
        c.tell(false).unwrap();
        sim.settle();
        // This child fails before it is its turn to stop.
        a.tell(false).unwrap();
        top.restart_child("inner").unwrap();
        sim.settle();
        // A second request causes one more restart, or one together with the others.
        top.restart_child("inner").unwrap();
        sim.advance(ms(200));
        let started = ups(&log);
        assert!(["up a", "up b", "up c", "up d"].iter().all(|up| started.iter().any(|line| line == up)), "{started:?}");
        for child in [&a, &b, &c] {
            child.tell(true).unwrap();
        }
        sim.settle();
        assert_eq!(log.len(), 3, "every live child is up: {:?}", log.take());
    });
}

#[test]
fn s1_supervisors_under_one_for_one_restart_independently() {
    explore(0..200, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let backoff = ExponentialBackoff::new(ms(100), ms(10_000)).jitter(0.0);
        let top = system.supervisor("top", backoff).unwrap();
        let [one, two] = ["one", "two"].map(|name| top.supervisor(name, escalate()).unwrap());
        let a = one.spawn("a", NamedActor::props("a", &log)).unwrap();
        let b = two.spawn("b", NamedActor::props("b", &log)).unwrap();
        sim.settle();
        for wait in [100, 200, 400] {
            a.tell(false).unwrap();
            sim.advance(ms(wait));
        }
        log.take();
        a.tell(false).unwrap();
        sim.advance(ms(10));
        b.tell(false).unwrap();
        sim.advance(ms(99));
        assert_eq!(ups(&log), Vec::<String>::new());
        sim.advance(ms(2));
        assert_eq!(ups(&log), ["up b"], "they restart independently");
        // A requested restart does not shorten the backoff, as for an actor.
        top.restart_child("one").unwrap();
        sim.advance(ms(600));
        assert_eq!(ups(&log), Vec::<String>::new());
        sim.advance(ms(100));
        assert_eq!(ups(&log), ["up a"]);
        // A child that stops slowly does not delay its neighbours.
        one.spawn("slow", NamedActor::slow("slow", &log, ms(1_000))).unwrap();
        a.tell(false).unwrap();
        sim.settle();
        b.tell(false).unwrap();
        sim.advance(ms(300));
        assert_eq!(ups(&log), ["up slow", "up b"]);
        sim.run(system.shutdown(Duration::from_secs(5))).unwrap();
        sim.settle();
        assert_eq!(sim.tasks_alive(), 0);
    });
}

#[test]
fn s2_temporary_child_that_fails_during_a_group_stop_stays_down() {
    explore(0..200, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let top = system.supervisor("top", OneForAll::new()).unwrap();
        let temporary = NamedActor::props("temporary", &log).restart(RestartPolicy::Temporary);
        let temporary = top.spawn("temporary", temporary).unwrap();
        let b = top.spawn("b", NamedActor::slow("b", &log, ms(100))).unwrap();
        sim.settle();
        log.take();
        b.tell(false).unwrap();
        sim.settle();
        temporary.tell(false).unwrap();
        sim.advance(ms(200));
        assert_eq!(ups(&log), ["up b"]);
        assert!(matches!(temporary.exit(), Some(Exit::Failed(_))));
    });
}

/// Random nested supervisors, slow children, policies, backoffs and outside requests. At the end
/// every live child is up.
#[test]
fn s13_a2_overlapping_plans_leave_no_child_waiting() {
    explore(0..1_000, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let mut random = pleach::runtime::Random::seeded(sim.seed());
        let mut supervisors = vec![system.supervisor("top", OneForAll::new().restart_limit(100, ms(1_000))).unwrap()];
        let mut children = Vec::new();
        for n in 0..9 {
            let under = supervisors[random.below(supervisors.len())].clone();
            if random.below(3) == 0 {
                let backoff = ExponentialBackoff::new(ms(5), ms(20));
                let name = format!("s{n}");
                supervisors.push(
                    match random.below(5) {
                        0 => under.supervisor(&name, OneForAll::new().restart_limit(1, ms(50))),
                        1 => under.supervisor(&name, RestForOne::new().restart_limit(2, ms(50)).backoff(backoff)),
                        2 => under.supervisor(&name, escalate()),
                        3 => under.supervisor(&name, backoff),
                        _ => under.supervisor(&name, OneForOne::new().restart_limit(1, ms(50))),
                    }
                    .unwrap(),
                );
            } else {
                let policy = [RestartPolicy::Permanent, RestartPolicy::Transient, RestartPolicy::Temporary][random.below(3)];
                let props = NamedActor::slow("child", &log, ms(random.below(3) as u64 * 7)).restart(policy);
                children.push(under.spawn_unnamed(props).unwrap());
            }
        }
        for _ in 0..40 {
            let supervisor = &supervisors[random.below(supervisors.len())];
            if !children.is_empty() {
                let child = &children[random.below(children.len())];
                match random.below(20) {
                    0 => child.stop(),
                    1 => child.close(),
                    2 => child.cancel(()),
                    3 => drop(child.try_send_system(SystemMessage::Restart)),
                    4..=9 => drop(child.tell(true)),
                    _ => drop(child.tell(false)),
                }
            }
            match random.below(12) {
                0 => supervisor.children().iter().for_each(|child| {
                    drop(child.path().last().map(|name| supervisor.restart_child(&name.to_string())));
                }),
                1 => drop(supervisor.spawn_unnamed(NamedActor::slow("added", &log, ms(3))).map(|added| children.push(added))),
                2..=6 => sim.advance(ms(random.below(6) as u64)),
                7 if random.below(8) == 0 => supervisor.any().stop(),
                7 if random.below(8) == 0 => supervisor.any().close(),
                _ => drop(sim.settle()),
            }
        }
        sim.advance(ms(5_000));
        for child in children.iter().filter(|child| child.exit().is_none()) {
            let handled = child.counts().handled;
            child.tell(true).unwrap();
            sim.settle();
            assert_eq!(child.counts().handled, handled + 1, "{} is stuck", child.path());
        }
        let counts = system.counts();
        assert_eq!(counts.accepted, counts.handled + counts.failed + counts.dead_lettered);
        sim.run(system.shutdown(Duration::from_secs(5))).unwrap();
        sim.settle();
        assert_eq!(sim.tasks_alive(), 0);
        let counts = system.counts();
        assert_eq!(counts.accepted, counts.handled + counts.failed + counts.dead_lettered);
    });
}

/// The same on threads, where a child may end while others use it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s13_overlapping_plans_on_threads_leave_no_child_waiting() {
    for round in 0..300 {
        let (system, log) = (ActorSystem::new("s").unwrap(), Log::new());
        let top = system.supervisor("top", OneForAll::new().restart_limit(1_000, ms(1_000))).unwrap();
        let inner = top.supervisor("inner", RestForOne::new().restart_limit(2, ms(1))).unwrap();
        let children: Vec<_> = [&top, &inner, &top, &inner, &top, &inner]
            .map(|under| under.spawn_unnamed(NamedActor::props("child", &log)).unwrap())
            .into();
        let drivers = (0..3).map(|thread| {
            let (children, top, inner) = (children.clone(), top.clone(), inner.clone());
            tokio::spawn(async move {
                let mut random = pleach::runtime::Random::seeded(round * 3 + thread);
                for _ in 0..30 {
                    let child = &children[random.below(children.len())];
                    match random.below(30) {
                        0 => child.stop(),
                        1 => child.close(),
                        2 => drop(child.try_send_system(SystemMessage::Restart)),
                        3 => drop(top.restart_child("inner")),
                        4 if random.below(10) == 0 => inner.any().close(),
                        5..=15 => drop(child.tell(true)),
                        _ => drop(child.tell(false)),
                    }
                    if random.below(3) == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            })
        });
        for driver in drivers.collect::<Vec<_>>() {
            driver.await.unwrap();
        }
        let stuck = || children.iter().any(|child| child.exit().is_none() && child.counts().open() > 0);
        let handled = async {
            while stuck() {
                tokio::task::yield_now().await;
            }
        };
        // No handler is slow, so only a hanging restart can time out.
        tokio::time::timeout(Duration::from_secs(60), handled).await.expect("every live child handles its messages");
        system.shutdown(Duration::from_secs(60)).await.unwrap();
        let counts = system.counts();
        assert_eq!(counts.accepted, counts.handled + counts.failed + counts.dead_lettered);
    }
}

/// A job that asks `target` and logs the result.
fn ask_job(target: &ActorRef<Job>, log: &Log<String>) -> Job {
    let (target, log) = (target.clone(), log.clone());
    Job::work(move |_| async move {
        log.note(match target.ask(|reply| Job::Answer(reply, 7)).await {
            Ok(answer) => answer.to_string(),
            Err(AskError::Cycle(paths)) => format!("cycle of {}", paths.len()),
            Err(other) => other.to_string(),
        });
        Ok(())
    })
}

#[test]
fn a10_s13_ask_to_a_sibling_that_is_down_does_not_block_the_group() {
    explore(0..200, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let top = system.supervisor("top", OneForAll::new()).unwrap();
        let db = top.spawn("db", TestActor::props(&Log::new())).unwrap();
        let inner = top.supervisor("inner", OneForOne::new()).unwrap();
        let web = top.spawn("web", TestActor::props(&Log::new())).unwrap();
        let deep = inner.spawn("deep", TestActor::props(&Log::new())).unwrap();
        sim.settle();
        // One ask is queued before the failure, and one is sent while the actor is down.
        let gate = Gate::new();
        db.tell(Job::Pass(gate.clone(), 1)).unwrap();
        db.tell(Job::Fail("no")).unwrap();
        web.tell(ask_job(&db, &log)).unwrap();
        deep.tell(ask_job(&db, &log)).unwrap();
        gate.open();
        sim.settle();
        web.tell(ask_job(&db, &log)).unwrap();
        sim.settle();
        let seen = log.take();
        assert_eq!((seen.len(), seen.last().map(String::as_str)), (3, Some("7")), "{seen:?}");
        assert!(seen.iter().all(|line| line == "7" || line.starts_with("cycle")), "{seen:?}");
        assert!([&db, &web, &deep].iter().all(|actor| actor.exit().is_none()));
    });
}

#[test]
fn a10_ask_to_a_parent_that_ends_or_restarts_does_not_block_it() {
    for stops in [false, true] {
        explore(0..200, |sim| {
            let (system, log, children) = (sim.system("s"), Log::new(), Log::new());
            let parent = TestActor::spawn(&system, "parent");
            let spawned = children.clone();
            parent.tell(Job::act(move |cx| spawned.push(cx.spawn("child", TestActor::props(&Log::new())).unwrap()))).unwrap();
            sim.settle();
            let child: ActorRef<Job> = children.take().remove(0);
            let gate = Gate::new();
            parent.tell(Job::Pass(gate.clone(), 1)).unwrap();
            if !stops {
                parent.tell(Job::Fail("no")).unwrap();
            }
            child.tell(ask_job(&parent, &log)).unwrap();
            sim.settle();
            if stops {
                parent.stop();
            }
            gate.open();
            assert_eq!(sim.run(child.exited()), Exit::Stopped);
            sim.settle();
            assert_eq!((log.take(), parent.exit().is_some()), (vec!["cycle of 2".to_string()], stops));
        });
    }
}
