//! Edge cases of the tree: waits for itself, tokens of scopes, deep trees, suspended actors.

use crate::common::quiet;
use pleach::BoxError;
use pleach::prelude::*;
use pleach::runtime::{Dispatcher, TokioRuntime};
use pleach::sim::explore;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

type Work = Box<
    dyn for<'a> FnOnce(&'a mut Context<WorkActor>) -> Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send + 'a>> + Send,
>;

/// An actor that executes the work in its messages.
struct WorkActor;

enum Msg {
    Do(Work),
    Echo(u32, Reply<u32>),
}

impl Actor for WorkActor {
    type Msg = Msg;
    type Error = BoxError;

    async fn handle(&mut self, msg: Msg, cx: &mut Context<Self>) -> Result<(), BoxError> {
        match msg {
            Msg::Do(work) => work(cx).await,
            Msg::Echo(n, reply) => {
                reply.send(n);
                Ok(())
            }
        }
    }
}

fn work<F>(f: F) -> Msg
where
    F: for<'a> FnOnce(&'a mut Context<WorkActor>) -> Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send + 'a>>
        + Send
        + 'static,
{
    Msg::Do(Box::new(f))
}

#[test]
fn a10_cycle_through_one_of_several_asks_at_once_is_found() {
    quiet();
    explore(0..200, |sim| {
        let system = sim.system("s");
        let [a, b, c] = ["a", "b", "c"].map(|name| system.spawn(name, Props::new(|| WorkActor)).unwrap());
        let (outcome, asked_back) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(None)));
        // `b` asks `a` while `a` waits for `b` and `c`.
        let (back, seen) = (a.clone(), Arc::clone(&asked_back));
        let via_b = move |reply: Reply<u32>| {
            work(move |_| {
                Box::pin(async move {
                    *seen.lock().unwrap() = Some(back.ask(|reply| Msg::Echo(1, reply)).await);
                    reply.send(2);
                    Ok(())
                })
            })
        };
        let result = Arc::clone(&outcome);
        let ask_both = work(move |_| {
            Box::pin(async move {
                let (from_b, from_c) = futures::join!(b.ask(via_b), c.ask(|reply| Msg::Echo(3, reply)));
                *result.lock().unwrap() = Some((from_b, from_c));
                Ok(())
            })
        });
        a.tell(ask_both).unwrap();
        sim.settle();
        let asked_back = asked_back.lock().unwrap().take().expect("b got an answer");
        let Err(AskError::Cycle(paths)) = asked_back else { panic!("{asked_back:?}") };
        assert_eq!(paths, ["/user/b", "/user/a"]);
        let (from_b, from_c) = outcome.lock().unwrap().take().expect("a got its answers");
        assert_eq!((from_b.unwrap(), from_c.unwrap()), (2, 3));
    });
}

#[test]
fn t11_waiting_for_its_own_exit_is_a_failure() {
    quiet();
    explore(0..50, |sim| {
        let system = sim.system("s");
        let supervisor = system.supervisor("supervisor", OneForOne::new().always(SupervisorDirective::Stop)).unwrap();
        let actor = supervisor.spawn("self", Props::new(|| WorkActor)).unwrap();
        let own = work(|cx| {
            cx.stop();
            let exited = cx.me().exited();
            Box::pin(async move {
                exited.await;
                Ok(())
            })
        });
        actor.tell(own).unwrap();
        let Exit::Failed(failure) = sim.run(actor.exited()) else { panic!("the actor must fail") };
        assert!(failure.to_string().contains("/user/supervisor/self waits for the exit of /user/supervisor/self"), "{failure}");
    });
}

#[test]
fn t2_scope_and_its_token_are_cancelled_together() {
    explore(0..50, |sim| {
        for by_token in [true, false] {
            let scope = sim.scope();
            let token = scope.token();
            let below = token.child();
            let task = scope.launch(std::future::pending::<()>()).unwrap();
            if by_token {
                token.cancel("enough");
            } else {
                scope.cancel("enough");
            }
            scope.cancel("late");
            token.cancel("later");
            assert_eq!(sim.run(task.exited()), Exit::Cancelled("enough".into()));
            assert_eq!((token.cause(), below.cause()), (Some("enough".into()), Some("enough".into())));
            assert_eq!(sim.run(scope.exited()), Exit::Cancelled("enough".into()));
        }
    });
}

#[test]
fn t8_deep_tree_is_dropped_without_deep_recursion() {
    let sim = pleach::sim::Sim::new(1);
    let mut scopes = vec![sim.scope()];
    for _ in 0..10_000 {
        let below = scopes.last().unwrap().scope("below").unwrap();
        scopes.push(below);
    }
    let task = scopes.last().unwrap().launch(std::future::pending::<()>()).unwrap();
    scopes[0].cancel(());
    assert_eq!(sim.run(task.exited()), Exit::Cancelled(Cause::Cancelled));
    drop(scopes);
    // This is the last owner of the tree.
    drop(task);
}

#[test]
fn a7_close_of_a_suspended_actor_handles_queued_messages() {
    explore(0..100, |sim| {
        let system = sim.system("s");
        let actor = system.spawn("suspended", Props::new(|| WorkActor)).unwrap();
        actor.try_send_system(SystemMessage::Suspend).unwrap();
        sim.settle();
        let answer = sim.run(async {
            let close = async {
                sim.yield_now().await;
                actor.close();
            };
            futures::join!(actor.ask(|reply| Msg::Echo(5, reply)), close).0
        });
        assert_eq!(answer.unwrap(), 5);
        assert_eq!(sim.run(actor.exited()), Exit::Closed);
    });
}

#[test]
fn a17_new_incarnation_gets_no_signals_of_former_children() {
    quiet();
    struct Parent(Arc<Mutex<Vec<String>>>);
    impl Actor for Parent {
        type Msg = bool;
        type Error = &'static str;

        async fn handle(&mut self, fail: bool, cx: &mut Context<Self>) -> Result<(), &'static str> {
            cx.spawn("child", Props::new(|| WorkActor)).map_err(|_| "name taken")?;
            if fail { Err("injected") } else { Ok(()) }
        }

        async fn signal(&mut self, signal: Signal, _cx: &mut Context<Self>) -> Result<(), &'static str> {
            if let Signal::Terminated(terminated) = signal {
                self.0.lock().unwrap().push(terminated.path.to_string());
            }
            Ok(())
        }
    }
    explore(0..50, |sim| {
        let (system, seen_paths) = (sim.system("s"), Arc::default());
        let log = Arc::clone(&seen_paths);
        let parent = system.spawn("parent", Props::new(move || Parent(Arc::clone(&log)))).unwrap();
        parent.tell(true).unwrap();
        parent.tell(false).unwrap();
        sim.settle();
        assert_eq!(*seen_paths.lock().unwrap(), Vec::<String>::new());
        system.root().lookup_any(&"/user/parent/child".parse().unwrap()).unwrap().stop();
        sim.settle();
        assert_eq!(*seen_paths.lock().unwrap(), ["/user/parent/child"]);
    });
}

#[test]
fn d2_thread_can_run_a_dispatcher_until_a_future_is_ready() {
    let dispatcher = Dispatcher::on_std();
    let runtime = dispatcher.runtime();
    let start = runtime.now();
    let sleep = runtime.sleep_until(start + Duration::from_millis(5));
    dispatcher.blocking_run_until(sleep);
    assert!(runtime.now() - start >= Duration::from_millis(5));
}

#[test]
fn d2_panicking_task_of_a_bare_runtime_is_removed() {
    quiet();
    let dispatcher = Dispatcher::seeded(1);
    dispatcher.runtime().spawn(Box::pin(async { panic!("injected into a bare task") }));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| dispatcher.drain_ready()));
    assert!(panicked.is_err());
    assert_eq!(dispatcher.tasks_alive(), 0);
}

#[test]
fn errors_are_send_and_sync_and_readable() {
    fn text_of<T: std::error::Error + Send + Sync + 'static>(error: T) -> String {
        let boxed: BoxError = error.into();
        boxed.to_string()
    }
    let sim = pleach::sim::Sim::new(1);
    let system = sim.system("s");
    let refused = system.spawn("", Props::new(|| WorkActor)).unwrap_err();
    assert!(text_of(refused).contains("blank"));
    let not_shared = std::cell::Cell::new(1);
    let scope = sim.scope();
    scope.close();
    let refused = scope.launch(async move { not_shared.set(2) }).unwrap_err();
    assert!(text_of(refused).contains("shutting down"));
    assert!(TokioRuntime::current().is_err());
    let error = pleach::Error::from(TokioRuntime::current().unwrap_err());
    assert_eq!(format!("{error:?}"), error.to_string());
}
