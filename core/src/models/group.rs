//! `Group`: its calls against each other, and a task's wake-up against its poll.
//!
//! Proves for these orders: G1 (a task is taken and ends once, or comes back), G2 (a close wakes whoever waits for the end), G3 (each result
//! goes to one consumer, a dropped `next` loses none), G6 (a cancel cuts every task off), G10 (a dropped group drops its tasks), G13 (a task
//! in its cancel grace is woken), and that no wake-up is lost between a task's poll and its place in a slot, for runners and in place.
//!
//! A thread that calls `run_spawned` is a worker: it runs each runner of the group to its end, which comes with the end of the group.

use crate::events::cause::Cause;
use crate::group::builder::GroupBuilder;
use crate::group::error::TaskError;
use crate::group::handle::Group;
use crate::models::{ByHand, Mark, block_on, explore};
use alloc::sync::Arc;
use core::future::{Future, pending, poll_fn, ready};
use core::task::{Poll, Waker};
use core::time::Duration;
use loom::sync::Mutex;
use loom::thread;

fn group() -> (Arc<ByHand>, Arc<Group<u32>>) {
    let runtime = ByHand::new();
    let group = Arc::new(Group::under(&runtime.token()));
    (runtime, group)
}

/// Counts when it is dropped: the task that holds it is gone then.
struct Held(Mark);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.add();
    }
}

/// A door that another thread opens, as plain as can be: a flag and a waker under one lock.
#[derive(Clone)]
struct Door(Arc<Mutex<(bool, Option<Waker>)>>);

impl Door {
    fn new() -> Self {
        Self(Arc::new(Mutex::new((false, None))))
    }

    fn open(&self) {
        let waker = {
            let mut door = self.0.lock().unwrap();
            door.0 = true;
            door.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    fn pass(&self, value: u32) -> impl Future<Output = u32> + Send + use<> {
        let door = Arc::clone(&self.0);
        poll_fn(move |cx| {
            let mut door = door.lock().unwrap();
            if door.0 {
                return Poll::Ready(value);
            }
            door.1 = Some(cx.waker().clone());
            Poll::Pending
        })
    }
}

/// A task is taken or refused; either way there is one of it, and whoever reads comes to the end.
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

/// The last task ends, is read and is cancelled at once. It ends as one of the two, and the reader is told which.
#[test]
fn loom_g3_g6_next_against_completion_against_cancel() {
    explore(|| {
        let (runtime, group) = group();
        let gone = Mark::new();
        let held = Held(gone.clone());
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

/// A task with a cancel grace is woken while the group is cancelled, and the timer of its grace never fires: it is polled again.
#[test]
fn loom_g13_a_wake_up_against_the_cancel_of_a_task_with_a_grace() {
    explore(|| {
        let runtime = ByHand::new();
        let builder = GroupBuilder::under(&runtime.token()).cancel_grace(Duration::from_secs(1));
        let group = Arc::new(builder.build().unwrap());
        let door = Door::new();
        group.try_go(door.pass(5)).unwrap();
        let worker = thread::spawn(move || runtime.run_spawned());
        let cancels = Arc::clone(&group);
        let canceller = thread::spawn(move || cancels.cancel("now"));
        door.open();
        let read = block_on(group.next()).unwrap();
        let (on_cancel, tidied_up) = (Err(TaskError::Cancelled("now".into())), Err(TaskError::TidiedUp("now".into())));
        assert!(read == Ok(5) || read == on_cancel || read == tidied_up, "{read:?}");
        canceller.join().unwrap();
        assert_eq!(block_on(group.next()), None);
        worker.join().unwrap();
    });
}

/// Two consumers and two results: each result goes to one of them, and both come to the end.
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

/// A consumer that waits is dropped while a result comes for it: the other one gets it.
#[test]
fn loom_g3_a_dropped_next_against_completion() {
    explore(|| {
        let (runtime, group) = group();
        let mut dropped = group.next();
        assert!(crate::models::poll_once(&mut dropped).is_pending());
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

/// A task is woken by another thread during its first poll, after it, or not needed any more: it ends.
#[test]
fn loom_g1_a_wake_up_against_the_first_poll() {
    explore(|| {
        let (runtime, group) = group();
        let door = Door::new();
        group.try_go(door.pass(5)).unwrap();
        group.close();
        let worker = thread::spawn(move || runtime.run_spawned());
        door.open();
        assert_eq!(block_on(group.next()), Some(Ok(5)));
        worker.join().unwrap();
    });
}

/// The same with a second door behind the first: a task that has its slot is woken again.
#[test]
fn loom_g1_a_wake_up_against_the_second_poll() {
    explore(|| {
        let (runtime, group) = group();
        let (first, second) = (Door::new(), Door::new());
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

/// A task is woken while its group is dropped, with two workers: it is dropped once, by either, and nothing is left to run.
#[test]
fn loom_g10_drop_against_a_wake_up() {
    explore(|| {
        let (runtime, group) = group();
        let (door, gone) = (Door::new(), Mark::new());
        let (passes, held) = (door.pass(1), Held(gone.clone()));
        let task = async move {
            let _held = held;
            passes.await;
            pending::<u32>().await
        };
        group.try_go(task).unwrap();
        let any = group.any_ref();
        let works = Arc::clone(&runtime);
        let worker = thread::spawn(move || works.run_spawned());
        let opener = thread::spawn(move || door.open());
        drop(group);
        runtime.run_spawned();
        block_on(any.exited());
        assert_eq!(gone.get(), 1);
        opener.join().unwrap();
        worker.join().unwrap();
    });
}

/// A slot is free while one who waits for it gives up: the next in line gets it, or the group is closed and both have theirs back.
#[test]
fn loom_g9_a_slot_against_one_who_gives_up() {
    explore(|| {
        let runtime = ByHand::new();
        let group = Arc::new(GroupBuilder::<u32>::under(&runtime.token()).limit(1).build().unwrap());
        group.try_go(ready(1)).unwrap();
        let mut gives_up = group.go(ready(2));
        assert!(crate::models::poll_once(&mut gives_up).is_pending());
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

/// In place: a task is woken by another thread while its reader polls it, parks, or is about to.
#[test]
fn loom_g12_a_wake_up_against_the_reader() {
    explore(|| {
        let token = ByHand::new().token();
        let group = GroupBuilder::<u32>::under(&token).in_place().unwrap();
        let door = Door::new();
        group.try_go(door.pass(5)).unwrap();
        group.close();
        let opener = thread::spawn(move || door.open());
        assert_eq!(block_on(group.next()), Some(Ok(5)));
        assert_eq!(block_on(group.next()), None);
        opener.join().unwrap();
    });
}

/// In place: a cancel from another thread against the reader.
#[test]
fn loom_g12_cancel_against_the_reader() {
    explore(|| {
        let above = ByHand::new().token();
        let group = GroupBuilder::<u32>::under(&above).in_place().unwrap();
        group.try_go(pending::<u32>()).unwrap();
        let canceller = thread::spawn(move || above.cancel("now"));
        assert_eq!(block_on(group.next()), Some(Err(TaskError::Cancelled("now".into()))));
        assert_eq!(block_on(group.next()), None);
        assert_eq!(group.cause(), Some(Cause::from("now")));
        canceller.join().unwrap();
    });
}

/// A task goes to a group in place while the tree closes it. A group that took the task is in the tree until the task has ended.
#[test]
fn loom_g12_go_against_a_close_from_above() {
    explore(|| {
        let runtime = ByHand::new();
        let scope = Arc::new(crate::Scope::under(&runtime.token()));
        let group = scope.group::<u32>("group").in_place().unwrap();
        let any = group.any_ref();
        let closer = thread::spawn(move || any.close());
        let taken = group.try_go(ready(7)).is_ok();
        closer.join().unwrap();
        assert_eq!(group.any_ref().exit().is_some(), !taken, "a task in flight keeps its group in the tree");
        assert_eq!(block_on(group.next()), taken.then_some(Ok(7)));
        assert_eq!(block_on(group.next()), None);
        assert_eq!(group.any_ref().exit(), Some(crate::Exit::Closed));
    });
}

/// A task goes to a group in place while another thread begins to read: the reader polls it, for nobody else does.
#[test]
fn loom_g12_go_against_the_first_poll_of_a_reader() {
    explore(|| {
        let runtime = ByHand::new();
        let group = Arc::new(GroupBuilder::<u32>::under(&runtime.token()).in_place().unwrap());
        let goes = Arc::clone(&group);
        let feeder = thread::spawn(move || goes.try_go(ready(7)).unwrap());
        assert_eq!(block_on(group.next()), Some(Ok(7)));
        feeder.join().unwrap();
    });
}

/// A task fails while somebody else is about to cancel the group: whoever sees the failure sees the group cancelled, for either cause.
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
