//! T7: tasks and handlers that may run on for a while after a cancel, to tidy up.

use crate::common::{Log, quiet};
use pleach::BoxError;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use std::future::pending;

const GRACE: Duration = Duration::from_secs(5);

/// Waits for its cancel, then takes `tidying` to tidy up, and says how far it came.
struct Tidy {
    log: Log<String>,
    tidying: Duration,
}

impl Tidy {
    fn props(log: &Log<String>, tidying: Duration) -> Props<Self> {
        let log = log.clone();
        Props::new(move || Self { log: log.clone(), tidying })
    }
}

impl Actor for Tidy {
    type Msg = u32;
    type Error = BoxError;

    async fn handle(&mut self, n: u32, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.log.note(format!("began {n}"));
        cx.token().cancelled().await;
        pleach::current_runtime().expect("an actor is polled").sleep_until(cx.now() + self.tidying).await;
        self.log.note(format!("tidied up {n}"));
        Ok(())
    }

    async fn stopped(&mut self, exit: &Exit, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.log.note(exit);
        Ok(())
    }
}

/// Cancels an actor with `grace` in the handler of the first of two messages.
fn cancelled(sim: &Sim, grace: Option<Duration>, tidying: Duration) -> (Vec<String>, Exit, Counts) {
    let system = sim.system("s");
    let log = Log::new();
    let props = Tidy::props(&log, tidying);
    let props = if let Some(grace) = grace { props.cancel_grace(grace) } else { props };
    let actor = system.spawn("a", props).unwrap();
    actor.tell(1).unwrap();
    actor.tell(2).unwrap();
    sim.settle();
    actor.any().cancel("enough");
    sim.settle();
    sim.advance(Duration::from_secs(60));
    (log.take(), actor.exit().expect("it has ended"), system.counts())
}

#[test]
fn t7_handler_with_grace_finishes_its_message_and_begins_no_other() {
    explore(0..50, |sim| {
        let (log, exit, counts) = cancelled(sim, Some(GRACE), Duration::from_secs(4));
        assert_eq!(log, ["began 1", "tidied up 1", "cancelled, and tidied up: enough"]);
        assert_eq!(exit, Exit::TidiedUp("enough".into()));
        assert_eq!((counts.handled, counts.dead_lettered), (1, 1));
        assert!(counts.is_settled());
    });
}

#[test]
fn t7_handler_is_dropped_at_the_end_of_its_grace() {
    explore(0..50, |sim| {
        let (log, exit, counts) = cancelled(sim, Some(GRACE), Duration::from_secs(6));
        assert_eq!(log, ["began 1", "cancelled: enough"]);
        assert_eq!(exit, Exit::Cancelled("enough".into()));
        assert_eq!(counts.handled, 0);
        assert!(counts.is_settled());
    });
}

#[test]
fn t7_handler_without_grace_is_dropped_at_its_next_await() {
    explore(0..50, |sim| {
        let (log, exit, _) = cancelled(sim, None, Duration::ZERO);
        assert_eq!((log, exit), (vec!["began 1".into(), "cancelled: enough".into()], Exit::Cancelled("enough".into())));
    });
}

#[test]
fn t7_idle_actor_with_grace_ends_at_once() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let actor = system.spawn("a", Tidy::props(&Log::new(), GRACE).cancel_grace(GRACE)).unwrap();
    sim.settle();
    let begun = sim.now();
    actor.any().cancel("enough");
    sim.settle();
    assert_eq!((actor.exit(), sim.now()), (Some(Exit::TidiedUp("enough".into())), begun));
}

#[test]
fn t7_handler_that_fails_or_panics_in_its_grace_is_on_record_and_not_restarted() {
    quiet();
    for panics in [false, true] {
        let sim = Sim::new(1);
        let system = sim.system("s");
        let failures = crate::common::failures(&system);
        let log = Log::new();
        let doer = system.spawn("a", crate::common::Doer::props(&log).cancel_grace(GRACE)).unwrap();
        let any = doer.any();
        doer.tell(crate::common::Job::work(move |_| async move {
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
        assert!(!log.take().iter().any(|line| line == "started 1"), "a cancelled actor does not start again");
        assert!(doer.exit().is_some());
        assert!(system.counts().is_settled());
    }
}

#[test]
fn t7_task_with_grace_says_whether_it_tidied_up() {
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
fn t7_scope_grace_is_that_of_its_tasks_and_wait_all_waits_for_it() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let scope = system.scope("work").unwrap().with_cancel_grace(GRACE);
    let task = scope.launch(pending::<()>()).unwrap();
    sim.settle();
    let begun = sim.now();
    scope.cancel("enough");
    sim.settle();
    assert_eq!(task.any().exit(), None, "it may run on");
    sim.advance(GRACE);
    assert_eq!(task.any().exit(), Some(Exit::Cancelled("enough".into())));
    assert_eq!(scope.any().exit(), Some(Exit::Cancelled("enough".into())));
    assert!(sim.now() >= begun + GRACE);
}
