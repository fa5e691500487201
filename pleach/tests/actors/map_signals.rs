//! E6: `Props::map_signals` turns signals into messages of the actor's own type.

use crate::common::{INJECTED, Log, failures, quiet};
use pleach::BoxError;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::supervise::EscalationStage;

/// Messages of the test actors: plain ones and mapped signals.
#[derive(Clone)]
enum Msg {
    Note(u32),
    Fail,
    Stash,
    Unstash,
    Terminated(Terminated),
    Failed(FailureInfo),
    Escalated(FailureInfo),
}

/// Maps every signal to a message.
fn map_all(signal: &Signal) -> Option<Msg> {
    match signal {
        Signal::Terminated(terminated) => Some(Msg::Terminated(terminated.clone())),
        Signal::Failure(failure) => Some(Msg::Failed(failure.clone())),
        Signal::Escalate(failure) => Some(Msg::Escalated(failure.clone())),
        _ => None,
    }
}

type Start = fn(&Context<MappedActor>) -> Result<(), BoxError>;

/// Logs its messages and signals. Calls `start` in its first incarnation.
struct MappedActor {
    log: Log<String>,
    start: Start,
    stashes: bool,
}

impl MappedActor {
    fn props(log: &Log<String>, start: Start) -> Props<Self> {
        let log = log.clone();
        Props::new(move || Self { log: log.clone(), start, stashes: false })
    }
}

impl Actor for MappedActor {
    type Msg = Msg;
    type Error = BoxError;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        if cx.incarnation() == 0 { (self.start)(cx) } else { Ok(()) }
    }

    async fn handle(&mut self, msg: Msg, cx: &mut Context<Self>) -> Result<(), BoxError> {
        if self.stashes && matches!(msg, Msg::Terminated(_)) {
            return Ok(cx.stash(msg)?);
        }
        match msg {
            Msg::Note(n) => self.log.note(n),
            Msg::Fail => return Err("requested".into()),
            Msg::Stash => self.stashes = true,
            Msg::Unstash => {
                self.stashes = false;
                cx.unstash_all();
            }
            Msg::Terminated(end) => self.log.note(format!("terminated {} {}", end.path, end.exit)),
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

fn start_nothing(_: &Context<MappedActor>) -> Result<(), BoxError> {
    Ok(())
}

/// Spawns a child and closes it.
fn one_child(cx: &Context<MappedActor>) -> Result<(), BoxError> {
    cx.spawn("child", Props::from_fn(|| (), |(): &mut (), (): ()| Ok::<(), BoxError>(())))?.close();
    Ok(())
}

fn termination_of(of: &ActorRef<Msg>) -> SystemMessage {
    SystemMessage::Terminated(Terminated { id: of.id(), path: of.path(), exit: Exit::Closed })
}

/// A chain of actors: each spawns the next one, and the last one panics in `started`.
struct Chain {
    depth: u32,
}

impl Actor for Chain {
    type Msg = ();
    type Error = BoxError;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        assert!(self.depth > 0, "{INJECTED} at the end of the chain");
        let depth = self.depth - 1;
        cx.spawn("below", Props::new(move || Chain { depth }))?;
        Ok(())
    }

    async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// The grandchild panics until its parent gives up; the grandparent gets that as a failure of its
/// child. The parent fails until the grandparent itself fails; the next incarnation of the
/// grandparent gets that as an escalation.
#[test]
fn e6_grandchild_panic_reaches_the_grandparent_as_a_message() {
    quiet();
    explore(0..100, |sim| {
        let system = sim.system("s");
        let recorded = failures(&system);
        let log = Log::new();
        let start: Start = |cx| {
            cx.spawn("parent", Props::new(|| Chain { depth: 1 }))?;
            Ok(())
        };
        let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
        let actor = supervisor.spawn("actor", MappedActor::props(&log, start).map_signals(map_all)).unwrap();
        sim.settle();
        let grandchild: ActorPath = "/user/supervisor/actor/parent/below".parse().unwrap();
        let log_entries = log.take();
        let stage = |hops| format!("{:?}", EscalationStage::Escalated { hops });
        // Signals of one kind about one actor coalesce; the last failure always arrives.
        assert!(log_entries.contains(&format!("failed {grandchild} {}", stage(1))), "{log_entries:?}");
        assert!(log_entries.contains(&format!("escalated {grandchild} {} in 1", stage(2))), "{log_entries:?}");
        assert!(actor.exit().is_none() && actor.counts().is_settled());
        assert_eq!(actor.counts().handled as usize, log_entries.len());
        assert!(recorded.take().iter().any(|failure| *failure.origin() == grandchild));
    });
}

#[test]
fn e6_exits_of_children_and_watched_actors_become_messages() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let log = Log::new();
    let actor = system.spawn("actor", MappedActor::props(&log, one_child).map_signals(map_all)).unwrap();
    let other = system.spawn("other", MappedActor::props(&Log::new(), start_nothing)).unwrap();
    assert!(other.try_send_system(SystemMessage::Watch(actor.any())).is_ok());
    sim.settle();
    other.stop();
    sim.settle();
    let end = |path: &str, exit: Exit| format!("terminated {path} {exit}");
    assert_eq!(log.take(), [end("/user/actor/child", Exit::Closed), end("/user/other", Exit::Stopped)]);
    assert_eq!(actor.counts(), Counts { accepted: 2, handled: 2, failed: 0, dead_lettered: 0 });
}

#[test]
fn e6_unmapped_signal_is_not_counted_as_a_message() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let log = Log::new();
    let without_exits = |signal: &Signal| map_all(signal).filter(|msg| !matches!(msg, Msg::Terminated(_)));
    let actor = system.spawn("actor", MappedActor::props(&log, one_child).map_signals(without_exits)).unwrap();
    sim.settle();
    assert_eq!(log.take(), ["signal terminated"]);
    assert_eq!(actor.counts().accepted, 0);
}

#[test]
fn e6_mapped_signal_goes_first_and_needs_no_room() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let log = Log::new();
    let actor = system
        .spawn("actor", MappedActor::props(&log, start_nothing).map_signals(map_all).mailbox(Mailbox::bounded(1)))
        .unwrap();
    sim.settle();
    actor.tell(Msg::Note(1)).unwrap();
    actor.try_send_system(termination_of(&actor)).unwrap();
    assert_eq!((actor.queued(), actor.counts().accepted), (1, 1), "accepted only when it is handled");
    sim.settle();
    let terminated = format!("terminated /user/actor {}", Exit::Closed);
    assert_eq!(log.take(), [terminated.clone(), "1".into()]);

    actor.try_send_system(SystemMessage::Suspend).unwrap();
    sim.settle();
    actor.tell(Msg::Note(2)).unwrap();
    actor.try_send_system(termination_of(&actor)).unwrap();
    sim.settle();
    assert_eq!(log.take(), [terminated]);
    actor.try_send_system(SystemMessage::Resume).unwrap();
    sim.settle();
    assert_eq!(log.take(), ["2"]);
    assert_eq!(actor.counts(), Counts { accepted: 4, handled: 4, failed: 0, dead_lettered: 0 });
}

#[test]
fn a2_failed_mapped_message_is_counted_like_any_other() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let recorded = failures(&system);
    let fail = |_: &Signal| Some(Msg::Fail);
    let supervisor = system.supervisor("supervisor", OneForOne::new().restart_limit(9, Duration::from_secs(1))).unwrap();
    let receive_signal = |name, props: Props<MappedActor>| {
        let actor = supervisor.spawn(name, props).unwrap();
        actor.try_send_system(termination_of(&actor)).unwrap();
        actor.tell(Msg::Note(1)).unwrap();
        sim.settle();
        actor.counts()
    };
    let log = Log::new();
    let plain = receive_signal("plain", MappedActor::props(&log, start_nothing).map_signals(fail));
    assert_eq!(plain, Counts { accepted: 2, handled: 1, failed: 1, dead_lettered: 0 });
    let dead = receive_signal("dead", MappedActor::props(&log, start_nothing).map_signals(fail).dead_letter_failed());
    assert_eq!(dead, Counts { accepted: 2, handled: 1, failed: 0, dead_lettered: 1 });
    let retried = receive_signal(
        "retried",
        MappedActor::props(&log, start_nothing).map_signals(fail).retry(2).describe(|_| "signal".into()),
    );
    assert_eq!(retried, Counts { accepted: 2, handled: 1, failed: 1, dead_lettered: 0 });
    let recorded = recorded.take();
    assert_eq!(recorded.len(), 1 + 1 + 3);
    assert_eq!(recorded[4].message(), Some("signal"));
    assert_eq!(log.take(), ["1", "1", "1"]);
}

#[test]
fn a2_mapped_message_can_be_stashed() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let log = Log::new();
    let actor = system.spawn("actor", MappedActor::props(&log, start_nothing).map_signals(map_all)).unwrap();
    actor.tell(Msg::Stash).unwrap();
    sim.settle();
    actor.try_send_system(termination_of(&actor)).unwrap();
    sim.settle();
    assert_eq!(actor.counts(), Counts { accepted: 2, handled: 1, failed: 0, dead_lettered: 0 });
    actor.tell(Msg::Unstash).unwrap();
    sim.settle();
    assert_eq!(log.len(), 1);
    assert_eq!(actor.counts(), Counts { accepted: 3, handled: 3, failed: 0, dead_lettered: 0 });
}

#[test]
fn s8_panic_in_map_signals_is_a_failure_of_the_actor() {
    quiet();
    let sim = Sim::new(0);
    let system = sim.system("s");
    let recorded = failures(&system);
    let log = Log::new();
    let actor = system.spawn("actor", MappedActor::props(&log, one_child).map_signals(|_| panic!("{INJECTED}"))).unwrap();
    actor.tell(Msg::Note(1)).unwrap();
    sim.settle();
    let recorded = recorded.take();
    assert_eq!(recorded.len(), 1);
    assert_eq!((recorded[0].path(), recorded[0].message()), (&actor.path(), None), "no current message");
    assert_eq!(log.take(), ["1"]);
    assert_eq!(actor.counts(), Counts { accepted: 1, handled: 1, failed: 0, dead_lettered: 0 });
}

/// Fails at `Fail` and gets a signal before the next attempt. The signal may fail too.
struct Interrupted {
    attempts: Log<u32>,
    signals_fail: bool,
}

impl Actor for Interrupted {
    type Msg = Msg;
    type Error = BoxError;

    async fn handle(&mut self, msg: Msg, cx: &mut Context<Self>) -> Result<(), BoxError> {
        match msg {
            Msg::Fail => {
                self.attempts.push(1);
                let ended = Terminated { id: cx.me().id(), path: cx.me().path(), exit: Exit::Stopped };
                assert!(cx.me().try_send_system(SystemMessage::Terminated(ended)).is_ok());
                Err(INJECTED.into())
            }
            Msg::Terminated(_) if self.signals_fail => Err(INJECTED.into()),
            _ => Ok(()),
        }
    }
}

#[test]
fn a11_mapped_signal_between_attempts_does_not_reset_their_count() {
    for signals_fail in [false, true] {
        let (sim, attempts) = (Sim::new(1), Log::new());
        let system = sim.system("s");
        let supervisor = system.supervisor("supervisor", OneForOne::new().restart_limit(100, Duration::from_secs(5))).unwrap();
        let log = attempts.clone();
        let props = Props::new(move || Interrupted { attempts: log.clone(), signals_fail }).retry(2).map_signals(map_all);
        let actor = supervisor.spawn("interrupted", props).unwrap();
        actor.tell(Msg::Fail).unwrap();
        sim.settle();
        assert_eq!((attempts.take().len(), actor.exit()), (3, None), "the first attempt and two retries");
        assert!(system.counts().is_settled());
    }
}
