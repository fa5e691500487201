//! T7 and T8: the effect of a cancel, or of dropping the owner, on running members.

use crate::common::yield_once;
use futures::FutureExt;
use pleach::BoxError;
use pleach::prelude::*;
use pleach::scope::WaitError;
use pleach::sim::{Sim, explore};
use std::future::{pending, poll_fn};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread::ThreadId;

/// Never ends. Counts its polls.
async fn busy(polls: Arc<AtomicUsize>) {
    while polls.fetch_add(1, Ordering::Relaxed) < usize::MAX {
        yield_once().await;
    }
}

/// Executes each message and counts the completed ones.
struct Worker {
    done: Arc<AtomicUsize>,
    scope: Option<Arc<Scope>>,
}

enum Work {
    Count,
    WaitForever,
    CancelScope,
    Block(Sender<()>, Receiver<()>),
}

impl Actor for Worker {
    type Msg = Work;
    type Error = BoxError;

    async fn handle(&mut self, work: Work, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        match work {
            Work::Count => {}
            Work::WaitForever => pending().await,
            Work::CancelScope => self.scope.as_ref().unwrap().cancel("enough"),
            Work::Block(entered, release) => {
                entered.send(())?;
                release.recv()?;
            }
        }
        self.done.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn worker(done: &Arc<AtomicUsize>) -> Props<Worker> {
    let done = Arc::clone(done);
    Props::new(move || Worker { done: Arc::clone(&done), scope: None })
}

#[test]
fn t7_cancel_reaches_every_child_at_its_next_await() {
    explore(0..200, |sim| {
        let scope = sim.scope();
        let polls = Arc::new(AtomicUsize::new(0));
        let done = Arc::new(AtomicUsize::new(0));
        for _ in 0..4 {
            scope.launch(busy(Arc::clone(&polls))).unwrap();
        }
        let inner = scope.scope("inner").unwrap();
        inner.launch(busy(Arc::clone(&polls))).unwrap();
        let idle = scope.spawn("idle", worker(&done)).unwrap();
        let waiting = scope.spawn("waiting", worker(&done)).unwrap();
        waiting.tell(Work::WaitForever).unwrap();
        let mut produced = scope.produce(1, |mut out| async move { while out.send(1).await.is_ok() {} }).unwrap();
        let (at_cancel, when) = sim.run(async {
            for _ in 0..sim.seed() % 50 {
                sim.yield_now().await;
            }
            scope.cancel("enough");
            // Sent before the actor could end; it must not be handled.
            let _ = idle.tell(Work::Count);
            (polls.load(Ordering::Relaxed), sim.now())
        });
        sim.run(scope.wait_all()).unwrap();
        assert_eq!(polls.load(Ordering::Relaxed), at_cancel, "polled after the cancel");
        assert_eq!(sim.now(), when, "the end takes no time");
        assert_eq!(done.load(Ordering::Relaxed), 0);
        for actor in [&idle, &waiting] {
            assert_eq!(actor.exit(), Some(Exit::Cancelled("enough".into())));
            assert!(actor.counts().is_settled(), "{}", actor.counts());
        }
        while sim.run(produced.next()).is_some() {}
    });
}

#[test]
fn t7_actor_is_cancelled_between_two_messages() {
    explore(0..50, |sim| {
        let scope = Arc::new(sim.scope());
        let done = Arc::new(AtomicUsize::new(0));
        let (count, owner) = (Arc::clone(&done), Arc::clone(&scope));
        let props = Props::new(move || Worker { done: Arc::clone(&count), scope: Some(Arc::clone(&owner)) });
        let actor = scope.spawn("worker", props).unwrap();
        for n in 0..10 {
            actor.tell(if n == 3 { Work::CancelScope } else { Work::Count }).unwrap();
        }
        assert_eq!(sim.run(actor.exited()), Exit::Cancelled("enough".into()));
        // The current message has no await left and completes. No later message is handled.
        assert_eq!(done.load(Ordering::Relaxed), 4);
        let Counts { accepted, handled, failed, dead_lettered } = actor.counts();
        assert_eq!((accepted, handled, failed, dead_lettered), (10, 4, 0, 6));
    });
}

#[test]
fn t7_cancel_from_inside_a_poll_takes_effect_at_the_next_await() {
    explore(0..50, |sim| {
        let scope = Arc::new(sim.scope());
        let (owner, steps_done) = (Arc::clone(&scope), Arc::new(AtomicUsize::new(0)));
        let reached = Arc::clone(&steps_done);
        // Nothing else wakes the task, so the cancel must be seen when this poll ends.
        let cancels = async move {
            owner.cancel("enough");
            reached.fetch_add(1, Ordering::Relaxed);
            pending::<()>().await;
            reached.fetch_add(1, Ordering::Relaxed);
        };
        let task = scope.launch(cancels).unwrap();
        assert_eq!(sim.run(task.exited()), Exit::Cancelled("enough".into()));
        assert_eq!(steps_done.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn t7_bounded_wait_reports_members_inside_one_poll() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let _guard = runtime.enter();
    let system = ActorSystem::new("stuck").unwrap();
    let scope = system.scope("jobs").unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    let (entered, both_entered) = channel();
    let (release_task, task_released) = channel::<()>();
    let (release_actor, actor_released) = channel();
    scope.task().named("waiting").launch(pending::<()>()).unwrap();
    let task_entered = entered.clone();
    let blocks = async move {
        task_entered.send(()).unwrap();
        task_released.recv().unwrap();
    };
    scope.task().named("blocked").launch(blocks).unwrap();
    let actor = scope.spawn("actor", worker(&done)).unwrap();
    actor.tell(Work::Block(entered, actor_released)).unwrap();
    both_entered.recv().unwrap();
    both_entered.recv().unwrap();

    // Both threads are inside a poll, so only a waiter outside of the runtime gets an answer.
    let began = std::time::Instant::now();
    scope.cancel("enough");
    let Err(WaitError::StillRunning(running)) = scope.blocking_wait_all_for(Duration::from_millis(50)) else {
        panic!("the wait must time out")
    };
    assert!(began.elapsed() < Duration::from_secs(5));
    let stuck: Vec<_> = running.iter().filter(|member| member.in_poll).map(|member| member.path.to_string()).collect();
    assert_eq!(stuck, ["/user/jobs/blocked", "/user/jobs/actor"]);
    let since = Duration::from_millis(50)..=began.elapsed();
    assert!(running.iter().all(|member| member.cancelled_for.is_some_and(|passed| since.contains(&passed))), "{running:?}");
    let text = WaitError::StillRunning(running).to_string();
    assert!(text.contains("/user/jobs/blocked (cancelled ") && text.contains("inside one poll"), "{text}");

    release_task.send(()).unwrap();
    release_actor.send(()).unwrap();
    scope.blocking_wait_all_for(Duration::from_secs(30)).unwrap();
    assert_eq!(actor.exit(), Some(Exit::Cancelled("enough".into())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t7_bounded_wait_works_inside_the_runtime_with_a_free_thread() {
    let scope = pleach::scope().unwrap();
    let (entered, has_entered) = channel();
    let (release, released) = channel::<()>();
    let blocks = async move {
        entered.send(()).unwrap();
        let _ = released.recv();
    };
    let task = scope.task().named("blocked").launch(blocks).unwrap();
    tokio::task::spawn_blocking(move || has_entered.recv().unwrap()).await.unwrap();
    scope.cancel(());
    let Err(WaitError::StillRunning(running)) = scope.wait_all_for(Duration::from_millis(30)).await else {
        panic!("the wait must time out")
    };
    assert_eq!(running.len(), 1);
    assert_eq!(running[0].path, task.path());
    assert!(running[0].in_poll && running[0].cancelled_for.unwrap() >= Duration::from_millis(30));
    release.send(()).unwrap();
    scope.wait_all().await.unwrap();
}

/// Records the thread in which it was dropped.
struct Dropped(Arc<Mutex<Option<ThreadId>>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        *self.0.lock().unwrap() = Some(std::thread::current().id());
    }
}

#[test]
fn t8_unstarted_task_is_dropped_at_once_and_others_by_their_task() {
    explore(0..100, |sim| {
        let scope = sim.scope();
        let polls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&polls);
        let marker = Arc::new(());
        let holder = Arc::clone(&marker);
        let task_future = async move {
            busy(count).await;
            drop(holder);
        };
        let started = scope.launch(task_future).unwrap();
        sim.run(async {
            while polls.load(Ordering::Relaxed) == 0 {
                sim.yield_now().await;
            }
        });
        let unstarted = Arc::new(());
        let holder = Arc::clone(&unstarted);
        let never = scope.launch(async move { drop(holder) }).unwrap();
        let holder = Arc::clone(&unstarted);
        let producer = scope.produce::<(), _>(1, |_| async move { drop(holder) }).unwrap();
        let before = (polls.load(Ordering::Relaxed), sim.polls());
        drop(scope);
        assert_eq!(Arc::strong_count(&unstarted), 1, "an unstarted task must be dropped");
        assert_eq!(never.any().exit(), Some(Exit::Cancelled(Cause::Dropped)));
        assert_eq!(producer.task().any().exit(), Some(Exit::Cancelled(Cause::Dropped)));
        assert_eq!((Arc::strong_count(&marker), started.any().exit()), (2, None), "dropping the owner does not wait");
        assert_eq!(sim.run(started.exited()), Exit::Cancelled(Cause::Dropped));
        assert_eq!((Arc::strong_count(&marker), polls.load(Ordering::Relaxed)), (1, before.0));
        sim.settle();
        assert_eq!(sim.tasks_alive(), 0);
    });
}

#[test]
fn t8_unstarted_task_ends_after_its_future_was_dropped() {
    // The destructor lets the task be polled in between, as on another thread.
    struct SettlesOnDrop(Arc<Sim>, Arc<Mutex<Vec<&'static str>>>);
    impl Drop for SettlesOnDrop {
        fn drop(&mut self) {
            self.0.settle();
            self.1.lock().unwrap().push("dropped");
        }
    }
    let sim = Arc::new(Sim::new(1));
    let log = Arc::new(Mutex::new(Vec::new()));
    let scope = sim.scope();
    let slow = SettlesOnDrop(Arc::clone(&sim), Arc::clone(&log));
    let task = scope.launch(async move { drop(slow) }).unwrap();
    let ended = Arc::clone(&log);
    task.on_done(move |_| ended.lock().unwrap().push("ended"));
    drop(scope);
    assert_eq!(*log.lock().unwrap(), ["dropped", "ended"]);
}

#[test]
fn t8_dropping_the_future_that_runs_a_scope_drops_the_scope() {
    let sim = Sim::new(8);
    let task = Arc::new(Mutex::new(None));
    let (slot, scope) = (Arc::clone(&task), sim.scope());
    let mut runs = Box::pin(async move {
        *slot.lock().unwrap() = Some(scope.launch(pending::<()>()).unwrap());
        scope.wait_all().await
    });
    assert!(runs.as_mut().now_or_never().is_none());
    sim.settle();
    let task = task.lock().unwrap().take().unwrap();
    assert_eq!(task.any().exit(), None);
    drop(runs);
    assert_eq!(sim.run(task.exited()), Exit::Cancelled(Cause::Dropped));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t8_running_poll_finishes_and_no_further_poll_starts() {
    let scope = pleach::scope().unwrap();
    let (entered, has_entered) = channel();
    let (release, released) = channel::<()>();
    let polls = Arc::new(AtomicUsize::new(0));
    let (count, dropped_in) = (Arc::clone(&polls), Arc::new(Mutex::new(None)));
    let marker = Dropped(Arc::clone(&dropped_in));
    let polled_in = Arc::new(Mutex::new(None));
    let slot = Arc::clone(&polled_in);
    let blocks = poll_fn(move |cx| {
        let _held = &marker;
        if count.fetch_add(1, Ordering::SeqCst) == 0 {
            *slot.lock().unwrap() = Some(std::thread::current().id());
            entered.send(()).unwrap();
            released.recv().unwrap();
        }
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    });
    let task = scope.launch(blocks).unwrap();
    let outcome = tokio::task::spawn_blocking(move || {
        has_entered.recv().unwrap();
        drop(scope);
        // The drop returned while the poll is still running.
        let (exit, dropped) = (task.any().exit(), dropped_in.lock().unwrap().is_some());
        release.send(()).unwrap();
        assert_eq!((exit, dropped), (None, false));
        assert_eq!(pleach::runtime::block_on(task.exited()), Exit::Cancelled(Cause::Dropped));
        (dropped_in.lock().unwrap().unwrap(), std::thread::current().id())
    });
    let (dropped_in, dropper) = outcome.await.unwrap();
    assert_eq!(polls.load(Ordering::SeqCst), 1);
    assert_ne!(dropped_in, dropper, "the task itself drops the future");
    assert_eq!(Some(dropped_in), *polled_in.lock().unwrap());
}
