//! S15: whatever gives up says so loudly, in words that name what no longer runs, and reaches the root if nobody handles it.

use crate::common::clerk::{Msg, clerks};
use crate::common::logged::logged;
use crate::common::{Doer, Job, Log};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::{GaveUp, RestartBudget, SubscriptionOptions};

fn gave_up(system: &pleach::System) -> impl FnMut() -> Vec<GaveUp> + use<> {
    let mut events = system.hub().subscribe_with(SubscriptionOptions::new().kinds(EventKinds::GAVE_UP));
    move || {
        let told = std::iter::from_fn(|| events.try_next());
        told.filter_map(|event| if let Event::GaveUp(gave_up) = event { Some(gave_up) } else { None }).collect()
    }
}

#[test]
fn s15_four_bad_requests_do_not_end_a_default_pool() {
    let (sim, log) = (Sim::new(1), Log::new());
    let system = sim.system("s");
    let mut gave_up = gave_up(&system);
    let pool = system.pool("pool", 4, clerks(&log)).build().unwrap();
    (0..12).for_each(|n| pool.tell(Msg::Fail(n)).unwrap());
    sim.settle();
    assert_eq!((pool.workers().len(), gave_up().len()), (4, 0), "three failures each");
    pool.tell(Msg::Note(1)).unwrap();
    sim.settle();
    assert_eq!(log.len(), 1);
}

#[test]
fn s15_a_worker_that_fails_too_often_stops_alone_and_the_last_takes_the_pool_along() {
    logged();
    let (sim, log, handed) = (Sim::new(1), Log::new(), Log::new());
    let hands = handed.clone();
    let builder = ActorSystem::builder("s").runtime(sim.runtime());
    let system = builder.on_root_failure(move |failure, _| hands.push(failure.clone())).build().unwrap();
    let mut gave_up = gave_up(&system);
    let pool = system.pool("giving-pool", 2, clerks(&log)).by_key(|_: &Msg| 0).build().unwrap();
    let fail_four_times = || {
        (0..4).for_each(|n| pool.tell(Msg::Fail(n)).unwrap());
        sim.settle();
    };
    fail_four_times();
    let told = gave_up();
    assert_eq!((told.len(), told[0].stopped, told[0].left, pool.workers().len()), (1, 1, 1, 1));
    assert!(told[0].to_string().ends_with("after 3 restarts in 5s; it stopped, 1 other goes on"), "{}", told[0]);
    assert_eq!((handed.len(), pool.any().exit()), (0, None));
    fail_four_times();
    let told = gave_up();
    let words = "supervisor /user/giving-pool gave up after 3 restarts in 5s; 1 child stopped";
    assert_eq!(told.iter().map(ToString::to_string).collect::<Vec<_>>(), [words]);
    assert!(matches!(pool.any().exit(), Some(Exit::Failed(_))));
    assert_eq!(handed.len(), 1, "the root handler may bring the process down");
    let mut lines = logged().take();
    lines.retain(|line| line.contains("giving-pool"));
    assert!(lines.iter().all(|line| line.starts_with("ERROR")) && lines.iter().any(|line| line.contains(words)), "{lines:?}");
}

#[test]
fn s15_a_supervisor_that_gives_up_says_how_many_children_stopped_and_says_it_once() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let mut gave_up = gave_up(&system);
    let crew = system.supervisor("workers", OneForOne::new()).unwrap();
    let doers: Vec<_> = (0..9).map(|n| crew.spawn(&n.to_string(), Doer::props(&Log::new())).unwrap()).collect();
    doers.iter().for_each(|doer| doer.tell(Job::Fail("no")).unwrap());
    sim.settle();
    let told: Vec<_> = gave_up().iter().map(ToString::to_string).collect();
    assert_eq!(told, ["supervisor /user/workers gave up after 3 restarts in 5s; 9 children stopped"]);
    assert_eq!(system.unhandled(), 1);
}

#[test]
fn s15_actors_at_the_top_have_a_budget_each() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let mut gave_up = gave_up(&system);
    let doers: Vec<_> = (0..9).map(|n| system.spawn(&n.to_string(), Doer::props(&Log::new())).unwrap()).collect();
    doers.iter().for_each(|doer| doer.tell(Job::Fail("no")).unwrap());
    sim.settle();
    assert!(doers.iter().all(|doer| doer.exit().is_none()), "one failure each");
    (0..3).for_each(|_| doers[0].tell(Job::Fail("no")).unwrap());
    sim.settle();
    let told: Vec<_> = gave_up().iter().map(ToString::to_string).collect();
    assert_eq!(told, ["supervisor /user gave up on /user/0 after 3 restarts in 5s; it stopped, 8 others go on"]);
    assert_eq!((system.unhandled(), doers.iter().filter(|doer| doer.exit().is_none()).count()), (1, 8));
}

#[test]
fn s15_a_budget_for_each_child_can_be_asked_for() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let strategy = OneForOne::new().intensity(1, Duration::from_secs(5)).budget(RestartBudget::PerChild);
    let crew = system.supervisor("crew", strategy).unwrap();
    let doers: Vec<_> = (0..3).map(|n| crew.spawn(&n.to_string(), Doer::props(&Log::new())).unwrap()).collect();
    let fail_all = || {
        doers.iter().for_each(|doer| drop(doer.tell(Job::Fail("no"))));
        sim.settle();
    };
    fail_all();
    assert!(doers.iter().all(|doer| doer.exit().is_none()));
    fail_all();
    assert!(doers.iter().all(|doer| doer.exit().is_some()) && crew.any().exit().is_some(), "the last one took it along");
    assert_eq!(system.unhandled(), 1);
}
