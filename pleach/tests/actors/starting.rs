//! A16: ways to start an actor: once, with a context, under each kind of parent, and awaited until
//! it has started.

use crate::common::{Gate, Job, Log, TestActor};
use pleach::BoxError;
use pleach::actor::{SpawnStarted, SpawnStartedError};
use pleach::prelude::*;
use pleach::sim::explore;

struct SlowStart {
    gate: Gate,
    log: Log<String>,
    fails: u32,
}

impl Actor for SlowStart {
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

fn slow_start(gate: &Gate, log: &Log<String>, fails: u32) -> Props<SlowStart> {
    let (gate, log) = (gate.clone(), log.clone());
    Props::new(move || SlowStart { gate: gate.clone(), log: log.clone(), fails })
}

#[test]
fn a16_spawn_started_is_ready_after_the_started_hook() {
    explore(0..20, |sim| {
        let (system, gate, log) = (sim.system("s"), Gate::new(), Log::new());
        let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
        let scope = system.scope("scope").unwrap();
        type Spawn<'a> = &'a dyn Fn(Props<SlowStart>) -> SpawnStarted<SlowStart>;
        let parents: [Spawn<'_>; 3] =
            [&|props| system.spawn_started("a", props), &|props| supervisor.spawn_started("a", props), &|props| {
                scope.spawn_started("a", props)
            }];
        for spawn in parents {
            let mut starting = spawn(slow_start(&gate, &log, 1));
            sim.settle();
            assert!(sim.run(async { futures::poll!(&mut starting) }).is_pending());
            gate.open();
            sim.settle();
            assert!(sim.run(async { futures::poll!(&mut starting) }).is_pending(), "the first incarnation failed to start");
            gate.open();
            let actor = sim.run(starting).unwrap();
            assert_eq!((log.take().len(), actor.exit()), (2, None));
        }
    });
}

#[test]
fn a16_spawn_started_reports_an_actor_that_never_started() {
    explore(0..20, |sim| {
        let (system, gate, log) = (sim.system("s"), Gate::new(), Log::new());
        let starting = system.spawn_started("a", slow_start(&gate, &log, 0).restart(RestartPolicy::Temporary));
        sim.settle();
        let second = sim.run(system.spawn_started("a", slow_start(&gate, &log, 0)));
        assert!(matches!(second, Err(SpawnStartedError::Refused(_))));
        system.root().lookup_any(&"/user/a".parse().unwrap()).unwrap().cancel("no");
        let error = sim.run(starting).err().unwrap();
        assert_eq!(error.to_string(), "/user/a ended before it had started: cancelled: no");
    });
}

/// An actor that is created once and is not `Clone`.
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
fn a16_once_actor_is_not_restarted() {
    crate::common::quiet();
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
        let one = supervisor.spawn("one", Props::once(Once(log.clone()))).unwrap();
        one.tell(Some(1)).unwrap();
        one.tell(None).unwrap();
        one.tell(Some(2)).unwrap();
        assert!(matches!(sim.run(one.exited()), Exit::Failed(_)));
        assert_eq!((log.take(), system.failures()), (vec!["1".to_string()], 1), "it fails once, then ends");
        assert!(system.counts().is_settled(), "{}", system.counts());
    });
}

#[test]
fn a16_from_fn_with_gets_the_context() {
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
fn a16_every_parent_spawns_with_the_same_method() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
        let scope = system.scope("scope").unwrap();
        let parent = system.spawn("parent", TestActor::props(&log)).unwrap();
        let child_log = log.clone();
        parent.tell(Job::act(move |cx| drop(cx.spawn("a", TestActor::props(&child_log)).unwrap()))).unwrap();
        for actor in [supervisor.spawn("a", TestActor::props(&log)).unwrap(), scope.spawn("a", TestActor::props(&log)).unwrap()]
        {
            assert_eq!(sim.run(actor.ask(|reply| Job::Answer(reply, 1))).unwrap(), 1);
        }
        scope.spawn_unnamed(TestActor::props(&log)).unwrap().stop();
        supervisor.stop();
        assert_eq!(sim.run(supervisor.exited()), Exit::Stopped);
    });
}
