//! A13: `Context::become_with` and `unbecome`. A restart brings the first behaviour back.

use crate::common::{INJECTED, Log, PanicOnDrop, failures, quiet};
use pleach::BoxError;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use std::sync::Arc;

#[derive(Clone)]
enum Msg {
    Note(u32),
    Open,
    Close,
    Fail,
    Panic,
    Signalled,
}

/// An actor with two behaviours: shut, in which it stashes notes from 100 on, and open.
struct Valve {
    log: Log<String>,
}

impl Valve {
    fn props(log: &Log<String>) -> Props<Self> {
        let log = log.clone();
        Props::new(move || Self { log: log.clone() })
    }

    async fn open(&mut self, msg: Msg, cx: &mut Context<Self>) -> Result<(), BoxError> {
        match msg {
            Msg::Note(n) => {
                tokio::task::yield_now().await;
                self.log.note(format!("open {n}"));
            }
            Msg::Close => cx.unbecome(),
            Msg::Open => {
                let (count, log) = (Arc::new(()), self.log.clone());
                cx.become_with(move |_, msg, cx| {
                    let (count, log) = (Arc::clone(&count), log.clone());
                    Box::pin(async move {
                        match msg {
                            Msg::Close => cx.unbecome(),
                            _ => log.note(format!("wide {}", Arc::strong_count(&count))),
                        }
                        Ok(())
                    })
                });
            }
            Msg::Fail => return Err("requested".into()),
            Msg::Panic => panic!("{INJECTED}"),
            Msg::Signalled => self.log.note("open, signalled"),
        }
        Ok(())
    }
}

impl Actor for Valve {
    type Msg = Msg;
    type Error = BoxError;

    async fn handle(&mut self, msg: Msg, cx: &mut Context<Self>) -> Result<(), BoxError> {
        match msg {
            Msg::Open => {
                cx.become_with(|valve, msg, cx| Box::pin(valve.open(msg, cx)));
                cx.unstash_all();
            }
            Msg::Note(n) if n >= 100 => cx.stash(Msg::Note(n))?,
            Msg::Note(n) => self.log.note(format!("shut {n}")),
            Msg::Fail => return Err("requested".into()),
            Msg::Signalled => self.log.note("shut, signalled"),
            Msg::Close | Msg::Panic => cx.unbecome(),
        }
        Ok(())
    }
}

fn tell<const N: usize>(valve: &ActorRef<Msg>, messages: [Msg; N]) {
    messages.into_iter().for_each(|msg| valve.tell(msg).unwrap());
}

#[test]
fn a13_new_behaviour_handles_the_following_messages() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let log = Log::new();
        let valve = system.spawn("valve", Valve::props(&log)).unwrap();
        use Msg::{Close, Note, Open};
        tell(&valve, [Note(1), Note(100), Open, Note(2), Open, Note(3), Close, Note(4), Close, Open, Note(5)]);
        sim.settle();
        // Stashed messages come first. A replaced behaviour is dropped.
        assert_eq!(log.take(), ["shut 1", "open 100", "open 2", "wide 2", "shut 4", "open 5"]);
        assert_eq!(valve.counts(), Counts { accepted: 11, handled: 11, failed: 0, dead_lettered: 0 });
        valve.close();
        assert_eq!(sim.run(valve.exited()), Exit::Closed, "it ends like any other actor");
    });
}

#[test]
fn a13_restart_brings_the_first_behaviour_back() {
    quiet();
    let sim = Sim::new(0);
    let system = sim.system("s");
    let recorded = failures(&system);
    let log = Log::new();
    let valve = system.spawn("valve", Valve::props(&log)).unwrap();
    use Msg::{Fail, Note, Open, Panic};
    tell(&valve, [Open, Note(1), Fail, Note(2), Open, Note(3), Panic, Note(4)]);
    sim.settle();
    assert_eq!(log.take(), ["open 1", "shut 2", "open 3", "shut 4"]);
    assert_eq!((recorded.len(), valve.counts()), (2, Counts { accepted: 8, handled: 6, failed: 2, dead_lettered: 0 }));
    tell(&valve, [Open]);
    sim.settle();
    valve.try_send_system(SystemMessage::Restart).unwrap();
    sim.settle();
    tell(&valve, [Note(5)]);
    sim.settle();
    assert_eq!(log.take(), ["shut 5"], "also after a requested restart");
}

#[test]
fn a13_resumed_actor_keeps_its_behaviour_for_the_retry() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let recorded = failures(&system);
    let supervisor = system.supervisor("supervisor", OneForOne::new().always(SupervisorDirective::Resume)).unwrap();
    let log = Log::new();
    let valve = supervisor.spawn("valve", Valve::props(&log).retry(1)).unwrap();
    tell(&valve, [Msg::Open, Msg::Fail, Msg::Note(1)]);
    sim.settle();
    assert_eq!((log.take(), recorded.len()), (vec!["open 1".to_string()], 2));
    assert_eq!(valve.counts(), Counts { accepted: 3, handled: 2, failed: 1, dead_lettered: 0 });
}

#[test]
fn a13_control_messages_go_before_messages_of_any_behaviour() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let log = Log::new();
    let mapped = Valve::props(&log).map_signals(|_| Some(Msg::Signalled));
    let valve = system.spawn("valve", mapped.mailbox(Mailbox::unbounded())).unwrap();
    tell(&valve, [Msg::Open]);
    sim.settle();
    valve.try_send_system(SystemMessage::Suspend).unwrap();
    tell(&valve, [Msg::Note(1)]);
    let terminated = Terminated { id: valve.id(), path: valve.path(), exit: Exit::Closed };
    valve.try_send_system(SystemMessage::Terminated(terminated)).unwrap();
    sim.settle();
    assert_eq!(log.take(), ["open, signalled"], "a mapped signal goes to the behaviour too");
    valve.try_send_system(SystemMessage::Resume).unwrap();
    sim.settle();
    assert_eq!(log.take(), ["open 1"]);
    // More messages than one poll handles; then a stop drops the rest.
    (0..1_000).for_each(|n| valve.tell(Msg::Note(n)).unwrap());
    sim.settle();
    assert_eq!(log.take().len(), 1_000);
    (0..1_000).for_each(|n| valve.tell(Msg::Note(n)).unwrap());
    valve.stop();
    assert_eq!(sim.run(valve.exited()), Exit::Stopped);
    let counts = valve.counts();
    assert!(counts.is_settled() && counts.dead_lettered == 1_000, "{counts}");
}

#[test]
fn s8_panic_in_the_drop_of_a_behaviour_is_recorded() {
    struct ReplacesBehaviour;
    impl Actor for ReplacesBehaviour {
        type Msg = ();
        type Error = BoxError;

        async fn handle(&mut self, (): (), cx: &mut Context<Self>) -> Result<(), BoxError> {
            let panics = PanicOnDrop;
            cx.become_with(move |_, (), _| {
                let _panics = &panics;
                Box::pin(std::future::ready(Ok(())))
            });
            Ok(())
        }
    }
    quiet();
    let sim = Sim::new(0);
    let system = sim.system("s");
    let recorded = failures(&system);
    let actor = system.spawn("actor", Props::new(|| ReplacesBehaviour)).unwrap();
    (0..2).for_each(|_| actor.tell(()).unwrap());
    sim.settle();
    assert_eq!(recorded.len(), 0);
    actor.close();
    assert_eq!(sim.run(actor.exited()), Exit::Closed);
    assert_eq!(recorded.take()[0].path(), &actor.path());
}

/// The behaviour holds the actor's own address. After the actor has ended, both are dropped.
#[test]
fn a13_behaviour_is_dropped_with_its_actor() {
    struct HoldsItself(Arc<()>);
    impl Actor for HoldsItself {
        type Msg = ();
        type Error = BoxError;

        async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
            let (me, witness) = (cx.me(), Arc::clone(&self.0));
            cx.become_with(move |_, (), _| {
                let _kept = (&me, &witness);
                Box::pin(std::future::ready(Ok(())))
            });
            Ok(())
        }

        async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), BoxError> {
            Ok(())
        }
    }
    for ends in [true, false] {
        let sim = Sim::new(0);
        let system = sim.system("s");
        let witness = Arc::new(());
        let shared = Arc::clone(&witness);
        let actor = system.spawn("holds-itself", Props::new(move || HoldsItself(Arc::clone(&shared)))).unwrap();
        sim.settle();
        assert!(Arc::strong_count(&witness) > 3);
        if ends {
            actor.stop();
            sim.settle();
        }
        // Otherwise the runtime is dropped while the actor lives.
        drop((actor, system, sim));
        assert_eq!(Arc::strong_count(&witness), 1);
    }
}

/// A closure actor keeps its behaviour in its state.
#[test]
fn a13_closure_actor_keeps_its_behaviour_in_its_state() {
    type Behaviour = fn(&mut Light, u32) -> Result<(), BoxError>;
    struct Light(Behaviour, Log<String>);
    fn red(light: &mut Light, n: u32) -> Result<(), BoxError> {
        light.1.note(format!("red {n}"));
        light.0 = green;
        if n == 0 { Err("no".into()) } else { Ok(()) }
    }
    fn green(light: &mut Light, n: u32) -> Result<(), BoxError> {
        light.1.note(format!("green {n}"));
        if n == 0 { Err("no".into()) } else { Ok(()) }
    }
    let sim = Sim::new(0);
    let system = sim.system("s");
    let log = Log::new();
    let seen = log.clone();
    let props = Props::from_fn(move || Light(red, seen.clone()), |light, n| (light.0)(light, n));
    let light = system.spawn("light", props).unwrap();
    [1, 2, 0, 3, 4].into_iter().for_each(|n| light.tell(n).unwrap());
    sim.settle();
    assert_eq!(log.take(), ["red 1", "green 2", "green 0", "red 3", "green 4"]);
}
