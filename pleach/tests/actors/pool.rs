//! A13: pools. Which worker gets a message, how a pool is built, and what it belongs to.

use crate::common::pool_worker::{Msg, key_of, shares, worker_props};
use crate::common::{Gate, INJECTED, Job, Log, TestActor, dead_letters, failures, poll_once, quiet};
use pleach::actor::Refusal;
use pleach::events::{DeadLetterReason, Lint};
use pleach::prelude::*;
use pleach::routing::{POOL_SIZE_MAX, PoolError};
use pleach::sim::{Sim, explore};

#[test]
fn a13_round_robin_serves_each_worker_in_turn() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let pool = system.pool("pool", 3, worker_props(&log)).build().unwrap();
        sim.run(async {
            for round in 0..4 {
                pool.tell(Msg::Note(round)).unwrap();
                pool.try_send(Msg::Note(round)).unwrap();
                pool.send(Msg::Note(round)).await.unwrap();
            }
            let mut indices = Vec::new();
            for _ in 0..3 {
                indices.push(pool.ask(Msg::Index).await.unwrap());
            }
            assert_eq!(indices, [0, 1, 2]);
        });
        for index in 0..3 {
            let mut entries = log.take();
            let rest = entries.extract_if(.., |entry| entry.0 != index).collect::<Vec<_>>();
            assert_eq!(entries, (0..4).map(|n| (index, n)).collect::<Vec<_>>(), "each worker in order");
            rest.into_iter().for_each(|entry| log.push(entry));
        }
        assert_eq!((pool.size(), pool.workers().len(), pool.path().to_string().as_str()), (3, 3, "/user/pool"));
        let paths: Vec<String> = pool.workers().iter().map(|worker| worker.path().to_string()).collect();
        assert_eq!(paths, ["/user/pool/0", "/user/pool/1", "/user/pool/2"]);
        assert_eq!((pool.counts(), pool.counts().handled, pool.counts().is_settled()), (system.counts(), 15, true));
    });
}

#[test]
fn a13_least_loaded_counts_queued_and_current_messages() {
    explore(0..50, |sim| {
        let (system, log, gate) = (sim.system("s"), Log::new(), Gate::new());
        let pool = system.pool("pool", 3, worker_props(&log)).least_loaded().build().unwrap();
        // A current message counts as a load of one.
        let busy = pool.workers()[1].clone();
        busy.tell(Msg::Pass(gate.clone())).unwrap();
        sim.settle();
        assert_eq!((busy.queued(), busy.counts().open()), (0, 1));
        for n in 0..20 {
            pool.tell(Msg::Note(n)).unwrap();
            sim.settle();
        }
        let seen = log.take();
        assert_eq!(shares(&seen, 3)[1], 0, "a busy worker gets no message while others are idle");
        assert!(shares(&seen, 3).iter().all(|share| *share <= 14), "idle workers share the messages: {seen:?}");
        // While no worker runs, the loads grow equally.
        (0..8).for_each(|n| pool.tell(Msg::Note(n)).unwrap());
        let loads: Vec<u64> = pool.workers().iter().map(|worker| worker.counts().open()).collect();
        assert_eq!(loads, [3, 3, 3]);
        gate.open();
        sim.settle();
        assert!(pool.counts().is_settled());
    });
}

#[test]
fn a13_each_key_has_one_worker_and_keeps_its_order() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let pool = system.pool("pool", 4, worker_props(&log)).by_key(|msg| key_of(msg) % 10).build().unwrap();
        let senders = sim.scope();
        for from in [0, 1_000] {
            let pool = pool.clone();
            let send = async move {
                for n in from..from + 200 {
                    pool.send(Msg::Note(n)).await?;
                }
                Ok::<(), SendError<Msg>>(())
            };
            senders.launch(send).unwrap();
        }
        sim.run(senders.wait_all()).unwrap();
        sim.settle();
        let seen = log.take();
        for key in 0..10 {
            let of_key: Vec<_> = seen.iter().filter(|entry| entry.1 % 10 == key).collect();
            assert!(of_key.len() == 40 && of_key.iter().all(|entry| entry.0 == of_key[0].0), "one worker for key {key}");
            assert!(of_key.iter().filter(|entry| entry.1 < 1_000).is_sorted());
        }
        assert!(shares(&seen, 4).iter().filter(|share| **share > 0).count() >= 3, "keys are spread over the workers");
    });
}

#[test]
fn a13_resize_moves_about_one_key_in_n() {
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let pool = system.pool("pool", 4, worker_props(&log)).by_key(key_of).build().unwrap();
    let owners = || {
        for n in 0..1_000 {
            pool.tell(Msg::Note(n)).unwrap();
            sim.settle();
        }
        log.take().into_iter().map(|(index, _)| index).collect::<Vec<_>>()
    };
    let moved = |one: &[usize], other: &[usize]| one.iter().zip(other).filter(|(one, other)| one != other).count();
    let four = owners();
    pool.resize(5).unwrap();
    let five = owners();
    assert!((150..250).contains(&moved(&four, &five)), "{} of 1000 moved", moved(&four, &five));
    pool.resize(4).unwrap();
    assert_eq!(moved(&four, &owners()), 0, "all keys are back");
    // The keys of an ended worker move; all other keys stay.
    pool.workers()[2].stop();
    sim.settle();
    let three = owners();
    assert!(four.iter().zip(&three).all(|(before, after)| if *before == 2 { *after != 2 } else { before == after }));
    pool.resize(4).unwrap();
    assert_eq!(moved(&four, &owners()), 0, "its replacement gets its keys");
}

#[test]
fn a13_pool_that_cannot_be_built_leaves_nothing_behind() {
    quiet();
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let pool = |name: &str, size| system.pool(name, size, worker_props(&log)).build();
    assert!(matches!(pool("none", 0), Err(PoolError::ZeroWorkers)));
    assert!(matches!(pool("huge", POOL_SIZE_MAX + 1), Err(PoolError::TooMany(size)) if size == POOL_SIZE_MAX + 1));
    assert!(matches!(pool("", 1), Err(PoolError::Refused(Refusal::Name(_)))));
    let no_room = |index| worker_props(&Log::new())(index).mailbox(Mailbox::bounded(2 - index));
    assert!(matches!(system.pool("no-capacity", 3, no_room).build(), Err(PoolError::Refused(Refusal::ZeroCapacity))));
    let records = failures(&system);
    let panics = |index| if index < 2 { worker_props(&Log::new())(index) } else { panic!("{INJECTED} into the props") };
    assert!(matches!(system.pool("panics", 3, panics).build(), Err(PoolError::Failed(_))));
    assert_eq!(records.take()[0].path().to_string(), "/user/panics");
    sim.settle();
    assert_eq!(system.root().running().len(), 2, "only the two guardians run");
    let built = pool("same-name", 1).unwrap();
    assert!(matches!(pool("same-name", 1), Err(PoolError::Refused(Refusal::NameTaken { .. }))));
    assert!(matches!(built.resize(0), Err(PoolError::ZeroWorkers)));
    assert!(matches!(built.resize(usize::MAX), Err(PoolError::TooMany(usize::MAX))));
    assert_eq!(built.size(), 1);
    built.any().stop();
    sim.settle();
    assert!(matches!(built.resize(2), Err(PoolError::Refused(Refusal::ShuttingDown { .. }))));
    let error = pleach::Error::from(PoolError::ZeroWorkers);
    assert!(error.to_string().contains("at least 1"), "{error}");
}

#[test]
fn a13_dropped_send_to_a_pool_withdraws_its_message() {
    let sim = Sim::new(0);
    let (system, log, gate) = (sim.system("s"), Log::new(), Gate::new());
    let props = worker_props(&log);
    let pool = system.pool("pool", 1, move |index| props(index).mailbox(Mailbox::bounded(1))).build().unwrap();
    pool.tell(Msg::Pass(gate.clone())).unwrap();
    sim.settle();
    pool.tell(Msg::Note(1)).unwrap();
    let mut send = Box::pin(pool.send(Msg::Note(2)));
    assert!(poll_once(&mut send).is_pending());
    drop(send);
    gate.open();
    sim.settle();
    assert_eq!((log.take(), pool.counts().accepted), (vec![(0, 1)], 2));
}

#[test]
fn a13_ask_of_a_pool_reports_why_there_is_no_answer() {
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let actor_log = log.clone();
    let pool = system.pool("pool", 2, move |_| TestActor::props(&actor_log)).build().unwrap();
    assert_eq!(sim.run(pool.ask(|reply| Job::Answer(reply, 5))).unwrap(), 5);
    assert!(matches!(sim.run(pool.ask(Job::DropReply)), Err(AskError::Dropped)));
    assert!(matches!(sim.run(pool.ask(Job::DropReplyAndFail)), Err(AskError::Failed(_))));
    let wait = Duration::from_secs(3);
    assert!(matches!(sim.run(pool.ask(Job::KeepReply).timeout(wait)), Err(AskError::TimedOut(after)) if after == wait));
    assert_eq!(sim.now().since_start(), wait);
    let gate = Gate::new();
    pool.workers().iter().for_each(|worker| worker.tell(Job::Pass(gate.clone(), 1)).unwrap());
    sim.settle();
    let mut ask = pool.ask(|reply| Job::Answer(reply, 6));
    assert!(poll_once(&mut ask).is_pending());
    pool.any().cancel(());
    assert!(matches!(sim.run(ask), Err(AskError::Cancelled(_))));
}

#[test]
fn a13_ask_of_a_pool_that_closes_a_cycle_is_an_error() {
    let sim = Sim::new(0);
    let (system, log, lints) = (sim.system("s"), Log::new(), Log::new());
    let lint_log = lints.clone();
    system.on_event(move |event| {
        if let Event::Lint(lint @ Lint::AskCycle(_)) = event {
            lint_log.note(format!("{lint:?}"));
        }
    });
    let actor_log = log.clone();
    let pool = system.pool("pool", 1, move |_| TestActor::props(&actor_log)).build().unwrap();
    let (own, errors) = (pool.clone(), Log::new());
    let seen = errors.clone();
    let job = Job::work(move |_| async move {
        seen.push(own.ask(|reply| Job::Answer(reply, 1)).await);
        seen.push(own.ask(|reply| Job::Answer(reply, 1)).timeout(Duration::from_secs(1)).await);
        Ok(())
    });
    pool.tell(job).unwrap();
    sim.advance(Duration::from_secs(2));
    let errors = errors.take();
    assert!(matches!(&errors[0], Err(AskError::Cycle(paths)) if paths[0] == "/user/pool/0"), "{errors:?}");
    assert!(matches!(errors[1], Err(AskError::TimedOut(_))));
    assert_eq!((lints.len(), pool.counts().accepted), (1, 2), "the first ask was not sent");
    assert_eq!(sim.run(pool.ask(|reply| Job::Answer(reply, 2))).unwrap(), 2, "no edge remains");
}

#[test]
fn a13_pool_is_a_child_of_its_builder() {
    let sim = Sim::new(0);
    let (system, log, built) = (sim.system("s"), Log::new(), Log::new());
    let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
    let scope = system.scope("scope").unwrap();
    let supervised = supervisor.pool("pool", 2, worker_props(&log)).build().unwrap();
    let scoped = scope.pool("pool", 2, worker_props(&log)).build().unwrap();
    let actor = TestActor::spawn(&system, "actor");
    let (pools, entries) = (built.clone(), log.clone());
    let make = move |cx: &mut Context<TestActor>| pools.push(cx.pool("pool", 2, worker_props(&entries)).build().unwrap());
    actor.tell(Job::act(make)).unwrap();
    sim.settle();
    let owned = built.take().remove(0);
    let paths = [&supervised, &scoped, &owned].map(|pool| pool.path().to_string());
    assert_eq!(paths, ["/user/supervisor/pool", "/user/scope/pool", "/user/actor/pool"]);
    for pool in [&supervised, &scoped, &owned] {
        pool.tell(Msg::Note(1)).unwrap();
    }
    sim.settle();
    assert_eq!(log.take().len(), 3);
    // A pool ends with its parent: a stopped supervisor, a dropped scope, a restarting actor.
    supervisor.any().stop();
    drop(scope);
    actor.tell(Job::Fail("no")).unwrap();
    sim.settle();
    for pool in [&supervised, &scoped, &owned] {
        assert!(pool.any().exit().is_some() && matches!(pool.tell(Msg::Note(1)), Err(SendError::Closed(_))));
    }
    assert_eq!(sim.tasks_alive(), 1, "only the actor is alive");
}

#[test]
fn a13_stopped_pool_dead_letters_its_queued_messages() {
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let dead_letters = dead_letters(&system);
    let pool = system.pool("pool", 2, worker_props(&log)).build().unwrap();
    (0..10).for_each(|n| pool.tell(Msg::Note(n)).unwrap());
    pool.any().stop();
    sim.settle();
    let dropped = dead_letters.take();
    assert!(dropped.iter().all(|(_, reason)| *reason == DeadLetterReason::Stopped));
    assert_eq!((log.len() + dropped.len(), pool.counts().is_settled()), (10, true));
}

#[test]
fn a3_waiting_send_to_a_pool_can_be_cancelled() {
    let (sim, log, gate) = (Sim::new(0), Log::new(), Gate::new());
    let system = sim.system("s");
    let props = worker_props(&log);
    let pool = system.pool("pool", 1, move |index| props(index).mailbox(Mailbox::bounded(1).prioritised())).build().unwrap();
    pool.tell(Msg::Pass(gate.clone())).unwrap();
    sim.settle();
    pool.tell(Msg::Note(1)).unwrap();
    let token = sim.token();
    let mut cancelled = pool.send(Msg::Note(2)).or_cancel(&token);
    let mut plain = pool.send(Msg::Note(3));
    assert!(poll_once(&mut cancelled).is_pending() && poll_once(&mut plain).is_pending());
    assert!(poll_once(&mut pool.send(Msg::Note(4))).is_pending(), "dropped, which withdraws the message");
    token.cancel("impatience");
    match sim.run(cancelled) {
        Err(SendError::Cancelled(Msg::Note(2), cause)) => assert_eq!(cause, Cause::from("impatience")),
        sent => panic!("not returned: {sent:?}"),
    }
    gate.open();
    sim.settle();
    assert_eq!(log.take(), [(0, 1), (0, 3)]);
    assert_eq!(sim.run(plain).ok(), Some(()));

    assert_eq!(pool.counts(), Counts { accepted: 3, handled: 3, failed: 0, dead_lettered: 0 });
}

#[test]
fn a6_priorities_reach_the_mailboxes_of_a_pool() {
    let (sim, log, gate) = (Sim::new(0), Log::new(), Gate::new());
    let system = sim.system("s");
    let props = worker_props(&log);
    let pool = system.pool("pool", 1, move |index| props(index).mailbox(Mailbox::bounded(9).prioritised())).build().unwrap();
    pool.tell(Msg::Pass(gate.clone())).unwrap();
    sim.settle();
    pool.tell(Msg::Note(1)).unwrap();
    sim.run(pool.send(Msg::Note(2)).priority(Priority::HIGHEST)).unwrap();
    pool.tell_envelope(PriorityEnvelope::new(Msg::Note(3), Priority::LOWEST)).unwrap();
    gate.open();
    sim.settle();
    assert_eq!(log.take().into_iter().map(|(_, n)| n).collect::<Vec<_>>(), [2, 1, 3]);

    let plain = system.pool("plain", 1, worker_props(&log)).build().unwrap();
    let refused = sim.run(plain.send(Msg::Note(4)).priority(Priority::HIGHEST));
    assert!(matches!(refused, Err(SendError::NoPriorities(Msg::Note(4)))));
    let refused = plain.tell_envelope(PriorityEnvelope::new(Msg::Note(5), Priority::HIGHEST));
    assert!(matches!(refused, Err(SendError::NoPriorities(Msg::Note(5)))));
}
