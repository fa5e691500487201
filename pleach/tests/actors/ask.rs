//! A10: an ask returns the reply or an error that says why there is none. It never hangs.

use crate::common::{Gate, Job, Log, TestActor, poll_once, quiet};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{BoxError, Lint};
use std::sync::Arc;
use std::task::Poll;

fn answer(n: u32) -> impl FnOnce(Reply<u32>) -> Job {
    move |reply| Job::Answer(reply, n)
}

/// Lets the actor wait in a handler until the gate opens.
fn block(sim: &Sim, actor: &ActorRef<Job>) -> Gate {
    let gate = Gate::new();
    actor.tell(Job::Pass(gate.clone(), 0)).unwrap();
    sim.settle();
    gate
}

#[test]
fn a10_ask_returns_the_reply() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let actor = TestActor::spawn(&system, "actor");
        for n in 0..5 {
            assert_eq!(sim.run(actor.ask(answer(n))).unwrap(), n);
        }
        // Another task can send the reply after the handler has returned.
        let gate = Gate::new();
        let helpers = Arc::new(system.scope("helpers").unwrap());
        let (scope, late) = (Arc::clone(&helpers), gate.clone());
        let ask = actor.ask(move |reply: Reply<u32>| {
            Job::act(move |_| {
                drop(scope.launch(async move {
                    late.pass().await;
                    reply.send(9);
                }));
            })
        });
        gate.open();
        assert_eq!(sim.run(ask).unwrap(), 9);
    });
}

#[test]
fn a10_ask_of_an_ended_actor_is_closed() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let actor = TestActor::spawn(&system, "actor");
        let gate = block(sim, &actor);
        let mut queued = actor.ask(answer(1));
        assert!(poll_once(&mut queued).is_pending());
        actor.stop();
        gate.open();
        assert!(matches!(sim.run(queued), Err(AskError::Closed)));
        assert!(matches!(sim.run(actor.ask(answer(2))), Err(AskError::Closed)), "asked after the end");

        let closing = TestActor::spawn(&system, "closing");
        let gate = block(sim, &closing);
        let mut queued = closing.ask(answer(3));
        assert!(poll_once(&mut queued).is_pending());
        closing.close();
        assert!(matches!(sim.run(closing.ask(answer(4))), Err(AskError::Closed)), "closed, but not ended yet");
        gate.open();
        assert_eq!(sim.run(queued).unwrap(), 3, "a queued ask is answered");
    });
}

#[test]
fn a10_ask_is_dropped_if_the_handler_sends_no_reply() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let actor = TestActor::spawn(&system, "actor");
        assert!(matches!(sim.run(actor.ask(Job::DropReply)), Err(AskError::Dropped)));
        // Also if another task drops the reply.
        let helpers = Arc::new(system.scope("helpers").unwrap());
        let scope = Arc::clone(&helpers);
        let ask = actor.ask(move |reply: Reply<u32>| Job::act(move |_| drop(scope.launch(async move { drop(reply) }))));
        assert!(matches!(sim.run(ask), Err(AskError::Dropped)));
    });
}

#[test]
fn a10_ask_times_out_at_the_deadline() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let actor = TestActor::spawn(&system, "actor");
        let gate = block(sim, &actor);
        let wait = Duration::from_secs(7);
        let start = sim.now();
        assert!(matches!(sim.run(actor.ask(answer(1)).timeout(wait)), Err(AskError::TimedOut(after)) if after == wait));
        assert_eq!(sim.now() - start, wait);
        gate.open();
        assert_eq!(sim.run(actor.ask(answer(2)).timeout(wait)).unwrap(), 2);
        assert!(actor.counts().is_settled(), "the message of a timed-out ask is handled");
    });
}

#[test]
fn a10_current_and_queued_asks_are_cancelled_with_the_cause() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let actor = TestActor::spawn(&system, "actor");
        let mut current = actor.ask(|reply: Reply<u32>| {
            Job::work(|_| async move {
                let _reply = reply;
                std::future::pending::<()>().await;
                Ok(())
            })
        });
        assert!(poll_once(&mut current).is_pending());
        let mut queued = actor.ask(answer(1));
        assert!(poll_once(&mut queued).is_pending());
        sim.settle();
        actor.cancel("enough");
        for answer in [sim.run(current), sim.run(queued)] {
            assert!(matches!(answer, Err(AskError::Cancelled(cause)) if cause == Cause::from("enough")));
        }
        let late = sim.run(actor.ask(answer(2)));
        assert!(matches!(late, Err(AskError::Cancelled(cause)) if cause == Cause::from("enough")));
    });
}

#[test]
fn a10_ask_gets_the_failure_of_a_handler_that_drops_its_reply() {
    quiet();
    explore(0..100, |sim| {
        let system = sim.system("s");
        let actor = TestActor::spawn(&system, "actor");
        let records = crate::common::failures(&system);
        let failure = match sim.run(actor.ask(Job::DropReplyAndFail)) {
            Err(AskError::Failed(failure)) => failure,
            other => panic!("{other:?}"),
        };
        assert_eq!((failure.reason().to_string().as_str(), failure.restarts()), ("lost it", 1), "the supervisor has decided");
        assert_eq!(Exit::Failed(records.take().remove(0)), Exit::Failed(failure), "the recorded failure");
        let ask = actor.ask(|reply: Reply<u32>| {
            Job::act(move |_| {
                let _reply = reply;
                panic!("injected");
            })
        });
        assert!(matches!(sim.run(ask), Err(AskError::Failed(failure)) if failure.reason().to_string().contains("injected")));
        // The handler drops the reply first, waits, then fails.
        let gate = Gate::new();
        let later = gate.clone();
        let mut ask = actor.ask(|reply: Reply<u32>| {
            Job::work(|_| async move {
                drop(reply);
                later.pass().await;
                Err("in the end".into())
            })
        });
        assert!(poll_once(&mut ask).is_pending());
        sim.settle();
        assert!(poll_once(&mut ask).is_pending(), "the outcome is not known yet");
        gate.open();
        assert!(matches!(sim.run(ask), Err(AskError::Failed(failure)) if failure.reason().to_string() == "in the end"));
    });
}

#[test]
fn a10_ask_fails_if_the_actor_failed_before_handling_it() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let supervisor = system.supervisor("supervisor", OneForOne::new().always(SupervisorDirective::Stop)).unwrap();
        let actor = supervisor.spawn("actor", TestActor::props(&Log::new())).unwrap();
        actor.tell(Job::Fail("no")).unwrap();
        let ask = sim.run(actor.ask(answer(1)));
        assert!(matches!(ask, Err(AskError::Failed(failure)) if failure.reason().to_string() == "no"));
        let late = sim.run(actor.ask(answer(1)));
        assert!(matches!(late, Err(AskError::Failed(failure)) if failure.reason().to_string() == "no"));
        // After a restart the next incarnation answers.
        let kept = TestActor::spawn(&system, "kept");
        kept.tell(Job::Fail("no")).unwrap();
        assert_eq!(sim.run(kept.ask(answer(2))).unwrap(), 2);
    });
}

#[test]
fn a10_kept_reply_gets_the_reason_that_ended_the_state() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let kept = |name: &str| {
            let actor = TestActor::spawn(&system, name);
            let (asked, to) = (Log::new(), actor.clone());
            let (answer, task) = (asked.clone(), system.scope(&format!("asker of {name}")).unwrap());
            drop(task.launch(async move { answer.push(to.ask(Job::KeepReply).await) }));
            sim.settle();
            std::mem::forget(task);
            (actor, asked)
        };
        let ended = |asked: &Log<Result<u32, AskError>>| {
            sim.settle();
            asked.take().pop().expect("an ask never hangs").unwrap_err()
        };
        let (actor, asked) = kept("failing");
        actor.tell(Job::Fail("no")).unwrap();
        assert!(matches!(ended(&asked), AskError::Failed(failure) if failure.reason().to_string() == "no"));
        let (actor, asked) = kept("cancelled");
        actor.cancel("enough");
        assert!(matches!(ended(&asked), AskError::Cancelled(cause) if cause == Cause::from("enough")));
        let (actor, asked) = kept("stopping");
        actor.stop();
        assert!(matches!(ended(&asked), AskError::Closed));
        let (actor, asked) = kept("restarting");
        actor.try_send_system(SystemMessage::Restart).unwrap();
        assert!(matches!(ended(&asked), AskError::Dropped));
    });
}

/// A job that asks `to` to execute `then`, and logs the error of that ask.
fn ask_in_handler(to: &ActorRef<Job>, timeout: Option<Duration>, then: Job, log: &Log<AskError>) -> Job {
    let (to, log) = (to.clone(), log.clone());
    Job::work(move |_| async move {
        let ask = to.ask(|reply: Reply<u32>| wrap(then, reply));
        let answered = match timeout {
            Some(wait) => ask.timeout(wait).await,
            None => ask.await,
        };
        if let Err(error) = answered {
            log.push(error);
        }
        Ok(())
    })
}

/// Wraps a job so that it sends the reply when it is done.
fn wrap(job: Job, reply: Reply<u32>) -> Job {
    match job {
        Job::Await(work) => Job::work(move |me| async move {
            let done = work(me).await;
            reply.send(0);
            done
        }),
        _ => Job::Answer(reply, 0),
    }
}

fn paths(error: &AskError) -> Vec<String> {
    match error {
        AskError::Cycle(paths) => paths.iter().map(ToString::to_string).collect(),
        other => panic!("not a cycle: {other:?}"),
    }
}

#[test]
fn a10_cycle_of_asks_is_an_error_that_lists_the_paths() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let [a, b, c] = ["a", "b", "c"].map(|name| TestActor::spawn(&system, name));
        let errors = Log::new();
        let to_itself = ask_in_handler(&a, None, Job::Note(0), &errors);
        a.tell(to_itself).unwrap();
        sim.settle();
        assert_eq!(errors.take().iter().map(paths).collect::<Vec<_>>(), [["/user/a"]]);
        // a asks b, which asks c, which asks a.
        let last = ask_in_handler(&a, None, Job::Note(0), &errors);
        let middle = ask_in_handler(&c, None, last, &errors);
        a.tell(ask_in_handler(&b, None, middle, &errors)).unwrap();
        sim.settle();
        assert_eq!(errors.take().iter().map(paths).collect::<Vec<_>>(), [["/user/c", "/user/a", "/user/b"]]);
        // All actors continue, and a chain without a way back is not a cycle.
        let last = ask_in_handler(&b, None, Job::Note(0), &errors);
        a.tell(ask_in_handler(&c, None, last, &errors)).unwrap();
        sim.settle();
        assert_eq!(errors.len(), 0);
        assert!(system.counts().is_settled());
    });
}

#[test]
fn a10_equal_id_numbers_of_two_systems_make_no_cycle() {
    let sim = Sim::new(0);
    let (here, there) = (sim.system("here"), sim.system("there"));
    let (asker, asked) = (TestActor::spawn(&here, "actor"), TestActor::spawn(&there, "actor"));
    assert_eq!(asker.id().get(), asked.id().get(), "the same number in two trees");
    assert_ne!(asker.id(), asked.id());
    let answers = Log::new();
    let log = answers.clone();
    let ask = Job::work(move |_| async move {
        log.push(asked.ask(answer(7)).await?);
        Ok(())
    });
    asker.tell(ask).unwrap();
    sim.settle();
    assert_eq!((answers.take(), here.failures()), (vec![7], 0));
}

#[test]
fn a10_cycle_with_a_timeout_is_a_lint() {
    explore(0..20, |sim| {
        let system = sim.system("s");
        let (lints, errors) = (Log::new(), Log::new());
        let seen = lints.clone();
        system.on_event(move |event| {
            if let Event::Lint(Lint::AskCycle(paths)) = event {
                seen.push(paths.iter().map(ToString::to_string).collect::<Vec<_>>());
            }
        });
        let [a, b] = ["a", "b"].map(|name| TestActor::spawn(&system, name));
        let wait = Some(Duration::from_secs(1));
        a.tell(ask_in_handler(&a, wait, Job::Note(0), &errors)).unwrap();
        sim.advance(Duration::from_secs(2));
        assert_eq!(lints.take(), [["/user/a"]]);
        assert!(matches!(errors.take()[..], [AskError::TimedOut(_)]));
        let back = ask_in_handler(&a, wait, Job::Note(0), &errors);
        a.tell(ask_in_handler(&b, None, back, &errors)).unwrap();
        sim.advance(Duration::from_secs(2));
        assert_eq!(lints.take(), [["/user/b", "/user/a"]]);
        assert!(matches!(errors.take()[..], [AskError::TimedOut(_)]));
    });
}

#[test]
fn a10_asks_of_other_tasks_and_wakers_are_not_traced() {
    explore(0..20, |sim| {
        let system = sim.system("s");
        let lints = Log::new();
        let seen = lints.clone();
        system.on_event(move |event| {
            if let Event::Lint(Lint::AskCycle(_)) = event {
                seen.push(());
            }
        });
        let (a, errors) = (TestActor::spawn(&system, "a"), Log::new());
        let helpers = system.scope("helpers").unwrap();
        let wait = Duration::from_secs(1);
        let noted = errors.clone();
        a.tell(Job::work(move |me| async move {
            let asker = me.clone();
            let task = helpers.launch(async move { noted.push(asker.ask(answer(1)).timeout(wait).await) }).unwrap();
            task.exited().await;
            Ok(())
        }))
        .unwrap();
        sim.advance(wait * 2);
        assert!(matches!(errors.take()[..], [Err(AskError::TimedOut(_))]));
        let noted = errors.clone();
        a.tell(Job::work(move |me| async move {
            use futures::StreamExt;
            let mut asks = futures::stream::FuturesUnordered::new();
            asks.push(me.ask(answer(1)).timeout(wait));
            noted.push(asks.next().await.unwrap());
            Ok(())
        }))
        .unwrap();
        sim.advance(wait * 2);
        assert!(matches!(errors.take()[..], [Err(AskError::TimedOut(_))]));
        assert_eq!(lints.len(), 0);
    });
}

#[test]
fn a10_dropped_ask_leaves_no_edge() {
    explore(0..20, |sim| {
        let system = sim.system("s");
        let [a, b] = ["a", "b"].map(|name| TestActor::spawn(&system, name));
        let gate = block(sim, &b);
        let (to, release) = (b.clone(), Gate::new());
        let waiting = release.clone();
        // a asks b, drops the ask and continues; then b asks a.
        a.tell(Job::work(move |_| async move {
            drop(poll_with_own_waker(&mut to.ask(answer(1))).await);
            waiting.pass().await;
            Ok(())
        }))
        .unwrap();
        sim.settle();
        let errors = Log::new();
        b.tell(ask_in_handler(&a, None, Job::Note(0), &errors)).unwrap();
        gate.open();
        sim.settle();
        release.open();
        sim.settle();
        assert_eq!(errors.len(), 0);
        assert!(system.counts().is_settled());
    });
}

/// Polls once with the waker of the current task.
async fn poll_with_own_waker<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::future::poll_fn(|cx| Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx))).await
}

#[test]
fn a10_ask_waits_for_room_and_frees_it_when_dropped() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let actor = system.spawn("actor", TestActor::props(&Log::new()).mailbox(Mailbox::bounded(1).drop_newest())).unwrap();
        let gate = block(sim, &actor);
        actor.tell(Job::Note(1)).unwrap();
        let mut asks: Vec<_> = (0..3).map(|n| actor.ask(answer(n))).collect();
        assert!(asks.iter_mut().all(|ask| poll_once(ask).is_pending()));
        assert_eq!(actor.counts().accepted, 2, "the asks wait; none is refused or dropped");
        drop(asks.remove(1));
        gate.open();
        let (last, first) = (asks.pop().unwrap(), asks.pop().unwrap());
        assert_eq!((sim.run(first).unwrap(), sim.run(last).unwrap()), (0, 2));
        assert_eq!(actor.counts(), Counts { accepted: 4, handled: 4, failed: 0, dead_lettered: 0 });
    });
}

#[test]
fn a10_ask_ends_if_its_runtime_is_dropped() {
    for current in [false, true] {
        let sim = Sim::new(0);
        let system = sim.system("s");
        let actor = TestActor::spawn(&system, "actor");
        let mut ask = actor.ask(|reply: Reply<u32>| {
            Job::work(|_| async move {
                std::future::pending::<()>().await;
                reply.send(1);
                Ok(())
            })
        });
        assert!(poll_once(&mut ask).is_pending());
        if current {
            sim.settle();
        }
        drop(sim);
        assert!(matches!(poll_once(&mut ask), Poll::Ready(Err(_))));
        assert!(matches!(poll_once(&mut actor.ask(answer(2))), Poll::Ready(Err(AskError::Cancelled(Cause::Dropped)))));
    }
}

#[test]
fn a10_ask_from_another_thread_ends_with_the_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let system = runtime.block_on(async { ActorSystem::new("s").unwrap() });
    let actor = TestActor::spawn(&system, "actor");
    let start = Gate::new();
    let (entered, to) = (start.clone(), actor.clone());
    let asker = std::thread::spawn(move || {
        pleach::block_on(to.ask(|reply: Reply<u32>| {
            Job::work(|_| async move {
                entered.open();
                std::future::pending::<Result<(), BoxError>>().await.map(|()| drop(reply))
            })
        }))
    });
    runtime.block_on(start.pass());
    drop(runtime);
    assert!(asker.join().unwrap().is_err());
}
