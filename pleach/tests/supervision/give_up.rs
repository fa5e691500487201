//! S15: a supervisor that gives up reports what stopped. An unhandled report reaches the root.

use crate::common::logged::logged;
use crate::common::pool_worker::{Msg, worker_props};
use crate::common::{Job, Log, TestActor};
use pleach::events::{GaveUp, SubscriptionOptions};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::supervise::RestartLimitScope;

fn gave_up(system: &pleach::system::System) -> impl FnMut() -> Vec<GaveUp> + use<> {
    let mut events = system.hub().subscribe_with(SubscriptionOptions::new().kinds(EventKinds::GAVE_UP));
    move || {
        let reports = std::iter::from_fn(|| events.try_next());
        reports.filter_map(|event| if let Event::GaveUp(gave_up) = event { Some(gave_up) } else { None }).collect()
    }
}

#[test]
fn s15_four_bad_requests_do_not_end_a_default_pool() {
    let (sim, log) = (Sim::new(1), Log::new());
    let system = sim.system("s");
    let mut gave_up = gave_up(&system);
    let pool = system.pool("pool", 4, worker_props(&log)).build().unwrap();
    (0..12).for_each(|n| pool.tell(Msg::Fail(n)).unwrap());
    sim.settle();
    assert_eq!((pool.workers().len(), gave_up().len()), (4, 0), "three failures per worker");
    pool.tell(Msg::Note(1)).unwrap();
    sim.settle();
    assert_eq!(log.len(), 1);
}

#[test]
fn s15_worker_over_its_limit_stops_alone_and_the_last_ends_the_pool() {
    logged();
    let (sim, log, handler_calls) = (Sim::new(1), Log::new(), Log::new());
    let handler_log = handler_calls.clone();
    let builder = ActorSystem::builder("s").runtime(sim.runtime());
    let system = builder.on_root_failure(move |failure, _| handler_log.push(failure.clone())).build().unwrap();
    let mut gave_up = gave_up(&system);
    let pool = system.pool("giving-pool", 2, worker_props(&log)).by_key(|_: &Msg| 0).build().unwrap();
    let fail_four_times = || {
        (0..4).for_each(|n| pool.tell(Msg::Fail(n)).unwrap());
        sim.settle();
    };
    fail_four_times();
    let reports = gave_up();
    assert_eq!((reports.len(), reports[0].stopped, reports[0].left, pool.workers().len()), (1, 1, 1, 1));
    assert!(reports[0].to_string().ends_with("after 3 restarts in 5s; it stopped, 1 other continues"), "{}", reports[0]);
    assert_eq!((handler_calls.len(), pool.any().exit()), (0, None));
    fail_four_times();
    let reports = gave_up();
    let expected = "supervisor /user/giving-pool gave up after 3 restarts in 5s; 1 child stopped";
    assert_eq!(reports.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    assert!(matches!(pool.any().exit(), Some(Exit::Failed(_))));
    assert_eq!(handler_calls.len(), 1, "the root handler gets the failure");
    let mut lines = logged().take();
    lines.retain(|line| line.starts_with("ERROR") && line.contains("giving-pool"));
    assert!(lines.iter().any(|line| line.contains(expected)), "{lines:?}");
}

#[test]
fn s15_supervisor_that_gives_up_reports_once_how_many_stopped() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let mut gave_up = gave_up(&system);
    let supervisor = system.supervisor("workers", OneForOne::new()).unwrap();
    let actors: Vec<_> = (0..9).map(|n| supervisor.spawn(&n.to_string(), TestActor::props(&Log::new())).unwrap()).collect();
    actors.iter().for_each(|actor| actor.tell(Job::Fail("no")).unwrap());
    sim.settle();
    let reports: Vec<_> = gave_up().iter().map(ToString::to_string).collect();
    assert_eq!(reports, ["supervisor /user/workers gave up after 3 restarts in 5s; 9 children stopped"]);
    assert_eq!(system.unhandled(), 1);
}

#[test]
fn s15_top_level_actors_have_a_restart_limit_each() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let mut gave_up = gave_up(&system);
    let actors: Vec<_> = (0..9).map(|n| system.spawn(&n.to_string(), TestActor::props(&Log::new())).unwrap()).collect();
    actors.iter().for_each(|actor| actor.tell(Job::Fail("no")).unwrap());
    sim.settle();
    assert!(actors.iter().all(|actor| actor.exit().is_none()), "one failure per actor");
    (0..3).for_each(|_| actors[0].tell(Job::Fail("no")).unwrap());
    sim.settle();
    let reports: Vec<_> = gave_up().iter().map(ToString::to_string).collect();
    assert_eq!(reports, ["supervisor /user gave up on /user/0 after 3 restarts in 5s; it stopped, 8 others continue"]);
    assert_eq!((system.unhandled(), actors.iter().filter(|actor| actor.exit().is_none()).count()), (1, 8));
}

#[test]
fn s15_restart_limit_per_child_can_be_chosen() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let strategy = OneForOne::new().restart_limit(1, Duration::from_secs(5)).limit_scope(RestartLimitScope::PerChild);
    let supervisor = system.supervisor("supervisor", strategy).unwrap();
    let actors: Vec<_> = (0..3).map(|n| supervisor.spawn(&n.to_string(), TestActor::props(&Log::new())).unwrap()).collect();
    let fail_all = || {
        actors.iter().for_each(|actor| drop(actor.tell(Job::Fail("no"))));
        sim.settle();
    };
    fail_all();
    assert!(actors.iter().all(|actor| actor.exit().is_none()));
    fail_all();
    assert!(
        actors.iter().all(|actor| actor.exit().is_some()) && supervisor.any().exit().is_some(),
        "the last child ended the supervisor"
    );
    assert_eq!(system.unhandled(), 1);
}
