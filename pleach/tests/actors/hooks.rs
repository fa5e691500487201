//! A15 and A17: hooks and exits.

use crate::common::{Gate, Job, Log, TestActor, failures, quiet};
use pleach::BoxError;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn a17_hooks_run_in_order_across_a_restart() {
    quiet();
    explore(0..100, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let actor = system.spawn("actor", TestActor::props(&log)).unwrap();
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
fn a17_stopped_runs_once_per_incarnation() {
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
            let supervisor =
                system.supervisor("supervisor", OneForOne::new().restart_limit(1, Duration::from_secs(1))).unwrap();
            let actor = supervisor.spawn("actor", TestActor::props(&log)).unwrap();
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
fn a17_actor_that_never_started_runs_no_hooks() {
    quiet();
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let actor = system.spawn("actor", TestActor::props(&log)).unwrap();
    actor.cancel(());
    assert_eq!(sim.run(actor.exited()), Exit::Cancelled(Cause::Cancelled));
    assert_eq!(log.len(), 0);
}

/// An actor whose hooks wait.
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
        assert!(!token.is_cancelled(), "the token is new");
        self.log.note(format!("stopping, {exit}"));
        if let Some(wait) = self.stopped_waits {
            // Waits, unless the new token is cancelled first.
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
fn a17_no_message_is_handled_before_started_returns() {
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
fn a17_stopped_has_a_new_token_and_the_grace_after_a_cancel() {
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
            let start = sim.now();
            actor.cancel("enough");
            // A second cancel, of the whole system, does not cancel the hook.
            system.cancel(Cause::Cancelled);
            assert_eq!(sim.run(actor.exited()), Exit::Cancelled(Cause::from("enough")));
            let expected = ["started", "message", "stopping, cancelled: enough", "done waiting"];
            assert_eq!(log.take(), expected[..if hung { 3 } else { 4 }]);
            assert_eq!(sim.now() - start, Duration::from_secs(wait.min(5)));
            assert_eq!((system.failures(), records.len()), (usize::from(hung), usize::from(hung)));
            for record in records.take() {
                assert!(record.reason().to_string().contains("grace period of 5s"), "{record}");
            }
        }
    });
}

/// Its `stopped` hook takes the token several times and logs whether each is cancelled.
struct TokenProbe(Log<bool>);

impl Actor for TokenProbe {
    type Msg = ();
    type Error = BoxError;

    async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), BoxError> {
        Err("requested".into())
    }

    async fn stopped(&mut self, _exit: &Exit, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.0.push(cx.token().is_cancelled());
        cx.token().cancel(());
        self.0.push(cx.token().is_cancelled());
        Ok(())
    }
}

#[test]
fn a17_stopped_has_one_token_per_incarnation() {
    quiet();
    explore(0..20, |sim| {
        let (system, seen) = (sim.system("s"), Log::new());
        let log = seen.clone();
        let actor = system.spawn("token-probe", Props::new(move || TokenProbe(log.clone()))).unwrap();
        actor.tell(()).unwrap();
        actor.tell(()).unwrap();
        actor.close();
        sim.run(actor.exited());
        assert_eq!(seen.take(), [false, true, false, true, false, true]);
        drop(system);
        sim.settle();
        assert_eq!(sim.tasks_alive(), 0, "no task waits for an unused grace period");
    });
}

#[test]
fn a15_exited_is_ready_for_all_waiters_after_every_on_done() {
    quiet();
    explore(0..100, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let actor = TestActor::spawn(&system, "actor");
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
        assert_eq!((sim.run(actor.exited()), actor.exit()), (Exit::Stopped, Some(Exit::Stopped)), "asked after the exit");
        let late = Arc::clone(&ran);
        actor.on_done(move |_| assert_eq!(late.fetch_add(1, Ordering::Relaxed), 5));
        assert_eq!(ran.load(Ordering::Relaxed), 6, "registered after the exit, it runs at once");
        assert_eq!(waiters.failures(), 1, "one panic is recorded, and the other callbacks run");
    });
}

/// Fails in `started` of its second incarnation.
struct FailsSecondStart(Arc<AtomicU32>);

impl Actor for FailsSecondStart {
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
fn a17_s1_actor_that_did_not_start_is_restarted_not_resumed() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let resume = |failure: &FailureInfo| match failure.to_string().contains("not yet") {
            true => SupervisorDirective::Resume,
            false => SupervisorDirective::Restart,
        };
        let supervisor = system.supervisor("supervisor", OneForAll::new().deciding(resume)).unwrap();
        let starts = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&starts);
        let actor = supervisor.spawn("twice", Props::new(move || FailsSecondStart(Arc::clone(&counted)))).unwrap();
        let sibling = supervisor.spawn("sibling", TestActor::props(&Log::new())).unwrap();
        sim.settle();
        sibling.tell(Job::Fail("no")).unwrap();
        sim.settle();
        assert_eq!((sim.run(actor.ask(|reply| reply)).unwrap(), starts.load(Ordering::Relaxed)), (2, 3));
        assert_eq!(sim.run(sibling.ask(|reply| Job::Answer(reply, 7))).unwrap(), 7, "the restart of all children is complete");
    });
}

/// A hook need not be an `async fn`. What it does before it returns its future is guarded as well.
#[test]
fn a17_hook_that_panics_before_its_future_does_not_prevent_the_restart() {
    quiet();
    struct EagerHooks;
    impl Actor for EagerHooks {
        type Msg = bool;
        type Error = BoxError;

        async fn handle(&mut self, fails: bool, _cx: &mut Context<Self>) -> Result<(), BoxError> {
            if fails { Err("injected".into()) } else { Ok(()) }
        }

        #[allow(clippy::manual_async_fn, reason = "the panic comes before the future")]
        fn restarting(&mut self, _: &FailureInfo, _: &mut Context<Self>) -> impl Future<Output = Result<(), BoxError>> + Send {
            if true {
                panic!("injected into `restarting`");
            }
            async { Ok(()) }
        }

        #[allow(clippy::manual_async_fn, reason = "the panic comes before the future")]
        fn stopped(&mut self, _: &Exit, _: &mut Context<Self>) -> impl Future<Output = Result<(), BoxError>> + Send {
            if true {
                panic!("injected into `stopped`");
            }
            async { Ok(()) }
        }
    }
    explore(0..20, |sim| {
        let system = sim.system("s");
        let actor = system.spawn("eager", Props::new(|| EagerHooks)).unwrap();
        actor.tell(true).unwrap();
        actor.tell(false).unwrap();
        sim.settle();
        assert_eq!((actor.exit(), actor.counts().handled, system.failures()), (None, 1, 3));
        actor.stop();
        assert_eq!(sim.run(actor.exited()), Exit::Stopped);
    });
}
