//! Faults in the messages of actors.

use crate::common::{Log, failures};
use pleach::prelude::*;
use pleach::sim::{FaultKind, Faults, Sim, assert_conserved, explore};
use pleach::supervise::Reason;
use pleach::system::System;
use pleach::{BoxError, Counts};

/// Starts an actor that notes its messages. Its state counts the messages of one incarnation.
fn noting(system: &System, name: &str, log: &Log<String>) -> ActorRef<u32> {
    let log = log.clone();
    let handle = move |count: &mut u32, n: u32| {
        *count += 1;
        log.note(format!("{n} as {count}"));
        Ok::<(), BoxError>(())
    };
    system.spawn(name, Props::from_fn(|| 0, handle)).unwrap()
}

/// Sends 1, 2 and 3 to an actor whose second message gets a fault. Returns what it noted, the
/// reason of the failure, and the counts.
fn with_second(kind: FaultKind) -> (Vec<String>, FailureInfo, Counts) {
    let sim = Sim::new(1);
    sim.inject(kind.nth(2).on("/user/till"));
    let system = sim.system("shop");
    let (log, failed) = (Log::new(), failures(&system));
    let till = noting(&system, "till", &log);
    (1..=3).for_each(|n| till.tell(n).unwrap());
    sim.settle();
    assert_conserved(&system);
    let failed = failed.take();
    assert_eq!(failed.len(), 1);
    assert_eq!(sim.injected()[0].to_string(), format!("{kind}:/user/till#2"));
    (log.take(), failed[0].clone(), system.counts())
}

#[test]
fn d5_failing_handler_is_an_error_of_its_actor() {
    let (noted, failure, counts) = with_second(FaultKind::HandlerFails);
    assert_eq!(noted, ["1 as 1", "3 as 1"], "the message is not handled, and the actor restarts");
    let Reason::Error(error) = failure.reason() else { panic!("{}", failure.reason()) };
    assert_eq!(error.to_string(), "injected fault handler-fails at /user/till, operation 2");
    assert_eq!((counts.handled, counts.failed), (2, 1));
}

#[test]
fn d5_actor_crashes_before_or_after_its_work() {
    for (kind, expected) in
        [(FaultKind::CrashBefore, &["1 as 1", "3 as 1"][..]), (FaultKind::CrashAfter, &["1 as 1", "2 as 2", "3 as 1"])]
    {
        let (noted, failure, counts) = with_second(kind);
        assert_eq!(noted, expected);
        assert!(matches!(failure.reason(), Reason::Panic { .. }), "{}", failure.reason());
        assert_eq!((counts.handled, counts.failed), (2, 1));
    }
}

#[test]
fn d5_asker_of_a_crashed_actor_gets_an_error() {
    explore(0..50, |sim| {
        sim.inject([FaultKind::CrashBefore.nth(1), FaultKind::HandlerFails.nth(2)]);
        let system = sim.system("shop");
        let echo = Props::from_fn(
            || (),
            |_, reply: Reply<u32>| {
                reply.send(7);
                Ok::<(), BoxError>(())
            },
        );
        let echo = system.spawn("echo", echo).unwrap();
        sim.run(async {
            for _ in 0..2 {
                assert!(echo.ask(|reply| reply).await.is_err());
            }
            assert_eq!(echo.ask(|reply| reply).await.unwrap(), 7);
        });
    });
}

#[test]
fn d5_scope_rate_and_bound_choose_the_messages() {
    explore(0..50, |sim| {
        let faults = Faults::from(FaultKind::HandlerFails.rate(0.5).on("/user/workers").at_most(4));
        sim.inject(faults.with(FaultKind::CrashAfter.nth(3).on("/user/till")));
        let system = sim.system("shop");
        let workers = system.supervisor("workers", OneForOne::new().restart_limit(1_000, Duration::from_secs(1))).unwrap();
        let quiet = || Props::from_fn(|| (), |_: &mut (), _: u32| Ok::<(), BoxError>(()));
        let (worker, till) = (workers.spawn("packer", quiet()).unwrap(), system.spawn("till", quiet()).unwrap());
        let other = system.spawn("workers-2", quiet()).unwrap();
        for n in 0..50 {
            [&worker, &till, &other].into_iter().for_each(|actor| actor.tell(n).unwrap());
        }
        sim.settle();
        assert_eq!([&worker, &till, &other].map(|actor| actor.counts().failed), [4, 1, 0]);
        let crash = sim.injected().into_iter().find(|fault| fault.kind == FaultKind::CrashAfter).unwrap();
        assert_eq!((crash.site.as_str(), crash.number), ("/user/till", 3));
    });
}

#[test]
fn d5_signals_behaviours_and_instruments_get_faults_too() {
    struct Switching(Log<String>);

    impl Actor for Switching {
        type Msg = u32;
        type Error = BoxError;

        async fn handle(&mut self, n: u32, cx: &mut Context<Self>) -> Result<(), BoxError> {
            self.0.note(format!("first {n}"));
            cx.become_with(|actor: &mut Self, n, _cx| {
                actor.0.note(format!("then {n}"));
                Box::pin(async { Ok(()) })
            });
            Ok(())
        }
    }

    let sim = Sim::new(3);
    sim.inject(FaultKind::CrashBefore.nth(2));
    let system = sim.system("shop");
    let log = Log::new();
    let state = log.clone();
    let actor = system.spawn("actor", Props::new(move || Switching(state.clone())).instrumented()).unwrap();
    (1..=3).for_each(|n| actor.tell(n).unwrap());
    sim.settle();
    assert_eq!(log.take(), ["first 1", "first 3"], "the second message hits the behaviour, and the restart ends it");
    assert_eq!((actor.counts().handled, actor.counts().failed), (2, 1));
}

/// A program of tasks and actors, on any runtime. Returns the scope of its tasks.
fn program(system: &System) -> Scope {
    let log = Log::new();
    let (one, two) = (noting(system, "one", &log), noting(system, "two", &log));
    let scope = system.scope("senders").unwrap();
    for to in [one.clone(), two, one] {
        scope
            .launch(async move {
                for n in 0..20 {
                    to.send(n).await.unwrap();
                }
            })
            .unwrap();
    }
    scope
}

#[test]
fn d5_schedule_without_faults_is_that_of_the_dispatcher() {
    for seed in 0..50 {
        let plain = pleach::runtime::Dispatcher::seeded(seed);
        let system = System::builder("shop", plain.runtime()).build().unwrap();
        let _senders = program(&system);
        plain.drain_ready();

        let sim = Sim::new(seed);
        sim.inject(Faults::none());
        // Faults of a store are no faults of handlers.
        sim.inject(FaultKind::StoreFails.rate(1.0));
        let simulated = System::builder("shop", sim.runtime()).build().unwrap();
        let _simulated_senders = program(&simulated);
        sim.settle();
        assert_eq!((sim.polls(), sim.trace_hash()), (plain.polls(), plain.trace_hash()), "seed {seed}");
    }
}

#[test]
fn d5_one_seed_injects_the_same_faults_again() {
    let injected = |seed| {
        let sim = Sim::new(seed);
        sim.inject(0.2);
        let system = sim.system("shop");
        let _senders = program(&system);
        sim.settle();
        (sim.injected(), sim.trace_hash())
    };
    assert!((0..20).any(|seed| injected(seed).0.len() > 1));
    for seed in 0..20 {
        assert_eq!(injected(seed), injected(seed));
    }
}

#[test]
#[should_panic(expected = "call `inject` before it")]
fn d5_faults_asked_for_too_late_are_refused() {
    let sim = Sim::new(1);
    let _system = sim.system("shop");
    sim.inject(FaultKind::HandlerFails.nth(1));
}
