//! Faults in stand-ins for I/O, and in their wake-ups.

use pleach::runtime::Runtime;
use pleach::sim::{FaultKind, Sim, explore};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::Poll;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// A request that takes one second and counts when it is done.
fn request(runtime: &Arc<dyn Runtime>, done: &Arc<AtomicU32>) -> impl Future<Output = u32> + use<> {
    let (sleep, done) = (runtime.sleep_until(runtime.now() + SECOND), Arc::clone(done));
    async move {
        sleep.await;
        done.fetch_add(1, SeqCst) + 1
    }
}

#[test]
fn d5_io_without_faults_is_its_future() {
    explore(0..20, |sim| {
        let done = Arc::default();
        assert_eq!(sim.run(sim.io("gateway", request(&sim.runtime(), &done))), 1);
        assert_eq!(sim.now().since_start(), SECOND);
        assert!(sim.injected().is_empty());
    });
}

#[test]
fn d5_late_io_is_late_by_at_most_its_limit() {
    let mut delays = Vec::new();
    for seed in 0..50 {
        let sim = Sim::new(seed);
        sim.inject(FaultKind::IoLate.nth(2).on("gateway").up_to(3 * SECOND));
        let done = Arc::default();
        sim.run(sim.io("gateway", request(&sim.runtime(), &done)));
        assert_eq!(sim.now().since_start(), SECOND, "the first request is in time");
        sim.run(sim.io("gateway", request(&sim.runtime(), &done)));
        delays.push(sim.now().since_start() - 2 * SECOND);
    }
    assert!(delays.iter().all(|delay| *delay > Duration::ZERO && *delay <= 3 * SECOND));
    assert!(delays.iter().any(|delay| *delay > 2 * SECOND) && delays.iter().any(|delay| *delay < SECOND));
}

#[test]
fn d5_silent_io_never_answers_and_its_work_may_be_done() {
    let mut done_by_seed = [0, 0];
    for seed in 0..50 {
        let sim = Sim::new(seed);
        sim.inject(FaultKind::IoSilent.nth(1).on("gateway"));
        let (done, runtime) = (Arc::default(), sim.runtime());
        let io = sim.io("gateway", request(&runtime, &done));
        let scope = sim.scope();
        let job = scope.launch(async move {
            io.await;
        });
        sim.advance(60 * SECOND);
        assert!(job.unwrap().any().exit().is_none());
        done_by_seed[done.load(SeqCst) as usize] += 1;
    }
    assert!(done_by_seed.iter().all(|seeds| *seeds > 5), "{done_by_seed:?}");
}

#[test]
fn d5_wake_ups_of_io_can_be_late_or_lost() {
    // The future of the request is woken once, by its timer.
    let ended_after = |kind: FaultKind, poll_again: bool| {
        let sim = Sim::new(1);
        sim.inject(kind.nth(1).on("gateway").up_to(5 * SECOND));
        let done = Arc::default();
        let io = sim.io("gateway", request(&sim.runtime(), &done));
        let scope = sim.scope();
        let job = scope.launch(async move {
            io.await;
        });
        let job = job.unwrap().any();
        sim.advance(60 * SECOND);
        let is_ended = job.exit().is_some();
        assert!(!poll_again || is_ended);
        (is_ended, sim.injected().len())
    };
    assert_eq!(ended_after(FaultKind::WakeLate, true), (true, 1));
    assert_eq!(ended_after(FaultKind::WakeLost, false), (false, 1), "nothing else polls the task");
}

#[test]
fn d5_lost_wake_up_is_made_up_for_by_the_next_poll() {
    let sim = Sim::new(1);
    sim.inject(FaultKind::WakeLost.nth(1));
    let (done, runtime) = (Arc::default(), sim.runtime());
    let mut io = sim.io("gateway", request(&runtime, &done));
    let answer = sim.run(async {
        loop {
            // A poll every ten seconds, as a watchdog does it.
            let mut pause = runtime.sleep_until(runtime.now() + 10 * SECOND);
            let both = poll_fn(|cx| {
                if let Poll::Ready(answer) = Pin::new(&mut io).poll(cx) {
                    return Poll::Ready(Some(answer));
                }
                pause.as_mut().poll(cx).map(|()| None)
            });
            if let Some(answer) = both.await {
                break answer;
            }
        }
    });
    assert_eq!((answer, sim.now().since_start()), (1, 10 * SECOND));
}
