//! A13's pools: which worker gets a message, how a pool is made and what it is part of.

use crate::common::clerk::{Msg, clerks, key_of, shares};
use crate::common::{Doer, Gate, INJECTED, Job, Log, dead_letters, failures, poll_once, quiet};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{DeadLetterReason, Lint, POOL_SIZE_MAX, PoolError, Refusal};

#[test]
fn a13_round_robin_gives_each_worker_its_turn_by_every_verb() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let pool = system.pool("pool", 3, clerks(&log)).build().unwrap();
        sim.run(async {
            for round in 0..4 {
                pool.tell(Msg::Note(round)).unwrap();
                pool.try_send(Msg::Note(round)).unwrap();
                pool.send(Msg::Note(round)).await.unwrap();
            }
            let mut places = Vec::new();
            for _ in 0..3 {
                places.push(pool.ask(Msg::Place).await.unwrap());
            }
            assert_eq!(places, [0, 1, 2]);
        });
        for place in 0..3 {
            let mut entries = log.take();
            let rest = entries.extract_if(.., |entry| entry.0 != place).collect::<Vec<_>>();
            assert_eq!(entries, (0..4).map(|n| (place, n)).collect::<Vec<_>>(), "each in order");
            rest.into_iter().for_each(|entry| log.push(entry));
        }
        assert_eq!((pool.size(), pool.workers().len(), pool.path().to_string().as_str()), (3, 3, "/user/pool"));
        let paths: Vec<String> = pool.workers().iter().map(|worker| worker.path().to_string()).collect();
        assert_eq!(paths, ["/user/pool/0", "/user/pool/1", "/user/pool/2"]);
        assert_eq!((pool.counts(), pool.counts().handled, pool.counts().is_settled()), (system.counts(), 15, true));
    });
}

#[test]
fn a13_least_loaded_counts_what_is_queued_and_in_hand() {
    explore(0..50, |sim| {
        let (system, log, gate) = (sim.system("s"), Log::new(), Gate::new());
        let pool = system.pool("pool", 3, clerks(&log)).least_loaded().build().unwrap();
        // One in hand, nothing queued: that is a load of one.
        let busy = pool.workers()[1].clone();
        busy.tell(Msg::Pass(gate.clone())).unwrap();
        sim.settle();
        assert_eq!((busy.queued(), busy.counts().open()), (0, 1));
        for n in 0..20 {
            pool.tell(Msg::Note(n)).unwrap();
            sim.settle();
        }
        let seen = log.take();
        assert_eq!(shares(&seen, 3)[1], 0, "the busy one gets nothing while others are idle");
        assert!(shares(&seen, 3).iter().all(|share| *share <= 14), "the idle share: {seen:?}");
        // With nobody getting a turn, the load of all grows alike.
        (0..8).for_each(|n| pool.tell(Msg::Note(n)).unwrap());
        let loads: Vec<u64> = pool.workers().iter().map(|worker| worker.counts().open()).collect();
        assert_eq!(loads, [3, 3, 3]);
        gate.open();
        sim.settle();
        assert!(pool.counts().is_settled());
    });
}

#[test]
fn a13_a_key_has_one_worker_and_its_messages_keep_their_order() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let pool = system.pool("pool", 4, clerks(&log)).by_key(|msg| key_of(msg) % 10).build().unwrap();
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
        assert!(shares(&seen, 4).iter().filter(|share| **share > 0).count() >= 3, "and not one for all");
    });
}

#[test]
fn a13_about_one_key_in_n_moves_at_a_resize() {
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let pool = system.pool("pool", 4, clerks(&log)).by_key(key_of).build().unwrap();
    let owners = || {
        for n in 0..1_000 {
            pool.tell(Msg::Note(n)).unwrap();
            sim.settle();
        }
        log.take().into_iter().map(|(place, _)| place).collect::<Vec<_>>()
    };
    let moved = |one: &[usize], other: &[usize]| one.iter().zip(other).filter(|(one, other)| one != other).count();
    let four = owners();
    pool.resize(5).unwrap();
    let five = owners();
    assert!((150..250).contains(&moved(&four, &five)), "{} of 1000 moved", moved(&four, &five));
    pool.resize(4).unwrap();
    assert_eq!(moved(&four, &owners()), 0, "and they are back where they were");
    // A worker that ends gives its keys away, and nobody else's.
    pool.workers()[2].stop();
    sim.settle();
    let three = owners();
    assert!(four.iter().zip(&three).all(|(before, after)| if *before == 2 { *after != 2 } else { before == after }));
    pool.resize(4).unwrap();
    assert_eq!(moved(&four, &owners()), 0, "whoever is put in its place has its keys");
}

#[test]
fn a13_a_pool_that_cannot_be_made_says_why_and_leaves_nothing_behind() {
    quiet();
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let pool = |name: &str, size| system.pool(name, size, clerks(&log)).build();
    assert!(matches!(pool("none", 0), Err(PoolError::NoWorkers)));
    assert!(matches!(pool("huge", POOL_SIZE_MAX + 1), Err(PoolError::TooMany(size)) if size == POOL_SIZE_MAX + 1));
    assert!(matches!(pool("", 1), Err(PoolError::Refused(Refusal::Name(_)))));
    let no_room = |place| clerks(&Log::new())(place).mailbox(Mailbox::bounded(2 - place));
    assert!(matches!(system.pool("roomless", 3, no_room).build(), Err(PoolError::Refused(Refusal::NoCapacity))));
    let records = failures(&system);
    let panics = |place| if place < 2 { clerks(&Log::new())(place) } else { panic!("{INJECTED} into the props") };
    assert!(matches!(system.pool("panics", 3, panics).build(), Err(PoolError::Failed(_))));
    assert_eq!(records.take()[0].path().to_string(), "/user/panics");
    sim.settle();
    assert_eq!(system.root().running().len(), 2, "only the two guardians run");
    let made = pool("twin", 1).unwrap();
    assert!(matches!(pool("twin", 1), Err(PoolError::Refused(Refusal::NameTaken { .. }))));
    assert!(matches!(made.resize(0), Err(PoolError::NoWorkers)));
    assert!(matches!(made.resize(usize::MAX), Err(PoolError::TooMany(usize::MAX))));
    assert_eq!(made.size(), 1);
    made.any().stop();
    sim.settle();
    assert!(matches!(made.resize(2), Err(PoolError::Refused(Refusal::ShuttingDown { .. }))));
    let error = pleach::Error::from(PoolError::NoWorkers);
    assert!(error.to_string().contains("at least 1"), "{error}");
}

#[test]
fn a13_dropping_a_send_that_waits_takes_the_message_back() {
    let sim = Sim::new(0);
    let (system, log, gate) = (sim.system("s"), Log::new(), Gate::new());
    let props = clerks(&log);
    let pool = system.pool("pool", 1, move |place| props(place).mailbox(Mailbox::bounded(1))).build().unwrap();
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
fn a13_an_ask_of_a_pool_says_why_there_is_no_answer() {
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let doers = log.clone();
    let pool = system.pool("pool", 2, move |_| Doer::props(&doers)).build().unwrap();
    assert_eq!(sim.run(pool.ask(|reply| Job::Answer(reply, 5))).unwrap(), 5);
    assert!(matches!(sim.run(pool.ask(Job::Lose)), Err(AskError::Dropped)));
    assert!(matches!(sim.run(pool.ask(Job::LoseAndFail)), Err(AskError::Failed(_))));
    let wait = Duration::from_secs(3);
    assert!(matches!(sim.run(pool.ask(Job::Keep).timeout(wait)), Err(AskError::TimedOut(after)) if after == wait));
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
fn a13_an_ask_of_a_pool_that_closes_a_cycle_is_an_error() {
    let sim = Sim::new(0);
    let (system, log, lints) = (sim.system("s"), Log::new(), Log::new());
    let heard = lints.clone();
    system.on_event(move |event| {
        if let Event::Lint(lint @ Lint::AskCycle(_)) = event {
            heard.note(format!("{lint:?}"));
        }
    });
    let doers = log.clone();
    let pool = system.pool("pool", 1, move |_| Doer::props(&doers)).build().unwrap();
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
    assert_eq!((lints.len(), pool.counts().accepted), (1, 2), "the first question never went out");
    assert_eq!(sim.run(pool.ask(|reply| Job::Answer(reply, 2))).unwrap(), 2, "no edge is left behind");
}

#[test]
fn a13_a_pool_stands_under_whatever_made_it() {
    let sim = Sim::new(0);
    let (system, log, made) = (sim.system("s"), Log::new(), Log::new());
    let crew = system.supervisor("crew", OneForOne::new()).unwrap();
    let scope = system.scope("scope").unwrap();
    let crewed = crew.pool("pool", 2, clerks(&log)).build().unwrap();
    let scoped = scope.pool("pool", 2, clerks(&log)).build().unwrap();
    let doer = system.spawn("doer", Doer::props(&Log::new())).unwrap();
    let (pools, entries) = (made.clone(), log.clone());
    let make = move |cx: &mut Context<Doer>| pools.push(cx.pool("pool", 2, clerks(&entries)).build().unwrap());
    doer.tell(Job::act(make)).unwrap();
    sim.settle();
    let owned = made.take().remove(0);
    let paths = [&crewed, &scoped, &owned].map(|pool| pool.path().to_string());
    assert_eq!(paths, ["/user/crew/pool", "/user/scope/pool", "/user/doer/pool"]);
    for pool in [&crewed, &scoped, &owned] {
        pool.tell(Msg::Note(1)).unwrap();
    }
    sim.settle();
    assert_eq!(log.take().len(), 3);
    // It ends with what it is part of: a stopped supervisor, a dropped scope, an actor that restarts.
    crew.any().stop();
    drop(scope);
    doer.tell(Job::Fail("no")).unwrap();
    sim.settle();
    for pool in [&crewed, &scoped, &owned] {
        assert!(pool.any().exit().is_some() && matches!(pool.tell(Msg::Note(1)), Err(SendError::Closed(_))));
    }
    assert_eq!(sim.tasks_alive(), 1, "only the doer lives");
}

#[test]
fn a13_a_stopped_pool_buries_what_is_queued() {
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let letters = dead_letters(&system);
    let pool = system.pool("pool", 2, clerks(&log)).build().unwrap();
    (0..10).for_each(|n| pool.tell(Msg::Note(n)).unwrap());
    pool.any().stop();
    sim.settle();
    let buried = letters.take();
    assert!(buried.iter().all(|(_, reason)| *reason == DeadLetterReason::Stopped));
    assert_eq!((log.len() + buried.len(), pool.counts().is_settled()), (10, true));
}

#[test]
fn a3_a_send_to_a_pool_that_waits_can_be_cancelled_and_has_a_priority() {
    let (sim, log, gate) = (Sim::new(0), Log::new(), Gate::new());
    let system = sim.system("s");
    let props = clerks(&log);
    let pool = system.pool("pool", 1, move |place| props(place).mailbox(Mailbox::bounded(1).prioritised())).build().unwrap();
    pool.tell(Msg::Pass(gate.clone())).unwrap();
    sim.settle();
    pool.tell(Msg::Note(1)).unwrap();
    let token = sim.token();
    let mut cancelled = pool.send(Msg::Note(2)).or_cancel(&token);
    let mut plain = pool.send(Msg::Note(3));
    assert!(poll_once(&mut cancelled).is_pending() && poll_once(&mut plain).is_pending());
    assert!(poll_once(&mut pool.send(Msg::Note(4))).is_pending(), "and dropped, which takes it back");
    token.cancel("impatience");
    match sim.run(cancelled) {
        Err(SendError::Cancelled(Msg::Note(2), cause)) => assert_eq!(cause, Cause::from("impatience")),
        sent => panic!("not given back: {sent:?}"),
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
    let props = clerks(&log);
    let pool = system.pool("pool", 1, move |place| props(place).mailbox(Mailbox::bounded(9).prioritised())).build().unwrap();
    pool.tell(Msg::Pass(gate.clone())).unwrap();
    sim.settle();
    pool.tell(Msg::Note(1)).unwrap();
    sim.run(pool.send(Msg::Note(2)).priority(Priority::HIGHEST)).unwrap();
    pool.tell_envelope(PriorityEnvelope::new(Msg::Note(3), Priority::LOWEST)).unwrap();
    gate.open();
    sim.settle();
    assert_eq!(log.take().into_iter().map(|(_, n)| n).collect::<Vec<_>>(), [2, 1, 3]);

    let plain = system.pool("plain", 1, clerks(&log)).build().unwrap();
    let refused = sim.run(plain.send(Msg::Note(4)).priority(Priority::HIGHEST));
    assert!(matches!(refused, Err(SendError::NoPriorities(Msg::Note(4)))));
    let refused = plain.tell_envelope(PriorityEnvelope::new(Msg::Note(5), Priority::HIGHEST));
    assert!(matches!(refused, Err(SendError::NoPriorities(Msg::Note(5)))));
}
