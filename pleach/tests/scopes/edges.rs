//! What is easy to get wrong at the edges of the tree: waits for oneself, tokens of scopes, deep branches, suspended ends.

use crate::common::quiet;
use pleach::prelude::*;
use pleach::sim::explore;
use pleach::{BoxError, Dispatcher, TokioRuntime};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

type Work =
    Box<dyn for<'a> FnOnce(&'a mut Context<Doer>) -> Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send + 'a>> + Send>;

/// Does what it is told, in its own task.
struct Doer;

enum Msg {
    Do(Work),
    Echo(u32, Reply<u32>),
}

impl Actor for Doer {
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
    F: for<'a> FnOnce(&'a mut Context<Doer>) -> Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send + 'a>>
        + Send
        + 'static,
{
    Msg::Do(Box::new(f))
}

#[test]
fn a10_a_cycle_through_one_of_several_asks_at_once_is_seen() {
    quiet();
    explore(0..200, |sim| {
        let system = sim.system("s");
        let [a, b, c] = ["a", "b", "c"].map(|name| system.spawn(name, Props::new(|| Doer)).unwrap());
        let (outcome, asked_back) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(None)));
        // `b` asks `a` back, while `a` waits for `b` and `c` at once.
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
        let told = Arc::clone(&outcome);
        let ask_both = work(move |_| {
            Box::pin(async move {
                let (from_b, from_c) = futures::join!(b.ask(via_b), c.ask(|reply| Msg::Echo(3, reply)));
                *told.lock().unwrap() = Some((from_b, from_c));
                Ok(())
            })
        });
        a.tell(ask_both).unwrap();
        sim.settle();
        let asked_back = asked_back.lock().unwrap().take().expect("b was not left hanging");
        let Err(AskError::Cycle(paths)) = asked_back else { panic!("{asked_back:?}") };
        assert_eq!(paths, ["/user/b", "/user/a"]);
        let (from_b, from_c) = outcome.lock().unwrap().take().expect("a was not left hanging");
        assert_eq!((from_b.unwrap(), from_c.unwrap()), (2, 3));
    });
}

#[test]
fn t11_waiting_for_ones_own_exit_is_a_failure_and_no_hang() {
    quiet();
    explore(0..50, |sim| {
        let system = sim.system("s");
        let crew = system.supervisor("crew", OneForOne::new().always(SupervisorDirective::Stop)).unwrap();
        let actor = crew.spawn("self", Props::new(|| Doer)).unwrap();
        let own = work(|cx| {
            cx.stop();
            let exited = cx.me().exited();
            Box::pin(async move {
                exited.await;
                Ok(())
            })
        });
        actor.tell(own).unwrap();
        let Exit::Failed(failure) = sim.run(actor.exited()) else { panic!("it should have failed") };
        assert!(failure.to_string().contains("/user/crew/self waits for the exit of /user/crew/self"), "{failure}");
    });
}

#[test]
fn t2_the_token_of_a_scope_and_the_scope_are_cancelled_together() {
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
fn t8_a_deep_branch_is_dropped_without_deep_recursion() {
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
    // This is the last owner of the whole branch.
    drop(task);
}

#[test]
fn a7_a_close_of_a_suspended_actor_handles_what_is_queued() {
    explore(0..100, |sim| {
        let system = sim.system("s");
        let actor = system.spawn("suspended", Props::new(|| Doer)).unwrap();
        actor.try_send_system(SystemMessage::Suspend).unwrap();
        sim.settle();
        let answer = sim.run(async {
            let close = async {
                sim.step_aside().await;
                actor.close();
            };
            futures::join!(actor.ask(|reply| Msg::Echo(5, reply)), close).0
        });
        assert_eq!(answer.unwrap(), 5);
        assert_eq!(sim.run(actor.exited()), Exit::Closed);
    });
}

#[test]
fn a17_the_next_incarnation_hears_nothing_of_children_that_went_with_the_last() {
    quiet();
    struct Parent(Arc<Mutex<Vec<String>>>);
    impl Actor for Parent {
        type Msg = bool;
        type Error = &'static str;

        async fn handle(&mut self, fail: bool, cx: &mut Context<Self>) -> Result<(), &'static str> {
            cx.spawn("child", Props::new(|| Doer)).map_err(|_| "name taken")?;
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
        let (system, heard) = (sim.system("s"), Arc::default());
        let log = Arc::clone(&heard);
        let parent = system.spawn("parent", Props::new(move || Parent(Arc::clone(&log)))).unwrap();
        parent.tell(true).unwrap();
        parent.tell(false).unwrap();
        sim.settle();
        assert_eq!(*heard.lock().unwrap(), Vec::<String>::new());
        system.root().lookup_any(&"/user/parent/child".parse().unwrap()).unwrap().stop();
        sim.settle();
        assert_eq!(*heard.lock().unwrap(), ["/user/parent/child"]);
    });
}

#[test]
fn d2_a_plain_thread_can_run_a_dispatcher_until_a_future_is_done() {
    let dispatcher = Dispatcher::on_std();
    let runtime = dispatcher.runtime();
    let begun = runtime.now();
    let sleep = runtime.sleep_until(begun + Duration::from_millis(5));
    dispatcher.blocking_run_until(sleep);
    assert!(runtime.now() - begun >= Duration::from_millis(5));
}

#[test]
fn d2_a_task_that_panics_on_the_bare_runtime_is_gone() {
    quiet();
    let dispatcher = Dispatcher::seeded(1);
    dispatcher.runtime().spawn(Box::pin(async { panic!("injected into a bare task") }));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| dispatcher.drain_ready()));
    assert!(panicked.is_err());
    assert_eq!(dispatcher.tasks_alive(), 0);
}

#[test]
fn errors_can_be_shared_between_threads_and_read_well() {
    fn shared<T: std::error::Error + Send + Sync + 'static>(error: T) -> String {
        let boxed: BoxError = error.into();
        boxed.to_string()
    }
    let sim = pleach::sim::Sim::new(1);
    let system = sim.system("s");
    let refused = system.spawn("", Props::new(|| Doer)).unwrap_err();
    assert!(shared(refused).contains("blank"));
    let not_shared = std::cell::Cell::new(1);
    let scope = sim.scope();
    scope.close();
    let refused = scope.launch(async move { not_shared.set(2) }).unwrap_err();
    assert!(shared(refused).contains("shutting down"));
    assert!(TokioRuntime::current().is_err());
    let error = pleach::Error::from(TokioRuntime::current().unwrap_err());
    assert_eq!(format!("{error:?}"), error.to_string());
}
