//! A13's lookup and A19's names: whatever runs has one path, and a path leads to one live thing.

use crate::common::{Doer, Gate, Job, Log};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{BoxError, DispatchError, LookupError, Name, NameFault, Refusal};

fn path(text: &str) -> ActorPath {
    text.parse().unwrap()
}

fn doer() -> Props<Doer> {
    Doer::props(&Log::new())
}

#[test]
fn a13_an_actor_is_found_by_its_path_with_its_message_type() {
    explore(0..20, |sim| {
        let system = sim.system("s");
        let root = system.root();
        let crew = system.supervisor("crew", OneForOne::new()).unwrap();
        let actor = crew.spawn("doer", doer()).unwrap();
        let scope = system.scope("scope").unwrap();
        let scoped = scope.actor("doer", doer()).unwrap();
        assert_eq!(root.lookup::<Job>(&path("/user/crew/doer")), Ok(actor.clone()));
        assert_eq!(root.lookup::<Job>(&path("/user/scope/doer")), Ok(scoped));
        let found = root.lookup::<Job>(&actor.path()).unwrap();
        assert_eq!(sim.run(found.ask(|reply| Job::Answer(reply, 5))).unwrap(), 5);
    });
}

#[test]
fn a13_another_message_type_is_an_error_that_names_it() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let root = system.root();
    system.spawn("doer", doer()).unwrap();
    let _scope = system.scope("scope").unwrap();
    match root.lookup::<String>(&path("/user/doer")) {
        Err(LookupError::WrongType { path: at, asked }) => {
            assert_eq!((at, asked), (path("/user/doer"), std::any::type_name::<String>()));
        }
        other => panic!("{other:?}"),
    }
    // A scope, a guardian and the root are no actors.
    for text in ["/user/scope", "/user", "/system", "/"] {
        assert!(matches!(root.lookup::<Job>(&path(text)), Err(LookupError::WrongType { .. })), "{text}");
        assert_eq!(root.lookup_any(&path(text)).unwrap().path(), path(text));
    }
    let any = root.lookup_any(&path("/user/doer")).unwrap();
    assert!(any.actor::<String>().is_none() && any.actor::<Job>().is_some());
}

#[test]
fn a3_what_is_dispatched_to_a_path_gets_there_or_comes_back() {
    explore(0..20, |sim| {
        let system = sim.system("s");
        let root = system.root();
        let sum = |sum: &mut u32, n: u32| {
            *sum += n;
            Ok::<(), BoxError>(())
        };
        let actor = system.spawn("sum", Props::from_fn(|| 0, sum)).unwrap();
        root.dispatch(&actor.path(), 7_u32).unwrap();
        sim.settle();
        assert_eq!(actor.counts().handled, 1);
        match root.dispatch(&path("/user/nobody"), 8_u32) {
            Err(DispatchError::Lookup { why: LookupError::NotFound(at), message: 8 }) => assert_eq!(at, path("/user/nobody")),
            other => panic!("{other:?}"),
        }
        let wrong = root.dispatch(&actor.path(), "nine".to_string()).unwrap_err();
        assert!(wrong.to_string().contains("String"), "{wrong}");
        assert!(matches!(wrong, DispatchError::Lookup { message, .. } if message == "nine"));
        actor.close();
        assert!(matches!(root.dispatch(&actor.path(), 10_u32), Err(DispatchError::Send(SendError::Closed(10)))));
    });
}

#[test]
fn a13_nothing_is_found_where_nothing_lives() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let root = system.root();
    let actor = system.spawn("doer", doer()).unwrap();
    for text in ["/user/nobody", "/user/doer/child", "/doer", "/user/$999", "//elsewhere/user/doer"] {
        assert_eq!(root.lookup::<Job>(&path(text)), Err(LookupError::NotFound(path(text))), "{text}");
    }
    assert!(sim.system("other").root().lookup_any(&actor.path()).is_none(), "each system has its own tree");
    actor.stop();
    sim.settle();
    assert_eq!(root.lookup::<Job>(&actor.path()), Err(LookupError::NotFound(actor.path())));
}

#[test]
fn a13_a_lookup_finds_the_same_actor_across_a_restart() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let actor = system.spawn("doer", doer()).unwrap();
        actor.tell(Job::Fail("no")).unwrap();
        sim.run(async {
            for _ in 0..6 {
                assert_eq!(system.root().lookup::<Job>(&path("/user/doer")), Ok(actor.clone()));
                sim.step_aside().await;
            }
        });
    });
}

#[test]
fn a13_children_and_the_unnamed_are_found_too() {
    let sim = Sim::new(0);
    let (system, born) = (sim.system("s"), Log::new());
    let parent = system.spawn_unnamed(doer()).unwrap();
    let children = born.clone();
    parent
        .tell(Job::act(move |cx| {
            children.push(cx.spawn("named", doer()).unwrap());
            children.push(cx.spawn_unnamed(doer()).unwrap());
            assert_eq!(cx.children().len(), 2);
        }))
        .unwrap();
    sim.settle();
    assert_eq!(parent.path().to_string(), format!("/user/${}", parent.id().get()));
    for child in born.take() {
        assert_eq!(child.path().parent(), Some(parent.path()));
        let parsed: ActorPath = child.path().to_string().parse().unwrap();
        assert_eq!(system.root().lookup::<Job>(&parsed), Ok(child));
    }
}

#[test]
fn a19_a_path_goes_from_the_root_and_its_text_parses_back() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let long = "n".repeat(100);
    for name in ["a", "a name with spaces", "ünïcode", long.as_str()] {
        let actor = system.spawn(name, doer()).unwrap();
        let at = actor.path();
        assert_eq!(at, path("/user").push_child(Name::new(name).unwrap()));
        assert_eq!(at.last().unwrap().to_string(), name);
        assert_eq!(at.parent().and_then(|user| user.parent()), Some(ActorPath::root()));
        assert_eq!(ActorPath::root().parent(), None);
        assert_eq!(at.to_string().parse(), Ok(at));
    }
}

#[test]
fn a19_names_are_unique_among_live_siblings_and_free_again_after_the_exit() {
    explore(0..100, |sim| {
        let system = sim.system("s");
        let gate = Gate::new();
        let first = system.spawn("twin", doer()).unwrap();
        first.tell(Job::Pass(gate.clone(), 0)).unwrap();
        sim.settle();
        let refused =
            |why: &Refusal| matches!(why, Refusal::NameTaken { name, parent } if name == "twin" && *parent == path("/user"));
        let taken = system.spawn("twin", doer()).unwrap_err();
        assert!(refused(&taken.why), "{}", taken.why);
        // No kind of child may have it, a cousin may.
        assert!(
            refused(&system.scope("twin").unwrap_err()) && refused(&system.supervisor("twin", OneForOne::new()).unwrap_err())
        );
        let crew = system.supervisor("crew", OneForOne::new()).unwrap();
        crew.spawn("twin", taken.into_props()).expect("the props came back, and cousins may share a name");
        first.stop();
        assert!(refused(&system.spawn("twin", doer()).unwrap_err().why), "it has not ended yet");
        gate.open();
        sim.run(first.exited());
        let second = system.spawn("twin", doer()).expect("once it has exited, its name is free");
        assert!(second.id() > first.id() && second != first);
        assert!(
            matches!(first.tell(Job::Note(1)), Err(SendError::Closed(_))),
            "the old address does not lead to the new actor"
        );
        second.tell(Job::Fail("no")).unwrap();
        sim.run(async {
            for _ in 0..6 {
                assert!(refused(&system.spawn("twin", doer()).unwrap_err().why), "a restart does not free it");
                sim.step_aside().await;
            }
        });
    });
}

#[test]
fn a19_a_bad_name_is_refused_with_what_is_wrong() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let props = || Props::from_fn(|| (), |(): &mut (), (): ()| Ok::<(), BoxError>(()));
    let long = "x".repeat(200);
    let bad = [("", NameFault::Blank), ("$1", NameFault::Reserved), ("a/b", NameFault::Character), (&long, NameFault::TooLong)];
    for (name, fault) in bad {
        match system.spawn(name, props()).unwrap_err().why {
            Refusal::Name(error) => assert_eq!(error.why, fault),
            other => panic!("{other}"),
        }
    }
    assert_eq!(system.root().running().len(), 2, "nothing was left behind but the two guardians");
}
