//! What a failing task does to its group, its siblings and those who read: G7, G8, and every case of {fail-fast} × {what happens} × {who sees
//! it}. Every test is quiet about panics before it makes a tree, so that no two change the panic hook at once.

use crate::common::tasks::{Living, after, beside, forever, numbers};
use crate::common::{INJECTED, Log, failures, quiet};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{PanicPolicy, Reason};
use std::future::{Future, pending};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        std::panic::panic_any(INJECTED);
    }
}

async fn fails(steps: u32) -> Result<u32, &'static str> {
    after(steps, 0).await;
    Err("broken")
}

async fn panics(steps: u32) -> u32 {
    after(steps, 0).await;
    panic!("{INJECTED} panic")
}

#[test]
fn g7_the_group_is_cancelled_before_the_failing_result_can_be_seen() {
    quiet();
    explore(0..200, |sim| {
        let group = Arc::new(numbers(sim).build().unwrap());
        let seen = Log::new();
        for _ in 0..3 {
            let (group, seen) = (Arc::clone(&group), seen.clone());
            beside(sim, async move {
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
fn g7_siblings_are_cut_off_with_the_failure_as_their_cause() {
    quiet();
    explore(0..100, |sim| {
        let group = numbers(sim).build().unwrap();
        let living = Living::default();
        (0..4).for_each(|_| group.try_go(forever(living.one())).unwrap());
        group.task().named("culprit").try_go(fails(2)).unwrap();
        let all = sim.run(group.drain());
        assert_eq!((all.values.len(), all.errors.len(), living.now()), (0, 5, 0));
        let cut: Vec<_> = all.errors.iter().filter(|error| error.is_cancelled()).collect();
        assert_eq!(cut.len(), 4);
        for error in cut {
            let TaskError::Cancelled(Cause::Failed(failure)) = error else { panic!("{error}") };
            assert_eq!(failure.path().last().unwrap().to_string(), "culprit");
        }
    });
}

#[test]
fn g7_with_fail_fast_off_siblings_go_on_and_wait_still_reports() {
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
fn g8_a_panic_is_an_error_with_its_text_and_its_place() {
    quiet();
    let sim = Sim::new(1);
    let system = sim.system("s");
    let told = failures(&system);
    let group = system.group::<u32>("g").build().unwrap();
    // Not a text of injected panics: those are kept off the screen, and perhaps from the hook that notes their places.
    let loud = async |text: &'static str| -> u32 { panic!("{text}") };
    group.task().named("bad").try_go(loud("a loud panic")).unwrap();
    let TaskError::Panicked(failure) = sim.run(group.next()).unwrap().unwrap_err() else { panic!("not a panic") };
    let Reason::Panic { message, location } = failure.reason() else { panic!("no reason") };
    assert_eq!(message, "a loud panic");
    assert!(location.as_ref().unwrap().contains("failures.rs"));
    assert_eq!(failure.path().to_string(), "/user/g/bad");
    assert_eq!((told.len(), system.failures()), (1, 1));
}

#[test]
fn g8_a_panic_is_never_a_success_and_never_costs_a_sibling() {
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
fn g8_a_resumed_panic_unwinds_in_whoever_reads_it_and_loses_no_sibling() {
    quiet();
    let sim = Sim::new(1);
    let group = numbers(&sim).fail_fast(false).panic_policy(PanicPolicy::Resume).build().unwrap();
    group.try_go(after(0, 1)).unwrap();
    group.try_go(carries(7)).unwrap();
    group.try_go(after(0, 2)).unwrap();
    sim.settle();
    group.close();
    let unwound = |f: &mut dyn FnMut()| catch_unwind(AssertUnwindSafe(f)).unwrap_err();
    let (mut values, mut payloads) = (Vec::new(), Vec::new());
    loop {
        match catch_unwind(AssertUnwindSafe(|| sim.run(group.next()))) {
            Ok(Some(result)) => values.push(result.unwrap()),
            Ok(None) => break,
            Err(payload) => payloads.push(*payload.downcast::<u8>().expect("what the panic carried")),
        }
    }
    values.sort_unstable();
    assert_eq!((values, payloads), (vec![1, 2], vec![7]));
    // The payload is gone; whoever waits unwinds with its text.
    let text = unwound(&mut || drop(sim.run(group.wait())));
    assert!(text.downcast::<String>().is_ok());
}

/// Panics with a number, not a text.
async fn carries(payload: u8) -> u32 {
    std::panic::panic_any(payload)
}

#[test]
fn g8_wait_resumes_a_panic_too() {
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

/// Ends at its `polls`-th poll, and panics when it is dropped.
struct Trap {
    polls: u32,
    ends: fn() -> Result<u32, &'static str>,
    bomb: Option<Bomb>,
}

impl Trap {
    fn new(polls: u32, ends: fn() -> Result<u32, &'static str>) -> Self {
        Self { polls, ends, bomb: Some(Bomb) }
    }
}

impl Future for Trap {
    type Output = Result<u32, &'static str>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            return Poll::Ready((self.ends)());
        }
        self.polls -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Trap {
    fn drop(&mut self) {
        drop(self.bomb.take());
    }
}

#[test]
fn g8_a_panic_in_the_drop_of_a_task_is_its_error_and_harms_nobody() {
    quiet();
    explore(0..50, |sim| {
        let system = sim.system("s");
        let group = system.group::<u32>("g").fail_fast(false).build().unwrap();
        // Dropped after it gave its value, failed or panicked; cut off while it waits; dropped before it began.
        group.try_go(Trap::new(0, || Ok(1))).unwrap();
        group.try_go(Trap::new(1, || Ok(1))).unwrap();
        group.try_go(Trap::new(1, || Err("broken"))).unwrap();
        group.try_go(Trap::new(1, || panic!("{INJECTED}"))).unwrap();
        group.try_go(after(3, 5)).unwrap();
        sim.settle();
        group.try_go(forever(Bomb)).unwrap();
        sim.settle();
        group.try_go(forever(Bomb)).unwrap();
        group.try_go(forever(())).unwrap();
        group.cancel("enough");
        let all = sim.run(group.drain());
        assert_eq!(all.values, [5]);
        let panicked = all.errors.iter().filter(|error| matches!(error, TaskError::Panicked(_))).count();
        assert_eq!((panicked, all.errors.len()), (5, 7));
        assert_eq!(system.failures(), 6, "each is on record");
    });
}

#[test]
fn g8_results_that_panic_when_dropped_unread_harm_nobody() {
    quiet();
    let sim = Sim::new(1);
    let system = sim.system("s");
    let group = system.group::<Bomb>("g").build().unwrap();
    (0..3).for_each(|_| group.try_go(async { Bomb }).unwrap());
    sim.settle();
    drop(group);
    sim.settle();
    assert_eq!(sim.tasks_alive(), 0);
}

/// What befalls a group of five tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Blow {
    Error,
    Panic,
    Cancel,
    CallersToken,
}

/// All cases: with and without fail-fast, each blow, and what `next`, `wait` and the siblings see of it.
#[test]
fn g7_the_matrix_of_failures() {
    quiet();
    for fail_fast in [true, false] {
        for blow in [Blow::Error, Blow::Panic, Blow::Cancel, Blow::CallersToken] {
            explore(0..50, |sim| one_case(sim, fail_fast, blow));
        }
    }
}

fn one_case(sim: &Sim, fail_fast: bool, blow: Blow) {
    let case = format!("{blow:?}, fail-fast {fail_fast}");
    let token = sim.token();
    let group = GroupBuilder::<u32>::under(&token).fail_fast(fail_fast).build().unwrap();
    let siblings = Living::default();
    let gate = crate::common::Gate::new();
    for n in 0..4 {
        let (one, open) = (siblings.one(), gate.pass());
        group
            .try_go(async move {
                let _one = one;
                open.await;
                n
            })
            .unwrap();
    }
    sim.settle();
    match blow {
        Blow::Error => group.try_go(fails(1)).unwrap(),
        Blow::Panic => group.try_go(panics(1)).unwrap(),
        Blow::Cancel => group.cancel("called off"),
        Blow::CallersToken => token.cancel("called off"),
    }
    sim.settle();
    let failed = matches!(blow, Blow::Error | Blow::Panic);
    let cut = fail_fast || !failed;
    // Seen by siblings.
    assert_eq!(siblings.now(), if cut { 0 } else { 4 }, "{case}");
    if !cut {
        (0..4).for_each(|_| {
            gate.open();
            sim.settle();
        });
    }
    // Seen by `wait`.
    let answer = sim.run(group.wait()).unwrap_err();
    match blow {
        Blow::Error => assert!(matches!(answer, TaskError::Failed(_)), "{case}"),
        Blow::Panic => assert!(matches!(answer, TaskError::Panicked(_)), "{case}"),
        Blow::Cancel | Blow::CallersToken => assert_eq!(answer, TaskError::Cancelled("called off".into()), "{case}"),
    }
    // Seen by `next`.
    let all = sim.run(group.drain());
    let real = all.errors.iter().filter(|error| !error.is_cancelled()).count();
    assert_eq!(real, usize::from(failed), "{case}");
    assert_eq!(all.values.len(), if cut { 0 } else { 4 }, "{case}");
    assert_eq!(all.values.len() + all.errors.len(), 4 + usize::from(failed), "{case}");
    let exit = group.any_ref().exit().unwrap();
    match (cut, failed) {
        (false, _) => assert_eq!(exit, Exit::Closed, "{case}"),
        (true, true) => assert_eq!(exit, Exit::Cancelled(Cause::Failed(answer.failure().unwrap().clone())), "{case}"),
        (true, false) => assert_eq!(exit, Exit::Cancelled("called off".into()), "{case}"),
    }
}
