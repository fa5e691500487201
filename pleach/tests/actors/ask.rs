//! A10: an ask returns the reply or an error that says why there is none. It never hangs.

use crate::common::{Gate, Job, Log, TestActor, poll_once, quiet};
use pleach::BoxError;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use std::sync::Arc;
use std::task::Poll;

/// Builds a job that replies with `n`.
pub fn answer(n: u32) -> impl FnOnce(Reply<u32>) -> Job {
    move |reply| Job::Answer(reply, n)
}

/// Lets the actor wait in a handler until the gate opens.
pub fn block(sim: &Sim, actor: &ActorRef<Job>) -> Gate {
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
        pleach::runtime::block_on(to.ask(|reply: Reply<u32>| {
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

#[test]
fn a10_ask_ends_at_once_if_its_message_is_dropped() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let full = system.spawn("full", TestActor::props(&Log::new()).mailbox(Mailbox::bounded(1).drop_oldest())).unwrap();
    full.try_send_system(SystemMessage::Suspend).unwrap();
    sim.settle();
    let mut ask = full.ask(|reply| Job::Answer(reply, 1));
    assert!(poll_once(&mut ask).is_pending());
    // The handler that causes the drop waits, then fails. The asker sees neither.
    let gate = Gate::new();
    let waiting = gate.clone();
    let (sender, to) = (TestActor::spawn(&system, "sender"), full.clone());
    sender
        .tell(Job::work(move |_| async move {
            to.tell(Job::Note(1)).unwrap();
            waiting.pass().await;
            Err("unrelated".into())
        }))
        .unwrap();
    sim.settle();
    assert!(matches!(poll_once(&mut ask), Poll::Ready(Err(AskError::Dropped))));
    gate.open();
    sim.settle();
}
