//! Finding an actor by its path.

use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::{BoxError, LookupError};

fn counter() -> Props<impl Actor<Msg = u32>> {
    Props::from_fn(
        || 0,
        |sum: &mut u32, n: u32| -> Result<(), BoxError> {
            *sum += n;
            Ok(())
        },
    )
}

#[test]
fn a13_an_actor_is_found_by_its_path_with_its_message_type_checked() {
    let sim = Sim::new(1);
    let system = sim.system("shop");
    let crew = system.supervisor("crew", OneForOne::new()).unwrap();
    let adder = crew.spawn("adder", counter()).unwrap();
    let path: ActorPath = "/user/crew/adder".parse().unwrap();
    assert_eq!(adder.path(), path);

    let found = system.root().lookup::<u32>(&path).unwrap();
    assert_eq!(found, adder);
    let wrong = system.root().lookup::<String>(&path).unwrap_err();
    assert!(matches!(wrong, LookupError::WrongType { path: at, .. } if at == path));
    let scope = system.root().lookup::<u32>(&crew.path()).unwrap_err();
    assert!(matches!(scope, LookupError::WrongType { .. }));
}

#[test]
fn a13_what_has_ended_or_never_was_is_not_found() {
    let sim = Sim::new(1);
    let system = sim.system("shop");
    let adder = system.spawn("adder", counter()).unwrap();
    let unnamed = system.spawn_unnamed(counter()).unwrap();
    let path = adder.path();
    adder.close();
    assert_eq!(sim.run(adder.exited()), Exit::Closed);

    assert_eq!(system.root().lookup::<u32>(&path), Err(LookupError::NotFound(path.clone())));
    let nowhere: ActorPath = "/user/crew/nobody".parse().unwrap();
    assert_eq!(system.root().lookup::<u32>(&nowhere), Err(LookupError::NotFound(nowhere.clone())));
    // A path on another machine is nobody here, and a name that nobody gave is a name all the same.
    let elsewhere: ActorPath = format!("//node-7{}", unnamed.path()).parse().unwrap();
    assert!(system.root().lookup_any(&elsewhere).is_none());
    assert_eq!(system.root().lookup::<u32>(&unnamed.path()).unwrap(), unnamed);
}
