//! S1, S2, S13: plans of restarts that meet each other half-way.

use crate::common::{Doer, Gate, Job, Log};
use pleach::prelude::*;
use pleach::sim::explore;
use pleach::{BoxError, ExponentialBackoff, OneForAll, RestForOne, RestartPolicy};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn escalate() -> OneForOne {
    OneForOne::new().always(SupervisorDirective::Escalate)
}

/// Says `up NAME`, `well NAME` and `down NAME`, fails when told to, and takes its time to stop.
struct Slow {
    name: &'static str,
    log: Log<String>,
    stops_for: Duration,
}

impl Slow {
    fn props(name: &'static str, log: &Log<String>, stops_for: Duration) -> Props<Self> {
        let log = log.clone();
        Props::new(move || Self { name, log: log.clone(), stops_for }).mailbox(Mailbox::unbounded())
    }
}

impl Actor for Slow {
    type Msg = bool;
    type Error = BoxError;

    async fn started(&mut self, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.log.note(format!("up {}", self.name));
        Ok(())
    }

    async fn handle(&mut self, well: bool, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        if well {
            self.log.note(format!("well {}", self.name));
            Ok(())
        } else {
            Err("told to fail".into())
        }
    }

    async fn stopped(&mut self, _exit: &Exit, cx: &mut Context<Self>) -> Result<(), BoxError> {
        if !self.stops_for.is_zero() {
            cx.token().child_for(self.stops_for).cancelled().await;
        }
        self.log.note(format!("down {}", self.name));
        Ok(())
    }
}

fn ups(log: &Log<String>) -> Vec<String> {
    log.take().into_iter().filter(|line| line.starts_with("up")).collect()
}

#[test]
fn s13_a_child_that_was_handed_up_comes_back_although_its_supervisor_halts_later() {
    explore(0..200, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let top = system.supervisor("top", OneForAll::new()).unwrap();
        let outer = top.supervisor("outer", escalate()).unwrap();
        let inner = outer.supervisor("inner", escalate()).unwrap();
        let a = inner.spawn("a", Slow::props("a", &log, Duration::ZERO)).unwrap();
        let b = inner.spawn("b", Slow::props("b", &log, Duration::ZERO)).unwrap();
        // The younger ones go down first, and take their time.
        let c = top.spawn("c", Slow::props("c", &log, ms(100))).unwrap();
        sim.settle();
        log.take();
        a.tell(false).unwrap();
        a.tell(true).unwrap();
        sim.settle();
        // A further failure on the way changes nothing either.
        b.tell(false).unwrap();
        sim.advance(ms(200));
        let told = log.take();
        assert_eq!(told.iter().filter(|line| line.starts_with("up")).collect::<Vec<_>>(), ["up a", "up b", "up c"]);
        assert!(told.contains(&"well a".to_string()), "address and mailbox are kept: {told:?}");
        assert!([a, b, c].iter().all(|child| child.exit().is_none()));
        assert_eq!(inner.any().exit(), None);
    });
}

#[test]
fn s2_a_restart_that_is_asked_for_half_way_down_forgets_nobody() {
    explore(0..200, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let top = system.supervisor("top", OneForAll::new()).unwrap();
        let a = top.spawn("a", Slow::props("a", &log, Duration::ZERO)).unwrap();
        let b = top.spawn("b", Slow::props("b", &log, Duration::ZERO)).unwrap();
        let inner = top.supervisor("inner", OneForOne::new()).unwrap();
        inner.spawn("d", Slow::props("d", &log, Duration::ZERO)).unwrap();
        let c = top.spawn("c", Slow::props("c", &log, ms(100))).unwrap();
        sim.settle();
        log.take();
        c.tell(false).unwrap();
        sim.settle();
        // This one fails before its turn to halt comes.
        a.tell(false).unwrap();
        top.restart_child("inner").unwrap();
        sim.settle();
        // Asked for twice it restarts once more, or once with the others.
        top.restart_child("inner").unwrap();
        sim.advance(ms(200));
        let came_up = ups(&log);
        assert!(["up a", "up b", "up c", "up d"].iter().all(|up| came_up.iter().any(|line| line == up)), "{came_up:?}");
        for child in [&a, &b, &c] {
            child.tell(true).unwrap();
        }
        sim.settle();
        assert_eq!(log.len(), 3, "whoever lives is up: {:?}", log.take());
    });
}

#[test]
fn s1_supervisors_under_one_for_one_restart_each_by_itself() {
    explore(0..200, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let slowly = ExponentialBackoff::new(ms(100), ms(10_000)).jitter(0.0);
        let top = system.supervisor("top", slowly).unwrap();
        let [one, two] = ["one", "two"].map(|name| top.supervisor(name, escalate()).unwrap());
        let a = one.spawn("a", Slow::props("a", &log, Duration::ZERO)).unwrap();
        let b = two.spawn("b", Slow::props("b", &log, Duration::ZERO)).unwrap();
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
        assert_eq!(ups(&log), ["up b"], "neither waits for the other, nor starts with it");
        // What is asked for meanwhile does not cut the wait short, as it does not for an actor.
        top.restart_child("one").unwrap();
        sim.advance(ms(600));
        assert_eq!(ups(&log), Vec::<String>::new());
        sim.advance(ms(100));
        assert_eq!(ups(&log), ["up a"]);
        // One that takes its time to go down holds up nobody beside it.
        one.spawn("slow", Slow::props("slow", &log, ms(1_000))).unwrap();
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
fn s2_a_temporary_child_that_fails_half_way_down_stays_down() {
    explore(0..200, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let top = system.supervisor("top", OneForAll::new()).unwrap();
        let temporary = Slow::props("temporary", &log, Duration::ZERO).restart(RestartPolicy::Temporary);
        let temporary = top.spawn("temporary", temporary).unwrap();
        let b = top.spawn("b", Slow::props("b", &log, ms(100))).unwrap();
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

/// The whole of it at random: groups in groups, slow members, policies, backoffs, requests from outside. Whoever lives in the end is up.
#[test]
fn s13_a2_plans_that_meet_leave_nobody_waiting_and_lose_no_message() {
    explore(0..1_000, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let mut random = pleach::Random::seeded(sim.seed());
        let mut supervisors = vec![system.supervisor("top", OneForAll::new().intensity(100, ms(1_000))).unwrap()];
        let mut children = Vec::new();
        for n in 0..9 {
            let under = supervisors[random.below(supervisors.len())].clone();
            if random.below(3) == 0 {
                let backoff = ExponentialBackoff::new(ms(5), ms(20));
                let name = format!("s{n}");
                supervisors.push(
                    match random.below(5) {
                        0 => under.supervisor(&name, OneForAll::new().intensity(1, ms(50))),
                        1 => under.supervisor(&name, RestForOne::new().intensity(2, ms(50)).backoff(backoff)),
                        2 => under.supervisor(&name, escalate()),
                        3 => under.supervisor(&name, backoff),
                        _ => under.supervisor(&name, OneForOne::new().intensity(1, ms(50))),
                    }
                    .unwrap(),
                );
            } else {
                let policy = [RestartPolicy::Permanent, RestartPolicy::Transient, RestartPolicy::Temporary][random.below(3)];
                let props = Slow::props("child", &log, ms(random.below(3) as u64 * 7)).restart(policy);
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
                1 => drop(supervisor.spawn_unnamed(Slow::props("late", &log, ms(3))).map(|late| children.push(late))),
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

/// The same on threads, where a child may leave while others look at it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s13_plans_that_meet_on_threads_leave_nobody_waiting() {
    for round in 0..300 {
        let (system, log) = (ActorSystem::new("s").unwrap(), Log::new());
        let top = system.supervisor("top", OneForAll::new().intensity(1_000, ms(1_000))).unwrap();
        let inner = top.supervisor("inner", RestForOne::new().intensity(2, ms(1))).unwrap();
        let children: Vec<_> = [&top, &inner, &top, &inner, &top, &inner]
            .map(|under| under.spawn_unnamed(Slow::props("child", &log, Duration::ZERO)).unwrap())
            .into();
        let busy = (0..3).map(|thread| {
            let (children, top, inner) = (children.clone(), top.clone(), inner.clone());
            tokio::spawn(async move {
                let mut random = pleach::Random::seeded(round * 3 + thread);
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
        for one in busy.collect::<Vec<_>>() {
            one.await.unwrap();
        }
        let stuck = || children.iter().any(|child| child.exit().is_none() && child.counts().open() > 0);
        let handled = async {
            while stuck() {
                tokio::task::yield_now().await;
            }
        };
        // Nothing here takes its time: only a group that hangs is late.
        tokio::time::timeout(Duration::from_secs(60), handled).await.expect("whoever lives handles what it was told");
        system.shutdown(Duration::from_secs(60)).await.unwrap();
        let counts = system.counts();
        assert_eq!(counts.accepted, counts.handled + counts.failed + counts.dead_lettered);
    }
}

/// Asks `target` in a handler, and notes what came of it.
fn asks(target: &ActorRef<Job>, log: &Log<String>) -> Job {
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
fn a10_s13_an_ask_to_a_sibling_that_is_down_does_not_hold_up_its_group() {
    explore(0..200, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let top = system.supervisor("top", OneForAll::new()).unwrap();
        let db = top.spawn("db", Doer::props(&Log::new())).unwrap();
        let inner = top.supervisor("inner", OneForOne::new()).unwrap();
        let web = top.spawn("web", Doer::props(&Log::new())).unwrap();
        let deep = inner.spawn("deep", Doer::props(&Log::new())).unwrap();
        sim.settle();
        // One that is asked already when it fails, and one that is asked while it is down.
        let gate = Gate::new();
        db.tell(Job::Pass(gate.clone(), 1)).unwrap();
        db.tell(Job::Fail("no")).unwrap();
        web.tell(asks(&db, &log)).unwrap();
        deep.tell(asks(&db, &log)).unwrap();
        gate.open();
        sim.settle();
        web.tell(asks(&db, &log)).unwrap();
        sim.settle();
        let told = log.take();
        assert_eq!((told.len(), told.last().map(String::as_str)), (3, Some("7")), "{told:?}");
        assert!(told.iter().all(|line| line == "7" || line.starts_with("cycle")), "{told:?}");
        assert!([&db, &web, &deep].iter().all(|actor| actor.exit().is_none()));
    });
}

#[test]
fn a10_an_ask_to_a_parent_that_ends_or_restarts_does_not_hold_it_up() {
    for stops in [false, true] {
        explore(0..200, |sim| {
            let (system, log, born) = (sim.system("s"), Log::new(), Log::new());
            let parent = system.spawn("parent", Doer::props(&Log::new())).unwrap();
            let spawned = born.clone();
            parent.tell(Job::act(move |cx| spawned.push(cx.spawn("child", Doer::props(&Log::new())).unwrap()))).unwrap();
            sim.settle();
            let child: ActorRef<Job> = born.take().remove(0);
            let gate = Gate::new();
            parent.tell(Job::Pass(gate.clone(), 1)).unwrap();
            if !stops {
                parent.tell(Job::Fail("no")).unwrap();
            }
            child.tell(asks(&parent, &log)).unwrap();
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
