//! What a cancel, or dropping the owner, does to whatever runs: T7, T8.

use futures::FutureExt;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{BoxError, WaitError};
use std::future::{pending, poll_fn};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread::ThreadId;

/// Lets others run once.
async fn step_aside() {
    let mut stepped = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut stepped, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Never ends, and counts how often it is polled.
async fn busy(polls: Arc<AtomicUsize>) {
    while polls.fetch_add(1, Ordering::Relaxed) < usize::MAX {
        step_aside().await;
    }
}

/// Does what a message says, and says what it did.
struct Worker {
    done: Arc<AtomicUsize>,
    scope: Option<Arc<Scope>>,
}

enum Work {
    Count,
    WaitForever,
    CancelTheScope,
    Block(Sender<()>, Receiver<()>),
}

impl Actor for Worker {
    type Msg = Work;
    type Error = BoxError;

    async fn handle(&mut self, work: Work, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        match work {
            Work::Count => {}
            Work::WaitForever => pending().await,
            Work::CancelTheScope => self.scope.as_ref().unwrap().cancel("enough"),
            Work::Block(inside, release) => {
                inside.send(())?;
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
fn t7_a_cancel_reaches_every_child_at_its_next_await() {
    explore(0..200, |sim| {
        let scope = sim.scope();
        let polls = Arc::new(AtomicUsize::new(0));
        let done = Arc::new(AtomicUsize::new(0));
        for _ in 0..4 {
            scope.launch(busy(Arc::clone(&polls))).unwrap();
        }
        let inner = scope.scope("inner").unwrap();
        inner.launch(busy(Arc::clone(&polls))).unwrap();
        let idle = scope.actor("idle", worker(&done)).unwrap();
        let waiting = scope.actor("waiting", worker(&done)).unwrap();
        waiting.tell(Work::WaitForever).unwrap();
        let mut produced = scope.produce(1, |mut out| async move { while out.send(1).await.is_ok() {} }).unwrap();
        let (at_cancel, when) = sim.run(async {
            for _ in 0..sim.seed() % 50 {
                sim.step_aside().await;
            }
            scope.cancel("enough");
            // It was told before its task could end; it must not be handled.
            let _ = idle.tell(Work::Count);
            (polls.load(Ordering::Relaxed), sim.now())
        });
        sim.run(scope.wait_all()).unwrap();
        assert_eq!(polls.load(Ordering::Relaxed), at_cancel, "polled after the cancel");
        assert_eq!(sim.now(), when, "the end must not take time");
        assert_eq!(done.load(Ordering::Relaxed), 0);
        for actor in [&idle, &waiting] {
            assert_eq!(actor.exit(), Some(Exit::Cancelled("enough".into())));
            assert!(actor.counts().is_settled(), "{}", actor.counts());
        }
        while sim.run(produced.next()).is_some() {}
    });
}

#[test]
fn t7_an_actor_is_cut_off_between_two_messages() {
    explore(0..50, |sim| {
        let scope = Arc::new(sim.scope());
        let done = Arc::new(AtomicUsize::new(0));
        let (count, home) = (Arc::clone(&done), Arc::clone(&scope));
        let props = Props::new(move || Worker { done: Arc::clone(&count), scope: Some(Arc::clone(&home)) });
        let actor = scope.actor("worker", props).unwrap();
        for n in 0..10 {
            actor.tell(if n == 3 { Work::CancelTheScope } else { Work::Count }).unwrap();
        }
        assert_eq!(sim.run(actor.exited()), Exit::Cancelled("enough".into()));
        // The message in hand had no await left and ends well; nothing after it is handled.
        assert_eq!(done.load(Ordering::Relaxed), 4);
        let Counts { accepted, handled, failed, dead_lettered } = actor.counts();
        assert_eq!((accepted, handled, failed, dead_lettered), (10, 4, 0, 6));
    });
}

#[test]
fn t7_a_cancel_from_inside_a_poll_cuts_off_at_the_next_await() {
    explore(0..50, |sim| {
        let scope = Arc::new(sim.scope());
        let (home, past) = (Arc::clone(&scope), Arc::new(AtomicUsize::new(0)));
        let reached = Arc::clone(&past);
        // Nobody else will ever wake it, so the cancel must be seen when this poll ends.
        let cancels = async move {
            home.cancel("enough");
            reached.fetch_add(1, Ordering::Relaxed);
            pending::<()>().await;
            reached.fetch_add(1, Ordering::Relaxed);
        };
        let task = scope.launch(cancels).unwrap();
        assert_eq!(sim.run(task.exited()), Exit::Cancelled("enough".into()));
        assert_eq!(past.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn t7_whoever_waits_with_a_bound_is_told_who_is_inside_one_poll() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let _guard = runtime.enter();
    let system = ActorSystem::new("stuck").unwrap();
    let scope = system.scope("work").unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    let (inside, both_inside) = channel();
    let (release_task, task_released) = channel::<()>();
    let (release_actor, actor_released) = channel();
    scope.task().named("patient").launch(pending::<()>()).unwrap();
    let task_inside = inside.clone();
    let blocks = async move {
        task_inside.send(()).unwrap();
        task_released.recv().unwrap();
    };
    scope.task().named("blocked").launch(blocks).unwrap();
    let actor = scope.actor("actor", worker(&done)).unwrap();
    actor.tell(Work::Block(inside, actor_released)).unwrap();
    both_inside.recv().unwrap();
    both_inside.recv().unwrap();

    // Both workers are inside a poll now, so only a waiter outside the runtime can be told anything.
    let began = std::time::Instant::now();
    scope.cancel("enough");
    let Err(WaitError::StillRunning(running)) = scope.blocking_wait_all_for(Duration::from_millis(50)) else {
        panic!("it must be told")
    };
    assert!(began.elapsed() < Duration::from_secs(5));
    let stuck: Vec<_> = running.iter().filter(|one| one.in_poll).map(|one| one.path.to_string()).collect();
    assert_eq!(stuck, ["/user/work/blocked", "/user/work/actor"]);
    let since = Duration::from_millis(50)..=began.elapsed();
    assert!(running.iter().all(|one| one.cancelled_for.is_some_and(|passed| since.contains(&passed))), "{running:?}");
    let text = WaitError::StillRunning(running).to_string();
    assert!(text.contains("/user/work/blocked (cancelled ") && text.contains("inside one poll"), "{text}");

    release_task.send(()).unwrap();
    release_actor.send(()).unwrap();
    scope.blocking_wait_all_for(Duration::from_secs(30)).unwrap();
    assert_eq!(actor.exit(), Some(Exit::Cancelled("enough".into())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t7_with_a_free_worker_the_waiter_may_be_inside_the_runtime() {
    let scope = pleach::scope().unwrap();
    let (inside, is_inside) = channel();
    let (release, released) = channel::<()>();
    let blocks = async move {
        inside.send(()).unwrap();
        let _ = released.recv();
    };
    let task = scope.task().named("blocked").launch(blocks).unwrap();
    tokio::task::spawn_blocking(move || is_inside.recv().unwrap()).await.unwrap();
    scope.cancel(());
    let Err(WaitError::StillRunning(running)) = scope.wait_all_for(Duration::from_millis(30)).await else {
        panic!("it must be told")
    };
    assert_eq!(running.len(), 1);
    assert_eq!(running[0].path, task.path());
    assert!(running[0].in_poll && running[0].cancelled_for.unwrap() >= Duration::from_millis(30));
    release.send(()).unwrap();
    scope.wait_all().await.unwrap();
}

/// Says in which thread it was dropped.
struct Dropped(Arc<Mutex<Option<ThreadId>>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        *self.0.lock().unwrap() = Some(std::thread::current().id());
    }
}

#[test]
fn t8_what_never_started_is_dropped_at_once_and_the_rest_by_its_own_task() {
    explore(0..100, |sim| {
        let scope = sim.scope();
        let polls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&polls);
        let guard = Arc::new(());
        let held = Arc::clone(&guard);
        let holds = async move {
            busy(count).await;
            drop(held);
        };
        let started = scope.launch(holds).unwrap();
        sim.run(async {
            while polls.load(Ordering::Relaxed) == 0 {
                sim.step_aside().await;
            }
        });
        let unstarted = Arc::new(());
        let held = Arc::clone(&unstarted);
        let never = scope.launch(async move { drop(held) }).unwrap();
        let held = Arc::clone(&unstarted);
        let producer = scope.produce::<(), _>(1, |_| async move { drop(held) }).unwrap();
        let before = (polls.load(Ordering::Relaxed), sim.polls());
        drop(scope);
        assert_eq!(Arc::strong_count(&unstarted), 1, "what never started must be gone");
        assert_eq!(never.any().exit(), Some(Exit::Cancelled(Cause::Dropped)));
        assert_eq!(producer.task().any().exit(), Some(Exit::Cancelled(Cause::Dropped)));
        assert_eq!((Arc::strong_count(&guard), started.any().exit()), (2, None), "dropping the owner does not wait");
        assert_eq!(sim.run(started.exited()), Exit::Cancelled(Cause::Dropped));
        assert_eq!((Arc::strong_count(&guard), polls.load(Ordering::Relaxed)), (1, before.0));
        sim.settle();
        assert_eq!(sim.tasks_alive(), 0);
    });
}

#[test]
fn t8_an_unstarted_task_has_not_ended_before_its_future_is_gone() {
    // The destructor lets the task's own poll run in between, as another worker might.
    struct Slow(Arc<Sim>, Arc<Mutex<Vec<&'static str>>>);
    impl Drop for Slow {
        fn drop(&mut self) {
            self.0.settle();
            self.1.lock().unwrap().push("dropped");
        }
    }
    let sim = Arc::new(Sim::new(1));
    let log = Arc::new(Mutex::new(Vec::new()));
    let scope = sim.scope();
    let slow = Slow(Arc::clone(&sim), Arc::clone(&log));
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
    let (place, scope) = (Arc::clone(&task), sim.scope());
    let mut runs = Box::pin(async move {
        *place.lock().unwrap() = Some(scope.launch(pending::<()>()).unwrap());
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
async fn t8_a_poll_already_begun_finishes_and_no_further_one_begins() {
    let scope = pleach::scope().unwrap();
    let (inside, is_inside) = channel();
    let (release, released) = channel::<()>();
    let polls = Arc::new(AtomicUsize::new(0));
    let (count, dropped_in) = (Arc::clone(&polls), Arc::new(Mutex::new(None)));
    let guard = Dropped(Arc::clone(&dropped_in));
    let polled_in = Arc::new(Mutex::new(None));
    let place = Arc::clone(&polled_in);
    let blocks = poll_fn(move |cx| {
        let _held = &guard;
        if count.fetch_add(1, Ordering::SeqCst) == 0 {
            *place.lock().unwrap() = Some(std::thread::current().id());
            inside.send(()).unwrap();
            released.recv().unwrap();
        }
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    });
    let task = scope.launch(blocks).unwrap();
    let outcome = tokio::task::spawn_blocking(move || {
        is_inside.recv().unwrap();
        drop(scope);
        // The drop came back while the poll is still going on.
        let (exit, dropped) = (task.any().exit(), dropped_in.lock().unwrap().is_some());
        release.send(()).unwrap();
        assert_eq!((exit, dropped), (None, false));
        assert_eq!(pleach::block_on(task.exited()), Exit::Cancelled(Cause::Dropped));
        (dropped_in.lock().unwrap().unwrap(), std::thread::current().id())
    });
    let (dropped_in, dropper) = outcome.await.unwrap();
    assert_eq!(polls.load(Ordering::SeqCst), 1);
    assert_ne!(dropped_in, dropper, "its own task drops the future");
    assert_eq!(Some(dropped_in), *polled_in.lock().unwrap());
}
