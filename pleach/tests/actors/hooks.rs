//! A15 and A17: hooks, exits, and that every failure in any of them is on record.

use crate::common::{Doer, Gate, INJECTED, Job, Log, failures, quiet};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{BoxError, Reason};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn a17_hooks_run_in_order_across_a_restart() {
    quiet();
    explore(0..100, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let actor = system.spawn("doer", Doer::props(&log)).unwrap();
        actor.tell(Job::Note(1)).unwrap();
        actor.tell(Job::Fail("no")).unwrap();
        actor.tell(Job::Note(2)).unwrap();
        actor.close();
        sim.run(actor.exited());
        let expected = ["started 0", "1", "restarting 0", "stopped 0 failed", "started 1", "2", "stopped 1 closed"];
        assert_eq!(log.take(), expected);
    });
}

#[test]
fn a17_stopped_runs_once_per_incarnation_whatever_ended_it() {
    quiet();
    type End = (&'static str, fn(&ActorRef<Job>));
    let ends: [End; 4] = [
        ("stopped", |actor| actor.stop()),
        ("closed", |actor| actor.close()),
        ("cancelled", |actor| actor.cancel(())),
        ("failed", |actor| drop(actor.tell(Job::Panic("injected")))),
    ];
    explore(0..50, |sim| {
        for (kind, end) in ends {
            let (system, log) = (sim.system("s"), Log::new());
            let crew = system.supervisor("crew", OneForOne::new().intensity(1, Duration::from_secs(1))).unwrap();
            let actor = crew.spawn("doer", Doer::props(&log)).unwrap();
            actor.tell(Job::Fail("no")).unwrap();
            sim.settle();
            end(&actor);
            end(&actor);
            sim.run(actor.exited());
            assert_eq!(
                log.take(),
                ["started 0", "restarting 0", "stopped 0 failed", "started 1", &format!("stopped 1 {kind}")],
            );
        }
    });
}

#[test]
fn a17_what_was_never_started_has_no_hooks() {
    quiet();
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let actor = system.spawn("doer", Doer::props(&log)).unwrap();
    actor.cancel(());
    assert_eq!(sim.run(actor.exited()), Exit::Cancelled(Cause::Cancelled));
    assert_eq!(log.len(), 0);
}

/// An actor whose hooks do what the test says.
#[derive(Clone, Default)]
struct Hooked {
    log: Log<String>,
    started_waits: Option<Gate>,
    stopped_waits: Option<Duration>,
}

impl Actor for Hooked {
    type Msg = ();
    type Error = BoxError;

    async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.log.note("message");
        std::future::pending().await
    }

    async fn started(&mut self, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        if let Some(gate) = &self.started_waits {
            gate.pass().await;
        }
        self.log.note("started");
        Ok(())
    }

    async fn stopped(&mut self, exit: &Exit, cx: &mut Context<Self>) -> Result<(), BoxError> {
        let token = cx.token();
        assert!(!token.is_cancelled(), "the token is fresh");
        self.log.note(format!("stopping, {exit}"));
        if let Some(wait) = self.stopped_waits {
            // Waits, unless the fresh token ends first.
            token.child_for(wait).cancelled().await;
            if token.is_cancelled() {
                std::future::pending::<()>().await;
            }
            self.log.note("done waiting");
        }
        Ok(())
    }
}

#[test]
fn a17_no_message_is_handled_before_started_is_done() {
    quiet();
    explore(0..20, |sim| {
        let (system, gate, log) = (sim.system("s"), Gate::new(), Log::new());
        let hooked = Hooked { log: log.clone(), started_waits: Some(gate.clone()), ..Hooked::default() };
        let actor = system.spawn("hooked", Props::new(move || hooked.clone())).unwrap();
        actor.tell(()).unwrap();
        sim.settle();
        assert_eq!(log.len(), 0);
        gate.open();
        sim.settle();
        assert_eq!(log.take(), ["started", "message"]);
        actor.cancel(());
    });
}

#[test]
fn a17_after_a_cancel_stopped_has_a_fresh_token_and_the_grace_to_itself() {
    quiet();
    explore(0..20, |sim| {
        for wait in [3, 9] {
            let hung = wait > 5;
            let system = ActorSystem::builder("s").runtime(sim.runtime()).grace(Duration::from_secs(5)).build().unwrap();
            let (log, records) = (Log::new(), failures(&system));
            let hooked = Hooked { log: log.clone(), stopped_waits: Some(Duration::from_secs(wait)), ..Hooked::default() };
            let actor = system.spawn("hooked", Props::new(move || hooked.clone())).unwrap();
            actor.tell(()).unwrap();
            sim.settle();
            let begun = sim.now();
            actor.cancel("enough");
            // A second cancel, of the whole system, does not cut the hook off either.
            system.kill();
            assert_eq!(sim.run(actor.exited()), Exit::Cancelled(Cause::from("enough")));
            let expected = ["started", "message", "stopping, cancelled: enough", "done waiting"];
            assert_eq!(log.take(), expected[..if hung { 3 } else { 4 }]);
            assert_eq!(sim.now() - begun, Duration::from_secs(wait.min(5)));
            assert_eq!((system.failures(), records.len()), (usize::from(hung), usize::from(hung)));
            for record in records.take() {
                assert!(record.reason().to_string().contains("grace period of 5s"), "{record}");
            }
        }
    });
}

/// Cancels one token of its last hook and looks at another, in each incarnation.
struct Twofold(Log<bool>);

impl Actor for Twofold {
    type Msg = ();
    type Error = BoxError;

    async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), BoxError> {
        Err("as told".into())
    }

    async fn stopped(&mut self, _exit: &Exit, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.0.push(cx.token().is_cancelled());
        cx.token().cancel(());
        self.0.push(cx.token().is_cancelled());
        Ok(())
    }
}

#[test]
fn a17_all_of_stopped_has_one_token_and_each_incarnation_a_fresh_one() {
    quiet();
    explore(0..20, |sim| {
        let (system, seen) = (sim.system("s"), Log::new());
        let log = seen.clone();
        let actor = system.spawn("twofold", Props::new(move || Twofold(log.clone()))).unwrap();
        actor.tell(()).unwrap();
        actor.tell(()).unwrap();
        actor.close();
        sim.run(actor.exited());
        assert_eq!(seen.take(), [false, true, false, true, false, true]);
        drop(system);
        sim.settle();
        assert_eq!(sim.tasks_alive(), 0, "nothing waits for the end of a grace period that nobody needs");
    });
}

#[test]
fn a15_exited_gives_the_exit_to_everybody_after_every_on_done() {
    quiet();
    explore(0..100, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let actor = system.spawn("doer", Doer::props(&Log::new())).unwrap();
        let ran = Arc::new(AtomicU32::new(0));
        for n in 0..5 {
            let ran = Arc::clone(&ran);
            actor.on_done(move |exit| {
                assert_eq!(*exit, Exit::Stopped);
                ran.fetch_add(1, Ordering::Relaxed);
                assert!(n != 2, "injected");
            });
        }
        let waiters = system.root();
        let scope = sim.scope();
        for _ in 0..4 {
            let (exited, log, ran) = (actor.exited(), log.clone(), Arc::clone(&ran));
            drop(scope.launch(async move {
                let exit = exited.await;
                log.note(format!("{exit} {}", ran.load(Ordering::Relaxed)));
            }));
        }
        drop(actor.exited());
        actor.stop();
        assert_eq!(sim.run(actor.exited()), Exit::Stopped);
        sim.settle();
        assert_eq!(log.take(), ["stopped 5"; 4]);
        assert_eq!((sim.run(actor.exited()), actor.exit()), (Exit::Stopped, Some(Exit::Stopped)), "late as well as early");
        let late = Arc::clone(&ran);
        actor.on_done(move |_| assert_eq!(late.fetch_add(1, Ordering::Relaxed), 5));
        assert_eq!(ran.load(Ordering::Relaxed), 6, "registered late, it runs at once");
        assert_eq!(waiters.failures(), 1, "the panic in one of them is on record, and stopped none of the others");
    });
}

/// Where a failure is injected.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Spot {
    Factory,
    Started,
    Handle,
    Signal,
    Restarting,
    Stopped,
    DropOfState,
    DropOfMessage,
    OnDone,
    Feed,
}

const SPOTS: [Spot; 10] = [
    Spot::Factory,
    Spot::Started,
    Spot::Handle,
    Spot::Signal,
    Spot::Restarting,
    Spot::Stopped,
    Spot::DropOfState,
    Spot::DropOfMessage,
    Spot::OnDone,
    Spot::Feed,
];

/// The spots that go off, each once, and how many have.
#[derive(Clone)]
struct Mines {
    laid: Arc<std::sync::Mutex<Vec<(Spot, bool)>>>,
    went_off: Arc<AtomicU32>,
    text: &'static str,
}

impl Mines {
    /// Panics or fails here, if this spot is still to go off.
    fn step_on(&self, spot: Spot) -> Result<(), BoxError> {
        let panics = {
            let mut laid = self.laid.lock().unwrap();
            match laid.iter().position(|(laid, _)| *laid == spot) {
                Some(at) => laid.swap_remove(at).1,
                None => return Ok(()),
            }
        };
        self.went_off.fetch_add(1, Ordering::Relaxed);
        if panics {
            panic!("{} into {spot:?}", self.text);
        }
        Err(format!("{} into {spot:?}", self.text).into())
    }
}

struct Minefield(Mines);

/// A message that may blow up when it is dropped unhandled.
struct Shell(Option<Mines>);

impl Drop for Shell {
    fn drop(&mut self) {
        if let Some(mines) = &self.0 {
            mines.step_on(Spot::DropOfMessage).ok();
        }
    }
}

impl Drop for Minefield {
    fn drop(&mut self) {
        self.0.step_on(Spot::DropOfState).ok();
    }
}

impl Actor for Minefield {
    type Msg = Shell;
    type Error = BoxError;

    async fn handle(&mut self, mut msg: Shell, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        msg.0 = None;
        self.0.step_on(Spot::Handle)
    }

    async fn started(&mut self, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.0.step_on(Spot::Started)
    }

    async fn restarting(&mut self, _failure: &FailureInfo, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.0.step_on(Spot::Restarting)
    }

    async fn stopped(&mut self, _exit: &Exit, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.0.step_on(Spot::Stopped)
    }

    async fn signal(&mut self, _signal: Signal, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.0.step_on(Spot::Signal)
    }
}

#[test]
fn s8_n_failures_injected_anywhere_give_n_records() {
    quiet();
    explore(0..1_024, |sim| {
        // Every set of spots, panicking or returning an error by turns.
        let only_panics =
            |spot| matches!(spot, Spot::Factory | Spot::DropOfState | Spot::DropOfMessage | Spot::OnDone | Spot::Feed);
        let chosen: Vec<_> = (0..SPOTS.len())
            .filter(|at| sim.seed() & (1 << at) != 0)
            .map(|at| (SPOTS[at], only_panics(SPOTS[at]) || (sim.seed() as usize + at).is_multiple_of(2)))
            .collect();
        let (system, expected) = (sim.system("s"), chosen.len());
        let records = failures(&system);
        // Panics that are kept off the screen may also be kept from the hook that notes their places.
        let is_loud = chosen.len() == 1;
        let text = if is_loud { "thrown" } else { INJECTED };
        let mines = Mines { laid: Arc::new(std::sync::Mutex::new(chosen.clone())), went_off: Arc::default(), text };
        let crew = system.supervisor("crew", OneForOne::new().intensity(100, Duration::from_secs(1))).unwrap();
        let (made, fed, done) = (mines.clone(), mines.clone(), mines.clone());
        let props = Props::new(move || {
            made.step_on(Spot::Factory).ok();
            Minefield(made.clone())
        });
        let feed = futures::stream::poll_fn(move |_| {
            fed.step_on(Spot::Feed).ok();
            std::task::Poll::Pending
        });
        let actor = crew.spawn("field", props.fed_by(feed)).unwrap();
        actor.on_done(move |_| drop(done.step_on(Spot::OnDone)));
        actor.tell(Shell(None)).unwrap();
        let dead = system.spawn("dead", Doer::props(&Log::new())).unwrap();
        dead.stop();
        sim.settle();
        // It hears of an end, which it may fail at too.
        dead.try_send_system(SystemMessage::Watch(actor.any())).unwrap();
        sim.settle();
        // A failure that makes it restart, if none of the above did; then a message that nobody handles.
        if mines.laid.lock().unwrap().iter().any(|(spot, _)| *spot == Spot::Restarting) {
            mines.laid.lock().unwrap().push((Spot::Handle, false));
            actor.tell(Shell(None)).unwrap();
            sim.settle();
        }
        actor.try_send_system(SystemMessage::Suspend).unwrap();
        sim.settle();
        actor.tell(Shell(Some(mines.clone()))).unwrap();
        actor.stop();
        let exit = sim.run(actor.exited());
        assert_eq!(exit, Exit::Stopped);
        let went_off = mines.went_off.load(Ordering::Relaxed) as usize;
        assert!(went_off >= expected, "{:?} never went off", mines.laid.lock().unwrap());
        assert_eq!((system.failures(), records.len()), (went_off, went_off), "{chosen:?}");
        for record in records.take() {
            let says = match record.reason() {
                Reason::Panic { message, location } => {
                    let place = location.as_deref().unwrap_or_default();
                    assert!(!is_loud || place.contains("hooks.rs"), "{location:?}");
                    message.clone()
                }
                reason => reason.to_string(),
            };
            assert!(says.starts_with(&format!("{text} into")), "{says}");
            assert_eq!(record.path().to_string(), "/user/crew/field");
        }
        assert!(system.counts().is_settled());
    });
}

/// Its second incarnation does not start.
struct StartsTwice(Arc<AtomicU32>);

impl Actor for StartsTwice {
    type Msg = Reply<u32>;
    type Error = BoxError;

    async fn started(&mut self, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        if self.0.fetch_add(1, Ordering::Relaxed) == 1 { Err("not yet".into()) } else { Ok(()) }
    }

    async fn handle(&mut self, reply: Reply<u32>, cx: &mut Context<Self>) -> Result<(), BoxError> {
        reply.send(cx.incarnation());
        Ok(())
    }
}

#[test]
fn a17_s1_an_actor_that_did_not_start_is_restarted_where_others_would_be_resumed() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let resume = |failure: &FailureInfo| match failure.to_string().contains("not yet") {
            true => SupervisorDirective::Resume,
            false => SupervisorDirective::Restart,
        };
        let crew = system.supervisor("crew", OneForAll::new().deciding(resume)).unwrap();
        let starts = Arc::new(AtomicU32::new(0));
        let begun = Arc::clone(&starts);
        let actor = crew.spawn("twice", Props::new(move || StartsTwice(Arc::clone(&begun)))).unwrap();
        let sibling = crew.spawn("sibling", Doer::props(&Log::new())).unwrap();
        sim.settle();
        sibling.tell(Job::Fail("no")).unwrap();
        sim.settle();
        assert_eq!((sim.run(actor.ask(|reply| reply)).unwrap(), starts.load(Ordering::Relaxed)), (2, 3));
        assert_eq!(sim.run(sibling.ask(|reply| Job::Answer(reply, 7))).unwrap(), 7, "its group has come up");
    });
}
