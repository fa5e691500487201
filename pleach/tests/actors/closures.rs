//! A4, A12: closures that users hand in may panic. Each costs what it was for, and nothing else.

use crate::common::{Doer, Job, Log, quiet};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{Instant, SlowSubscriber, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const MS: Duration = Duration::from_millis(1);

fn panics_at(call: usize) -> impl Fn() -> bool + Send + Sync + Clone + 'static {
    let calls = Arc::new(AtomicUsize::new(0));
    move || calls.fetch_add(1, Ordering::Relaxed) == call
}

/// A system in which a failure lets the actor go on with its state and its timers.
fn resuming(sim: &Sim) -> ActorSystem {
    let resume = |_: &FailureInfo| SupervisorDirective::Resume;
    ActorSystem::builder("s").runtime(sim.runtime()).strategy(resume).build().unwrap()
}

fn ticks(log: &Log<String>, what: &str) -> usize {
    log.seen().iter().filter(|line| *line == what).count()
}

#[test]
fn w6_a_panic_in_a_timer_keeps_all_timers() {
    quiet();
    explore(0..20, |sim| {
        let (system, log) = (resuming(sim), Log::new());
        let actor = system.spawn("a", Doer::props(&log)).unwrap();
        actor
            .tell(Job::act(|cx| {
                let panics = panics_at(1);
                // The two that are due with it come first and last in the order of timers.
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
        assert_eq!((ticks(&log, "1"), ticks(&log, "3")), (1, 1), "a message that was due is not lost: {:?}", log.seen());
        assert_eq!(ticks(&log, "2"), 9, "the timer that panicked once goes on");
        assert_eq!(ticks(&log, "4"), 2);
        assert_eq!(system.failures(), 1);
        actor
            .tell(Job::act(|cx| {
                cx.send_after(5 * MS, Job::Note(6));
            }))
            .unwrap();
        sim.advance(10 * MS);
        assert_eq!(ticks(&log, "6"), 1, "it still sets timers");
        assert!(system.counts().is_settled(), "{}", system.counts());
    });
}

#[test]
fn w6_a_panic_in_the_receive_timeout_keeps_it() {
    quiet();
    explore(0..20, |sim| {
        let (system, log) = (resuming(sim), Log::new());
        let actor = system.spawn("a", Doer::props(&log)).unwrap();
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
fn w6_a_panic_in_a_timer_under_restart_ends_its_incarnation_only() {
    quiet();
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let actor = system.spawn("a", Doer::props(&log)).unwrap();
        actor
            .tell(Job::act(|cx| {
                cx.send_after(10 * MS, Job::Note(1));
                cx.send_every(10 * MS, || panic!("injected into a timer"));
            }))
            .unwrap();
        sim.advance(50 * MS);
        assert_eq!((system.failures(), ticks(&log, "started 1"), ticks(&log, "1")), (1, 1, 0), "timers end with it");
        assert!(system.counts().is_settled(), "{}", system.counts());
    });
}

/// One place of the library that takes a closure: hands in one that panics.
type Case = (&'static str, fn(&Sim, &System, &ActorRef<Job>));

fn boom() -> ! {
    panic!("injected into a closure")
}

async fn boom_task() {
    boom()
}

/// Every closure that runs inside the library and not in its caller's own call.
const CASES: &[Case] = &[
    ("send_every", |_, _, actor| {
        tell(actor, |cx| {
            cx.send_every(MS, || boom());
        });
    }),
    ("set_receive_timeout", |_, _, actor| tell(actor, |cx| cx.set_receive_timeout(MS, || boom()))),
    ("become_with", |_, _, actor| {
        tell(actor, |cx| {
            cx.become_with(|_, _, cx| {
                cx.unbecome();
                boom()
            });
        });
        actor.tell(Job::Note(0)).unwrap();
    }),
    ("pipe_to_self", |_, _, actor| tell(actor, |cx| drop(cx.pipe_to_self(async {}, |()| boom())))),
    ("on_done", |_, system, _| {
        let done = system.scope("done").unwrap();
        done.on_done(|_| boom());
        done.close();
    }),
    ("on_event", |_, system, _| drop(system.on_event(|_| boom()))),
    ("Props::new", |_, system, _| drop(system.spawn("factory", Props::new(|| -> Doer { boom() })).unwrap())),
    ("Props::from_fn state", |_, system, _| {
        drop(system.spawn("state", Props::from_fn(|| -> u8 { boom() }, |_, ()| Ok::<(), &str>(()))).unwrap());
    }),
    ("Props::from_fn", |_, system, _| {
        let actor = system.spawn("handle", Props::from_fn(|| (), |(), ()| -> Result<(), &str> { boom() })).unwrap();
        actor.tell(()).unwrap();
    }),
    ("Props::describe", |_, system, _| {
        let props = Props::from_fn(|| (), |(), ()| Err("no")).describe(|_| boom());
        system.spawn("describe", props).unwrap().tell(()).unwrap();
    }),
    ("Props::map_system", |_, system, _| {
        let props = Doer::props(&Log::new()).map_system(|_| boom());
        let parent = system.spawn("map", props).unwrap();
        parent.tell(Job::act(|cx| cx.spawn("child", Doer::props(&Log::new())).unwrap().stop())).unwrap();
    }),
    ("strategy", |_, system, _| {
        let crew = system.supervisor("crew", |_: &FailureInfo| -> SupervisorDirective { boom() }).unwrap();
        crew.spawn("a", Doer::props(&Log::new())).unwrap().tell(Job::Fail("no")).unwrap();
    }),
    ("ask", |sim, _, actor| {
        let asker = sim.scope();
        let actor = actor.clone();
        asker.launch(async move { drop(actor.ask(|_: Reply<u32>| boom()).await) }).unwrap();
        sim.settle();
    }),
    ("ActorRef::map", |sim, _, actor| {
        let sender = sim.scope();
        let mapped = actor.map(|_: u32| -> Job { boom() });
        sender.launch(async move { drop(mapped.tell(1)) }).unwrap();
        sim.settle();
    }),
    ("Topic::subscribe_with", |sim, _, actor| {
        let topic = Topic::<u32>::new();
        topic.subscribe_with(actor, SlowSubscriber::Drop, |_| boom());
        assert_eq!(sim.run(topic.publish(1)).failed, 1);
    }),
    ("pool props", |_, system, _| {
        drop(system.pool("pool", 2, |_| Props::new(|| -> Doer { boom() })).build());
    }),
    ("launch", |sim, _, _| {
        let scope = sim.scope();
        scope.launch(boom_task()).unwrap();
        sim.settle();
    }),
    ("produce", |sim, _, _| {
        let scope = sim.scope();
        drop(scope.produce(1, |_: pleach::Producer<u8>| boom_task()).unwrap());
        sim.settle();
    }),
];

fn tell(actor: &ActorRef<Job>, action: impl FnOnce(&mut Context<Doer>) + Send + 'static) {
    actor.tell(Job::act(action)).unwrap();
}

#[test]
fn w6_closures_that_panic_harm_nobody_else() {
    quiet();
    for (name, hand_in) in CASES {
        let sim = Sim::new(1);
        let (system, log) = (resuming(&sim), Log::new());
        let actor = system.spawn("victim", Doer::props(&log)).unwrap();
        let (bystander, beside) = (Log::new(), Log::new());
        let child = system.spawn("bystander", Doer::props(&bystander)).unwrap();
        child
            .tell(Job::act(|cx| {
                cx.send_every(MS, || Job::Note(1));
            }))
            .unwrap();
        let watcher = system.spawn("watcher", Doer::props(&beside)).unwrap();
        let watched = actor.any();
        watcher.tell(Job::act(move |cx| cx.watch(&watched))).unwrap();
        hand_in(&sim, &system, &actor);
        sim.advance(20 * MS);
        assert!(ticks(&bystander, "1") >= 19, "{name}: {:?}", bystander.seen());
        let still = sim.run(child.ask(|reply| Job::Answer(reply, 7)));
        assert_eq!(still.ok(), Some(7), "{name}: the actor beside it answers");
        if actor.exit().is_none() {
            assert_eq!(sim.run(actor.ask(|reply| Job::Answer(reply, 8))).ok(), Some(8), "{name}: it goes on");
        }
        assert!(sim.run(system.shutdown(Duration::from_secs(1))).is_ok(), "{name}: the tree ends");
        assert!(system.counts().is_settled(), "{name}: {}", system.counts());
        assert!(sim.now() > Instant::ZERO);
    }
}
