//! G5, G6 and G11: waiting for a group, and cancelling it.

use crate::common::tasks::{AliveCount, after, forever, numbers, spawn_on};
use crate::common::{Log, poll_once};
use pleach::group::GoRejection;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use std::future::pending;
use std::sync::Arc;
use std::task::Poll;

#[test]
fn g5_wait_gives_all_callers_one_answer_and_does_not_close() {
    explore(0..100, |sim| {
        let group = Arc::new(numbers(sim).fail_fast(false).build().unwrap());
        assert_eq!(sim.run(group.wait()), Ok(()), "no task was accepted, so all have ended");
        group.try_go(async { Err::<u32, _>("first") }).unwrap();
        sim.settle();
        (0..5).for_each(|n| group.try_go(after(n, n)).unwrap());
        group.try_go(async { Err::<u32, _>(if after(3, 0).await == 0 { "second" } else { "" }) }).unwrap();
        let answers = Log::new();
        for _ in 0..3 {
            let (group, answers) = (Arc::clone(&group), answers.clone());
            spawn_on(sim, async move { answers.push(group.wait().await) });
        }
        sim.settle();
        let answers = answers.take();
        assert_eq!(answers.len(), 3);
        for answer in &answers {
            assert_eq!(answer, &answers[0]);
            assert!(answer.as_ref().unwrap_err().to_string().contains("first"));
        }
        assert!(!group.is_closed());
        group.try_go(after(0, 1)).unwrap();
        assert_eq!(group.unread(), 7, "wait reads no result");
        let errors: Vec<String> = group.errors().errors.iter().map(ToString::to_string).collect();
        assert!(errors.len() == 2 && errors[0].contains("first") && errors[1].contains("second"), "{errors:?}");
    });
}

#[test]
fn g5_waiter_keeps_its_answer_after_later_failures() {
    let sim = Sim::new(1);
    let group = numbers(&sim).fail_fast(false).build().unwrap();
    group.try_go(after(1, 1)).unwrap();
    let (mut early, mut late) = (group.wait(), group.wait());
    assert!(poll_once(&mut early).is_pending() && poll_once(&mut late).is_pending());
    sim.settle();
    assert_eq!(poll_once(&mut early), Poll::Ready(Ok(())));
    group.try_go(async { Err::<u32, _>("afterwards") }).unwrap();
    sim.settle();
    assert_eq!(poll_once(&mut late), Poll::Ready(Ok(())));
    assert!(sim.run(group.wait()).is_err());
}

#[test]
fn g5_errors_are_kept_up_to_a_limit_and_counted_beyond() {
    let sim = Sim::new(1);
    let group = numbers(&sim).fail_fast(false).errors_kept(3).build().unwrap();
    (0..10).for_each(|_| group.try_go(async { Err::<u32, _>("no") }).unwrap());
    let all = sim.run(group.drain());
    assert_eq!((all.values.len(), all.errors.len()), (0, 10));
    let kept = group.errors();
    assert_eq!((kept.errors.len(), kept.dropped), (3, 7));
    assert_eq!(kept.errors, all.errors[..3]);
}

#[test]
fn g5_task_that_waits_for_its_own_group_fails() {
    crate::common::quiet();
    let sim = Sim::new(1);
    let group = Arc::new(numbers(&sim).build().unwrap());
    let own = Arc::downgrade(&group);
    group
        .try_go(async move {
            let own = own.upgrade().unwrap();
            drop(own.wait().await);
            1
        })
        .unwrap();
    let error = sim.run(group.next()).unwrap().unwrap_err();
    assert!(error.to_string().contains("waits for all tasks of it"), "{error}");
}

#[test]
fn g6_first_cause_wins_and_cancelled_tasks_are_no_errors() {
    explore(0..100, |sim| {
        let group = numbers(sim).build().unwrap();
        let alive = AliveCount::default();
        (0..3).for_each(|_| group.try_go(forever(alive.add())).unwrap());
        sim.settle();
        (0..2).for_each(|_| group.try_go(forever(alive.add())).unwrap());
        group.cancel("enough");
        group.cancel("too late");
        assert_eq!(group.cause(), Some("enough".into()));
        assert_eq!(group.token().cause(), Some("enough".into()));
        let all = sim.run(group.drain());
        assert_eq!(all.errors, vec![TaskError::Cancelled("enough".into()); 5]);
        assert_eq!((alive.now(), group.errors().errors.len()), (0, 0));
        assert_eq!(sim.run(group.wait()), Err(TaskError::Cancelled("enough".into())));
        assert_eq!(group.any_ref().exit(), Some(Exit::Cancelled("enough".into())));
        let refused = group.try_go(after(0, 1)).unwrap_err();
        assert_eq!(refused.reason, GoRejection::Closed(Some("enough".into())));
    });
}

#[test]
fn g6_completed_task_keeps_its_result_after_a_cancel() {
    let sim = Sim::new(1);
    let group = numbers(&sim).build().unwrap();
    group.try_go(after(0, 1)).unwrap();
    sim.settle();
    group.try_go(async { Err::<u32, _>("real") }).unwrap();
    sim.settle();
    group.try_go(pending::<u32>()).unwrap_err();
    let all = sim.run(group.drain());
    assert_eq!((all.values, all.errors.len()), (vec![1], 1));
    // The first error is the answer, even though the group was cancelled too.
    assert!(matches!(sim.run(group.wait()), Err(TaskError::Failed(_))));
}

#[test]
fn g6_group_under_a_cancelled_token_is_cancelled() {
    let sim = Sim::new(1);
    let token = sim.token();
    token.cancel("before");
    let group = Group::<u32>::under(&token);
    assert_eq!(group.cause(), Some("before".into()));
    let refused = sim.run(group.go(after(0, 1))).unwrap_err();
    assert_eq!(refused.cause, Some("before".into()));
    assert_eq!(sim.run(group.next()), None);
    assert_eq!(sim.run(group.wait()), Err(TaskError::Cancelled("before".into())));
}

#[test]
fn g11_task_can_get_the_token_of_its_group() {
    explore(0..50, |sim| {
        let group = numbers(sim).build().unwrap();
        let causes = Log::new();
        let log = causes.clone();
        sim.run(group.go_with(|token| async move {
            log.push(token.cause());
            pending::<()>().await;
            1
        }))
        .unwrap();
        // Another task that watches the token is woken by the cancel.
        let woken = causes.clone();
        let inner = sim.runtime();
        sim.run(group.go_with(|token| async move {
            let watch = token.clone();
            inner.spawn(Box::pin(async move { woken.push(Some(watch.cancelled().await)) }));
            token.cancelled().await;
            2
        }))
        .unwrap();
        sim.settle();
        assert_eq!(causes.take(), [None]);
        group.cancel("now");
        sim.settle();
        assert_eq!(causes.take(), [Some("now".into())]);
    });
}
