//! O2: the health of a system, with reasons that say the consequence and what to do.

use crate::common::{Gate, Job, Log, TestActor, quiet};
use pleach::Mailbox;
use pleach::inspect::{HEALTH_REPORTS_MAX, Health, HealthLimits, HealthReason, Problem};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::supervise::RestartLimitScope;
use pleach::system::RootContext;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn props() -> Props<TestActor> {
    TestActor::props(&Log::new())
}

fn only(health: &Health) -> &HealthReason {
    match health.reasons() {
        [reason] => reason,
        others => panic!("{others:?}"),
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn o2_new_system_is_healthy_and_a_closing_one_is_down() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    TestActor::spawn(&system, "actor");
    sim.settle();
    let health = system.health();
    assert_eq!((&health, health.is_ready(), health.to_string().as_str()), (&Health::Healthy, true, "healthy"));
    let root = system.root();
    sim.run(async {
        let shutdown = system.shutdown(seconds(5));
        root.begin_shutdown();
        assert_eq!(root.health(), Health::Down);
        shutdown.await.unwrap();
    });
    assert_eq!(root.health(), Health::Down);
    assert!(!root.health().is_ready());
    let cancelled = sim.system("t");
    cancelled.cancel("enough");
    assert_eq!(cancelled.health(), Health::Down);
}

#[test]
fn o2_supervisor_that_gave_up_is_a_reason_until_its_child_runs_again() {
    quiet();
    let sim = Sim::new(1);
    let system = sim.system("s");
    let strategy = OneForOne::new().restart_limit(1, seconds(60)).limit_scope(RestartLimitScope::PerChild);
    let supervisor = system.supervisor("workers", strategy).unwrap();
    let (failing, _other) = (supervisor.spawn("failing", props()).unwrap(), supervisor.spawn("other", props()).unwrap());
    for _ in 0..2 {
        failing.tell(Job::Fail("no ink")).unwrap();
    }
    sim.settle();
    sim.run(sim.sleep(seconds(3)));
    let health = system.health();
    match only(&health) {
        HealthReason::GaveUp { supervisor, child, restarts, stopped, left, ago, .. } => {
            assert_eq!(
                (supervisor.to_string().as_str(), child.to_string().as_str()),
                ("/user/workers", "/user/workers/failing")
            );
            assert_eq!((*restarts, *stopped, *left, *ago), (1, 1, 1, seconds(3)));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        only(&health).to_string(),
        "supervisor /user/workers gave up on /user/workers/failing 3.0s ago after 1 restarts in 60s; \
         that child stays stopped, 1 other continues; remove the cause of the failures, then start it again"
    );
    assert!(health.is_ready());
    supervisor.spawn("failing", props()).unwrap();
    assert_eq!(system.health(), Health::Healthy);
}

/// The supervisor above restarts the one that gave up: the same child runs again.
#[test]
fn o2_give_up_is_over_when_the_supervisor_is_restarted() {
    quiet();
    let sim = Sim::new(1);
    let system = sim.system("s");
    let above = system.supervisor("above", OneForOne::new().restart_limit(1, seconds(600))).unwrap();
    let workers = above.supervisor("workers", OneForOne::new().restart_limit(0, seconds(600))).unwrap();
    let actor = workers.spawn("actor", props()).unwrap();
    let log = Log::new();
    let (root, seen) = (system.root(), log.clone());
    // In the moment of the give-up the child is still there, and the give-up is not over.
    let _listener = system.hub().listen_to(EventKinds::GAVE_UP, move |_| seen.push(root.health().is_healthy()));
    actor.tell(Job::Fail("no ink")).unwrap();
    sim.settle();
    assert_eq!((log.take(), actor.exit()), (vec![false], None));
    assert_eq!(system.health(), Health::Healthy, "it was restarted");
    actor.tell(Job::Fail("no ink")).unwrap();
    sim.settle();
    assert!(actor.exit().is_some());
    let gave_up = |health: &Health| health.reasons().iter().filter(|one| matches!(one, HealthReason::GaveUp { .. })).count();
    assert_eq!(gave_up(&system.health()), 2, "both supervisors gave up");
}

#[test]
fn o2_conflated_mailbox_is_not_full() {
    let sim = Sim::new(1);
    let limits = HealthLimits::default().mailbox_full(Duration::ZERO);
    let system = ActorSystem::builder("s").runtime(sim.runtime()).health_limits(limits).build().unwrap();
    for (name, mailbox) in [("newest", Mailbox::conflated()), ("bounded", Mailbox::bounded(1))] {
        let actor = system.spawn(name, props().mailbox(mailbox)).unwrap();
        actor.tell(Job::Pass(Gate::new(), 0)).unwrap();
        sim.settle();
        actor.tell(Job::Note(1)).unwrap();
    }
    let health = system.health();
    assert!(matches!(only(&health), HealthReason::MailboxFull { path, .. } if *path == "/user/bounded"), "{health}");
}

#[test]
fn o2_give_ups_can_be_forgotten_and_are_bounded() {
    quiet();
    let sim = Sim::new(1);
    let system = sim.system("s");
    for index in 0..100 {
        let strategy = OneForOne::new().restart_limit(0, seconds(60));
        let supervisor = system.supervisor(&format!("s{index}"), strategy).unwrap();
        supervisor.spawn("failing", props()).unwrap().tell(Job::Fail("no ink")).unwrap();
        sim.settle();
    }
    drop(system.take_escalations());
    let health = system.health();
    assert_eq!(health.reasons().len(), 65, "64 and one line for the others");
    assert_eq!(health.reasons()[64], HealthReason::More { count: 36 });
    system.root().forget_give_ups();
    assert_eq!(system.health(), Health::Healthy);
}

#[test]
fn o2_pool_without_all_its_workers_is_a_reason() {
    quiet();
    let sim = Sim::new(1);
    let system = sim.system("s");
    let pool = system.pool("pool", 3, |_| props()).build().unwrap();
    let worker = pool.workers().remove(0);
    for _ in 0..4 {
        worker.tell(Job::Fail("no ink")).unwrap();
    }
    sim.settle();
    let health = system.health();
    assert!(health.reasons().iter().any(|reason| matches!(reason, HealthReason::GaveUp { left: 2, .. })), "{health}");
    let short = health.reasons().iter().find(|reason| matches!(reason, HealthReason::PoolShort { workers: 2, size: 3, .. }));
    let expected = "pool /user/pool has 2 of 3 workers; it is slower; resize it to start the missing ones";
    assert_eq!(short.expect("a short pool").to_string(), expected);
    pool.resize(3).unwrap();
    sim.settle();
    assert_eq!(system.health(), Health::Healthy, "the new worker also settles the give-up");
}

#[test]
fn o2_full_mailbox_is_a_reason_after_the_limit() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let gate = Gate::new();
    let actor = system.spawn("actor", props().mailbox(Mailbox::bounded(2))).unwrap();
    actor.tell(Job::Pass(gate.clone(), 0)).unwrap();
    sim.settle();
    (0..2).for_each(|n| actor.tell(Job::Note(n)).unwrap());
    assert_eq!(system.health(), Health::Healthy, "it is full, but not for long");
    sim.run(sim.sleep(seconds(9)));
    assert_eq!(system.health(), Health::Healthy);
    sim.run(sim.sleep(seconds(1)));
    let expected = "mailbox of /user/actor has been full for at least 10s (2 queued, 0 senders wait); \
                    senders wait or fail; make its handler faster, add workers, or send less";
    assert_eq!(only(&system.health()).to_string(), expected);
    gate.open();
    sim.settle();
    assert_eq!(system.health(), Health::Healthy);
    // Full again: the time counts from the start.
    actor.tell(Job::Pass(gate, 0)).unwrap();
    sim.settle();
    (0..2).for_each(|n| actor.tell(Job::Note(n)).unwrap());
    assert_eq!(system.health(), Health::Healthy);
}

#[test]
fn o2_stuck_handler_is_a_reason_after_the_limit() {
    let sim = Sim::new(1);
    let limits = HealthLimits::default().handler_stuck(seconds(3));
    let system = ActorSystem::builder("s").runtime(sim.runtime()).health_limits(limits).build().unwrap();
    let (actor, gate) = (TestActor::spawn(&system, "actor"), Gate::new());
    actor.tell(Job::Pass(gate.clone(), 0)).unwrap();
    sim.settle();
    assert_eq!(system.health(), Health::Healthy);
    sim.run(sim.sleep(seconds(3)));
    let text = only(&system.health()).to_string();
    assert!(
        text.starts_with("/user/actor has worked on one ") && text.contains("for at least 3.0s; it handles nothing else"),
        "{text}"
    );
    gate.open();
    sim.settle();
    assert_eq!(system.health(), Health::Healthy);
}

/// A handler that never returns cannot be stopped or restarted, but cancelled.
#[test]
fn o2_advice_for_a_stuck_handler_ends_it() {
    let sim = Sim::new(1);
    let limits = HealthLimits::default().handler_stuck(seconds(3));
    let system = ActorSystem::builder("s").runtime(sim.runtime()).health_limits(limits).build().unwrap();
    let supervisor = system.supervisor("workers", OneForOne::new()).unwrap();
    let (actor, gate) = (supervisor.spawn("actor", props()).unwrap(), Gate::new());
    actor.tell(Job::Pass(gate.clone(), 0)).unwrap();
    sim.settle();
    let is_stuck = || {
        system.health();
        sim.run(sim.sleep(seconds(60)));
        !system.health().is_healthy()
    };
    assert!(is_stuck());
    let advice = "set a timeout in its handler; a stop or restart waits for it, and only a cancel or a new process ends it";
    let text = only(&system.health()).to_string();
    assert!(text.ends_with(advice), "{text}");
    actor.any().restart().unwrap();
    assert!(is_stuck(), "a restart waits for the handler");
    supervisor.any().restart().unwrap();
    assert!(is_stuck(), "so does that of its supervisor");
    actor.any().stop();
    assert!(is_stuck(), "a stop waits for the handler");
    actor.any().cancel("stuck");
    assert!(!is_stuck());
    drop(gate);
}

#[test]
fn o2_unhandled_failures_are_a_reason_until_they_are_taken() {
    quiet();
    let sim = Sim::new(1);
    let system = sim.system("s");
    let strategy = |_: &FailureInfo| SupervisorDirective::Escalate;
    let supervisor = system.supervisor("supervisor", strategy).unwrap();
    supervisor.spawn("actor", props()).unwrap().tell(Job::Fail("no ink")).unwrap();
    sim.settle();
    let health = system.health();
    assert!(
        matches!(only(&health), HealthReason::UnhandledFailures { count: 1, reason, .. } if reason == "no ink"),
        "{health}"
    );
    assert_eq!(system.take_escalations().failures.len(), 1);
    assert_eq!(system.health(), Health::Healthy);
}

#[test]
fn o2_reported_problem_is_a_reason_until_its_report_is_dropped() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let scope = system.scope("worker").unwrap();
    let problem = || Problem::new("store-unreachable", "the store does not answer; no run makes progress");
    let report = scope.any().report_health(problem().advice("check the database").blocks_readiness());
    sim.run(sim.sleep(seconds(2)));
    let health = system.health();
    assert!(!health.is_ready() && !health.is_healthy());
    let text = "degraded\n- /user/worker: the store does not answer; no run makes progress; check the database";
    assert_eq!(health.to_string(), text);
    match only(&health) {
        HealthReason::Reported { key, reported_for, .. } => {
            assert_eq!((key.as_str(), *reported_for), ("store-unreachable", seconds(2)));
        }
        other => panic!("{other:?}"),
    }
    report.update(problem());
    assert!(system.health().is_ready(), "the update does not block readiness");
    drop(report);
    assert_eq!(system.health(), Health::Healthy);
    let many: Vec<_> = (0..HEALTH_REPORTS_MAX + 5).map(|_| scope.any().report_health(problem())).collect();
    assert_eq!(system.health().reasons().last(), Some(&HealthReason::More { count: 5 }));
    drop(many);
    assert_eq!(system.health(), Health::Healthy);
}

/// More members than one call looks at: every call continues where the last one ended.
#[test]
fn o2_large_system_is_covered_by_several_calls() {
    let sim = Sim::new(1);
    let limits = HealthLimits::default().handler_stuck(Duration::ZERO);
    let system = ActorSystem::builder("s").runtime(sim.runtime()).health_limits(limits).build().unwrap();
    let actors: Vec<_> = (0..50_000).map(|_| system.spawn_unnamed(props()).unwrap()).collect();
    actors[49_999].tell(Job::Pass(Gate::new(), 0)).unwrap();
    sim.settle();
    let calls = (1..=5).find(|_| !system.health().is_healthy());
    assert_eq!(calls, Some(3), "20,000 members in each call");
    // Once found, it is looked at by every call.
    assert!((0..5).all(|_| system.health().reasons().len() == 1));
}

#[cfg(feature = "serde")]
#[test]
fn o2_health_survives_json() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    assert_eq!(serde_json::to_value(system.health()).unwrap()["status"], "healthy");
    let _report = system.root().report_health(Problem::new("k", "text"));
    let health = system.health();
    let json = serde_json::to_value(&health).unwrap();
    assert_eq!((&json["status"], &json["reasons"][0]["kind"]), (&"degraded".into(), &"reported".into()));
    assert_eq!(serde_json::from_value::<Health>(json).unwrap(), health);
}

/// An error whose text asks for the health, as a second probe does at the same moment.
struct Asks(Arc<Mutex<Option<RootContext>>>, Log<Health>);

impl std::fmt::Debug for Asks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Asks")
    }
}

impl std::fmt::Display for Asks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let root = self.0.lock().unwrap().take();
        root.iter().for_each(|root| self.1.push(root.health()));
        f.write_str("asks")
    }
}

impl std::error::Error for Asks {}

/// Fails with its first message, and waits for ever with the second one.
struct FailsOnce(Arc<Mutex<Option<RootContext>>>, Log<Health>);

impl Actor for FailsOnce {
    type Msg = ();
    type Error = Asks;

    async fn handle(&mut self, (): (), cx: &mut Context<Self>) -> Result<(), Asks> {
        if cx.incarnation() == 0 {
            return Err(Asks(Arc::clone(&self.0), self.1.clone()));
        }
        std::future::pending().await
    }
}

#[test]
fn o2_two_calls_at_once_report_the_same_reasons() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let (root, seen) = (Arc::new(Mutex::new(None)), Log::new());
    let (asks, log) = (Arc::clone(&root), seen.clone());
    let first = system.spawn("first", Props::new(move || FailsOnce(Arc::clone(&asks), log.clone()))).unwrap();
    (0..2).for_each(|_| first.tell(()).unwrap());
    // More members than one call looks at.
    for number in 0..20_500 {
        TestActor::spawn(&system, &number.to_string());
    }
    let full = system.spawn("full", props().mailbox(Mailbox::bounded(1))).unwrap();
    full.tell(Job::Pass(Gate::new(), 0)).unwrap();
    sim.settle();
    full.tell(Job::Note(1)).unwrap();
    for _ in 0..6 {
        system.health();
        sim.run(sim.sleep(seconds(3)));
    }
    let is_full = |health: &Health| health.reasons().iter().any(|reason| matches!(reason, HealthReason::MailboxFull { .. }));
    assert!(is_full(&system.health()));
    *root.lock().unwrap() = Some(system.root());
    for _ in 0..4 {
        assert!(is_full(&system.health()));
    }
    let inner = seen.take();
    assert!(matches!(&inner[..], [health] if is_full(health)), "{inner:?}");
}
