//! Counts the entries that loops over tokens, lanes and wakers visit, so that tests can check the
//! cost of a step in a wide run. Outside of unit tests it does nothing.

#[cfg(test)]
thread_local! {
    static COUNTED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Adds to the number of visited entries.
#[inline(always)]
pub(crate) fn count(entries: u64) {
    #[cfg(test)]
    COUNTED.with(|counted| counted.set(counted.get() + entries));
    #[cfg(not(test))]
    let _ = entries;
}

/// Returns the number of entries that this thread has visited since the last call.
#[cfg(test)]
pub(crate) fn take_counted() -> u64 {
    COUNTED.with(|counted| counted.replace(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;
    use crate::{CompiledGraph, END, FanOut, Graph, NodeContext, RunRemote};
    use pleach_core::{BoxFuture, Instant, Runtime};
    use std::collections::HashMap;
    use std::future::{Future as _, IntoFuture as _, pending, poll_fn};
    use std::pin::{Pin, pin};
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::sync::{Arc, Mutex};
    use std::task::{Context, Poll, Wake, Waker};
    use std::time::Duration;

    /// A runtime whose clock never advances.
    struct Still;

    impl Runtime for Still {
        fn spawn(&self, _: BoxFuture<'static, ()>) {}

        fn now(&self) -> Instant {
            Instant::after_start(Duration::ZERO)
        }

        fn sleep_until(&self, _: Instant) -> BoxFuture<'static, ()> {
            Box::pin(pending())
        }

        fn random(&self) -> u64 {
            1
        }
    }

    /// Lets branches continue one after the other.
    #[derive(Default)]
    struct Turns(Mutex<(u32, HashMap<u32, Waker>)>);

    impl Turns {
        async fn wait(&self, branch: u32) {
            poll_fn(|cx| {
                let mut turns = self.0.lock().unwrap();
                if turns.0 == branch {
                    return Poll::Ready(());
                }
                turns.1.insert(branch, cx.waker().clone());
                Poll::Pending
            })
            .await;
        }

        fn next(&self) {
            let next = {
                let mut turns = self.0.lock().unwrap();
                turns.0 += 1;
                let next = turns.0;
                turns.1.remove(&next)
            };
            next.into_iter().for_each(Waker::wake);
        }
    }

    /// A map in which each branch has an effect. The branches continue all at once, up to `limit`
    /// at a time, or in turn.
    fn wide(limit: usize, in_turn: bool) -> CompiledGraph<u32> {
        let item = move |cx: NodeContext, n: u32| async move {
            if in_turn {
                cx.extension::<Turns>().unwrap().wait(n).await;
            }
            let n = cx.effect("call", move |_| async move { Ok::<_, String>(n) }).await?;
            cx.extension::<Turns>().unwrap().next();
            Ok::<_, String>(n)
        };
        let fan_out = FanOut::merge(|_: u32, all: Vec<u32>| all.len() as u32);
        Graph::new("wide")
            .add_node("start", |n: u32| async move { Ok::<_, String>(n) })
            .map("start", |n: &u32| (0..*n).collect(), "item", END, fan_out.limit(limit))
            .add_node("item", item)
            .add_edge("item", END)
            .set_entry("start")
            .compile()
            .unwrap()
    }

    /// Returns the entries per step that a run visits. The run begins and ends with the number
    /// `branches`.
    fn visited_by(graph: CompiledGraph<u32>, branches: u32) -> u64 {
        take_counted();
        let run = graph.run(branches).runtime(Arc::new(Still)).extension(Turns::default());
        // The clock does not advance, so the lease is never renewed. It must outlast a busy
        // machine.
        let day = Duration::from_secs(24 * 60 * 60);
        let run = run.checkpoint(&MemoryStore::new()).lease(day).keep_records(10).max_iterations(u64::MAX);
        let (mut run, mut cx) = (run.into_future(), Context::from_waker(Waker::noop()));
        let outcome = loop {
            if let Poll::Ready(outcome) = Pin::new(&mut run).poll(&mut cx) {
                break outcome;
            }
        };
        assert_eq!(outcome.unwrap(), branches);
        take_counted() / u64::from(branches)
    }

    #[test]
    fn c3_cost_of_a_step_does_not_grow_with_the_width_of_a_map() {
        for (limit, in_turn) in [(usize::MAX, false), (8, false), (usize::MAX, true)] {
            let few = visited_by(wide(limit, in_turn), 1_000);
            for branches in [4_000, 16_000] {
                let many = visited_by(wide(limit, in_turn), branches);
                let what = format!("{few} for each of 1,000, {many} for each of {branches}");
                assert!(few < 60 && many <= few + few / 2 + 1, "limit {limit}, in turn: {in_turn}: {what}");
            }
        }
    }

    #[test]
    fn c11_cost_of_pruning_does_not_grow_with_the_undoable_steps() {
        let undoable = |turns: u32| {
            let turn = |cx: NodeContext, n: u32| async move {
                cx.record_undo(n);
                cx.extension::<Turns>().unwrap().next();
                Ok::<_, String>(n)
            };
            let undo = |_: NodeContext, _: u32| async move { Ok::<_, String>(()) };
            let is_over = move |cx: &NodeContext, _: &u32| if cx.iteration() < u64::from(turns) { "turn" } else { END };
            Graph::new("undoable")
                .add_node("turn", turn)
                .compensate("turn", undo)
                .add_conditional_edge("turn", ["turn", END], is_over)
                .set_entry("turn")
                .compile()
                .unwrap()
        };
        let few = visited_by(undoable(1_000), 1_000);
        let many = visited_by(undoable(16_000), 16_000);
        assert!(many <= few + few / 2 + 2, "{few} for each of 1,000 steps, {many} for each of 16,000");
    }

    /// Records that it was woken.
    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Relaxed);
        }
    }

    /// One branch waits for the signal `end`, all others for the signal `go`.
    fn signalled(branches: u32) -> CompiledGraph<u32> {
        let item = |cx: NodeContext, n: u32| async move {
            if n > 0 {
                return Ok::<_, String>(cx.signal::<u32>("go").await);
            }
            // It also waits for a time, so the run is not released meanwhile.
            let (mut end, mut alarm) = (cx.signal::<u32>("end"), cx.sleep("alarm", Duration::from_secs(86_400)));
            poll_fn(|polled| match alarm.as_mut().poll(polled) {
                Poll::Ready(()) => Poll::Ready(Ok(0)),
                Poll::Pending => end.as_mut().poll(polled).map(Ok),
            })
            .await
        };
        Graph::new("signalled")
            .add_node("start", |n: u32| async move { Ok::<_, String>(n) })
            .map(
                "start",
                move |_: &u32| (0..=branches).collect(),
                "item",
                END,
                FanOut::merge(|_, all: Vec<u32>| all.iter().sum()),
            )
            .add_node("item", item)
            .add_edge("item", END)
            .set_entry("start")
            .compile()
            .unwrap()
    }

    /// Returns the entries visited per signal, when each branch gets one.
    fn visited_by_signals(graph: &CompiledGraph<u32>, branches: u32) -> u64 {
        let store = MemoryStore::new();
        let run = graph.run(0).id("r").runtime(Arc::new(Still)).checkpoint(&store).max_iterations(u64::MAX);
        // Leases use the time of day too, and the machine can be slow.
        let run = run.lease(Duration::from_secs(86_400));
        let (mut run, woken) = (run.into_future(), Arc::new(Woken::default()));
        let waker = Waker::from(Arc::clone(&woken));
        let mut drive = || loop {
            woken.0.store(false, Relaxed);
            let polled = Pin::new(&mut run).poll(&mut Context::from_waker(&waker));
            if polled.is_ready() || !woken.0.load(Relaxed) {
                return polled;
            }
        };
        let remote = RunRemote::new(&store, "r");
        let send = |name: &str| {
            let sent = pin!(remote.signal(name, &1_u32)).poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(sent, Poll::Ready(Ok(()))));
        };
        assert!(drive().is_pending());
        take_counted();
        for _ in 0..branches {
            send("go");
            assert!(drive().is_pending());
        }
        let visited = take_counted() / u64::from(branches);
        send("end");
        let Poll::Ready(outcome) = drive() else { panic!("the run does not end after all signals") };
        assert_eq!(outcome.unwrap(), branches + 1);
        visited
    }

    #[test]
    fn c9_cost_of_a_signal_does_not_grow_with_the_waiting_branches() {
        let visited = |branches| visited_by_signals(&signalled(branches), branches);
        let (few, many) = (visited(250), visited(1_000));
        assert!(many <= few + few / 2 + 2, "{few} for each of 250 signals, {many} for each of 1,000");
    }

    #[test]
    fn c9_cost_of_a_signal_does_not_grow_with_branches_in_a_subgraph() {
        let around = |inner: CompiledGraph<u32>| {
            let graph = Graph::new("around").add_subgraph("inner", inner, |n: &u32| *n, |_, inner| inner);
            graph.add_edge("inner", END).set_entry("inner").compile().unwrap()
        };
        for depth in [1, 3] {
            let nested = |branches| (0..depth).fold(signalled(branches), |inner, _| around(inner));
            let visited = |branches| visited_by_signals(&nested(branches), branches);
            let (few, many) = (visited(250), visited(1_000));
            let what = format!("{few} for each of 250 signals, {many} for each of 1,000");
            assert!(many <= few + few / 2 + 2, "{depth} deep: {what}");
        }
    }

    /// A wide map, followed by a map of two branches that are polled a thousand times.
    fn narrow_after_wide() -> CompiledGraph<u32> {
        let slow = |n: u32| async move {
            let mut polls = 0;
            poll_fn(|cx| {
                polls += 1;
                cx.waker().wake_by_ref();
                if polls < 1_000 { Poll::Pending } else { Poll::Ready(()) }
            })
            .await;
            Ok::<_, String>(n)
        };
        let pass = |n: u32| async move { Ok::<_, String>(n) };
        Graph::new("narrow")
            .add_node("start", pass)
            .map("start", |n: &u32| (0..*n).collect(), "item", "middle", FanOut::merge(|_, all: Vec<u32>| all.len() as u32))
            .add_node("item", pass)
            .add_edge("item", "middle")
            .add_node("middle", pass)
            .map("middle", |n: &u32| vec![*n, 0], "slow", END, FanOut::merge(|_, all: Vec<u32>| all.iter().sum()))
            .add_node("slow", slow)
            .add_edge("slow", END)
            .set_entry("start")
            .compile()
            .unwrap()
    }

    #[test]
    fn c3_poll_of_a_narrow_fan_out_is_cheap_after_a_wide_one() {
        let visited = visited_by(narrow_after_wide(), 1_000);
        assert!(visited < 60, "{visited} for each branch of the wide one");
    }

    /// A runtime whose tasks the test polls one after the other.
    #[derive(Default)]
    struct Tasks(Mutex<Vec<BoxFuture<'static, ()>>>);

    impl Runtime for Tasks {
        fn spawn(&self, task: BoxFuture<'static, ()>) {
            self.0.lock().unwrap().push(task);
        }

        fn now(&self) -> Instant {
            Still.now()
        }

        fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
            Still.sleep_until(at)
        }

        fn random(&self) -> u64 {
            Still.random()
        }
    }

    /// A spawned map whose branches all stay pending, except the last, which fails.
    fn fails_at_last(branches: u32) -> CompiledGraph<u32> {
        let item = move |n: u32| async move { if n + 1 == branches { Err("the last fails") } else { pending().await } };
        Graph::new("fails")
            .add_node("start", |n: u32| async move { Ok::<_, String>(n) })
            .map("start", move |_| (0..branches).collect(), "item", END, FanOut::merge(|n, _| n).spawned())
            .add_node("item", item)
            .add_edge("item", END)
            .set_entry("start")
            .compile()
            .unwrap()
    }

    /// Returns the entries visited per branch of a spawned fan-out that fails. The run is polled
    /// whenever it was woken.
    fn visited_by_cut_off(branches: u32) -> u64 {
        take_counted();
        let (tasks, woken) = (Arc::new(Tasks::default()), Arc::new(Woken(AtomicBool::new(true))));
        let (graph, waker) = (fails_at_last(branches), Waker::from(Arc::clone(&woken)));
        let runtime: Arc<dyn Runtime> = Arc::clone(&tasks) as Arc<dyn Runtime>;
        let mut run = graph.run(0).runtime(runtime).into_future();
        let mut poll_run = || {
            while woken.0.swap(false, Relaxed) {
                let polled = Pin::new(&mut run).poll(&mut Context::from_waker(&waker));
                if polled.is_ready() {
                    return polled;
                }
            }
            Poll::Pending
        };
        let mut ended = poll_run();
        for _ in 0..10 {
            let round = std::mem::take(&mut *tasks.0.lock().unwrap());
            for mut task in round {
                if task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                    tasks.0.lock().unwrap().push(task);
                }
                if ended.is_pending() {
                    ended = poll_run();
                }
            }
        }
        let Poll::Ready(outcome) = ended else { panic!("the run does not end") };
        outcome.unwrap_err();
        take_counted() / u64::from(branches)
    }

    #[test]
    fn f9_cost_of_cancelling_a_branch_does_not_grow_with_the_branches() {
        let (few, many) = (visited_by_cut_off(250), visited_by_cut_off(1_000));
        assert!(many <= few + few / 2 + 2, "{few} for each of 250 branches, {many} for each of 1,000");
    }

    /// A map in which each branch has two inner branches: one fails, and the other waits until it
    /// is cancelled.
    fn fails_inside(grace: Option<Duration>) -> CompiledGraph<u32> {
        let pass = |n: u32| async move { Ok::<_, String>(n) };
        let stay = |cx: NodeContext, n: u32| async move {
            cx.token().cancelled().await;
            Ok::<_, String>(n)
        };
        let policy = grace
            .map_or_else(crate::define::policy::Policy::new, |grace| crate::define::policy::Policy::new().cancel_grace(grace));
        let count = FanOut::collect(|_, all: Vec<_>| Ok::<_, String>(all.len() as u32));
        Graph::new("inside")
            .add_node("start", pass)
            .map("start", |n: &u32| (0..*n).collect(), "item", END, count)
            .add_node("item", pass)
            .add_parallel_edge("item", ["stay", "fail"], END, FanOut::merge(|n, _| n))
            .add_node("fail", |_: u32| async move { Err::<u32, _>("it fails") })
            .add_edge("fail", END)
            .add_node("stay", stay)
            .policy("stay", policy)
            .add_edge("stay", END)
            .set_entry("start")
            .compile()
            .unwrap()
    }

    #[test]
    fn f9_cost_of_cancelling_a_nested_fan_out_does_not_grow() {
        for grace in [None, Some(Duration::from_secs(1))] {
            let (few, many) = (visited_by(fails_inside(grace), 250), visited_by(fails_inside(grace), 1_000));
            let what = format!("{few} for each of 250 fan-outs, {many} for each of 1,000");
            assert!(many <= few + few / 2 + 2, "grace {grace:?}: {what}");
        }
    }
}
