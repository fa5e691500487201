//! `Group`: its calls against each other, and the wake of a task against its poll.
//!
//! Proves: G1 (a task is accepted and ends once, or is returned), G2 (a close wakes callers that
//! wait for the end), G3 (each result goes to one reader, a dropped `next` loses none), G6 (a
//! cancel ends every task), G9 (idle runners are woken for new tasks and at the end), G10 (a
//! dropped group drops its tasks), G13 (a task in its cancel grace is woken), and that no wake is
//! lost between the poll and the parking of a task, for runners and in place.
//!
//! A thread that calls `run_spawned` is a worker: it runs each runner of the group to its end,
//! which comes with the end of the group.

use crate::events::cause::{Cause, Exit};
use crate::group::builder::GroupBuilder;
use crate::group::error::TaskError;
use crate::group::handle::Group;
use crate::models::{DropCounter, LoomCounter, ManualRuntime, block_on, explore, poll_once};
use crate::scope::Scope;
use alloc::sync::Arc;
use core::future::{Future, pending, poll_fn, ready};
use core::task::{Poll, Waker};
use core::time::Duration;
use loom::sync::Mutex;
use loom::thread;

fn group() -> (Arc<ManualRuntime>, Arc<Group<u32>>) {
    let runtime = ManualRuntime::new();
    let group = Arc::new(Group::under(&runtime.token()));
    (runtime, group)
}

/// A gate that another thread opens: a flag and a waker under one lock.
#[derive(Clone)]
struct Gate(Arc<Mutex<(bool, Option<Waker>)>>);

impl Gate {
    fn new() -> Self {
        Self(Arc::new(Mutex::new((false, None))))
    }

    fn open(&self) {
        let waker = {
            let mut gate = self.0.lock().unwrap();
            gate.0 = true;
            gate.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    fn pass(&self, value: u32) -> impl Future<Output = u32> + Send + use<> {
        let gate = Arc::clone(&self.0);
        poll_fn(move |cx| {
            let mut gate = gate.lock().unwrap();
            if gate.0 {
                return Poll::Ready(value);
            }
            gate.1 = Some(cx.waker().clone());
            Poll::Pending
        })
    }
}

/// A task is accepted or rejected. Either way it exists once, and readers reach the end.
#[test]
fn loom_g1_go_against_close() {
    explore(|| {
        let (runtime, group) = group();
        let goes = Arc::clone(&group);
        let feeder = thread::spawn(move || {
            let gone = goes.try_go(ready(7)).map_err(|refused| block_on(refused.into_task()));
            runtime.run_spawned();
            gone
        });
        group.close();
        let read = block_on(group.next());
        match feeder.join().unwrap() {
            Ok(()) => {
                assert_eq!(read, Some(Ok(7)));
                assert_eq!(block_on(group.next()), None);
            }
            Err(given_back) => assert_eq!((given_back, read), (7, None)),
        }
        assert!(group.any_ref().exit().is_some());
    });
}

/// The last task ends while it is read and cancelled. It has one result, and the reader gets it.
#[test]
fn loom_g3_g6_next_against_completion_against_cancel() {
    explore(|| {
        let (runtime, group) = group();
        let gone = LoomCounter::new();
        let held = DropCounter(gone.clone());
        group.try_go(async move { held.0.get() as u32 }).unwrap();
        let worker = thread::spawn(move || runtime.run_spawned());
        let cancels = Arc::clone(&group);
        let canceller = thread::spawn(move || cancels.cancel("now"));
        let read = block_on(group.next()).unwrap();
        assert!(read == Ok(0) || read == Err(TaskError::Cancelled("now".into())), "{read:?}");
        assert_eq!(gone.get(), 1, "a task that has ended is gone");
        canceller.join().unwrap();
        assert_eq!(block_on(group.next()), None);
        assert_eq!(block_on(group.wait()), Err(TaskError::Cancelled("now".into())));
        worker.join().unwrap();
    });
}

/// A task with a cancel grace is woken while the group is cancelled, and the timer of the grace
/// never fires. It is polled again.
#[test]
fn loom_g13_wake_against_the_cancel_of_a_task_with_a_grace() {
    explore(|| {
        let runtime = ManualRuntime::new();
        let builder = GroupBuilder::under(&runtime.token()).cancel_grace(Duration::from_secs(1));
        let group = Arc::new(builder.build().unwrap());
        let gate = Gate::new();
        group.try_go(gate.pass(5)).unwrap();
        let worker = thread::spawn(move || runtime.run_spawned());
        let cancels = Arc::clone(&group);
        let canceller = thread::spawn(move || cancels.cancel("now"));
        gate.open();
        let read = block_on(group.next()).unwrap();
        let (on_cancel, tidied_up) = (Err(TaskError::Cancelled("now".into())), Err(TaskError::TidiedUp("now".into())));
        assert!(read == Ok(5) || read == on_cancel || read == tidied_up, "{read:?}");
        canceller.join().unwrap();
        assert_eq!(block_on(group.next()), None);
        worker.join().unwrap();
    });
}

/// Two readers and two results: each result goes to one reader, and both reach the end.
#[test]
fn loom_g3_several_consumers() {
    explore(|| {
        let (runtime, group) = group();
        group.try_go(ready(1)).unwrap();
        group.try_go(ready(2)).unwrap();
        group.close();
        let reads = Arc::clone(&group);
        let consumer = thread::spawn(move || {
            let mut sum = 0;
            while let Some(result) = block_on(reads.next()) {
                sum += result.unwrap();
            }
            sum
        });
        let worker = thread::spawn(move || runtime.run_spawned());
        let mut sum = 0;
        while let Some(result) = block_on(group.next()) {
            sum += result.unwrap();
        }
        assert_eq!(sum + consumer.join().unwrap(), 3);
        worker.join().unwrap();
    });
}

/// A waiting reader is dropped while a result arrives for it. The other reader gets the result.
#[test]
fn loom_g3_a_dropped_next_against_completion() {
    explore(|| {
        let (runtime, group) = group();
        let mut dropped = group.next();
        assert!(poll_once(&mut dropped).is_pending());
        group.try_go(ready(1)).unwrap();
        group.close();
        let worker = thread::spawn(move || runtime.run_spawned());
        let reads = Arc::clone(&group);
        let consumer = thread::spawn(move || block_on(reads.next()));
        drop(dropped);
        assert_eq!(consumer.join().unwrap(), Some(Ok(1)));
        assert_eq!(block_on(group.next()), None);
        worker.join().unwrap();
    });
}

/// Another thread wakes a task during or after its first poll, or when it has ended. The task ends.
#[test]
fn loom_g1_wake_against_the_first_poll() {
    explore(|| {
        let (runtime, group) = group();
        let gate = Gate::new();
        group.try_go(gate.pass(5)).unwrap();
        group.close();
        let worker = thread::spawn(move || runtime.run_spawned());
        gate.open();
        assert_eq!(block_on(group.next()), Some(Ok(5)));
        worker.join().unwrap();
    });
}

/// The same with a second gate: a started task is woken again.
#[test]
fn loom_g1_wake_against_the_second_poll() {
    explore(|| {
        let (runtime, group) = group();
        let (first, second) = (Gate::new(), Gate::new());
        let (one, two) = (first.pass(1), second.pass(2));
        group.try_go(async move { one.await + two.await }).unwrap();
        group.close();
        let worker = thread::spawn(move || runtime.run_spawned());
        first.open();
        second.open();
        assert_eq!(block_on(group.next()), Some(Ok(3)));
        worker.join().unwrap();
    });
}

/// A task is woken while its group is dropped, with two workers. It is dropped once, and nothing is
/// left to run.
#[test]
fn loom_g10_drop_against_wake() {
    explore(|| {
        let (runtime, group) = group();
        let (gate, gone) = (Gate::new(), LoomCounter::new());
        let (passes, held) = (gate.pass(1), DropCounter(gone.clone()));
        let task = async move {
            let _held = held;
            passes.await;
            pending::<u32>().await
        };
        group.try_go(task).unwrap();
        let any = group.any_ref();
        let works = Arc::clone(&runtime);
        let worker = thread::spawn(move || works.run_spawned());
        let opener = thread::spawn(move || gate.open());
        drop(group);
        runtime.run_spawned();
        block_on(any.exited());
        assert_eq!(gone.get(), 1);
        opener.join().unwrap();
        worker.join().unwrap();
    });
}

/// Tasks arrive while runners fall asleep on two workers. Each task runs, and no runner sleeps on
/// after the end of the group.
#[test]
fn loom_g9_idle_runners_against_new_tasks_and_the_end() {
    explore(|| {
        let (runtime, group) = group();
        group.try_go(ready(1)).unwrap();
        let works = Arc::clone(&runtime);
        let worker = thread::spawn(move || works.run_spawned());
        group.try_go(ready(2)).unwrap();
        let closes = Arc::clone(&group);
        let feeder = thread::spawn(move || {
            closes.try_go(ready(4)).unwrap();
            closes.close();
            runtime.run_spawned();
        });
        let mut sum = 0;
        while let Some(result) = block_on(group.next()) {
            sum += result.unwrap();
        }
        assert_eq!(sum, 7);
        feeder.join().unwrap();
        worker.join().unwrap();
    });
}

/// A slot becomes free while the first waiting caller gives up. The next caller gets it.
#[test]
fn loom_g9_a_free_slot_against_a_caller_that_gives_up() {
    explore(|| {
        let runtime = ManualRuntime::new();
        let group = Arc::new(GroupBuilder::<u32>::under(&runtime.token()).limit(1).build().unwrap());
        group.try_go(ready(1)).unwrap();
        let mut gives_up = group.go(ready(2));
        assert!(poll_once(&mut gives_up).is_pending());
        let goes = Arc::clone(&group);
        let feeder = thread::spawn(move || {
            let gone = block_on(goes.go(ready(3))).is_ok();
            goes.close();
            gone
        });
        let worker = thread::spawn(move || runtime.run_spawned());
        drop(gives_up);
        assert!(feeder.join().unwrap());
        let mut sum = 0;
        while let Some(result) = block_on(group.next()) {
            sum += result.unwrap();
        }
        assert_eq!(sum, 4);
        worker.join().unwrap();
    });
}

/// In place: another thread wakes a task while the reader polls it, parks, or is about to park.
#[test]
fn loom_g12_wake_against_the_reader() {
    explore(|| {
        let token = ManualRuntime::new().token();
        let group = GroupBuilder::<u32>::under(&token).in_place().unwrap();
        let gate = Gate::new();
        group.try_go(gate.pass(5)).unwrap();
        group.close();
        let opener = thread::spawn(move || gate.open());
        assert_eq!(block_on(group.next()), Some(Ok(5)));
        assert_eq!(block_on(group.next()), None);
        opener.join().unwrap();
    });
}

/// In place: another thread cancels the group while the reader waits.
#[test]
fn loom_g12_cancel_against_the_reader() {
    explore(|| {
        let above = ManualRuntime::new().token();
        let group = GroupBuilder::<u32>::under(&above).in_place().unwrap();
        group.try_go(pending::<u32>()).unwrap();
        let canceller = thread::spawn(move || above.cancel("now"));
        assert_eq!(block_on(group.next()), Some(Err(TaskError::Cancelled("now".into()))));
        assert_eq!(block_on(group.next()), None);
        assert_eq!(group.cause(), Some(Cause::from("now")));
        canceller.join().unwrap();
    });
}

/// A task is added to a group in place while the tree closes it. A group that accepted the task
/// stays in the tree until the task has ended.
#[test]
fn loom_g12_go_against_a_close_from_above() {
    explore(|| {
        let runtime = ManualRuntime::new();
        let scope = Arc::new(Scope::under(&runtime.token()));
        let group = scope.group::<u32>("group").in_place().unwrap();
        let any = group.any_ref();
        let closer = thread::spawn(move || any.close());
        let taken = group.try_go(ready(7)).is_ok();
        closer.join().unwrap();
        assert_eq!(group.any_ref().exit().is_some(), !taken, "a task in flight keeps its group in the tree");
        assert_eq!(block_on(group.next()), taken.then_some(Ok(7)));
        assert_eq!(block_on(group.next()), None);
        assert_eq!(group.any_ref().exit(), Some(Exit::Closed));
    });
}

/// A task is added to a group in place while another thread begins to read. The reader polls it.
#[test]
fn loom_g12_go_against_the_first_poll_of_a_reader() {
    explore(|| {
        let runtime = ManualRuntime::new();
        let group = Arc::new(GroupBuilder::<u32>::under(&runtime.token()).in_place().unwrap());
        let goes = Arc::clone(&group);
        let feeder = thread::spawn(move || goes.try_go(ready(7)).unwrap());
        assert_eq!(block_on(group.next()), Some(Ok(7)));
        feeder.join().unwrap();
    });
}

/// A task fails while another thread cancels the group. When the failure can be read, the group is
/// cancelled, with either cause.
#[test]
fn loom_g7_a_failure_against_a_cancel() {
    explore(|| {
        let (runtime, group) = group();
        group.try_go(ready(Err::<u32, _>("broken"))).unwrap();
        let worker = thread::spawn(move || runtime.run_spawned());
        let cancels = Arc::clone(&group);
        let canceller = thread::spawn(move || cancels.cancel("now"));
        let read = block_on(group.next()).unwrap();
        assert!(read.is_err() && group.cause().is_some() && group.is_closed(), "{read:?}");
        canceller.join().unwrap();
        worker.join().unwrap();
    });
}
