//! A21: ways to start an actor: once, with a context, from every parent, and awaited until it is up.

use crate::common::{Doer, Gate, Job, Log};
use pleach::prelude::*;
use pleach::sim::explore;
use pleach::{BoxError, NotStarted, Starting};

struct Door {
    gate: Gate,
    log: Log<String>,
    fails: u32,
}

impl Actor for Door {
    type Msg = ();
    type Error = BoxError;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.gate.pass().await;
        self.log.note("up");
        if cx.incarnation() < self.fails { Err("not yet".into()) } else { Ok(()) }
    }

    async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn door(gate: &Gate, log: &Log<String>, fails: u32) -> Props<Door> {
    let (gate, log) = (gate.clone(), log.clone());
    Props::new(move || Door { gate: gate.clone(), log: log.clone(), fails })
}

#[test]
fn w11_spawn_started_resolves_when_started_has_run() {
    explore(0..20, |sim| {
        let (system, gate, log) = (sim.system("s"), Gate::new(), Log::new());
        let crew = system.supervisor("crew", OneForOne::new()).unwrap();
        let scope = system.scope("scope").unwrap();
        type Spawn<'a> = &'a dyn Fn(Props<Door>) -> Starting<Door>;
        let parents: [Spawn<'_>; 3] =
            [&|props| system.spawn_started("a", props), &|props| crew.spawn_started("a", props), &|props| {
                scope.spawn_started("a", props)
            }];
        for spawn in parents {
            let mut starting = spawn(door(&gate, &log, 1));
            sim.settle();
            assert!(sim.run(async { futures::poll!(&mut starting) }).is_pending());
            gate.open();
            sim.settle();
            assert!(sim.run(async { futures::poll!(&mut starting) }).is_pending(), "the first incarnation did not come up");
            gate.open();
            let actor = sim.run(starting).unwrap();
            assert_eq!((log.take().len(), actor.exit()), (2, None));
        }
    });
}

#[test]
fn w11_spawn_started_tells_of_an_actor_that_never_came_up() {
    explore(0..20, |sim| {
        let (system, gate, log) = (sim.system("s"), Gate::new(), Log::new());
        let starting = system.spawn_started("a", door(&gate, &log, 0).restart(RestartPolicy::Temporary));
        sim.settle();
        let twin = sim.run(system.spawn_started("a", door(&gate, &log, 0)));
        assert!(matches!(twin, Err(NotStarted::Refused(_))));
        system.root().lookup_any(&"/user/a".parse().unwrap()).unwrap().cancel("no");
        let error = sim.run(starting).err().unwrap();
        assert_eq!(error.to_string(), "/user/a ended before it had started: cancelled: no");
    });
}

/// Cannot be cloned or made again.
struct Once(Log<String>);

impl Actor for Once {
    type Msg = Option<u32>;
    type Error = BoxError;

    async fn handle(&mut self, n: Option<u32>, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.0.note(n.ok_or("nothing")?);
        Ok(())
    }
}

#[test]
fn w11_an_actor_made_once_is_not_restarted() {
    crate::common::quiet();
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let crew = system.supervisor("crew", OneForOne::new()).unwrap();
        let one = crew.spawn("one", Props::once(Once(log.clone()))).unwrap();
        one.tell(Some(1)).unwrap();
        one.tell(None).unwrap();
        one.tell(Some(2)).unwrap();
        assert!(matches!(sim.run(one.exited()), Exit::Failed(_)));
        assert_eq!((log.take(), system.failures()), (vec!["1".to_string()], 1), "it fails once, and ends");
        assert!(system.counts().is_settled(), "{}", system.counts());
    });
}

#[test]
fn w11_from_fn_with_is_given_its_context() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::<String>::new());
        let seen = log.clone();
        let props = Props::from_fn_with(
            || 2u32,
            move |left: &mut u32, (): (), cx| {
                seen.note(format!("{} {left}", cx.path()));
                *left -= 1;
                match *left {
                    0 => cx.stop(),
                    _ => drop(cx.me().tell(())),
                }
                Ok::<(), BoxError>(())
            },
        );
        let actor = system.spawn("a", props).unwrap();
        actor.tell(()).unwrap();
        assert_eq!(sim.run(actor.exited()), Exit::Stopped);
        assert_eq!(log.take(), ["/user/a 2", "/user/a 1"]);
    });
}

#[test]
fn w11_every_parent_spawns_by_the_same_verb() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let crew = system.supervisor("crew", OneForOne::new()).unwrap();
        let scope = system.scope("scope").unwrap();
        let parent = system.spawn("parent", Doer::props(&log)).unwrap();
        let below = log.clone();
        parent.tell(Job::act(move |cx| drop(cx.spawn("a", Doer::props(&below)).unwrap()))).unwrap();
        for actor in [crew.spawn("a", Doer::props(&log)).unwrap(), scope.spawn("a", Doer::props(&log)).unwrap()] {
            assert_eq!(sim.run(actor.ask(|reply| Job::Answer(reply, 1))).unwrap(), 1);
        }
        scope.spawn_unnamed(Doer::props(&log)).unwrap().stop();
        crew.stop();
        assert_eq!(sim.run(crew.exited()), Exit::Stopped);
    });
}
