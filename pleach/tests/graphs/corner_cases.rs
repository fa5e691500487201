//! F7, F9, F11 and F12 combined: wakers that outlive their fan-out, cancels between attempts,
//! deadlines and undos.
use crate::common::Log;
use crate::{pass, sum};
use pleach::prelude::*;
use pleach::sim::Sim;
use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::{Context as TaskContext, Poll, Wake, Waker};

#[derive(Default)]
struct Wakes(AtomicU32);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Two fan-outs of forty branches with a waiting node between them. Each waiting node logs its
/// waker.
fn rounds(wakers: &Log<Waker>, released: &Arc<AtomicU32>) -> CompiledGraph<u32> {
    let waits = |at: u32| {
        let (wakers, released) = (wakers.clone(), Arc::clone(released));
        move |n: u32| {
            let (wakers, released) = (wakers.clone(), Arc::clone(&released));
            poll_fn(move |cx| {
                if released.load(SeqCst) >= at {
                    return Poll::Ready(Ok::<_, String>(n));
                }
                wakers.push(cx.waker().clone());
                Poll::Pending
            })
        }
    };
    Graph::new("rounds")
        .add_node("first", pass)
        .add_node("wide", waits(1))
        .add_node("between", waits(2))
        .add_node("again", waits(3))
        .map("first", |n| vec![1; *n as usize], "wide", "between", sum)
        .add_edge("wide", "between")
        .map("between", |n| vec![1; *n as usize], "again", END, sum)
        .add_edge("again", END)
        .set_entry("first")
        .compile()
        .unwrap()
}

#[test]
fn f9_wakers_of_an_earlier_fan_out_do_not_block_a_later_one() {
    for moves in [false, true] {
        let (wakers, released) = (Log::new(), Arc::new(AtomicU32::new(0)));
        let mut run = std::pin::pin!(rounds(&wakers, &released).run(40).into_future());
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut cx = TaskContext::from_waker(&waker);
        // Poll twice: in the second poll every lane gets its own waker.
        for _ in 0..2 {
            assert!(run.as_mut().poll(&mut cx).is_pending());
        }
        released.store(1, SeqCst);
        let early = wakers.take();
        early.iter().for_each(Waker::wake_by_ref);
        assert!(run.as_mut().poll(&mut cx).is_pending());
        if !moves {
            early.into_iter().for_each(Waker::wake);
        }
        // Optionally polled by another task. One poll leads from `between` into the second fan-out.
        let other = Arc::new(Wakes::default());
        let elsewhere = Waker::from(Arc::clone(&other));
        let (seen, mut cx) = if moves { (&other, TaskContext::from_waker(&elsewhere)) } else { (&wakes, cx) };
        wakers.take();
        released.store(2, SeqCst);
        assert!(run.as_mut().poll(&mut cx).is_pending());
        released.store(3, SeqCst);
        let before = seen.0.load(SeqCst);
        wakers.take().into_iter().for_each(Waker::wake);
        assert!(seen.0.load(SeqCst) > before, "a woken branch wakes the run; moved: {moves}");
        assert!(matches!(run.as_mut().poll(&mut cx), Poll::Ready(Ok(40))));
    }
}

#[test]
fn f7_cancel_is_seen_between_two_attempts() {
    let sim = Sim::new(1);
    let attempts = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&attempts);
    let graph = Graph::<u32>::new("stubborn")
        .add_node("try", move |cx: NodeContext, _: u32| {
            counted.fetch_add(1, SeqCst);
            if cx.attempt() == 2 {
                cx.token().cancel(Cause::Because("enough".into()));
            }
            async { Err::<u32, _>("no") }
        })
        .policy("try", Policy::new().retry(Retry::times(5)))
        .add_edge("try", END)
        .set_entry("try")
        .compile()
        .unwrap();
    let error = sim.run(graph.run(7).runtime(sim.runtime()).into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Cancelled { node, was_executing: false, .. } if node == "try"), "{error}");
    assert_eq!((attempts.load(SeqCst), error.into_state()), (2, Some(7)));
}

#[test]
fn f7_retries_that_never_wait_yield_to_other_tasks() {
    let graph = Graph::<u32>::new("stubborn")
        .add_node("try", |_: u32| async { Err::<u32, _>("no") })
        .policy("try", Policy::new().retry(Retry::times(100_000)))
        .add_edge("try", END)
        .set_entry("try")
        .compile()
        .unwrap();
    let mut run = std::pin::pin!(graph.run(7).into_future());
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    assert!(run.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_pending(), "100,000 attempts in one poll");
    assert_eq!(wakes.0.load(SeqCst), 1);
}

#[test]
fn f12_undos_ignore_the_deadline_of_the_run() {
    let (sim, log) = (Sim::new(1), Log::new());
    let seen = log.clone();
    let graph = Graph::<u32>::new("undone")
        .add_node("book", |cx: NodeContext, n: u32| async move {
            cx.record_undo(n);
            Ok::<_, String>(n)
        })
        .add_node("fail", |_: u32| async { Err::<u32, _>("no") })
        .compensate("book", move |cx: NodeContext, _: u32| {
            seen.push(cx.deadline());
            async { Ok::<_, String>(()) }
        })
        .add_edge("book", "fail")
        .add_edge("fail", END)
        .set_entry("book")
        .compile()
        .unwrap();
    let run = graph.run(1).runtime(sim.runtime()).timeout(Duration::from_secs(1)).into_future();
    assert!(sim.run(run).unwrap_err().compensation().is_some());
    assert_eq!(log.take(), [None]);
}

#[test]
fn f11_escalate_inside_a_subgraph_reports_up_the_tree() {
    let sim = Sim::new(1);
    let scope = sim.scope();
    let sibling = scope.launch(pending::<()>()).unwrap();
    let inner = Graph::<u32>::new("inner")
        .add_node("fail", |_: u32| async { Err::<u32, _>("no") })
        .policy("fail", Policy::new().on_error(|_| SupervisorDirective::Escalate))
        .add_edge("fail", END)
        .set_entry("fail")
        .compile()
        .unwrap();
    let graph = Graph::<u32>::new("outer")
        .add_subgraph("sub", inner, |n: &u32| *n, |_, n| n)
        .add_edge("sub", END)
        .set_entry("sub")
        .compile()
        .unwrap();
    assert!(sim.run(async { graph.run(5).in_scope(&scope).await }).is_err());
    sim.settle();
    assert!(matches!(sibling.any().exit(), Some(Exit::Cancelled(Cause::Failed(_)))), "not escalated");
}

#[test]
fn f7_cancel_while_a_spawned_node_starts_ends_as_cancelled() {
    let sim = Sim::new(1);
    let graph = Graph::<u32>::new("spawned")
        .add_node("split", pass)
        .add_node("work", pass)
        .map("split", |n| vec![1; *n as usize], "work", END, FanOut::merge(sum).spawned())
        .add_edge("work", END)
        .set_entry("split")
        .compile()
        .unwrap();
    let scope = sim.scope();
    let token = scope.token().child();
    let (cancels, log) = (token.clone(), Log::new());
    let seen = log.clone();
    let hooks = Hooks::around_nodes(
        move |visit, _: &u32| {
            if &*visit.node == "work" {
                cancels.cancel(Cause::Because("enough".into()));
            }
        },
        move |visit, result| seen.note(format!("{} {}", visit.node, result.is_ok())),
    );
    let error = sim.run(graph.run(2).token(&token).hooks(hooks).into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Cancelled { node, .. } if node == "work"), "{error}");
    assert_eq!(log.take(), ["split true", "work false"], "every started node reports its end");
    assert_eq!(error.into_state(), Some(2), "the state before the fan-out");
}

#[test]
fn f7_spawned_node_dropped_by_the_tree_ends_as_cancelled() {
    struct Gone(std::sync::mpsc::Sender<()>);
    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.send(()).ok();
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (gone, is_gone) = std::sync::mpsc::channel();
    let both = Arc::new(tokio::sync::Barrier::new(2));
    let cancels: Arc<std::sync::OnceLock<CancelToken>> = Arc::default();
    let token = Arc::clone(&cancels);
    let met = Arc::clone(&both);
    let graph = Graph::<u32>::new("spawned")
        .add_node("split", pass)
        .add_node("quick", move |cx: NodeContext, n: u32| {
            cancels.set(cx.token()).ok();
            let both = Arc::clone(&both);
            async move {
                both.wait().await;
                Ok::<_, String>(n)
            }
        })
        .add_node("slow", move |n: u32| {
            let (gone, met) = (Gone(gone.clone()), Arc::clone(&met));
            async move {
                let _gone = gone;
                met.wait().await;
                pending::<()>().await;
                Ok::<_, String>(n)
            }
        })
        .add_parallel_edge("split", ["quick", "slow"], END, FanOut::merge(|n, _: Vec<u32>| n).spawned())
        .add_edge("quick", END)
        .add_edge("slow", END)
        .set_entry("split")
        .compile()
        .unwrap();
    let is_gone = std::sync::Mutex::new(is_gone);
    let hooks = Hooks::around_nodes(
        |_, _: &u32| {},
        move |visit, _| {
            if &*visit.node == "quick" {
                token.get().unwrap().cancel(Cause::Because("enough".into()));
                // The tree drops the other node on its own thread, while the run is being polled.
                is_gone.lock().unwrap().recv().unwrap();
                (0..1_000).for_each(|_| std::thread::yield_now());
            }
        },
    );
    let error = runtime.block_on(async move { graph.run(3).hooks(hooks).await });
    let error = error.unwrap_err();
    assert!(matches!(error.fault(), RunFault::Cancelled { .. }), "{error}");
}
