//! W8: wakers are foreign code. A waker may call back into its holder when it is woken or dropped,
//! and it may panic there. No other waiter is affected.

use crate::common::{Job, Log, TestActor, quiet};
use futures::Stream;
use pleach::events::SubscriptionOptions;
use pleach::prelude::*;
use pleach::sim::Sim;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Wake, Waker};

/// A waker that calls `touch` when it is woken and when its last clone is dropped. It may panic
/// after that.
struct Hostile {
    touch: Box<dyn Fn() + Send + Sync>,
    panics: AtomicBool,
    woken: AtomicUsize,
}

impl Hostile {
    fn new(touch: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { touch: Box::new(touch), panics: AtomicBool::new(false), woken: AtomicUsize::new(0) })
    }

    fn panicking(touch: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        let hostile = Self::new(touch);
        hostile.panics.store(true, Relaxed);
        hostile
    }
}

impl Wake for Hostile {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Relaxed);
        (self.touch)();
        assert!(!self.panics.load(Relaxed), "injected by a woken waker");
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        (self.touch)();
        assert!(!self.panics.load(Relaxed) || std::thread::panicking(), "injected by a dropped waker");
    }
}

fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut TaskContext::from_waker(waker))
}

/// A suspended actor with a full mailbox of capacity one.
fn full_actor(sim: &Sim, system: &ActorSystem) -> ActorRef<Job> {
    let actor = system.spawn_unnamed(TestActor::props(&Log::new()).mailbox(Mailbox::bounded(1))).unwrap();
    actor.try_send_system(SystemMessage::Suspend).unwrap();
    sim.settle();
    actor.tell(Job::Note(0)).unwrap();
    actor
}

/// A callback that uses the mailbox in which the waker is stored.
fn touch_mailbox(actor: &ActorRef<Job>) -> impl Fn() + Send + Sync + 'static {
    let actor = actor.clone();
    move || {
        drop(actor.tell(Job::Note(9)));
        let _ = (actor.queued(), actor.counts());
    }
}

#[test]
fn w8_waker_of_a_send_may_use_the_mailbox_when_dropped() {
    quiet();
    for panics in [false, true] {
        for way in ["replaced", "withdrawn", "closed", "admitted", "adapted and withdrawn", "adapted and closed"] {
            let sim = Sim::new(1);
            let system = sim.system("s");
            let actor = full_actor(&sim, &system);
            let hostile = if panics { Hostile::panicking(touch_mailbox(&actor)) } else { Hostile::new(touch_mailbox(&actor)) };
            let waker = Waker::from(hostile);
            let adapted = actor.map(Job::Note);
            if way.starts_with("adapted") {
                let mut send = adapted.send(1);
                assert!(poll_with(&mut send, &waker).is_pending());
                // The mailbox holds the last clone.
                drop(waker);
                if way.ends_with("closed") {
                    actor.close();
                    assert!(matches!(poll_with(&mut send, Waker::noop()), Poll::Ready(Err(SendError::Closed(1)))));
                }
                drop(send);
            } else {
                let mut send = actor.send(Job::Note(1));
                assert!(poll_with(&mut send, &waker).is_pending());
                drop(waker);
                match way {
                    "replaced" => assert!(poll_with(&mut send, Waker::noop()).is_pending()),
                    "closed" => {
                        actor.close();
                        assert!(matches!(poll_with(&mut send, Waker::noop()), Poll::Ready(Err(SendError::Closed(_)))));
                    }
                    "admitted" => {
                        actor.try_send_system(SystemMessage::Resume).unwrap();
                        sim.settle();
                        assert!(matches!(poll_with(&mut send, Waker::noop()), Poll::Ready(Ok(()))));
                    }
                    _ => {}
                }
                drop(send);
            }
            drop(actor.try_send_system(SystemMessage::Resume));
            sim.settle();
            assert_eq!(system.failures(), 0, "{way}, panics {panics}");
            assert!(system.counts().is_settled(), "{way}, panics {panics}");
        }
    }
}

#[test]
fn w8_panicking_waker_keeps_no_accepted_sender_asleep() {
    quiet();
    let sim = Sim::new(1);
    let system = sim.system("s");
    let actor = full_actor(&sim, &system);
    let hostile = Hostile::panicking(|| {});
    let harmless = Hostile::new(|| {});
    let (first, second) = (Waker::from(Arc::clone(&hostile)), Waker::from(Arc::clone(&harmless)));
    let (mut one, mut two) = (actor.send(Job::Note(1)), actor.send(Job::Note(2)));
    assert!(poll_with(&mut one, &first).is_pending() && poll_with(&mut two, &second).is_pending());
    actor.try_send_system(SystemMessage::Resume).unwrap();
    sim.settle();
    assert_eq!((hostile.woken.load(Relaxed), harmless.woken.load(Relaxed)), (1, 1));
    assert!(poll_with(&mut one, Waker::noop()).is_ready() && poll_with(&mut two, Waker::noop()).is_ready());
    sim.settle();
    assert_eq!((actor.counts().handled, system.failures()), (3, 0), "the actor does not fail");
    hostile.panics.store(false, Relaxed);
}

#[test]
fn w8_panicking_waker_of_an_asker_does_not_fail_the_actor() {
    quiet();
    let sim = Sim::new(1);
    let system = sim.system("s");
    let actor = system.spawn_unnamed(TestActor::props(&Log::new())).unwrap();
    let hostile = Hostile::panicking(|| {});
    let waker = Waker::from(Arc::clone(&hostile));
    let mut ask = actor.ask(|reply| Job::Answer(reply, 7));
    assert!(poll_with(&mut ask, &waker).is_pending());
    sim.settle();
    assert!(matches!(poll_with(&mut ask, Waker::noop()), Poll::Ready(Ok(7))));
    assert_eq!((hostile.woken.load(Relaxed), system.failures()), (1, 0));
    hostile.panics.store(false, Relaxed);
}

#[test]
fn w8_panicking_timer_waker_keeps_no_other_timer_from_firing() {
    quiet();
    let sim = Sim::new(1);
    let (hostile, harmless) = (Hostile::panicking(|| {}), Hostile::new(|| {}));
    let runtime = sim.runtime();
    let mut sleeps = [1, 1].map(|ms| runtime.sleep_until(runtime.now() + Duration::from_millis(ms)));
    for (sleep, hostile) in sleeps.iter_mut().zip([&hostile, &harmless]) {
        assert!(poll_with(sleep, &Waker::from(Arc::clone(hostile))).is_pending());
    }
    sim.advance(Duration::from_millis(2));
    assert_eq!((hostile.woken.load(Relaxed), harmless.woken.load(Relaxed)), (1, 1));
    hostile.panics.store(false, Relaxed);
}

#[test]
fn w8_event_stream_and_token_accept_a_waker_that_calls_back() {
    quiet();
    for panics in [false, true] {
        let sim = Sim::new(1);
        let system = sim.system("s");
        let events = Arc::new(Mutex::new(system.hub().subscribe_with(SubscriptionOptions::new())));
        let token = sim.token();
        let (seen, touched_token) = (Arc::clone(&events), token.clone());
        let touch = move || {
            let _ = (format!("{seen:?}"), touched_token.is_cancelled(), touched_token.cause());
        };
        let hostile = if panics { Hostile::panicking(touch) } else { Hostile::new(touch) };
        let waker = Waker::from(Arc::clone(&hostile));
        let mut cancelled = token.cancelled();
        assert!(poll_with(&mut cancelled, &waker).is_pending());
        {
            let mut stream = events.lock().unwrap();
            while Pin::new(&mut *stream).poll_next(&mut TaskContext::from_waker(Waker::noop())).is_ready() {}
            assert!(Pin::new(&mut *stream).poll_next(&mut TaskContext::from_waker(&waker)).is_pending());
        }
        let actor = system.spawn_unnamed(TestActor::props(&Log::new())).unwrap();
        let mut exited = actor.exited();
        assert!(poll_with(&mut exited, &waker).is_pending());
        token.cancel(());
        actor.stop();
        sim.settle();
        assert!(poll_with(&mut exited, Waker::noop()).is_ready());
        assert!(poll_with(&mut cancelled, Waker::noop()).is_ready());
        assert!(hostile.woken.load(Relaxed) >= 3);
        assert_eq!(system.failures(), 0);
        hostile.panics.store(false, Relaxed);
    }
}

/// The waker is replaced before the actor starts, or woken when it has started.
#[test]
fn w8_awaited_start_accepts_a_waker_that_calls_back() {
    quiet();
    for (panics, replaced) in [(false, false), (false, true), (true, false), (true, true)] {
        let sim = Sim::new(1);
        let system = sim.system("s");
        let hostile = if panics { Hostile::panicking(|| {}) } else { Hostile::new(|| {}) };
        let waker = Waker::from(Arc::clone(&hostile));
        let mut starting = system.spawn_started("actor", TestActor::props(&Log::new()));
        assert!(poll_with(&mut starting, &waker).is_pending());
        drop(waker);
        if replaced {
            assert!(poll_with(&mut starting, Waker::noop()).is_pending());
        }
        sim.settle();
        let Poll::Ready(Ok(actor)) = poll_with(&mut starting, Waker::noop()) else { panic!("the actor has started") };
        assert_eq!(hostile.woken.load(Relaxed), usize::from(!replaced));
        assert_eq!((actor.exit(), system.failures()), (None, 0), "panics {panics}, replaced {replaced}");
        hostile.panics.store(false, Relaxed);
    }
}

/// Durable waits of a node, polled with a waker that uses the same run.
#[cfg(feature = "graph")]
#[test]
fn w8_waker_of_a_durable_wait_may_use_its_run_when_dropped() {
    use pleach::store::MemoryStore;
    type WaitFuture = pleach::runtime::BoxFuture<'static, ()>;
    let touch = |cx: &Arc<NodeContext>, count: &Arc<AtomicUsize>| {
        let (cx, count) = (Arc::clone(cx), Arc::clone(count));
        move || {
            let number = count.fetch_add(1, Relaxed);
            cx.now();
            // Writes visit records, waits for a signal, and is dropped.
            assert!(poll_with(&mut cx.signal::<u32>(format!("touch {number}")), Waker::noop()).is_pending());
            assert!(poll_with(&mut cx.sleep(format!("sleep {number}"), Duration::from_secs(1)), Waker::noop()).is_pending());
        }
    };
    let node = move |cx: NodeContext, n: u32| async move {
        let (cx, touched) = (Arc::new(cx), Arc::new(AtomicUsize::new(0)));
        let waits: [fn(&NodeContext, &str) -> WaitFuture; 4] = [
            |cx, key| cx.signal(key),
            |cx, key| cx.interrupt(key, "?"),
            |cx, key| cx.sleep(key, Duration::from_secs(60)),
            |cx, key| {
                let effect = cx.effect(key, |_| async { Ok::<_, String>(()) }).into_future();
                Box::pin(async move { effect.await.unwrap() })
            },
        ];
        for (number, wait) in waits.iter().enumerate() {
            // The second time its visit record is stored, and it waits for the event.
            for way in ["replaced", "withdrawn", "replaced later", "withdrawn later"] {
                let mut waiting = wait(&cx, &format!("{number} {way}"));
                if way.ends_with("later") && poll_with(&mut waiting, Waker::noop()).is_pending() {
                    cx.effect(format!("between {number} {way}"), |_| async { Ok::<_, String>(()) }).await?;
                }
                let waker = Waker::from(Hostile::new(touch(&cx, &touched)));
                if poll_with(&mut waiting, &waker).is_ready() {
                    continue;
                }
                drop(waker);
                if way.starts_with("replaced") {
                    let _ = poll_with(&mut waiting, Waker::noop());
                }
                drop(waiting);
            }
        }
        Ok::<_, String>(n + touched.load(Relaxed) as u32)
    };
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let graph = Graph::new("touched").add_node("node", node).add_edge("node", END).set_entry("node").compile().unwrap();
    let touched = sim.run(graph.run(0).id("r").runtime(sim.runtime()).checkpoint(&store).into_future()).unwrap();
    assert!(touched >= 12, "{touched}");
}

/// A run with many waiting branches, polled with a waker that wakes one of them.
#[cfg(feature = "graph")]
#[test]
fn w8_waker_of_a_wide_run_may_wake_its_branches_when_dropped() {
    let branches: Arc<Mutex<Vec<Waker>>> = Arc::default();
    let stored = Arc::clone(&branches);
    let node = move |_: u32| {
        let stored = Arc::clone(&stored);
        async move {
            let waits = std::future::poll_fn(|cx| {
                stored.lock().unwrap().push(cx.waker().clone());
                Poll::<u32>::Pending
            });
            Ok::<_, String>(waits.await)
        }
    };
    let graph = Graph::new("wide")
        .add_node("split", |n: u32| async move { Ok::<_, String>(n) })
        .add_node("branch", node)
        .map("split", |_: &u32| vec![0; 100], "branch", END, |_: u32, ended: Vec<u32>| ended.len() as u32)
        .add_edge("branch", END)
        .set_entry("split")
        .compile()
        .unwrap();
    let sim = Sim::new(1);
    let mut run = graph.run(0).runtime(sim.runtime()).into_future();
    // Each branch waits with its own waker.
    for _ in 0..4 {
        assert!(poll_with(&mut run, Waker::noop()).is_pending());
    }
    let touched = Arc::new(AtomicUsize::new(0));
    for _ in 0..2 {
        let (branches, touched) = (Arc::clone(&branches), Arc::clone(&touched));
        let waker = Waker::from(Hostile::new(move || {
            let branch = branches.lock().unwrap().last().cloned();
            branch.into_iter().for_each(Waker::wake);
            touched.fetch_add(1, Relaxed);
        }));
        assert!(poll_with(&mut run, &waker).is_pending());
        drop(waker);
        assert!(poll_with(&mut run, Waker::noop()).is_pending());
    }
    assert!(touched.load(Relaxed) >= 2);
}
