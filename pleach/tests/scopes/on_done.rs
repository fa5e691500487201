//! `on_done` of anything in the tree: T10. And names and capacities that cannot be.

use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{BoxError, NAME_LEN_MAX, NameFault, Refusal};
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

fn quiet() -> Props<impl Actor<Msg = u32>> {
    Props::from_fn(|| (), |(), n: u32| if n == 0 { Err(BoxError::from("zero")) } else { Ok(()) })
}

type Exits = Arc<Mutex<Vec<Exit>>>;

/// Puts the exit on a list.
fn note(exits: &Exits) -> impl FnOnce(&Exit) + Send + 'static {
    let exits = Arc::clone(exits);
    move |exit| exits.lock().unwrap().push(exit.clone())
}

#[test]
fn t10_on_done_runs_exactly_once_with_the_exit_for_everything_in_the_tree() {
    explore(0..200, |sim| {
        let system = sim.system("t10");
        let scope = system.scope("s").unwrap();
        let returned = scope.launch(async {}).unwrap();
        let failed = scope.task().isolated().launch(async { Err::<(), BoxError>("bad".into()) }).unwrap();
        let cancelled = scope.launch(pending::<()>()).unwrap();
        let stopped = scope.actor("stopped", quiet()).unwrap();
        let closed = scope.actor("closed", quiet()).unwrap();
        let crew = scope.supervisor("crew", OneForOne::new()).unwrap();
        let inner = scope.scope("inner").unwrap();
        let produced = scope.produce::<u32, _>(1, |_| async {}).unwrap();
        let all = [
            returned.any(),
            failed.any(),
            cancelled.any(),
            stopped.any(),
            closed.any(),
            crew.any(),
            inner.any(),
            produced.task().any(),
            scope.any(),
        ];
        let exits: Vec<Exits> = all.iter().map(|_| Exits::default()).collect();
        for (one, exits) in all.iter().zip(&exits) {
            one.on_done(note(exits));
        }
        stopped.stop();
        closed.close();
        crew.any().stop();
        // Two causes of an end at once must still be one end.
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
        for ((one, exits), expected) in all.iter().zip(&exits).zip(expected) {
            let exits = exits.lock().unwrap();
            assert_eq!(exits.len(), 1, "{}: {exits:?}", one.path());
            match expected {
                Some(expected) => assert_eq!(exits[0], expected, "{}", one.path()),
                None => assert_eq!(exits[0].failure().unwrap().reason().to_string(), "bad"),
            }
            assert_eq!(sim.run(one.exited()), exits[0]);
        }
        // Registered after the exit it runs at once, here.
        for one in &all {
            let late = Exits::default();
            one.on_done(note(&late));
            assert_eq!(*late.lock().unwrap(), [one.exit().unwrap()]);
        }
    });
}

#[test]
fn t10_the_system_itself_has_an_end() {
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
fn t10_a_panic_inside_is_recorded_and_does_not_stop_the_rest() {
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
        let actor = scope.actor("actor", quiet()).unwrap();
        let after = Exits::default();
        for one in [task.any(), actor.any()] {
            one.on_done(|_| panic!("in on_done"));
            one.on_done(note(&after));
            one.on_done(|_| panic!("again"));
            one.on_done(note(&after));
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
        // A panic there is no failure of the child: nothing was cancelled.
        assert_eq!(scope.token().cause(), None);
    });
}

#[test]
fn t10_it_runs_outside_every_lock() {
    explore(0..50, |sim| {
        let system = sim.system("t10");
        let scope = Arc::new(system.scope("s").unwrap());
        let task = scope.task().named("task").launch(async {}).unwrap();
        let actor = scope.actor("actor", quiet()).unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let (home, me, count, root) = (Arc::clone(&scope), task.clone(), Arc::clone(&ran), system.root());
        task.on_done(move |exit| {
            // Whatever takes a lock of the tree: none of it may be held here.
            assert_eq!(me.any().exit().as_ref(), Some(exit));
            let again = Arc::clone(&count);
            me.on_done(move |_| _ = again.fetch_add(1, Ordering::Relaxed));
            home.launch(async {}).unwrap();
            assert!(home.try_wait_all().is_err() && home.children().len() >= 2);
            home.on_done(|_| {});
            actor.tell(1).unwrap();
            assert!(!actor.counts().is_settled() && !root.running().is_empty());
            root.lookup_any(&me.path()).expect("still in the tree while its on_done runs");
            home.cancel("from on_done");
            root.kill();
            count.fetch_add(1, Ordering::Relaxed);
        });
        sim.run(system.ended()).unwrap();
        assert_eq!((ran.load(Ordering::Relaxed), system.failures()), (2, 0));
        assert!(system.counts().is_settled());
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t10_ends_that_race_run_it_once() {
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
        tokio::time::timeout(Duration::from_secs(20), all).await.expect("each of them runs");
        assert_eq!(ran.load(Ordering::SeqCst), 4);
    }
}

fn fault(why: Refusal) -> NameFault {
    let Refusal::Name(error) = why else { panic!("not the name: {why}") };
    assert!(error.to_string().contains(&format!("{:?}", error.name)), "{error}");
    error.why
}

#[test]
fn a19_bad_names_are_refused_everywhere_and_hand_back_what_was_not_started() {
    let sim = Sim::new(19);
    let system = sim.system("a19");
    let scope = system.scope("s").unwrap();
    let crew = system.supervisor("crew", OneForOne::new()).unwrap();
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
        assert_eq!(fault(scope.actor(name, quiet()).unwrap_err().why), expected, "{name:?}");
        assert_eq!(fault(system.spawn(name, quiet()).unwrap_err().why), expected, "{name:?}");
        assert_eq!(fault(crew.spawn(name, quiet()).unwrap_err().why), expected, "{name:?}");
        assert_eq!(fault(scope.scope(name).unwrap_err()), expected, "{name:?}");
        assert_eq!(fault(system.scope(name).unwrap_err()), expected, "{name:?}");
        assert_eq!(fault(crew.supervisor(name, OneForOne::new()).unwrap_err()), expected, "{name:?}");
        let refused = scope.task().named(name).launch(async { Ok::<(), BoxError>(()) }).unwrap_err();
        assert_eq!(fault(refused.why.clone()), expected, "{name:?}");
        assert!(sim.run(refused.into_future()).is_ok());
        let built = ActorSystem::builder(name).runtime(sim.runtime()).build();
        assert!(matches!(built, Err(pleach::Error::Refused(why)) if fault(why.clone()) == expected));
    }
    assert!(scope.children().is_empty(), "nothing refused stays behind");
    assert!(scope.actor(&"x".repeat(NAME_LEN_MAX), quiet()).is_ok());
}

#[test]
fn a19_a_name_is_free_again_once_its_holder_is_gone_and_ids_are_not() {
    explore(0..50, |sim| {
        let scope = sim.scope();
        let first = scope.actor("a", quiet()).unwrap();
        let taken = scope.task().named("a").launch(async {}).unwrap_err();
        let parent = scope.path();
        assert_eq!(taken.why, Refusal::NameTaken { name: "a".into(), parent });
        assert!(
            sim.run(async {
                taken.into_future().await;
                true
            }),
            "it can still be awaited"
        );
        assert!(matches!(scope.scope("a").unwrap_err(), Refusal::NameTaken { .. }));
        let elsewhere = scope.scope("b").unwrap();
        assert!(elsewhere.actor("a", quiet()).is_ok(), "only siblings share names");
        first.close();
        // The name is taken until the exit can be seen, and free from then on.
        let again = sim.run(async {
            let exit = first.exited().await;
            assert_eq!(exit, Exit::Closed);
            scope.actor("a", quiet()).unwrap()
        });
        assert_eq!(again.path(), first.path());
        assert!(again.id() > first.id());
    });
}

#[test]
fn a_mailbox_without_capacity_is_refused_and_the_props_come_back() {
    let sim = Sim::new(1);
    let system = sim.system("capacity");
    let refused = system.spawn("a", quiet().mailbox(Mailbox::bounded(0))).unwrap_err();
    assert_eq!(refused.why, Refusal::NoCapacity);
    assert!(refused.to_string().contains("at least 1"), "{refused}");
    let actor = system.spawn("a", refused.into_props().mailbox(Mailbox::bounded(1))).unwrap();
    actor.tell(1).unwrap();
    assert!(matches!(actor.tell(1), Err(SendError::Full(1))));
    // A channel of a producer has room for one at least.
    let mut produced = system
        .scope("s")
        .unwrap()
        .produce(0, |mut out| async move {
            out.send(7).await.map_err(drop).ok();
        })
        .unwrap();
    assert_eq!(sim.run(produced.next()), None, "the scope went first");
}
