//! G7 and G8: the effect of a failed task on its group, its siblings and its readers, for every
//! combination of fail-fast and kind of failure. Every test calls `quiet` before it creates a tree,
//! so that no two tests change the panic hook at once.

use crate::common::tasks::{AliveCount, after, forever, numbers, spawn_on};
use crate::common::{INJECTED, Log, PanicOnDrop, failures, quiet};
use pleach::group::PanicPolicy;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::supervise::Reason;
use std::future::{Future, pending};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

async fn fails(steps: u32) -> Result<u32, &'static str> {
    after(steps, 0).await;
    Err("broken")
}

async fn panics(steps: u32) -> u32 {
    after(steps, 0).await;
    panic!("{INJECTED} panic")
}

#[test]
fn g7_group_is_cancelled_before_the_failed_result_is_visible() {
    quiet();
    explore(0..200, |sim| {
        let group = Arc::new(numbers(sim).build().unwrap());
        let seen = Log::new();
        for _ in 0..3 {
            let (group, seen) = (Arc::clone(&group), seen.clone());
            spawn_on(sim, async move {
                while let Some(result) = group.next().await {
                    if let Err(TaskError::Failed(failure)) = result {
                        seen.push((group.token().cause(), group.cause(), failure));
                    }
                }
            });
        }
        group.try_go(pending::<u32>()).unwrap();
        group.try_go(fails(sim.seed() as u32 % 3)).unwrap();
        group.try_go(fails(1)).unwrap();
        sim.settle();
        let seen = seen.take();
        assert!(!seen.is_empty());
        for (token, cause, _) in &seen {
            let first = group.errors().errors[0].failure().cloned().unwrap();
            assert_eq!((token, cause), (&Some(Cause::Failed(first.clone())), &Some(Cause::Failed(first))));
        }
    });
}

#[test]
fn g7_siblings_are_cancelled_with_the_failure_as_cause() {
    quiet();
    explore(0..100, |sim| {
        let group = numbers(sim).build().unwrap();
        let alive = AliveCount::default();
        (0..4).for_each(|_| group.try_go(forever(alive.add())).unwrap());
        group.task().named("failing").try_go(fails(2)).unwrap();
        let all = sim.run(group.drain());
        assert_eq!((all.values.len(), all.errors.len(), alive.now()), (0, 5, 0));
        let cancelled: Vec<_> = all.errors.iter().filter(|error| error.is_cancelled()).collect();
        assert_eq!(cancelled.len(), 4);
        for error in cancelled {
            let TaskError::Cancelled(Cause::Failed(failure)) = error else { panic!("{error}") };
            assert_eq!(failure.path().last().unwrap().to_string(), "failing");
        }
    });
}

#[test]
fn g7_without_fail_fast_siblings_continue_and_wait_reports() {
    quiet();
    explore(0..100, |sim| {
        let group = numbers(sim).fail_fast(false).build().unwrap();
        group.try_go(fails(0)).unwrap();
        (1..=5).for_each(|n| group.try_go(after(n, n)).unwrap());
        let error = sim.run(group.wait()).unwrap_err();
        assert!(error.to_string().contains("broken"), "{error}");
        assert_eq!(group.cause(), None);
        group.try_go(after(0, 6)).unwrap();
        let mut all = sim.run(group.drain());
        all.values.sort_unstable();
        assert_eq!((all.values, all.errors.len()), (vec![1, 2, 3, 4, 5, 6], 1));
    });
}

#[test]
fn g8_panic_is_an_error_with_text_and_location() {
    quiet();
    let sim = Sim::new(1);
    let system = sim.system("s");
    let recorded = failures(&system);
    let group = system.group::<u32>("g").build().unwrap();
    // Not an injected panic: the location of a hidden panic may not be recorded.
    let panic_with = async |text: &'static str| -> u32 { panic!("{text}") };
    group.task().named("bad").try_go(panic_with("a visible panic")).unwrap();
    let TaskError::Panicked(failure) = sim.run(group.next()).unwrap().unwrap_err() else { panic!("not a panic") };
    let Reason::Panic { message, location } = failure.reason() else { panic!("no reason") };
    assert_eq!(message, "a visible panic");
    assert!(location.as_ref().unwrap().contains("failures.rs"));
    assert_eq!(failure.path().to_string(), "/user/g/bad");
    assert_eq!((recorded.len(), system.failures()), (1, 1));
}

#[test]
fn g8_panic_is_never_a_success_and_spares_siblings() {
    quiet();
    explore(0..100, |sim| {
        let group = numbers(sim).fail_fast(false).build().unwrap();
        (0..10).for_each(|n| group.try_go(after(n % 3, n)).unwrap());
        (0..3).for_each(|n| group.try_go(panics(n)).unwrap());
        let all = sim.run(group.drain());
        assert_eq!((all.values.len(), all.errors.len()), (10, 3));
    });
}

#[test]
fn g8_resumed_panic_unwinds_in_its_reader_and_spares_siblings() {
    quiet();
    let sim = Sim::new(1);
    let group = numbers(&sim).fail_fast(false).panic_policy(PanicPolicy::Resume).build().unwrap();
    group.try_go(after(0, 1)).unwrap();
    group.try_go(panics_with(7)).unwrap();
    group.try_go(after(0, 2)).unwrap();
    sim.settle();
    group.close();
    let unwound = |f: &mut dyn FnMut()| catch_unwind(AssertUnwindSafe(f)).unwrap_err();
    let (mut values, mut payloads) = (Vec::new(), Vec::new());
    loop {
        match catch_unwind(AssertUnwindSafe(|| sim.run(group.next()))) {
            Ok(Some(result)) => values.push(result.unwrap()),
            Ok(None) => break,
            Err(payload) => payloads.push(*payload.downcast::<u8>().expect("the payload of the panic")),
        }
    }
    values.sort_unstable();
    assert_eq!((values, payloads), (vec![1, 2], vec![7]));
    // The payload was taken, so `wait` unwinds with the text.
    let text = unwound(&mut || drop(sim.run(group.wait())));
    assert!(text.downcast::<String>().is_ok());
}

/// Panics with a number as payload.
async fn panics_with(payload: u8) -> u32 {
    std::panic::panic_any(payload)
}

#[test]
fn g8_wait_resumes_a_panic() {
    quiet();
    let sim = Sim::new(1);
    let group = numbers(&sim).panic_policy(PanicPolicy::Resume).build().unwrap();
    group.try_go(panics(0)).unwrap();
    let payload = catch_unwind(AssertUnwindSafe(|| sim.run(group.wait()))).unwrap_err();
    assert!(payload.downcast_ref::<String>().unwrap().starts_with(INJECTED));
    let again = catch_unwind(AssertUnwindSafe(|| sim.run(group.next()))).unwrap_err();
    assert!(again.downcast_ref::<String>().unwrap().starts_with(INJECTED));
    assert_eq!(sim.run(group.next()), None);
}

/// Completes after `polls` polls and panics when it is dropped.
struct PanicsOnDrop {
    polls: u32,
    result: fn() -> Result<u32, &'static str>,
    panics: Option<PanicOnDrop>,
}

impl PanicsOnDrop {
    fn new(polls: u32, result: fn() -> Result<u32, &'static str>) -> Self {
        Self { polls, result, panics: Some(PanicOnDrop) }
    }
}

impl Future for PanicsOnDrop {
    type Output = Result<u32, &'static str>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            return Poll::Ready((self.result)());
        }
        self.polls -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        drop(self.panics.take());
    }
}

#[test]
fn g8_panic_in_the_drop_of_a_task_is_its_error() {
    quiet();
    explore(0..50, |sim| {
        let system = sim.system("s");
        let group = system.group::<u32>("g").fail_fast(false).build().unwrap();
        // Dropped after it completed, failed or panicked; cancelled while it waits; dropped before
        // its start.
        group.try_go(PanicsOnDrop::new(0, || Ok(1))).unwrap();
        group.try_go(PanicsOnDrop::new(1, || Ok(1))).unwrap();
        group.try_go(PanicsOnDrop::new(1, || Err("broken"))).unwrap();
        group.try_go(PanicsOnDrop::new(1, || panic!("{INJECTED}"))).unwrap();
        group.try_go(after(3, 5)).unwrap();
        sim.settle();
        group.try_go(forever(PanicOnDrop)).unwrap();
        sim.settle();
        group.try_go(forever(PanicOnDrop)).unwrap();
        group.try_go(forever(())).unwrap();
        group.cancel("enough");
        let all = sim.run(group.drain());
        assert_eq!(all.values, [5]);
        let panicked = all.errors.iter().filter(|error| matches!(error, TaskError::Panicked(_))).count();
        assert_eq!((panicked, all.errors.len()), (5, 7));
        assert_eq!(system.failures(), 6, "each panic is recorded");
    });
}

#[test]
fn g8_unread_results_whose_drop_panics_harm_no_other() {
    quiet();
    let sim = Sim::new(1);
    let system = sim.system("s");
    let group = system.group::<PanicOnDrop>("g").build().unwrap();
    (0..3).for_each(|_| group.try_go(async { PanicOnDrop }).unwrap());
    sim.settle();
    drop(group);
    sim.settle();
    assert_eq!(sim.tasks_alive(), 0);
}

/// What happens to a group of five tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Error,
    Panic,
    Cancel,
    CallersToken,
}

/// All cases: with and without fail-fast, each event, as seen by `next`, `wait` and the siblings.
#[test]
fn g7_every_failure_is_seen_by_readers_and_siblings() {
    quiet();
    for fail_fast in [true, false] {
        for fault in [Fault::Error, Fault::Panic, Fault::Cancel, Fault::CallersToken] {
            explore(0..50, |sim| check_case(sim, fail_fast, fault));
        }
    }
}

fn check_case(sim: &Sim, fail_fast: bool, fault: Fault) {
    let case = format!("{fault:?}, fail-fast {fail_fast}");
    let token = sim.token();
    let group = GroupBuilder::<u32>::under(&token).fail_fast(fail_fast).build().unwrap();
    let siblings = AliveCount::default();
    let gate = crate::common::Gate::new();
    for n in 0..4 {
        let (guard, open) = (siblings.add(), gate.pass());
        group
            .try_go(async move {
                let _guard = guard;
                open.await;
                n
            })
            .unwrap();
    }
    sim.settle();
    match fault {
        Fault::Error => group.try_go(fails(1)).unwrap(),
        Fault::Panic => group.try_go(panics(1)).unwrap(),
        Fault::Cancel => group.cancel("enough"),
        Fault::CallersToken => token.cancel("enough"),
    }
    sim.settle();
    let failed = matches!(fault, Fault::Error | Fault::Panic);
    let cancelled = fail_fast || !failed;
    // Seen by siblings.
    assert_eq!(siblings.now(), if cancelled { 0 } else { 4 }, "{case}");
    if !cancelled {
        (0..4).for_each(|_| {
            gate.open();
            sim.settle();
        });
    }
    // Seen by `wait`.
    let answer = sim.run(group.wait()).unwrap_err();
    match fault {
        Fault::Error => assert!(matches!(answer, TaskError::Failed(_)), "{case}"),
        Fault::Panic => assert!(matches!(answer, TaskError::Panicked(_)), "{case}"),
        Fault::Cancel | Fault::CallersToken => assert_eq!(answer, TaskError::Cancelled("enough".into()), "{case}"),
    }
    // Seen by `next`.
    let all = sim.run(group.drain());
    let real = all.errors.iter().filter(|error| !error.is_cancelled()).count();
    assert_eq!(real, usize::from(failed), "{case}");
    assert_eq!(all.values.len(), if cancelled { 0 } else { 4 }, "{case}");
    assert_eq!(all.values.len() + all.errors.len(), 4 + usize::from(failed), "{case}");
    let exit = group.any_ref().exit().unwrap();
    match (cancelled, failed) {
        (false, _) => assert_eq!(exit, Exit::Closed, "{case}"),
        (true, true) => assert_eq!(exit, Exit::Cancelled(Cause::Failed(answer.failure().unwrap().clone())), "{case}"),
        (true, false) => assert_eq!(exit, Exit::Cancelled("enough".into()), "{case}"),
    }
}
