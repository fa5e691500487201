//! A12 and S8: user closures may panic. A panic affects only the work that the closure was for.

use crate::common::{Job, Log, TestActor, quiet};
use pleach::prelude::*;
use pleach::routing::SlowSubscriber;
use pleach::runtime::Instant;
use pleach::sim::{Sim, explore};
use pleach::system::System;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const MS: Duration = Duration::from_millis(1);

fn panics_at(call: usize) -> impl Fn() -> bool + Send + Sync + Clone + 'static {
    let calls = Arc::new(AtomicUsize::new(0));
    move || calls.fetch_add(1, Ordering::Relaxed) == call
}

/// A system whose strategy resumes: a failed actor keeps its state and its timers.
fn resuming(sim: &Sim) -> ActorSystem {
    let resume = |_: &FailureInfo| SupervisorDirective::Resume;
    ActorSystem::builder("s").runtime(sim.runtime()).strategy(resume).build().unwrap()
}

fn ticks(log: &Log<String>, what: &str) -> usize {
    log.seen().iter().filter(|line| *line == what).count()
}

#[test]
fn a12_panic_in_a_timer_keeps_all_timers() {
    quiet();
    explore(0..20, |sim| {
        let (system, log) = (resuming(sim), Log::new());
        let actor = system.spawn("a", TestActor::props(&log)).unwrap();
        actor
            .tell(Job::act(|cx| {
                let panics = panics_at(1);
                // Two other timers are due at the same time, one before and one after it.
                cx.send_after(20 * MS, Job::Note(1));
                cx.send_every(10 * MS, move || {
                    assert!(!panics(), "injected into a timer");
                    Job::Note(2)
                });
                cx.send_after(20 * MS, Job::Note(3));
                cx.send_every(50 * MS, || Job::Note(4));
                cx.set_receive_timeout(1_000 * MS, || Job::Note(5));
            }))
            .unwrap();
        sim.advance(100 * MS);
        assert_eq!((ticks(&log, "1"), ticks(&log, "3")), (1, 1), "no due message is lost: {:?}", log.seen());
        assert_eq!(ticks(&log, "2"), 9, "the timer that panicked once continues");
        assert_eq!(ticks(&log, "4"), 2);
        assert_eq!(system.failures(), 1);
        actor
            .tell(Job::act(|cx| {
                cx.send_after(5 * MS, Job::Note(6));
            }))
            .unwrap();
        sim.advance(10 * MS);
        assert_eq!(ticks(&log, "6"), 1, "new timers work");
        assert!(system.counts().is_settled(), "{}", system.counts());
    });
}

#[test]
fn a12_panic_in_the_receive_timeout_keeps_it() {
    quiet();
    explore(0..20, |sim| {
        let (system, log) = (resuming(sim), Log::new());
        let actor = system.spawn("a", TestActor::props(&log)).unwrap();
        actor
            .tell(Job::act(|cx| {
                let panics = panics_at(0);
                cx.send_after(100 * MS, Job::Note(1));
                cx.set_receive_timeout(10 * MS, move || {
                    assert!(!panics(), "injected into a receive timeout");
                    Job::Note(2)
                });
            }))
            .unwrap();
        sim.advance(95 * MS);
        assert_eq!((ticks(&log, "2"), system.failures()), (8, 1), "{:?}", log.seen());
        sim.advance(10 * MS);
        assert_eq!(ticks(&log, "1"), 1);
    });
}

#[test]
fn a12_panic_in_a_timer_with_restart_ends_its_incarnation_only() {
    quiet();
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let actor = system.spawn("a", TestActor::props(&log)).unwrap();
        actor
            .tell(Job::act(|cx| {
                cx.send_after(10 * MS, Job::Note(1));
                cx.send_every(10 * MS, || panic!("injected into a timer"));
            }))
            .unwrap();
        sim.advance(50 * MS);
        assert_eq!(
            (system.failures(), ticks(&log, "started 1"), ticks(&log, "1")),
            (1, 1, 0),
            "timers end with their incarnation"
        );
        assert!(system.counts().is_settled(), "{}", system.counts());
    });
}

/// A function of the library that takes a closure, and a call of it with a closure that panics.
type Case = (&'static str, fn(&Sim, &System, &ActorRef<Job>));

fn fail() -> ! {
    panic!("injected into a closure")
}

async fn failing_task() {
    fail()
}

/// Every closure that the library calls later, outside of the call that took it.
const CASES: &[Case] = &[
    ("send_every", |_, _, actor| {
        tell(actor, |cx| {
            cx.send_every(MS, || fail());
        });
    }),
    ("set_receive_timeout", |_, _, actor| tell(actor, |cx| cx.set_receive_timeout(MS, || fail()))),
    ("become_with", |_, _, actor| {
        tell(actor, |cx| {
            cx.become_with(|_, _, cx| {
                cx.unbecome();
                fail()
            });
        });
        actor.tell(Job::Note(0)).unwrap();
    }),
    ("pipe_to_self", |_, _, actor| tell(actor, |cx| drop(cx.pipe_to_self(async {}, |()| fail())))),
    ("on_done", |_, system, _| {
        let done = system.scope("done").unwrap();
        done.on_done(|_| fail());
        done.close();
    }),
    ("on_event", |_, system, _| drop(system.on_event(|_| fail()))),
    ("Props::new", |_, system, _| drop(system.spawn("factory", Props::new(|| -> TestActor { fail() })).unwrap())),
    ("Props::from_fn state", |_, system, _| {
        drop(system.spawn("state", Props::from_fn(|| -> u8 { fail() }, |_, ()| Ok::<(), &str>(()))).unwrap());
    }),
    ("Props::from_fn", |_, system, _| {
        let actor = system.spawn("handle", Props::from_fn(|| (), |(), ()| -> Result<(), &str> { fail() })).unwrap();
        actor.tell(()).unwrap();
    }),
    ("Props::describe", |_, system, _| {
        let props = Props::from_fn(|| (), |(), ()| Err("no")).describe(|_| fail());
        system.spawn("describe", props).unwrap().tell(()).unwrap();
    }),
    ("Props::map_signals", |_, system, _| {
        let props = TestActor::props(&Log::new()).map_signals(|_| fail());
        let parent = system.spawn("map", props).unwrap();
        parent.tell(Job::act(|cx| cx.spawn("other", TestActor::props(&Log::new())).unwrap().stop())).unwrap();
    }),
    ("strategy", |_, system, _| {
        let supervisor = system.supervisor("supervisor", |_: &FailureInfo| -> SupervisorDirective { fail() }).unwrap();
        supervisor.spawn("a", TestActor::props(&Log::new())).unwrap().tell(Job::Fail("no")).unwrap();
    }),
    ("ask", |sim, _, actor| {
        let asker = sim.scope();
        let actor = actor.clone();
        asker.launch(async move { drop(actor.ask(|_: Reply<u32>| fail()).await) }).unwrap();
        sim.settle();
    }),
    ("ActorRef::map", |sim, _, actor| {
        let sender = sim.scope();
        let mapped = actor.map(|_: u32| -> Job { fail() });
        sender.launch(async move { drop(mapped.tell(1)) }).unwrap();
        sim.settle();
    }),
    ("Topic::subscribe_with", |sim, _, actor| {
        let topic = Topic::<u32>::new();
        topic.subscribe_with(actor, SlowSubscriber::Drop, |_| fail());
        assert_eq!(sim.run(topic.publish(1)).failed, 1);
    }),
    ("pool props", |_, system, _| {
        drop(system.pool("pool", 2, |_| Props::new(|| -> TestActor { fail() })).build());
    }),
    ("launch", |sim, _, _| {
        let scope = sim.scope();
        scope.launch(failing_task()).unwrap();
        sim.settle();
    }),
    ("produce", |sim, _, _| {
        let scope = sim.scope();
        drop(scope.produce(1, |_: pleach::scope::Producer<u8>| failing_task()).unwrap());
        sim.settle();
    }),
];

fn tell(actor: &ActorRef<Job>, action: impl FnOnce(&mut Context<TestActor>) + Send + 'static) {
    actor.tell(Job::act(action)).unwrap();
}

#[test]
fn s8_panicking_closure_harms_no_other_member() {
    quiet();
    for (name, call) in CASES {
        let sim = Sim::new(1);
        let (system, log) = (resuming(&sim), Log::new());
        let actor = system.spawn("actor", TestActor::props(&log)).unwrap();
        let (other_log, watcher_log) = (Log::new(), Log::new());
        let other = system.spawn("other", TestActor::props(&other_log)).unwrap();
        other
            .tell(Job::act(|cx| {
                cx.send_every(MS, || Job::Note(1));
            }))
            .unwrap();
        let watcher = system.spawn("watcher", TestActor::props(&watcher_log)).unwrap();
        let watched = actor.any();
        watcher.tell(Job::act(move |cx| cx.watch(&watched))).unwrap();
        call(&sim, &system, &actor);
        sim.advance(20 * MS);
        assert!(ticks(&other_log, "1") >= 19, "{name}: {:?}", other_log.seen());
        let answer = sim.run(other.ask(|reply| Job::Answer(reply, 7)));
        assert_eq!(answer.ok(), Some(7), "{name}: the other actor answers");
        if actor.exit().is_none() {
            assert_eq!(sim.run(actor.ask(|reply| Job::Answer(reply, 8))).ok(), Some(8), "{name}: the actor answers");
        }
        assert!(sim.run(system.shutdown(Duration::from_secs(1))).is_ok(), "{name}: the system shuts down");
        assert!(system.counts().is_settled(), "{name}: {}", system.counts());
        assert!(sim.now() > Instant::ZERO);
    }
}
