//! What an actor leaves behind: its recipe, copies of its messages, its place in a plan, its counts. A2, A7, A11, S2, S8.

use crate::common::{Doer, Gate, INJECTED, Job, Log, failures, quiet};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{BoxError, Dispatcher, Supervisor, System};
use std::sync::{Arc, OnceLock, mpsc};

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        std::panic::panic_any(INJECTED);
    }
}

fn nothing((): &mut (), _: u32) -> Result<(), BoxError> {
    Ok(())
}

#[test]
fn s8_a_panic_in_the_drop_of_a_factory_or_a_feed_is_on_record() {
    quiet();
    let sim = Sim::new(1);
    let system = sim.system("s");
    let recorded = failures(&system);
    let (in_factory, in_feed) = (Bomb, Bomb);
    let make = move || {
        let _in_factory = &in_factory;
    };
    let feed = futures::stream::poll_fn(move |_| {
        let _in_feed = &in_feed;
        std::task::Poll::Pending
    });
    let actor = system.spawn("actor", Props::from_fn(make, nothing).fed_by(feed)).unwrap();
    sim.settle();
    actor.close();
    assert_eq!(sim.run(actor.exited()), Exit::Closed);
    assert_eq!(recorded.len(), 2);
}

#[test]
fn a15_what_the_factory_holds_is_gone_when_the_exit_is_told() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let held = Arc::new(());
    let (known, seen) = (Arc::downgrade(&held), Log::new());
    let make = move || {
        let _held = &held;
    };
    let actor = system.spawn("actor", Props::from_fn(make, nothing)).unwrap();
    let log = seen.clone();
    actor.on_done(move |_| log.push(known.strong_count()));
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
fn a7_a_cancelled_actor_ends_cancelled_even_if_its_handler_panics_in_its_drop() {
    quiet();
    explore(0..20, |sim| {
        let system = sim.system("s");
        // No restart is allowed, so that a verdict of the supervisor would be the end of both.
        let crew = system.supervisor("crew", OneForOne::new().intensity(0, Duration::from_secs(1))).unwrap();
        let sibling = crew.spawn("sibling", Doer::props(&Log::new())).unwrap();
        let actor = crew.spawn("actor", Doer::props(&Log::new())).unwrap();
        let wait = |_| async {
            let _bomb = Bomb;
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
fn s6_a_child_that_fails_while_its_parent_restarts_is_not_the_next_incarnations() {
    explore(0..200, |sim| {
        let system = sim.system("s");
        let log = Log::new();
        let parent = system.spawn("parent", Doer::props(&log)).unwrap();
        let (children, gate) = (Log::new(), Gate::new());
        let (born, held) = (children.clone(), gate.clone());
        parent.tell(Job::act(move |cx| born.push(cx.spawn("child", Doer::props(&Log::new())).unwrap()))).unwrap();
        sim.settle();
        let child = children.take().pop().unwrap();
        // Its restarts are used up: the next failure goes up.
        (0..3).for_each(|_| child.tell(Job::Fail("again")).unwrap());
        let last = move |_| async move {
            held.pass().await;
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

/// Looks at the supervisor when it is dropped.
struct Looks(OnceLock<Supervisor>);

impl Drop for Looks {
    fn drop(&mut self) {
        self.0.get().map(Supervisor::children);
    }
}

#[test]
fn s2_a_child_that_ended_before_its_turn_is_dropped_under_no_lock() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let crew = system.supervisor("crew", OneForOne::new()).unwrap();
    let looks = Looks(OnceLock::from(crew.clone()));
    let describe = move |_: &u32| {
        let _looks = &looks;
        String::new()
    };
    let older = crew.spawn("older", Props::from_fn(|| (), nothing).describe(describe)).unwrap();
    let younger = crew.spawn("younger", Doer::props(&Log::new())).unwrap();
    let gate = Gate::new();
    younger.tell(Job::Pass(gate.clone(), 1)).unwrap();
    sim.settle();
    crew.any().stop();
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
fn a2_counts_are_complete_when_a_runtime_drops_a_parent_before_its_children() {
    let dispatcher = Dispatcher::seeded(1);
    let system = System::builder("s", dispatcher.runtime()).build().unwrap();
    let parent = system.spawn("parent", Doer::props(&Log::new())).unwrap();
    let children = Log::new();
    let born = children.clone();
    parent.tell(Job::act(move |cx| born.push(cx.spawn("child", Doer::props(&Log::new())).unwrap()))).unwrap();
    dispatcher.drain_ready();
    let child = children.take().pop().unwrap();
    (0..5).for_each(|n| child.tell(Job::Note(n)).unwrap());
    let root = system.root();
    drop(system);
    // Tasks are dropped in the order they were spawned.
    drop(dispatcher);
    assert_eq!(root.counts(), Counts { accepted: 6, handled: 1, failed: 0, dead_lettered: 5 });
}
