//! T7: cancel grace. Tasks and handlers may continue for a limited time after a cancel.

use crate::common::{Log, quiet};
use pleach::BoxError;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use std::future::pending;

const GRACE: Duration = Duration::from_secs(5);

/// Waits for its cancel, then cleans up for `cleanup_time`, and logs both.
struct CleansUp {
    log: Log<String>,
    cleanup_time: Duration,
}

impl CleansUp {
    fn props(log: &Log<String>, cleanup_time: Duration) -> Props<Self> {
        let log = log.clone();
        Props::new(move || Self { log: log.clone(), cleanup_time })
    }
}

impl Actor for CleansUp {
    type Msg = u32;
    type Error = BoxError;

    async fn handle(&mut self, n: u32, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.log.note(format!("started {n}"));
        cx.token().cancelled().await;
        pleach::runtime::current_runtime().expect("an actor is polled").sleep_until(cx.now() + self.cleanup_time).await;
        self.log.note(format!("cleaned up {n}"));
        Ok(())
    }

    async fn stopped(&mut self, exit: &Exit, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.log.note(exit);
        Ok(())
    }
}

/// Cancels an actor with `grace` while it handles the first of two messages.
fn cancelled(sim: &Sim, grace: Option<Duration>, cleanup_time: Duration) -> (Vec<String>, Exit, Counts) {
    let system = sim.system("s");
    let log = Log::new();
    let props = CleansUp::props(&log, cleanup_time);
    let props = if let Some(grace) = grace { props.cancel_grace(grace) } else { props };
    let actor = system.spawn("a", props).unwrap();
    actor.tell(1).unwrap();
    actor.tell(2).unwrap();
    sim.settle();
    actor.any().cancel("enough");
    sim.settle();
    sim.advance(Duration::from_secs(60));
    (log.take(), actor.exit().expect("the actor has ended"), system.counts())
}

#[test]
fn t7_handler_with_grace_finishes_its_message_only() {
    explore(0..50, |sim| {
        let (log, exit, counts) = cancelled(sim, Some(GRACE), Duration::from_secs(4));
        assert_eq!(log, ["started 1", "cleaned up 1", "cancelled, and tidied up: enough"]);
        assert_eq!(exit, Exit::TidiedUp("enough".into()));
        assert_eq!((counts.handled, counts.dead_lettered), (1, 1));
        assert!(counts.is_settled());
    });
}

#[test]
fn t7_handler_is_dropped_at_the_end_of_its_grace() {
    explore(0..50, |sim| {
        let (log, exit, counts) = cancelled(sim, Some(GRACE), Duration::from_secs(6));
        assert_eq!(log, ["started 1", "cancelled: enough"]);
        assert_eq!(exit, Exit::Cancelled("enough".into()));
        assert_eq!(counts.handled, 0);
        assert!(counts.is_settled());
    });
}

#[test]
fn t7_handler_without_grace_is_dropped_at_its_next_await() {
    explore(0..50, |sim| {
        let (log, exit, _) = cancelled(sim, None, Duration::ZERO);
        assert_eq!((log, exit), (vec!["started 1".into(), "cancelled: enough".into()], Exit::Cancelled("enough".into())));
    });
}

#[test]
fn t7_idle_actor_with_grace_ends_at_once() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let actor = system.spawn("a", CleansUp::props(&Log::new(), GRACE).cancel_grace(GRACE)).unwrap();
    sim.settle();
    let start = sim.now();
    actor.any().cancel("enough");
    sim.settle();
    assert_eq!((actor.exit(), sim.now()), (Some(Exit::TidiedUp("enough".into())), start));
}

#[test]
fn t7_failure_during_the_grace_is_recorded_without_a_restart() {
    quiet();
    for panics in [false, true] {
        let sim = Sim::new(1);
        let system = sim.system("s");
        let failures = crate::common::failures(&system);
        let log = Log::new();
        let actor = system.spawn("a", crate::common::TestActor::props(&log).cancel_grace(GRACE)).unwrap();
        let any = actor.any();
        actor
            .tell(crate::common::Job::work(move |_| async move {
                any.cancel("enough");
                tokio::task::yield_now().await;
                if panics {
                    std::panic::panic_any(crate::common::INJECTED);
                }
                Err("late".into())
            }))
            .unwrap();
        sim.settle();
        assert_eq!(failures.take().len(), 1);
        assert!(!log.take().iter().any(|line| line == "started 1"), "a cancelled actor is not restarted");
        assert!(actor.exit().is_some());
        assert!(system.counts().is_settled());
    }
}

#[test]
fn t7_exit_of_a_task_with_grace_shows_whether_it_finished() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let scope = system.scope("work").unwrap();
        let exits: Vec<_> = [(Some(GRACE), 4), (Some(GRACE), 6), (None, 4)]
            .into_iter()
            .map(|(grace, secs)| {
                let token = scope.token();
                let runtime = sim.runtime();
                let task = async move {
                    token.cancelled().await;
                    runtime.sleep_until(runtime.now() + Duration::from_secs(secs)).await;
                };
                let launch = scope.task();
                let launch = if let Some(grace) = grace { launch.cancel_grace(grace) } else { launch };
                launch.launch(task).unwrap()
            })
            .collect();
        sim.settle();
        scope.cancel("enough");
        sim.advance(Duration::from_secs(60));
        let exits: Vec<_> = exits.iter().map(|task| task.any().exit().unwrap().to_string()).collect();
        assert_eq!(exits, ["cancelled, and tidied up: enough", "cancelled: enough", "cancelled: enough"]);
    });
}

#[test]
fn t7_scope_passes_its_grace_to_its_tasks() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let scope = system.scope("work").unwrap().with_cancel_grace(GRACE);
    let task = scope.launch(pending::<()>()).unwrap();
    sim.settle();
    let start = sim.now();
    scope.cancel("enough");
    sim.settle();
    assert_eq!(task.any().exit(), None, "it may continue");
    sim.advance(GRACE);
    assert_eq!(task.any().exit(), Some(Exit::Cancelled("enough".into())));
    assert_eq!(scope.any().exit(), Some(Exit::Cancelled("enough".into())));
    assert!(sim.now() >= start + GRACE);
}
