//! A17 and T4: `sleep`, `timeout`, `blocking` and `launch_blocking`.

use crate::common::logged::logged;
use crate::common::{Job, Log, TestActor, quiet};
use pleach::BoxError;
use pleach::actor::Refusal;
use pleach::prelude::*;
use pleach::scope::{BlockingError, Elapsed};
use pleach::sim::{Sim, explore};
use std::sync::mpsc;

const MS: Duration = Duration::from_millis(1);

#[test]
fn a17_sleep_and_timeout_use_virtual_time() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let actor = system.spawn("a", Waiter::props(&log)).unwrap();
        for wait in [Wait::Sleep(5_000 * MS), Wait::Timeout(10 * MS, 20 * MS), Wait::Timeout(20 * MS, 10 * MS)] {
            actor.tell(wait).unwrap();
        }
        sim.advance(10_000 * MS);
        assert_eq!(log.seen(), ["slept 5s", "Ok(())", "Err(Elapsed(10ms))"]);
        assert!(system.counts().is_settled() && system.failures() == 0);
    });
}

/// What a [`Waiter`] waits for.
enum Wait {
    Sleep(Duration),
    /// A sleep and its timeout.
    Timeout(Duration, Duration),
    Blocking(&'static str, Work),
    Tokio,
}

type Work = Box<dyn FnOnce(&CancelToken) -> u32 + Send>;

struct Waiter(Log<String>);

impl Waiter {
    fn props(log: &Log<String>) -> Props<Self> {
        let log = log.clone();
        Props::new(move || Self(log.clone()))
    }
}

impl Actor for Waiter {
    type Msg = Wait;
    type Error = BoxError;

    async fn handle(&mut self, wait: Wait, cx: &mut Context<Self>) -> Result<(), BoxError> {
        match wait {
            Wait::Sleep(wait) => {
                let before = cx.now();
                cx.sleep(wait).await;
                self.0.note(format!("slept {:?}", cx.now() - before));
            }
            Wait::Timeout(wait, limit) => {
                let done: Result<(), Elapsed> = cx.timeout(limit, cx.sleep(wait)).await;
                self.0.note(format!("{done:?}"));
            }
            Wait::Blocking(name, work) => match cx.blocking(name, work).await {
                Ok(output) => self.0.note(output),
                Err(BlockingError::Ended(exit)) => self.0.note(format!("ended {}", exit.failure().is_some())),
                Err(error) => self.0.note(error),
            },
            Wait::Tokio => tokio::time::sleep(MS).await,
        }
        Ok(())
    }
}

#[test]
fn a17_tokio_timers_in_the_simulator_fail_with_a_hint() {
    let logged = logged();
    let sim = Sim::new(1);
    let system = sim.system("s");
    system.spawn("a", Waiter::props(&Log::new())).unwrap().tell(Wait::Tokio).unwrap();
    sim.advance(10 * MS);
    assert_eq!(system.failures(), 1);
    assert!(logged.seen().iter().any(|line| line.contains("cx.sleep") && line.contains("/user/a")), "{:?}", logged.seen());
}

#[test]
fn t4_blocking_work_returns_its_output_or_its_panic() {
    quiet();
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let actor = system.spawn("a", Waiter::props(&log)).unwrap();
        actor.tell(Wait::Blocking("sum", Box::new(|_| 7))).unwrap();
        actor.tell(Wait::Blocking("bad", Box::new(|_| panic!("injected into blocking work")))).unwrap();
        actor.tell(Wait::Blocking("a/b", Box::new(|_| 1))).unwrap();
        sim.settle();
        assert_eq!(log.seen()[..2], ["7", "ended true"], "the handler continues");
        assert!(log.seen()[2].starts_with("the blocking work was not started"), "{:?}", log.seen());
        assert_eq!((system.failures(), actor.exit()), (1, None), "the panic is recorded, and the actor does not fail");
    });
}

#[test]
fn t4_failed_blocking_work_fails_its_scope() {
    quiet();
    explore(0..20, |sim| {
        let system = sim.system("s");
        let scope = system.scope("s").unwrap();
        let work = scope.launch_blocking("work", |_| Err::<(), _>("no")).unwrap();
        assert_eq!(work.path().to_string(), "/user/s/work");
        let second = scope.launch_blocking("work", |_| ()).unwrap_err();
        assert!(matches!(second.reason, Refusal::NameTaken { .. }), "{:?}", second.reason);
        second.into_future()(&scope.token());
        sim.settle();
        assert!(sim.run(scope.wait_all()).is_err());
        // Work that was cancelled before its start never runs.
        let scope = system.scope("outer").unwrap();
        let never = scope
            .launch_blocking("never", |_: &CancelToken| -> Result<(), BoxError> { panic!("injected: it must not run") })
            .unwrap();
        never.cancel("too late");
        assert_eq!(sim.run(never.exited()), Exit::Cancelled(Cause::Because("too late".into())));
        sim.settle();
        assert_eq!(system.failures(), 1);
    });
}

/// On threads: work that has not returned stays in the tree, is cancelled, and is listed as
/// running.
#[cfg(feature = "tokio")]
#[tokio::test]
async fn t4_blocking_work_is_in_the_tree_until_it_returns() {
    let system = ActorSystem::new("s").unwrap();
    let actor = system.spawn("a", Waiter::props(&Log::new())).unwrap();
    let ((entered, enters), (release, released)) = (mpsc::channel(), mpsc::channel::<()>());
    let work = move |token: &CancelToken| {
        entered.send(token.clone()).unwrap();
        released.recv().unwrap();
        u32::from(token.is_cancelled())
    };
    actor.tell(Wait::Blocking("work", Box::new(work))).unwrap();
    let token = tokio::task::spawn_blocking(move || enters.recv().unwrap()).await.unwrap();
    actor.any().cancel("enough");
    token.cancelled().await;
    let named: Vec<_> = system.root().running().iter().map(ToString::to_string).collect();
    assert!(named.iter().any(|one| one.starts_with("/user/a/work (cancelled ")), "{named:?}");
    assert!(actor.exit().is_none(), "the actor waits for its child");
    release.send(()).unwrap();
    assert_eq!(actor.exited().await, Exit::Cancelled(Cause::Because("enough".into())));
    system.shutdown(Duration::from_secs(3_600)).await.unwrap();
}

#[test]
fn t4_running_prints_path_and_state() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    TestActor::spawn(&system, "a").tell(Job::Note(1)).unwrap();
    let named: Vec<_> = system.root().running().iter().map(ToString::to_string).collect();
    assert_eq!(named, ["/system", "/user", "/user/a"]);
}
