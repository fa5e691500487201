//! A22: waits of an actor in its own handler, and work that blocks: `sleep`, `timeout`, `blocking`, `launch_blocking`.

use crate::common::logged::logged;
use crate::common::{Doer, Job, Log, quiet};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{BlockingError, BoxError, Elapsed, Refusal};
use std::sync::mpsc;

const MS: Duration = Duration::from_millis(1);

#[test]
fn w11_sleep_and_timeout_run_on_virtual_time() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let actor = system.spawn("a", Waiter::props(&log)).unwrap();
        for wait in [Wait::Sleep(5_000 * MS), Wait::InTime(10 * MS, 20 * MS), Wait::InTime(20 * MS, 10 * MS)] {
            actor.tell(wait).unwrap();
        }
        sim.advance(10_000 * MS);
        assert_eq!(log.seen(), ["slept 5s", "Ok(())", "Err(Elapsed(10ms))"]);
        assert!(system.counts().is_settled() && system.failures() == 0);
    });
}

/// What a [`Waiter`] is to wait for.
enum Wait {
    Sleep(Duration),
    /// A sleep, and how long it is given.
    InTime(Duration, Duration),
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
            Wait::InTime(wait, limit) => {
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
fn w11_tokio_timers_in_the_simulator_fail_with_a_hint() {
    let logged = logged();
    let sim = Sim::new(1);
    let system = sim.system("s");
    system.spawn("a", Waiter::props(&Log::new())).unwrap().tell(Wait::Tokio).unwrap();
    sim.advance(10 * MS);
    assert_eq!(system.failures(), 1);
    assert!(logged.seen().iter().any(|line| line.contains("cx.sleep") && line.contains("/user/a")), "{:?}", logged.seen());
}

#[test]
fn w11_blocking_work_gives_its_output_and_its_panic_is_an_error() {
    quiet();
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let actor = system.spawn("a", Waiter::props(&log)).unwrap();
        actor.tell(Wait::Blocking("sum", Box::new(|_| 7))).unwrap();
        actor.tell(Wait::Blocking("bad", Box::new(|_| panic!("injected into blocking work")))).unwrap();
        actor.tell(Wait::Blocking("a/b", Box::new(|_| 1))).unwrap();
        sim.settle();
        assert_eq!(log.seen()[..2], ["7", "ended true"], "the handler goes on");
        assert!(log.seen()[2].starts_with("the blocking work was not started"), "{:?}", log.seen());
        assert_eq!((system.failures(), actor.exit()), (1, None), "a panic in it is on record, and no failure of the actor");
    });
}

#[test]
fn w11_blocking_work_in_a_scope_fails_it_and_is_named() {
    quiet();
    explore(0..20, |sim| {
        let system = sim.system("s");
        let scope = system.scope("s").unwrap();
        let work = scope.launch_blocking("work", |_| Err::<(), _>("no")).unwrap();
        assert_eq!(work.path().to_string(), "/user/s/work");
        let twin = scope.launch_blocking("work", |_| ()).unwrap_err();
        assert!(matches!(twin.why, Refusal::NameTaken { .. }), "{:?}", twin.why);
        twin.into_future()(&scope.token());
        sim.settle();
        assert!(sim.run(scope.wait_all()).is_err());
        // Work that was cancelled before it began never runs.
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

/// On threads: the tree keeps work that does not return, tells it to, and names it.
#[cfg(feature = "tokio")]
#[tokio::test]
async fn w11_blocking_work_is_in_the_tree_until_it_returns() {
    let system = ActorSystem::new("s").unwrap();
    let actor = system.spawn("a", Waiter::props(&Log::new())).unwrap();
    let ((begins, begun), (lets_go, released)) = (mpsc::channel(), mpsc::channel::<()>());
    let work = move |token: &CancelToken| {
        begins.send(token.clone()).unwrap();
        released.recv().unwrap();
        u32::from(token.is_cancelled())
    };
    actor.tell(Wait::Blocking("work", Box::new(work))).unwrap();
    let token = tokio::task::spawn_blocking(move || begun.recv().unwrap()).await.unwrap();
    actor.any().cancel("enough");
    token.cancelled().await;
    let named: Vec<_> = system.root().running().iter().map(ToString::to_string).collect();
    assert!(named.iter().any(|one| one.starts_with("/user/a/work (cancelled ")), "{named:?}");
    assert!(actor.exit().is_none(), "it waits for its child");
    lets_go.send(()).unwrap();
    assert_eq!(actor.exited().await, Exit::Cancelled(Cause::Because("enough".into())));
    system.shutdown(Duration::from_secs(3_600)).await.unwrap();
}

#[test]
fn w11_running_reads_as_path_and_state() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    system.spawn("a", Doer::props(&Log::new())).unwrap().tell(Job::Note(1)).unwrap();
    let named: Vec<_> = system.root().running().iter().map(ToString::to_string).collect();
    assert_eq!(named, ["/system", "/user", "/user/a"]);
}
