//! A3, A13 and A19: lookup and names. Each member has one path, and a path leads to one live
//! member.

use crate::common::{Gate, Job, Log, TestActor};
use pleach::BoxError;
use pleach::actor::{Name, NameFault, Refusal};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::system::{DispatchError, LookupError};

fn path(text: &str) -> ActorPath {
    text.parse().unwrap()
}

fn test_props() -> Props<TestActor> {
    TestActor::props(&Log::new())
}

#[test]
fn a13_actor_is_found_by_its_path_and_message_type() {
    explore(0..20, |sim| {
        let system = sim.system("s");
        let root = system.root();
        let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
        let actor = supervisor.spawn("actor", test_props()).unwrap();
        let scope = system.scope("scope").unwrap();
        let scoped = scope.spawn("actor", test_props()).unwrap();
        assert_eq!(root.lookup::<Job>(&path("/user/supervisor/actor")), Ok(actor.clone()));
        assert_eq!(root.lookup::<Job>(&path("/user/scope/actor")), Ok(scoped));
        let found = root.lookup::<Job>(&actor.path()).unwrap();
        assert_eq!(sim.run(found.ask(|reply| Job::Answer(reply, 5))).unwrap(), 5);
    });
}

#[test]
fn a13_lookup_with_another_message_type_is_an_error() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let root = system.root();
    system.spawn("actor", test_props()).unwrap();
    let _scope = system.scope("scope").unwrap();
    match root.lookup::<String>(&path("/user/actor")) {
        Err(LookupError::WrongType { path: at, asked }) => {
            assert_eq!((at, asked), (path("/user/actor"), std::any::type_name::<String>()));
        }
        other => panic!("{other:?}"),
    }
    // A scope, a guardian and the root are not actors.
    for text in ["/user/scope", "/user", "/system", "/"] {
        assert!(matches!(root.lookup::<Job>(&path(text)), Err(LookupError::WrongType { .. })), "{text}");
        assert_eq!(root.lookup_any(&path(text)).unwrap().path(), path(text));
    }
    let any = root.lookup_any(&path("/user/actor")).unwrap();
    assert!(any.actor::<String>().is_none() && any.actor::<Job>().is_some());
}

#[test]
fn a3_dispatched_message_arrives_or_is_returned() {
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
        match root.dispatch(&path("/user/unknown"), 8_u32) {
            Err(DispatchError::Lookup { reason: LookupError::NotFound(at), message: 8 }) => {
                assert_eq!(at, path("/user/unknown"));
            }
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
fn a13_lookup_of_an_unknown_path_finds_nothing() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let root = system.root();
    let actor = system.spawn("actor", test_props()).unwrap();
    for text in ["/user/unknown", "/user/actor/child", "/actor", "/user/$999", "//elsewhere/user/actor"] {
        assert_eq!(root.lookup::<Job>(&path(text)), Err(LookupError::NotFound(path(text))), "{text}");
    }
    assert!(sim.system("other").root().lookup_any(&actor.path()).is_none(), "each system has its own tree");
    actor.stop();
    sim.settle();
    assert_eq!(root.lookup::<Job>(&actor.path()), Err(LookupError::NotFound(actor.path())));
}

#[test]
fn a13_lookup_finds_the_same_actor_across_a_restart() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let actor = system.spawn("actor", test_props()).unwrap();
        actor.tell(Job::Fail("no")).unwrap();
        sim.run(async {
            for _ in 0..6 {
                assert_eq!(system.root().lookup::<Job>(&path("/user/actor")), Ok(actor.clone()));
                sim.yield_now().await;
            }
        });
    });
}

#[test]
fn a13_lookup_finds_children_and_unnamed_actors() {
    let sim = Sim::new(0);
    let (system, spawned) = (sim.system("s"), Log::new());
    let parent = system.spawn_unnamed(test_props()).unwrap();
    let children = spawned.clone();
    parent
        .tell(Job::act(move |cx| {
            children.push(cx.spawn("named", test_props()).unwrap());
            children.push(cx.spawn_unnamed(test_props()).unwrap());
            assert_eq!(cx.children().len(), 2);
        }))
        .unwrap();
    sim.settle();
    assert_eq!(parent.path().to_string(), format!("/user/${}", parent.id().get()));
    for child in spawned.take() {
        assert_eq!(child.path().parent(), Some(parent.path()));
        let parsed: ActorPath = child.path().to_string().parse().unwrap();
        assert_eq!(system.root().lookup::<Job>(&parsed), Ok(child));
    }
}

#[test]
fn a19_text_of_a_path_parses_back() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let long = "n".repeat(100);
    for name in ["a", "a name with spaces", "ünïcode", long.as_str()] {
        let actor = system.spawn(name, test_props()).unwrap();
        let at = actor.path();
        assert_eq!(at, path("/user").push_child(Name::new(name).unwrap()));
        assert_eq!(at.last().unwrap().to_string(), name);
        assert_eq!(at.parent().and_then(|user| user.parent()), Some(ActorPath::root()));
        assert_eq!(ActorPath::root().parent(), None);
        assert_eq!(at.to_string().parse(), Ok(at));
    }
}

#[test]
fn a19_name_is_unique_among_siblings_until_the_exit() {
    explore(0..100, |sim| {
        let system = sim.system("s");
        let gate = Gate::new();
        let first = system.spawn("same", test_props()).unwrap();
        first.tell(Job::Pass(gate.clone(), 0)).unwrap();
        sim.settle();
        let refused =
            |why: &Refusal| matches!(why, Refusal::NameTaken { name, parent } if name == "same" && *parent == path("/user"));
        let taken = system.spawn("same", test_props()).unwrap_err();
        assert!(refused(&taken.reason), "{}", taken.reason);
        // No sibling of any kind may have the name. A cousin may.
        assert!(
            refused(&system.scope("same").unwrap_err()) && refused(&system.supervisor("same", OneForOne::new()).unwrap_err())
        );
        let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
        supervisor.spawn("same", taken.into_props()).expect("the props were returned, and cousins may share a name");
        first.stop();
        assert!(refused(&system.spawn("same", test_props()).unwrap_err().reason), "it has not ended yet");
        gate.open();
        sim.run(first.exited());
        let second = system.spawn("same", test_props()).expect("its name is free after the exit");
        assert!(second.id() > first.id() && second != first);
        assert!(matches!(first.tell(Job::Note(1)), Err(SendError::Closed(_))), "the old address is closed");
        second.tell(Job::Fail("no")).unwrap();
        sim.run(async {
            for _ in 0..6 {
                assert!(refused(&system.spawn("same", test_props()).unwrap_err().reason), "a restart does not free the name");
                sim.yield_now().await;
            }
        });
    });
}

#[test]
fn a19_bad_name_is_refused_with_the_reason() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let props = || Props::from_fn(|| (), |(): &mut (), (): ()| Ok::<(), BoxError>(()));
    let long = "x".repeat(200);
    let bad = [("", NameFault::Blank), ("$1", NameFault::Reserved), ("a/b", NameFault::Character), (&long, NameFault::TooLong)];
    for (name, fault) in bad {
        match system.spawn(name, props()).unwrap_err().reason {
            Refusal::Name(error) => assert_eq!(error.reason, fault),
            other => panic!("{other}"),
        }
    }
    assert_eq!(system.root().running().len(), 2, "only the two guardians remain");
}
