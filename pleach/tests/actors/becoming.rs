//! A13: `Context::become_with` and `unbecome`. Another behaviour handles the messages; after a restart it is the first one again.

use crate::common::{INJECTED, Log, failures, quiet};
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

/// A door that keeps notes until it is open.
struct Door {
    log: Log<String>,
}

impl Door {
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
            Msg::Fail => return Err("told to".into()),
            Msg::Panic => panic!("{INJECTED}"),
            Msg::Signalled => self.log.note("open, signalled"),
        }
        Ok(())
    }
}

impl Actor for Door {
    type Msg = Msg;
    type Error = BoxError;

    async fn handle(&mut self, msg: Msg, cx: &mut Context<Self>) -> Result<(), BoxError> {
        match msg {
            Msg::Open => {
                cx.become_with(|door, msg, cx| Box::pin(door.open(msg, cx)));
                cx.unstash_all();
            }
            Msg::Note(n) if n >= 100 => cx.stash(Msg::Note(n))?,
            Msg::Note(n) => self.log.note(format!("shut {n}")),
            Msg::Fail => return Err("told to".into()),
            Msg::Signalled => self.log.note("shut, signalled"),
            Msg::Close | Msg::Panic => cx.unbecome(),
        }
        Ok(())
    }
}

fn tell<const N: usize>(door: &ActorRef<Msg>, messages: [Msg; N]) {
    messages.into_iter().for_each(|msg| door.tell(msg).unwrap());
}

#[test]
fn a13_another_behaviour_handles_what_follows() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let log = Log::new();
        let door = system.spawn("door", Door::props(&log)).unwrap();
        use Msg::{Close, Note, Open};
        tell(&door, [Note(1), Note(100), Open, Note(2), Open, Note(3), Close, Note(4), Close, Open, Note(5)]);
        sim.settle();
        // What was stashed comes first; the behaviour put in place of another leaves nothing of it behind.
        assert_eq!(log.take(), ["shut 1", "open 100", "open 2", "wide 2", "shut 4", "open 5"]);
        assert_eq!(door.counts(), Counts { accepted: 11, handled: 11, failed: 0, dead_lettered: 0 });
        door.close();
        assert_eq!(sim.run(door.exited()), Exit::Closed, "it goes idle and ends like any other");
    });
}

#[test]
fn a13_after_a_restart_the_behaviour_is_the_first_one() {
    quiet();
    let sim = Sim::new(0);
    let system = sim.system("s");
    let recorded = failures(&system);
    let log = Log::new();
    let door = system.spawn("door", Door::props(&log)).unwrap();
    use Msg::{Fail, Note, Open, Panic};
    tell(&door, [Open, Note(1), Fail, Note(2), Open, Note(3), Panic, Note(4)]);
    sim.settle();
    assert_eq!(log.take(), ["open 1", "shut 2", "open 3", "shut 4"]);
    assert_eq!((recorded.len(), door.counts()), (2, Counts { accepted: 8, handled: 6, failed: 2, dead_lettered: 0 }));
    tell(&door, [Open]);
    sim.settle();
    door.try_send_system(SystemMessage::Restart).unwrap();
    sim.settle();
    tell(&door, [Note(5)]);
    sim.settle();
    assert_eq!(log.take(), ["shut 5"], "also after one that was asked for");
}

#[test]
fn a13_a_resumed_actor_keeps_its_behaviour_and_a_retry_is_for_it() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let recorded = failures(&system);
    let crew = system.supervisor("crew", OneForOne::new().always(SupervisorDirective::Resume)).unwrap();
    let log = Log::new();
    let door = crew.spawn("door", Door::props(&log).retry(1)).unwrap();
    tell(&door, [Msg::Open, Msg::Fail, Msg::Note(1)]);
    sim.settle();
    assert_eq!((log.take(), recorded.len()), (vec!["open 1".to_string()], 2));
    assert_eq!(door.counts(), Counts { accepted: 3, handled: 2, failed: 1, dead_lettered: 0 });
}

#[test]
fn a13_control_is_obeyed_before_every_message_of_any_behaviour() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let log = Log::new();
    let mapped = Door::props(&log).map_system(|_| Some(Msg::Signalled));
    let door = system.spawn("door", mapped.mailbox(Mailbox::unbounded())).unwrap();
    tell(&door, [Msg::Open]);
    sim.settle();
    door.try_send_system(SystemMessage::Suspend).unwrap();
    tell(&door, [Msg::Note(1)]);
    let terminated = Terminated { id: door.id(), path: door.path(), exit: Exit::Closed };
    door.try_send_system(SystemMessage::Terminated(terminated)).unwrap();
    sim.settle();
    assert_eq!(log.take(), ["open, signalled"], "what is mapped goes to the behaviour too");
    door.try_send_system(SystemMessage::Resume).unwrap();
    sim.settle();
    assert_eq!(log.take(), ["open 1"]);
    // Many, so that it has to let others run in between; then a stop cuts the rest off.
    (0..1_000).for_each(|n| door.tell(Msg::Note(n)).unwrap());
    sim.settle();
    assert_eq!(log.take().len(), 1_000);
    (0..1_000).for_each(|n| door.tell(Msg::Note(n)).unwrap());
    door.stop();
    assert_eq!(sim.run(door.exited()), Exit::Stopped);
    let counts = door.counts();
    assert!(counts.is_settled() && counts.dead_lettered == 1_000, "{counts}");
}

#[test]
fn s8_a_behaviour_that_panics_when_it_is_dropped_is_on_record() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("{INJECTED} in a behaviour's drop");
        }
    }
    struct Armed;
    impl Actor for Armed {
        type Msg = ();
        type Error = BoxError;

        async fn handle(&mut self, (): (), cx: &mut Context<Self>) -> Result<(), BoxError> {
            let bomb = Bomb;
            cx.become_with(move |_, (), _| {
                let _bomb = &bomb;
                Box::pin(std::future::ready(Ok(())))
            });
            Ok(())
        }
    }
    quiet();
    let sim = Sim::new(0);
    let system = sim.system("s");
    let recorded = failures(&system);
    let armed = system.spawn("armed", Props::new(|| Armed)).unwrap();
    (0..2).for_each(|_| armed.tell(()).unwrap());
    sim.settle();
    assert_eq!(recorded.len(), 0);
    armed.close();
    assert_eq!(sim.run(armed.exited()), Exit::Closed);
    assert_eq!(recorded.take()[0].path(), &armed.path());
}

/// The behaviour holds the actor's own address; once the actor has ended, one way or another, neither keeps the other.
#[test]
fn a13_a_behaviour_goes_with_its_actor() {
    struct Selfish(Arc<()>);
    impl Actor for Selfish {
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
        let given = Arc::clone(&witness);
        let actor = system.spawn("selfish", Props::new(move || Selfish(Arc::clone(&given)))).unwrap();
        sim.settle();
        assert!(Arc::strong_count(&witness) > 3);
        if ends {
            actor.stop();
            sim.settle();
        }
        // Without an end it is the runtime that goes.
        drop((actor, system, sim));
        assert_eq!(Arc::strong_count(&witness), 1);
    }
}

/// An actor that is a closure changes its behaviour with its state.
#[test]
fn a13_a_closure_has_its_behaviour_in_its_state() {
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
