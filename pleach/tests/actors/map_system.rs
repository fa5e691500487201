//! E6: what an actor would hear as a signal comes to it as a message of its own type, where `Props::map_system` says so.

use crate::common::{INJECTED, Log, failures, quiet};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{BoxError, EscalationStage};

/// The messages of the actors here: their own, and what the tree tells them.
#[derive(Clone)]
enum Msg {
    Note(u32),
    Fail,
    Keep,
    Release,
    Gone(Terminated),
    Failed(FailureInfo),
    Escalated(FailureInfo),
}

/// Everything as a message.
fn all(signal: &Signal) -> Option<Msg> {
    match signal {
        Signal::Terminated(terminated) => Some(Msg::Gone(terminated.clone())),
        Signal::Failure(failure) => Some(Msg::Failed(failure.clone())),
        Signal::Escalate(failure) => Some(Msg::Escalated(failure.clone())),
        _ => None,
    }
}

type Start = fn(&Context<Boss>) -> Result<(), BoxError>;

/// Writes down what it is told and what it hears; begins its first incarnation with `start`.
struct Boss {
    log: Log<String>,
    start: Start,
    keeps: bool,
}

impl Boss {
    fn props(log: &Log<String>, start: Start) -> Props<Self> {
        let log = log.clone();
        Props::new(move || Self { log: log.clone(), start, keeps: false })
    }
}

impl Actor for Boss {
    type Msg = Msg;
    type Error = BoxError;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        if cx.incarnation() == 0 { (self.start)(cx) } else { Ok(()) }
    }

    async fn handle(&mut self, msg: Msg, cx: &mut Context<Self>) -> Result<(), BoxError> {
        if self.keeps && matches!(msg, Msg::Gone(_)) {
            return Ok(cx.stash(msg)?);
        }
        match msg {
            Msg::Note(n) => self.log.note(n),
            Msg::Fail => return Err("told to".into()),
            Msg::Keep => self.keeps = true,
            Msg::Release => {
                self.keeps = false;
                cx.unstash_all();
            }
            Msg::Gone(end) => self.log.note(format!("gone {} {}", end.path, end.exit)),
            Msg::Failed(failure) => self.log.note(format!("failed {} {:?}", failure.origin(), failure.stage())),
            Msg::Escalated(failure) => {
                self.log.note(format!("escalated {} {:?} in {}", failure.origin(), failure.stage(), cx.incarnation()));
            }
        }
        Ok(())
    }

    async fn signal(&mut self, signal: Signal, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.log.note(match signal {
            Signal::Terminated(_) => "signal terminated",
            _ => "signal other",
        });
        Ok(())
    }
}

fn quiet_start(_: &Context<Boss>) -> Result<(), BoxError> {
    Ok(())
}

/// A child that ends well at once.
fn one_child(cx: &Context<Boss>) -> Result<(), BoxError> {
    cx.spawn("child", Props::from_fn(|| (), |(): &mut (), (): ()| Ok::<(), BoxError>(())))?.close();
    Ok(())
}

fn terminated(of: &ActorRef<Msg>) -> SystemMessage {
    SystemMessage::Terminated(Terminated { id: of.id(), path: of.path(), exit: Exit::Closed })
}

/// An actor whose only child is such an actor, and so on for `depth` more; the last one panics as soon as it is started.
struct Line {
    depth: u32,
}

impl Actor for Line {
    type Msg = ();
    type Error = BoxError;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        assert!(self.depth > 0, "{INJECTED} at the end of the line");
        let depth = self.depth - 1;
        cx.spawn("below", Props::new(move || Line { depth }))?;
        Ok(())
    }

    async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// The grandchild panics until its parent gives up, which the grandparent hears as the failure of its child; that parent fails until the
/// grandparent has to answer for it, which the next incarnation of the grandparent hears as what it is.
#[test]
fn e6_a_grandchilds_panic_reaches_the_grandparents_own_enum() {
    quiet();
    explore(0..100, |sim| {
        let system = sim.system("s");
        let recorded = failures(&system);
        let log = Log::new();
        let start: Start = |cx| {
            cx.spawn("parent", Props::new(|| Line { depth: 1 }))?;
            Ok(())
        };
        let crew = system.supervisor("crew", OneForOne::new()).unwrap();
        let boss = crew.spawn("boss", Boss::props(&log, start).map_system(all)).unwrap();
        sim.settle();
        let grandchild: ActorPath = "/user/crew/boss/parent/below".parse().unwrap();
        let heard = log.take();
        let stage = |hops| format!("{:?}", EscalationStage::Escalated { hops });
        // News of one kind about one actor coalesces, so of several failures the last is always heard.
        assert!(heard.contains(&format!("failed {grandchild} {}", stage(1))), "{heard:?}");
        assert!(heard.contains(&format!("escalated {grandchild} {} in 1", stage(2))), "{heard:?}");
        assert!(boss.exit().is_none() && boss.counts().is_settled());
        assert_eq!(boss.counts().handled as usize, heard.len());
        assert!(recorded.take().iter().any(|failure| *failure.origin() == grandchild));
    });
}

#[test]
fn e6_ends_of_children_and_of_the_watched_come_as_messages() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let log = Log::new();
    let boss = system.spawn("boss", Boss::props(&log, one_child).map_system(all)).unwrap();
    let other = system.spawn("other", Boss::props(&Log::new(), quiet_start)).unwrap();
    assert!(other.try_send_system(SystemMessage::Watch(boss.any())).is_ok());
    sim.settle();
    other.stop();
    sim.settle();
    let end = |path: &str, exit: Exit| format!("gone {path} {exit}");
    assert_eq!(log.take(), [end("/user/boss/child", Exit::Closed), end("/user/other", Exit::Stopped)]);
    assert_eq!(boss.counts(), Counts { accepted: 2, handled: 2, failed: 0, dead_lettered: 0 });
}

#[test]
fn e6_what_is_not_mapped_is_a_signal_and_is_not_counted() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let log = Log::new();
    let ends_only = |signal: &Signal| all(signal).filter(|msg| !matches!(msg, Msg::Gone(_)));
    let boss = system.spawn("boss", Boss::props(&log, one_child).map_system(ends_only)).unwrap();
    sim.settle();
    assert_eq!(log.take(), ["signal terminated"]);
    assert_eq!(boss.counts().accepted, 0);
}

#[test]
fn e6_mapped_messages_go_before_others_take_no_room_and_reach_the_suspended() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let log = Log::new();
    let boss = system.spawn("boss", Boss::props(&log, quiet_start).map_system(all).mailbox(Mailbox::bounded(1))).unwrap();
    sim.settle();
    boss.tell(Msg::Note(1)).unwrap();
    boss.try_send_system(terminated(&boss)).unwrap();
    assert_eq!((boss.queued(), boss.counts().accepted), (1, 1), "accepted only when it is heard");
    sim.settle();
    let gone = format!("gone /user/boss {}", Exit::Closed);
    assert_eq!(log.take(), [gone.clone(), "1".into()]);

    boss.try_send_system(SystemMessage::Suspend).unwrap();
    sim.settle();
    boss.tell(Msg::Note(2)).unwrap();
    boss.try_send_system(terminated(&boss)).unwrap();
    sim.settle();
    assert_eq!(log.take(), [gone]);
    boss.try_send_system(SystemMessage::Resume).unwrap();
    sim.settle();
    assert_eq!(log.take(), ["2"]);
    assert_eq!(boss.counts(), Counts { accepted: 4, handled: 4, failed: 0, dead_lettered: 0 });
}

#[test]
fn a2_a_mapped_message_that_fails_is_like_any_other() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let recorded = failures(&system);
    let fail = |_: &Signal| Some(Msg::Fail);
    let crew = system.supervisor("crew", OneForOne::new().intensity(9, Duration::from_secs(1))).unwrap();
    let hear = |name, props: Props<Boss>| {
        let boss = crew.spawn(name, props).unwrap();
        boss.try_send_system(terminated(&boss)).unwrap();
        boss.tell(Msg::Note(1)).unwrap();
        sim.settle();
        boss.counts()
    };
    let log = Log::new();
    let plain = hear("plain", Boss::props(&log, quiet_start).map_system(fail));
    assert_eq!(plain, Counts { accepted: 2, handled: 1, failed: 1, dead_lettered: 0 });
    let buried = hear("buried", Boss::props(&log, quiet_start).map_system(fail).dead_letter_failed());
    assert_eq!(buried, Counts { accepted: 2, handled: 1, failed: 0, dead_lettered: 1 });
    let retried = hear("retried", Boss::props(&log, quiet_start).map_system(fail).retry(2).describe(|_| "news".into()));
    assert_eq!(retried, Counts { accepted: 2, handled: 1, failed: 1, dead_lettered: 0 });
    let recorded = recorded.take();
    assert_eq!(recorded.len(), 1 + 1 + 3);
    assert_eq!(recorded[4].message(), Some("news"));
    assert_eq!(log.take(), ["1", "1", "1"]);
}

#[test]
fn a2_a_mapped_message_can_be_put_aside() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let log = Log::new();
    let boss = system.spawn("boss", Boss::props(&log, quiet_start).map_system(all)).unwrap();
    boss.tell(Msg::Keep).unwrap();
    sim.settle();
    boss.try_send_system(terminated(&boss)).unwrap();
    sim.settle();
    assert_eq!(boss.counts(), Counts { accepted: 2, handled: 1, failed: 0, dead_lettered: 0 });
    boss.tell(Msg::Release).unwrap();
    sim.settle();
    assert_eq!(log.len(), 1);
    assert_eq!(boss.counts(), Counts { accepted: 3, handled: 3, failed: 0, dead_lettered: 0 });
}

#[test]
fn s8_a_panic_in_map_system_is_a_failure_of_the_actor() {
    quiet();
    let sim = Sim::new(0);
    let system = sim.system("s");
    let recorded = failures(&system);
    let log = Log::new();
    let boss = system.spawn("boss", Boss::props(&log, one_child).map_system(|_| panic!("{INJECTED}"))).unwrap();
    boss.tell(Msg::Note(1)).unwrap();
    sim.settle();
    let recorded = recorded.take();
    assert_eq!(recorded.len(), 1);
    assert_eq!((recorded[0].path(), recorded[0].message()), (&boss.path(), None), "no message was in hand");
    assert_eq!(log.take(), ["1"]);
    assert_eq!(boss.counts(), Counts { accepted: 1, handled: 1, failed: 0, dead_lettered: 0 });
}

/// Fails at `Fail`, and has a signal come in before the next try. The signal may fail as well.
struct Interrupted {
    tries: Log<u32>,
    signals_fail: bool,
}

impl Actor for Interrupted {
    type Msg = Msg;
    type Error = BoxError;

    async fn handle(&mut self, msg: Msg, cx: &mut Context<Self>) -> Result<(), BoxError> {
        match msg {
            Msg::Fail => {
                self.tries.push(1);
                let ended = Terminated { id: cx.me().id(), path: cx.me().path(), exit: Exit::Stopped };
                assert!(cx.me().try_send_system(SystemMessage::Terminated(ended)).is_ok());
                Err(INJECTED.into())
            }
            Msg::Gone(_) if self.signals_fail => Err(INJECTED.into()),
            _ => Ok(()),
        }
    }
}

#[test]
fn a11_a_mapped_signal_between_two_tries_does_not_reset_their_count() {
    for signals_fail in [false, true] {
        let (sim, tries) = (Sim::new(1), Log::new());
        let system = sim.system("s");
        let crew = system.supervisor("crew", OneForOne::new().intensity(100, Duration::from_secs(5))).unwrap();
        let log = tries.clone();
        let props = Props::new(move || Interrupted { tries: log.clone(), signals_fail }).retry(2).map_system(all);
        let actor = crew.spawn("interrupted", props).unwrap();
        actor.tell(Msg::Fail).unwrap();
        sim.settle();
        assert_eq!((tries.take().len(), actor.exit()), (3, None), "the first try and two more");
        assert!(system.counts().is_settled());
    }
}
