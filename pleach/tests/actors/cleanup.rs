//! A2, A7, A11, A15, S2, S6 and S8: an ended actor leaves nothing behind.

use crate::common::{Gate, Job, Log, PanicOnDrop, TestActor, failures, quiet};
use pleach::prelude::*;
use pleach::runtime::Dispatcher;
use pleach::sim::{Sim, explore};
use pleach::system::System;
use pleach::{BoxError, Supervisor};
use std::sync::{Arc, OnceLock, mpsc};

fn ignore((): &mut (), _: u32) -> Result<(), BoxError> {
    Ok(())
}

#[test]
fn s8_panic_in_the_drop_of_a_factory_or_a_feed_is_recorded() {
    quiet();
    let sim = Sim::new(1);
    let system = sim.system("s");
    let recorded = failures(&system);
    let (in_factory, in_feed) = (PanicOnDrop, PanicOnDrop);
    let make = move || {
        let _in_factory = &in_factory;
    };
    let feed = futures::stream::poll_fn(move |_| {
        let _in_feed = &in_feed;
        std::task::Poll::Pending
    });
    let actor = system.spawn("actor", Props::from_fn(make, ignore).with_stream(feed)).unwrap();
    sim.settle();
    actor.close();
    assert_eq!(sim.run(actor.exited()), Exit::Closed);
    assert_eq!(recorded.len(), 2);
}

#[test]
fn a15_factory_is_dropped_before_the_exit_is_reported() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let guard = Arc::new(());
    let (weak, seen) = (Arc::downgrade(&guard), Log::new());
    let make = move || {
        let _guard = &guard;
    };
    let actor = system.spawn("actor", Props::from_fn(make, ignore)).unwrap();
    let log = seen.clone();
    actor.on_done(move |_| log.push(weak.strong_count()));
    actor.close();
    sim.run(actor.exited());
    assert_eq!(seen.take(), [0]);
}

#[test]
fn a11_no_copy_of_a_handled_message_is_kept() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let handle = |(): &mut (), _: Arc<()>| Ok::<(), BoxError>(());
    let actor = system.spawn("actor", Props::from_fn(|| (), handle).retry(2)).unwrap();
    let message = Arc::new(());
    actor.tell(Arc::clone(&message)).unwrap();
    sim.settle();
    assert_eq!(actor.counts().handled, 1);
    assert_eq!(Arc::strong_count(&message), 1);
}

#[test]
fn a7_cancelled_actor_exits_cancelled_even_if_its_handler_panics() {
    quiet();
    explore(0..20, |sim| {
        let system = sim.system("s");
        // With no restart allowed, a decision of the supervisor would end both actors.
        let supervisor = system.supervisor("supervisor", OneForOne::new().restart_limit(0, Duration::from_secs(1))).unwrap();
        let sibling = supervisor.spawn("sibling", TestActor::props(&Log::new())).unwrap();
        let actor = supervisor.spawn("actor", TestActor::props(&Log::new())).unwrap();
        let wait = |_| async {
            let _panics = PanicOnDrop;
            std::future::pending().await
        };
        actor.tell(Job::work(wait)).unwrap();
        sim.settle();
        actor.cancel("enough");
        assert_eq!(sim.run(actor.exited()), Exit::Cancelled("enough".into()));
        assert_eq!((actor.counts().failed, system.failures()), (1, 1));
        assert_eq!(sibling.exit(), None);
    });
}

#[test]
fn s6_failure_of_a_former_child_spares_the_restarted_parent() {
    explore(0..200, |sim| {
        let system = sim.system("s");
        let log = Log::new();
        let parent = system.spawn("parent", TestActor::props(&log)).unwrap();
        let (children, gate) = (Log::new(), Gate::new());
        let (spawned, waiting) = (children.clone(), gate.clone());
        parent.tell(Job::act(move |cx| spawned.push(cx.spawn("child", TestActor::props(&Log::new())).unwrap()))).unwrap();
        sim.settle();
        let child = children.take().pop().unwrap();
        // Uses up the restarts: the next failure escalates.
        (0..3).for_each(|_| child.tell(Job::Fail("again")).unwrap());
        let last = move |_| async move {
            waiting.pass().await;
            Err("last".into())
        };
        child.tell(Job::work(last)).unwrap();
        sim.settle();
        parent.try_send_system(SystemMessage::Restart).unwrap();
        sim.settle();
        gate.open();
        sim.settle();
        let starts = log.take().into_iter().filter(|entry| entry.starts_with("started")).collect::<Vec<_>>();
        assert_eq!(starts, ["started 0", "started 1"]);
        assert_eq!(parent.exit(), None);
    });
}

/// Reads the children of the supervisor when it is dropped.
struct ReadsChildren(OnceLock<Supervisor>);

impl Drop for ReadsChildren {
    fn drop(&mut self) {
        self.0.get().map(Supervisor::children);
    }
}

#[test]
fn s2_child_that_ended_early_is_dropped_without_a_lock() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
    let reads = ReadsChildren(OnceLock::from(supervisor.clone()));
    let describe = move |_: &u32| {
        let _looks = &reads;
        String::new()
    };
    let older = supervisor.spawn("older", Props::from_fn(|| (), ignore).describe(describe)).unwrap();
    let younger = supervisor.spawn("younger", TestActor::props(&Log::new())).unwrap();
    let gate = Gate::new();
    younger.tell(Job::Pass(gate.clone(), 1)).unwrap();
    sim.settle();
    supervisor.any().stop();
    older.stop();
    sim.settle();
    assert_eq!(older.exit(), Some(Exit::Stopped));
    drop(older);
    gate.open();
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        sim.settle();
        done.send(younger.exit()).unwrap();
    });
    assert_eq!(ended.recv_timeout(Duration::from_secs(30)).expect("no deadlock"), Some(Exit::Stopped));
}

#[test]
fn a2_counts_are_exact_if_a_parent_is_dropped_before_its_children() {
    let dispatcher = Dispatcher::seeded(1);
    let system = System::builder("s", dispatcher.runtime()).build().unwrap();
    let parent = TestActor::spawn(&system, "parent");
    let children = Log::new();
    let spawned = children.clone();
    parent.tell(Job::act(move |cx| spawned.push(cx.spawn("child", TestActor::props(&Log::new())).unwrap()))).unwrap();
    dispatcher.drain_ready();
    let child = children.take().pop().unwrap();
    (0..5).for_each(|n| child.tell(Job::Note(n)).unwrap());
    let root = system.root();
    drop(system);
    // Tasks are dropped in spawn order.
    drop(dispatcher);
    assert_eq!(root.counts(), Counts { accepted: 6, handled: 1, failed: 0, dead_lettered: 5 });
}
