//! A10: cycles of asks.

use crate::ask::{answer, block};
use crate::common::{Gate, Job, Log, TestActor};
use pleach::events::Lint;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use std::task::Poll;

#[test]
fn a10_answered_ask_closes_no_cycle() {
    explore(0..100, |sim| {
        let system = sim.system("s");
        let [a, b] = ["a", "b"].map(|name| TestActor::spawn(&system, name));
        let (answers, asked) = (Log::new(), a.clone());
        let seen = answers.clone();
        // b answers a, then asks a before a has read the answer.
        let back = move |reply: Reply<u32>| {
            Job::work(move |_| async move {
                reply.send(1);
                seen.push(asked.ask(|reply| Job::Answer(reply, 2)).await);
                Ok(())
            })
        };
        let seen = answers.clone();
        a.tell(Job::work(move |_| async move {
            seen.push(b.ask(back).await);
            Ok(())
        }))
        .unwrap();
        sim.settle();
        assert_eq!(answers.take().into_iter().map(Result::unwrap).collect::<Vec<_>>(), [1, 2]);
    });
}

#[test]
fn a10_cycle_through_one_of_several_asks_is_an_error() {
    explore(0..100, |sim| {
        let system = sim.system("s");
        let [a, b, c] = ["a", "b", "c"].map(|name| TestActor::spawn(&system, name));
        let (errors, asked, gate) = (Log::new(), a.clone(), Gate::new());
        let (seen, waiting) = (errors.clone(), gate.clone());
        let back = move |reply: Reply<u32>| {
            Job::work(move |_| async move {
                seen.push(asked.ask(|reply| Job::Answer(reply, 2)).await);
                reply.send(1);
                Ok(())
            })
        };
        let late = move |reply: Reply<u32>| {
            Job::work(move |_| async move {
                waiting.pass().await;
                reply.send(3);
                Ok(())
            })
        };
        a.tell(Job::work(move |_| async move {
            let (from_b, from_c) = futures::join!(b.ask(back), c.ask(late));
            assert_eq!((from_b.unwrap(), from_c.unwrap()), (1, 3));
            Ok(())
        }))
        .unwrap();
        sim.settle();
        assert!(matches!(&errors.take()[..], [Err(AskError::Cycle(paths))] if paths.len() == 2));
        gate.open();
        sim.settle();
        assert_eq!(system.counts().handled, 3);
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
