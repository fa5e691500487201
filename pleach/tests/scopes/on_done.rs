//! T10 and A19: `on_done` of every kind of member; invalid names and capacities.

use pleach::BoxError;
use pleach::actor::{NAME_LEN_MAX, NameFault, Refusal};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// An actor that fails on zero.
fn fails_on_zero() -> Props<impl Actor<Msg = u32>> {
    Props::from_fn(|| (), |(), n: u32| if n == 0 { Err(BoxError::from("zero")) } else { Ok(()) })
}

type Exits = Arc<Mutex<Vec<Exit>>>;

/// A callback that appends the exit to `exits`.
fn note(exits: &Exits) -> impl FnOnce(&Exit) + Send + 'static {
    let exits = Arc::clone(exits);
    move |exit| exits.lock().unwrap().push(exit.clone())
}

#[test]
fn t10_on_done_runs_once_with_the_exit_of_every_member() {
    explore(0..200, |sim| {
        let system = sim.system("t10");
        let scope = system.scope("s").unwrap();
        let returned = scope.launch(async {}).unwrap();
        let failed = scope.task().isolated().launch(async { Err::<(), BoxError>("bad".into()) }).unwrap();
        let cancelled = scope.launch(pending::<()>()).unwrap();
        let stopped = scope.spawn("stopped", fails_on_zero()).unwrap();
        let closed = scope.spawn("closed", fails_on_zero()).unwrap();
        let supervisor = scope.supervisor("supervisor", OneForOne::new()).unwrap();
        let inner = scope.scope("inner").unwrap();
        let produced = scope.produce::<u32, _>(1, |_| async {}).unwrap();
        let all = [
            returned.any(),
            failed.any(),
            cancelled.any(),
            stopped.any(),
            closed.any(),
            supervisor.any(),
            inner.any(),
            produced.task().any(),
            scope.any(),
        ];
        let exits: Vec<Exits> = all.iter().map(|_| Exits::default()).collect();
        for (member, exits) in all.iter().zip(&exits) {
            member.on_done(note(exits));
        }
        stopped.stop();
        closed.close();
        supervisor.any().stop();
        // Two causes at once are still one exit.
        cancelled.cancel("first");
        cancelled.cancel("second");
        inner.cancel("enough");
        inner.stop();
        drop(inner);
        sim.run(scope.wait_all()).unwrap();
        scope.close();
        scope.cancel("too late");
        drop(scope);
        sim.settle();
        let expected = [
            Some(Exit::Closed),
            None,
            Some(Exit::Cancelled("first".into())),
            Some(Exit::Stopped),
            Some(Exit::Closed),
            Some(Exit::Stopped),
            Some(Exit::Cancelled("enough".into())),
            Some(Exit::Closed),
            Some(Exit::Closed),
        ];
        for ((member, exits), expected) in all.iter().zip(&exits).zip(expected) {
            let exits = exits.lock().unwrap();
            assert_eq!(exits.len(), 1, "{}: {exits:?}", member.path());
            match expected {
                Some(expected) => assert_eq!(exits[0], expected, "{}", member.path()),
                None => assert_eq!(exits[0].failure().unwrap().reason().to_string(), "bad"),
            }
            assert_eq!(sim.run(member.exited()), exits[0]);
        }
        // Registered after the exit, it runs at once.
        for member in &all {
            let late = Exits::default();
            member.on_done(note(&late));
            assert_eq!(*late.lock().unwrap(), [member.exit().unwrap()]);
        }
    });
}

#[test]
fn t10_on_done_works_for_the_system_itself() {
    let sim = Sim::new(10);
    let system = sim.system("t10");
    let exits: Vec<Exits> = (0..3).map(|_| Exits::default()).collect();
    for (path, exits) in ["/", "/user", "/system"].iter().zip(&exits) {
        system.root().lookup_any(&path.parse().unwrap()).unwrap().on_done(note(exits));
    }
    sim.run(system.shutdown(Duration::from_secs(1))).unwrap();
    assert!(exits.iter().all(|exits| *exits.lock().unwrap() == [Exit::Closed]), "{exits:?}");
}

#[test]
fn t10_panic_in_on_done_is_recorded_and_the_others_run() {
    explore(0..50, |sim| {
        let system = sim.system("t10");
        let failures = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&failures);
        system.on_event(move |event| {
            if let Event::Failed(failure) = event {
                log.lock().unwrap().push((failure.path().to_string(), failure.reason().to_string()));
            }
        });
        let scope = system.scope("s").unwrap();
        let task = scope.task().named("task").launch(async {}).unwrap();
        let actor = scope.spawn("actor", fails_on_zero()).unwrap();
        let after = Exits::default();
        for member in [task.any(), actor.any()] {
            member.on_done(|_| panic!("in on_done"));
            member.on_done(note(&after));
            member.on_done(|_| panic!("again"));
            member.on_done(note(&after));
        }
        actor.close();
        sim.run(scope.wait_all()).unwrap();
        assert_eq!(*after.lock().unwrap(), vec![Exit::Closed; 4]);
        task.on_done(|_| panic!("late"));
        assert_eq!(system.failures(), 5);
        let failures = failures.lock().unwrap();
        let of = |path: &str| failures.iter().filter(|(from, _)| from == path).map(|(_, why)| why.as_str()).collect::<Vec<_>>();
        assert_eq!((of("/user/s/task").len(), of("/user/s/actor").len()), (3, 2));
        assert!(of("/user/s/task")[2].ends_with(": late"), "{failures:?}");
        // A panic in `on_done` is not a failure of the child: the scope is not cancelled.
        assert_eq!(scope.token().cause(), None);
    });
}

#[test]
fn t10_on_done_runs_outside_of_every_lock() {
    explore(0..50, |sim| {
        let system = sim.system("t10");
        let scope = Arc::new(system.scope("s").unwrap());
        let task = scope.task().named("task").launch(async {}).unwrap();
        let actor = scope.spawn("actor", fails_on_zero()).unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let (owner, me, count, root) = (Arc::clone(&scope), task.clone(), Arc::clone(&ran), system.root());
        task.on_done(move |exit| {
            // All of these take locks of the tree. None may be held here.
            assert_eq!(me.any().exit().as_ref(), Some(exit));
            let again = Arc::clone(&count);
            me.on_done(move |_| _ = again.fetch_add(1, Ordering::Relaxed));
            owner.launch(async {}).unwrap();
            assert!(owner.try_wait_all().is_err() && owner.children().len() >= 2);
            owner.on_done(|_| {});
            actor.tell(1).unwrap();
            assert!(!actor.counts().is_settled() && !root.running().is_empty());
            root.lookup_any(&me.path()).expect("in the tree while its on_done runs");
            owner.cancel("from on_done");
            root.cancel(Cause::Cancelled);
            count.fetch_add(1, Ordering::Relaxed);
        });
        sim.run(system.ended()).unwrap();
        assert_eq!((ran.load(Ordering::Relaxed), system.failures()), (2, 0));
        assert!(system.counts().is_settled());
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t10_racing_ends_run_on_done_once() {
    for _ in 0..200 {
        let scope = pleach::scope().unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let task = scope.launch(tokio::task::yield_now()).unwrap();
        for _ in 0..4 {
            let (task, ran) = (task.clone(), Arc::clone(&ran));
            tokio::spawn(async move {
                task.on_done(move |_| _ = ran.fetch_add(1, Ordering::SeqCst));
                task.cancel("race");
            });
        }
        drop(scope);
        let exit = task.exited().await;
        assert!(matches!(exit, Exit::Closed | Exit::Cancelled(_)), "{exit}");
        let all = async {
            while ran.load(Ordering::SeqCst) < 4 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), all).await.expect("every callback runs");
        assert_eq!(ran.load(Ordering::SeqCst), 4);
    }
}

fn fault(why: Refusal) -> NameFault {
    let Refusal::Name(error) = why else { panic!("not the name: {why}") };
    assert!(error.to_string().contains(&format!("{:?}", error.name)), "{error}");
    error.reason
}

#[test]
fn a19_bad_names_are_refused_everywhere() {
    let sim = Sim::new(19);
    let system = sim.system("a19");
    let scope = system.scope("s").unwrap();
    let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
    let long = "x".repeat(NAME_LEN_MAX + 1);
    let bad = [
        ("", NameFault::Blank),
        (" \t", NameFault::Blank),
        (long.as_str(), NameFault::TooLong),
        ("$7", NameFault::Reserved),
        ("..", NameFault::Reserved),
        ("a/b", NameFault::Character),
        ("a\0", NameFault::Character),
        ("a ", NameFault::Character),
    ];
    for (name, expected) in bad {
        assert_eq!(fault(scope.spawn(name, fails_on_zero()).unwrap_err().reason), expected, "{name:?}");
        assert_eq!(fault(system.spawn(name, fails_on_zero()).unwrap_err().reason), expected, "{name:?}");
        assert_eq!(fault(supervisor.spawn(name, fails_on_zero()).unwrap_err().reason), expected, "{name:?}");
        assert_eq!(fault(scope.scope(name).unwrap_err()), expected, "{name:?}");
        assert_eq!(fault(system.scope(name).unwrap_err()), expected, "{name:?}");
        assert_eq!(fault(supervisor.supervisor(name, OneForOne::new()).unwrap_err()), expected, "{name:?}");
        let refused = scope.task().named(name).launch(async { Ok::<(), BoxError>(()) }).unwrap_err();
        assert_eq!(fault(refused.reason.clone()), expected, "{name:?}");
        assert!(sim.run(refused.into_future()).is_ok());
        let built = ActorSystem::builder(name).runtime(sim.runtime()).build();
        assert!(matches!(built, Err(pleach::Error::Refused(why)) if fault(why.clone()) == expected));
    }
    assert!(scope.children().is_empty(), "no refused child remains");
    assert!(scope.spawn(&"x".repeat(NAME_LEN_MAX), fails_on_zero()).is_ok());
}

#[test]
fn a19_name_is_free_after_the_exit_but_ids_are_not_reused() {
    explore(0..50, |sim| {
        let scope = sim.scope();
        let first = scope.spawn("a", fails_on_zero()).unwrap();
        let taken = scope.task().named("a").launch(async {}).unwrap_err();
        let parent = scope.path();
        assert_eq!(taken.reason, Refusal::NameTaken { name: "a".into(), parent });
        assert!(
            sim.run(async {
                taken.into_future().await;
                true
            }),
            "the returned future can be awaited"
        );
        assert!(matches!(scope.scope("a").unwrap_err(), Refusal::NameTaken { .. }));
        let elsewhere = scope.scope("b").unwrap();
        assert!(elsewhere.spawn("a", fails_on_zero()).is_ok(), "only siblings share names");
        first.close();
        // The name is taken until the exit is visible.
        let again = sim.run(async {
            let exit = first.exited().await;
            assert_eq!(exit, Exit::Closed);
            scope.spawn("a", fails_on_zero()).unwrap()
        });
        assert_eq!(again.path(), first.path());
        assert!(again.id() > first.id());
    });
}

#[test]
fn mailbox_without_capacity_is_refused_and_returns_the_props() {
    let sim = Sim::new(1);
    let system = sim.system("capacity");
    let refused = system.spawn("a", fails_on_zero().mailbox(Mailbox::bounded(0))).unwrap_err();
    assert_eq!(refused.reason, Refusal::ZeroCapacity);
    assert!(refused.to_string().contains("at least 1"), "{refused}");
    let actor = system.spawn("a", refused.into_props().mailbox(Mailbox::bounded(1))).unwrap();
    actor.tell(1).unwrap();
    assert!(matches!(actor.tell(1), Err(SendError::Full(1))));
    // A channel of a producer has a capacity of at least one.
    let mut produced = system
        .scope("s")
        .unwrap()
        .produce(0, |mut out| async move {
            out.send(7).await.map_err(drop).ok();
        })
        .unwrap();
    assert_eq!(sim.run(produced.next()), None, "the scope was dropped first");
}
